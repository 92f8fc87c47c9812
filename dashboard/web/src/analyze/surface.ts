// The mean result over two columns: in cells, or interpolated with contour lines. Coordinates are fractions of the axes. No DOM.
import type { Values } from "./values";

const MARGIN = 0.045; // of a continuous scale, on each side
const MAX_DISTINCT = 12;
const MAX_CELLS = 16; // per axis
const RUNS_PER_CELL = 4;
/** The fewest runs for a surface. */
export const MIN_RUNS = 8;

/** An axis of a scatter plot: a scale with a margin. `distinct`: the positions on the scale of few different values. */
export interface Axis { distinct: number[] | null; toUnit: (position: number) => number; toPosition: (unit: number) => number }

export function axisOf({ values, labels, scale }: Values): Axis {
  const different = [...new Set(values)].filter(Number.isFinite);
  const distinct = labels || different.length <= MAX_DISTINCT ? different.map((value) => scale.position(value)).sort((a, b) => a - b) : null;
  const gap = distinct && distinct.length > 1 ? distinct.slice(1).reduce((least, at, i) => Math.min(least, at - distinct[i]!), 1) : 1;
  const margin = distinct ? gap / 2 : MARGIN;
  return { distinct, toUnit: (position) => (position + margin) / (1 + 2 * margin), toPosition: (unit) => unit * (1 + 2 * margin) - margin };
}

/** How far a run is moved along a setting or labels with few different values, so that runs with equal values are apart: up to 0.225 of the
 * smallest gap. Results and coordinates are where they are. */
export function spreadOf(column: Values): (run: number) => number {
  const { distinct } = axisOf(column);
  if (!distinct || !column.isSetting) return () => 0;
  const gap = distinct.length < 2 ? 0.5 : distinct.slice(1).reduce((least, at, i) => Math.min(least, at - distinct[i]!), 1);
  return (run) => (((Math.imul(run + 1, 2654435761) >>> 8) % 1024) / 1024 - 0.5) * gap * 0.45;
}

/** Where the runs are drawn; not finite without a value. */
export function placesOf(x: Values, y: Values): (readonly [x: number, y: number])[] {
  const [xAxis, yAxis] = [axisOf(x), axisOf(y)];
  const [aside, above] = [spreadOf(x), y.labels ? spreadOf(y) : () => 0];
  return Array.from(x.values, (value, run) => [xAxis.toUnit(x.scale.position(value) + aside(run)), yAxis.toUnit(y.scale.position(y.values[run]!) + above(run))] as const);
}

/** The points of runs that have all three values: fractions of the axes, and the result. */
interface Points { x: Float64Array; y: Float64Array; z: Float64Array }

function pointsOf(x: Values, y: Values, z: Values, inside: Uint8Array): Points {
  const runs = Array.from(inside.keys()).filter((run) => inside[run] && [x, y, z].every(({ values }) => Number.isFinite(values[run]!)));
  const [toX, toY] = [axisOf(x).toUnit, axisOf(y).toUnit];
  return { x: Float64Array.from(runs, (run) => toX(x.scale.position(x.values[run]!))), y: Float64Array.from(runs, (run) => toY(y.scale.position(y.values[run]!))), z: Float64Array.from(runs, (run) => z.values[run]!) };
}

/** mean[row * columns + column], NaN without runs; row 0 has the smallest y. `edges`: fractions of the axes. */
export interface Cells { kind: "cells"; runs: number; xEdges: number[]; yEdges: number[]; mean: Float64Array; count: Float64Array }

/** Edges of cells: halfway between few different values, else equal distances such that a cell has a few runs. */
function cellEdges({ distinct, toUnit }: Axis, runs: number): number[] {
  if (distinct) return [0, ...distinct.slice(1).map((at, i) => toUnit((at + distinct[i]!) / 2)), 1];
  const cells = Math.max(4, Math.min(MAX_CELLS, Math.round(Math.sqrt(runs / RUNS_PER_CELL))));
  return Array.from({ length: cells + 1 }, (_, i) => i / cells);
}

export const partOf = (edges: readonly number[], at: number): number => {
  let part = 0;
  while (part < edges.length - 2 && at >= edges[part + 1]!) part++;
  return part;
};

/** The mean of z in the cells of a grid over x and y, over the runs that are `inside` and have all three values. */
export function cellsOf(x: Values, y: Values, z: Values, inside: Uint8Array): Cells {
  const points = pointsOf(x, y, z, inside);
  const runs = points.z.length;
  const [xEdges, yEdges] = [cellEdges(axisOf(x), runs), cellEdges(axisOf(y), runs)];
  const columns = xEdges.length - 1;
  const mean = new Float64Array(columns * (yEdges.length - 1));
  const count = new Float64Array(mean.length);
  points.z.forEach((value, i) => {
    const cell = partOf(yEdges, points.y[i]!) * columns + partOf(xEdges, points.x[i]!);
    mean[cell]! += value;
    count[cell]!++;
  });
  return { kind: "cells", runs, xEdges, yEdges, mean: mean.map((sum, cell) => sum / count[cell]!), count };
}

export const COLUMNS = 72;
export const ROWS = 48;
/** Where the weights of all runs add up to less, a surface is blank: one run is farther than about 1.2 bandwidths. */
const MIN_WEIGHT = 0.5;

/** mean[row * COLUMNS + column] at the centers of a grid, NaN where no run is near; row 0 has the smallest y. `bandwidth`: a fraction of the axes. */
export interface Smooth { kind: "smooth"; runs: number; mean: Float64Array; bandwidth: number }

/** The mean of z around each point of a grid, weighted with a Gaussian kernel (Nadaraya 1964, Watson 1964) whose bandwidth follows
 * Scott's rule for a uniform sample in two dimensions. */
export function smoothOf(x: Values, y: Values, z: Values, inside: Uint8Array): Smooth {
  const points = pointsOf(x, y, z, inside);
  const runs = points.z.length;
  const bandwidth = Math.max(0.05, Math.min(0.25, Math.sqrt(1 / 12) * runs ** (-1 / 6)));
  const sum = new Float64Array(COLUMNS * ROWS);
  const weight = new Float64Array(COLUMNS * ROWS);
  points.z.forEach((value, i) => {
    // Divided among the four nearest points of the grid.
    const [gx, gy] = [points.x[i]! * COLUMNS - 0.5, points.y[i]! * ROWS - 0.5];
    for (const [column, wx] of [[Math.floor(gx), 1 - (gx - Math.floor(gx))], [Math.floor(gx) + 1, gx - Math.floor(gx)]] as const)
      for (const [row, wy] of [[Math.floor(gy), 1 - (gy - Math.floor(gy))], [Math.floor(gy) + 1, gy - Math.floor(gy)]] as const) {
        const at = Math.max(0, Math.min(ROWS - 1, row)) * COLUMNS + Math.max(0, Math.min(COLUMNS - 1, column));
        sum[at]! += wx * wy * value;
        weight[at]! += wx * wy;
      }
  });
  const [total, weights] = [sum, weight].map((grid) => blurred(blurred(grid, 1, COLUMNS, COLUMNS, ROWS, bandwidth * COLUMNS), COLUMNS, ROWS, 1, COLUMNS, bandwidth * ROWS)) as [Float64Array, Float64Array];
  return { kind: "smooth", runs, bandwidth, mean: total.map((value, i) => (weights[i]! < MIN_WEIGHT ? NaN : value / weights[i]!)) };
}

/** Convolves each of `lines` lines of `length` values with a Gaussian kernel whose center is 1. Values of a line are `step` apart, lines `next`. */
function blurred(grid: Float64Array, step: number, length: number, next: number, lines: number, deviation: number): Float64Array {
  const out = new Float64Array(grid.length);
  const reach = Math.ceil(3 * deviation);
  const kernel = Array.from({ length: reach + 1 }, (_, i) => Math.exp(-0.5 * (i / deviation) ** 2));
  for (let line = 0; line < lines; line++) {
    for (let from = 0; from < length; from++) {
      const value = grid[line * next + from * step]!;
      if (value === 0) continue;
      for (let to = Math.max(0, from - reach); to <= Math.min(length - 1, from + reach); to++) out[line * next + to * step]! += value * kernel[Math.abs(to - from)]!;
    }
  }
  return out;
}

export type Surface = Cells | Smooth;
export type Segment = [number, number, number, number];

/** The parts of the contour line of a level as x0, y0, x1, y1, fractions of the axes (marching squares; Maple 2003). */
export function contourOf({ mean }: Smooth, level: number): Segment[] {
  const segments: Segment[] = [];
  const px = (column: number) => (column + 0.5) / COLUMNS;
  const py = (row: number) => (row + 0.5) / ROWS;
  for (let row = 0; row + 1 < ROWS; row++) {
    for (let column = 0; column + 1 < COLUMNS; column++) {
      const at = row * COLUMNS + column;
      const corners = [mean[at]!, mean[at + 1]!, mean[at + COLUMNS + 1]!, mean[at + COLUMNS]!];
      if (corners.some(Number.isNaN)) continue;
      const places = [[column, row], [column + 1, row], [column + 1, row + 1], [column, row + 1]] as const;
      const crossings: [number, number][] = [];
      for (let side = 0; side < 4; side++) {
        const [a, b] = [corners[side]!, corners[(side + 1) % 4]!];
        if (a < level === b < level) continue;
        const part = (level - a) / (b - a);
        const [[ax, ay], [bx, by]] = [places[side]!, places[(side + 1) % 4]!];
        crossings.push([px(ax + (bx - ax) * part), py(ay + (by - ay) * part)]);
      }
      for (let i = 0; i + 1 < crossings.length; i += 2) segments.push([...crossings[i]!, ...crossings[i + 1]!]);
    }
  }
  return segments;
}

/** The place with the lowest or highest mean, inside of the values of both axes: its index, or -1. */
export function bestOf(surface: Surface, better: "lower" | "higher", xAxis: Axis, yAxis: Axis): number {
  const sign = better === "lower" ? 1 : -1;
  const isBeyond = (axis: Axis, unit: number) => Math.abs(axis.toPosition(unit) - 0.5) > 0.5;
  const isInside = (i: number) => surface.kind === "cells" || !(isBeyond(xAxis, ((i % COLUMNS) + 0.5) / COLUMNS) || isBeyond(yAxis, (Math.floor(i / COLUMNS) + 0.5) / ROWS));
  return surface.mean.reduce((best, value, i) => (Number.isFinite(value) && isInside(i) && (best < 0 || sign * value < sign * surface.mean[best]!) ? i : best), -1);
}
