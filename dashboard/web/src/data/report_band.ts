// Bands over the runs of a report, combined from its bands and curves (docs/dashboard_api.md, "Bands over ranks and runs").
import { nearest } from "../chart/line";
import type { Axis, Band } from "./source";

/** The data of one run: a band over its ranks, or a curve. Steps are sorted. */
export interface BandPart extends Omit<Band, "metric" | "x"> {
  step: Float64Array;
  /** The x value of a step. */
  toX: (step: number) => number;
}

/** Maps steps to x values, with linear interpolation between the points of a curve that has both. */
export function interpolateSteps(steps: Float64Array, axis: Float64Array): (step: number) => number {
  return (step) => {
    const i = nearest(steps, step);
    if (i < 0) return NaN;
    const other = steps[i]! < step ? i + 1 : i - 1;
    if (steps[i] === step || other < 0 || other >= steps.length || steps[other] === steps[i]) return axis[i]!;
    return axis[i]! + ((step - steps[i]!) / (steps[other]! - steps[i]!)) * (axis[other]! - axis[i]!);
  };
}

interface StepValues { step: number; mean: number; deviation: number; min: number; max: number; p10: number; median: number; p90: number; count: number }
interface Cell { step: number; x: number; weight: number; count: number; sum: number; parts: StepValues[]; min: number; max: number; min_curve: number; max_curve: number }

function add(cell: Cell, piece: BandPart, i: number, first: number) {
  const count = piece.count[i]!;
  const weight = Math.max(1, count);
  cell.x += piece.toX(piece.step[i]!) * weight;
  cell.weight += weight;
  if (count === 0) return;
  if (cell.count === 0 || piece.min[i]! < cell.min) [cell.min, cell.min_curve] = [piece.min[i]!, first + piece.min_curve[i]!];
  if (cell.count === 0 || piece.max[i]! > cell.max) [cell.max, cell.max_curve] = [piece.max[i]!, first + piece.max_curve[i]!];
  cell.count += count;
  cell.sum += piece.mean[i]! * count;
  cell.parts.push({ step: piece.step[i]!, mean: piece.mean[i]!, deviation: piece.deviation[i]!, min: piece.min[i]!, max: piece.max[i]!, p10: piece.p10[i]!, median: piece.median[i]!, p90: piece.p90[i]!, count });
}

/** With linear interpolation. */
function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const position = q * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(position)]!, sorted[Math.ceil(position)]!];
  return low === high ? low : low + (position - Math.floor(position)) * (high - low);
}

const MAX_VALUES = 100;

/** Approximates the values that a band summarizes at one step: exact for up to three, interpolated for more. */
function valuesOf({ count, min, p10, median, p90, max }: StepValues): number[] {
  const known = [[0, min], [0.1, p10], [0.5, median], [0.9, p90], [1, max]] as const;
  const size = Math.min(count, MAX_VALUES);
  if (size === 1) return [median];
  return Array.from({ length: size }, (_, i) => {
    const at = i / (size - 1);
    const next = known.findIndex(([q]) => q >= at);
    const [high, low] = [known[next]!, known[Math.max(0, next - 1)]!];
    return high[0] === at || high === low ? high[1] : low[1] + ((at - low[0]) / (high[0] - low[0])) * (high[1] - low[1]);
  });
}

const QUANTILES = { p10: 0.1, median: 0.5, p90: 0.9 };

/** The quantile over all values of a step; over several steps, the mean weighted by count. */
function mergedQuantile(parts: readonly StepValues[], of: keyof typeof QUANTILES): number {
  const steps = new Map<number, StepValues[]>();
  for (const part of parts) steps.set(part.step, [...(steps.get(part.step) ?? []), part]);
  let sum = 0;
  let mass = 0;
  for (const atStep of steps.values()) {
    const count = atStep.reduce((n, part) => n + part.count, 0);
    sum += count * (atStep.length === 1 ? atStep[0]![of] : quantile(atStep.flatMap(valuesOf), QUANTILES[of]));
    mass += count;
  }
  return sum / mass;
}

export function mergeBands(metric: string, pieces: readonly BandPart[], axis: Axis, points: number): Band {
  const steps = [...new Set(pieces.flatMap((piece) => [...piece.step]))].sort((a, b) => a - b);
  const raw = pieces.every((piece) => piece.raw) && steps.length <= points;
  const [low, high] = [steps[0] ?? 0, steps.at(-1) ?? 0];
  const column = (step: number) => (raw || high === low ? step : Math.min(points - 1, Math.floor(((step - low) / (high - low)) * points)));
  const cells = new Map<number, Cell>();
  let first = 0;
  for (const piece of pieces) {
    piece.step.forEach((step, i) => {
      const key = column(step);
      let cell = cells.get(key);
      if (!cell) cells.set(key, (cell = { step, x: 0, weight: 0, count: 0, sum: 0, parts: [], min: NaN, max: NaN, min_curve: -1, max_curve: -1 }));
      cell.step = Math.min(cell.step, step);
      add(cell, piece, i, first);
    });
    first += piece.curves.length;
  }
  const all = [...cells.values()].map((cell) => ({ ...cell, x: axis === "step" ? cell.step : cell.x / cell.weight })).filter((cell) => !Number.isNaN(cell.x)).sort((a, b) => a.x - b.x);
  const numbers = (of: (cell: Cell) => number) => Float64Array.from(all, of);
  const mean = (cell: Cell) => (cell.count > 0 ? cell.sum / cell.count : NaN);
  // In a column of steps, only the deviation within each step counts, not that between steps.
  const spread = (cell: Cell) => Math.sqrt(cell.parts.reduce((sum, part) => sum + part.count * (part.deviation ** 2 + (raw ? (part.mean - mean(cell)) ** 2 : 0)), 0) / cell.count);
  return {
    metric, curves: pieces.flatMap((piece) => piece.curves), raw,
    x: numbers((cell) => cell.x), mean: numbers(mean), min: numbers((cell) => cell.min), max: numbers((cell) => cell.max), deviation: numbers(spread),
    p10: numbers((cell) => mergedQuantile(cell.parts, "p10")), median: numbers((cell) => mergedQuantile(cell.parts, "median")), p90: numbers((cell) => mergedQuantile(cell.parts, "p90")),
    count: all.map((cell) => cell.count), min_curve: all.map((cell) => cell.min_curve), max_curve: all.map((cell) => cell.max_curve),
  };
}
