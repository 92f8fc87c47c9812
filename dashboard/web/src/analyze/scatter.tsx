// A scatter plot of any two columns, colored by a third; on request with the mean of the third in cells, or interpolated.
import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { PointTip } from "../chart/point_tip";
import type { PointPainter } from "../chart/save";
import { plural } from "../format";
import { handleKey, stepIn } from "../parts/keyboard";
import { useWidth } from "../parts/size";
import { shownTheme } from "../settings";
import { runColors } from "./run_colors";
import { areaOf, drawScatter, PAD } from "./scatter_plot";
import { type Axis, axisOf, bestOf, type Cells, cellsOf, COLUMNS, MIN_RUNS, partOf, placesOf, ROWS, smoothOf, type Surface } from "./surface";
import { differenceOf, nameOf, type Values } from "./values";

export const SURFACES = { points: "Points", cells: "Heat map", smooth: "Contours" } as const;
export type SurfaceKind = keyof typeof SURFACES;

interface Props {
  /** What a point is, by default a run. */
  what?: string;
  /** What the tooltip shows of a point, by default its three values. */
  tip?: (point: number) => readonly (readonly [name: string, text: string])[];
  x: Values; y: Values; color: Values; names: string[]; inside: Uint8Array;
  /** Without the current drag of a brush; the runs on which a surface rests. */
  settled: Uint8Array;
  /** Values of x and y that a line of steps connects, up to the right end. */
  line?: readonly (readonly [number, number])[];
  /** The baseline of the runs; -1, the default: none of them. */
  base?: number;
  surface: SurfaceKind; better: "lower" | "higher" | null; height: number; onOpen: (run: number) => void;
  /** Set to what draws the points again, for an image. */
  painter?: { current: PointPainter | null };
}

/** Which surfaces can be drawn: the result must be a number, and contours need numbers on both axes. */
export const canDraw = (kind: SurfaceKind, x: Values, y: Values, color: Values) => kind === "points" || (!color.labels && x !== y && (kind === "cells" || (!x.labels && !y.labels)));

/** The range of the values of a cell as text, or its only value. */
function rangeText(column: Values, axis: Axis, edges: readonly number[], part: number): string {
  const { scale } = column;
  if (axis.distinct) return scale.text(column.values.find((value) => scale.position(value) === axis.distinct![part]) ?? NaN);
  const value = (unit: number) => scale.text(scale.value(Math.max(0, Math.min(1, axis.toPosition(unit)))));
  return `${value(edges[part]!)} to ${value(edges[part + 1]!)}`;
}

interface Place { title: string; x: string; y: string; mean: string }

/** The part of a surface that contains a point, in words; null if it is blank. */
function placeOf(surface: Surface, x: Values, y: Values, color: Values, index: number): Place | null {
  const mean = surface.mean[index];
  if (mean === undefined || Number.isNaN(mean)) return null;
  const [xAxis, yAxis] = [axisOf(x), axisOf(y)];
  if (surface.kind === "cells") {
    const columns = surface.xEdges.length - 1;
    return { title: `mean of ${plural(surface.count[index]!, "run")}`, x: rangeText(x, xAxis, surface.xEdges, index % columns), y: rangeText(y, yAxis, surface.yEdges, Math.floor(index / columns)), mean: color.scale.text(mean) };
  }
  const value = ({ scale }: Values, axis: Axis, unit: number) => scale.text(Number(scale.value(axis.toPosition(unit)).toPrecision(3)));
  return { title: "interpolated", x: value(x, xAxis, ((index % COLUMNS) + 0.5) / COLUMNS), y: value(y, yAxis, (Math.floor(index / COLUMNS) + 0.5) / ROWS), mean: color.scale.text(mean) };
}

const indexAt = (surface: Surface, unitX: number, unitY: number): number =>
  unitX < 0 || unitX > 1 || unitY < 0 || unitY > 1 ? -1
    : surface.kind === "cells" ? partOf(surface.yEdges, unitY) * (surface.xEdges.length - 1) + partOf(surface.xEdges, unitX)
      : Math.min(ROWS - 1, Math.floor(unitY * ROWS)) * COLUMNS + Math.min(COLUMNS - 1, Math.floor(unitX * COLUMNS));

export function Scatter(props: Props) {
  const { x, y, color, settled, height } = props;
  const host = useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const area = useMemo(() => areaOf(width, height), [width, height]);
  const [xAxis, yAxis] = useMemo(() => [axisOf(x), axisOf(y)], [x, y]);
  const points = useMemo(() => placesOf(x, y).map(([across, up]) => [area.left(across), area.top(up)] as const), [x, y, area]);
  const kind = canDraw(props.surface, x, y, color) ? props.surface : "points";
  const whole = useMemo(() => (kind === "points" ? null : (kind === "cells" ? cellsOf : smoothOf)(x, y, color, settled)), [kind, x, y, color, settled]);
  const surface = whole && whole.runs >= MIN_RUNS ? whole : null;
  const base = props.base ?? -1;
  const marked = points[base]?.every(Number.isFinite) ? points[base] : null;
  const shown = points.filter(([px, py]) => Number.isFinite(px) && Number.isFinite(py)).length;
  return (
    <>
      <PointLayer {...props} host={host} label={`Scatter of ${y.title} against ${x.title} of ${plural(shown, props.what ?? "run")}, colored by ${color.title}${marked ? `; the baseline is ${props.names[base]}` : ""}`} marked={marked} shown={shown} points={points} area={area} surface={surface}>
        <Grid x={x} y={y} xAxis={xAxis} yAxis={yAxis} width={width} height={height} />
        {props.line && width > 0 && <Steps points={props.line.map(([px, py]) => [area.left(xAxis.toUnit(x.scale.position(px))), area.top(yAxis.toUnit(y.scale.position(py)))] as const)} width={width} height={height} />}
      </PointLayer>
      {whole && <SurfaceText {...props} surface={whole} left={settled.reduce((sum, one) => sum + one, 0) - whole.runs} />}
    </>
  );
}

/** A line that changes only at its points. */
function Steps({ points, width, height }: { points: readonly (readonly [number, number])[]; width: number; height: number }) {
  const path = points.map(([px, py], i) => (i === 0 ? `M${px},${py}` : `H${px}V${py}`)).join("");
  return <svg width={width} height={height} aria-hidden="true">{path && <path class="steps" d={`${path}H${width - PAD.right}`} />}</svg>;
}

interface GridProps { x: Values; y: Values; xAxis: Axis; yAxis: Axis; width: number; height: number }

function Grid({ x, y, xAxis, yAxis, width, height }: GridProps) {
  return useMemo(() => {
    if (width === 0) return null;
    const { left, top } = areaOf(width, height);
    const [atX, atY] = [(position: number) => left(xAxis.toUnit(position)), (position: number) => top(yAxis.toUnit(position))];
    return (
      <svg width={width} height={height} aria-hidden="true">
        {y.scale.ticks(6).map(({ at, label }) => <g key={`y${at}`}><line class="grid" x1={PAD.left} x2={width - PAD.right} y1={atY(at)} y2={atY(at)} /><text x={PAD.left - 8} y={atY(at) + 3.5} text-anchor="end">{label.length > 10 ? `${label.slice(0, 9)}…` : label}</text></g>)}
        {x.scale.ticks(Math.max(3, Math.floor(width / 90))).map(({ at, label }) => <g key={`x${at}`}><line class="grid" x1={atX(at)} x2={atX(at)} y1={PAD.top} y2={height - PAD.bottom} /><text x={atX(at)} y={height - PAD.bottom + 14} text-anchor="middle">{label.length > 14 ? `${label.slice(0, 13)}…` : label}</text></g>)}
        <text class="axis-title" x={4} y={12}>{y.title}{y.scale.log ? " (log)" : ""}</text>
        <text class="axis-title" x={width - PAD.right} y={height - 4} text-anchor="end">{x.title}{x.scale.log ? " (log)" : ""}</text>
      </svg>
    );
  }, [x, y, width, height]);
}

type Points = readonly (readonly [number, number])[];

/** The points that are inside, in the order of a coordinate. */
const inOrder = (points: Points, inside: Uint8Array, axis: 0 | 1): number[] =>
  Array.from(points.keys()).filter((run) => inside[run] && points[run]!.every(Number.isFinite)).sort((a, b) => points[a]![axis] - points[b]![axis] || points[a]![1 - axis]! - points[b]![1 - axis]!);

/** `children`: what is below the points. `shown`: how many of them have a place. `marked`: the place of the baseline. */
interface LayerProps extends Omit<Props, "surface"> { marked: Points[number] | null; host: RefObject<HTMLDivElement | null>; label: string; shown: number; points: Points; area: ReturnType<typeof areaOf>; surface: Surface | null; children: ComponentChildren }

/** The points and the surface, with the pointer and the keyboard. */
function PointLayer({ host, label, marked, base = -1, shown, points, area, surface, x, y, color, names, inside, tip, onOpen, painter, children }: LayerProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const [place, setPlace] = useState<{ at: readonly [number, number]; index: number } | null>(null);
  const colors = useMemo(() => runColors(color), [color, shownTheme.value]);
  useLayoutEffect(() => {
    if (area.width === 0) return;
    const drawing = { area, points, colors, inside, surface, color };
    drawScatter(canvas.current!, drawing);
    if (painter) painter.current = { host: canvas.current!.parentElement!, paint: (other, ratio) => drawScatter(other, drawing, ratio) };
  }, [points, colors, inside, surface, shownTheme.value]);
  const move = (event: PointerEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let best: number | null = null;
    let distance = surface ? 6 : 12;
    points.forEach(([ox, oy], run) => {
      const off = Math.hypot(ox - px, oy - py);
      if (inside[run] && off < distance) [best, distance] = [run, off];
    });
    setHovered(best);
    const unit = (at: number, from: number, to: number) => (at - from) / (to - from);
    const index = surface && best === null ? indexAt(surface, unit(px, area.left(0), area.left(1)), unit(py, area.top(0), area.top(1))) : -1;
    setPlace(index < 0 ? null : { at: [px, py], index });
  };
  const leave = () => {
    setHovered(null);
    setPlace(null);
  };
  const go = (axis: 0 | 1, by: -1 | 1, from = hovered) => {
    setHovered(stepIn(inOrder(points, inside, axis), from, by));
    setPlace(null);
  };
  const onKeyDown = (event: KeyboardEvent) => handleKey(event, {
    ArrowLeft: () => go(0, -1), ArrowRight: () => go(0, 1), ArrowUp: () => go(1, -1), ArrowDown: () => go(1, 1), Home: () => go(0, 1, null), End: () => go(0, -1, null),
    Enter: hovered !== null && (() => onOpen(hovered)), Escape: (hovered !== null || place !== null) && leave,
  });
  const at = hovered === null ? place?.at : points[hovered];
  const found = surface && place && hovered === null ? placeOf(surface, x, y, color, place.index) : null;
  const text = (column: Values) => (found ? (column === x ? found.x : column === y ? found.y : found.mean) : column.scale.text(column.values[hovered!]!));
  const pairs = () => (tip && hovered !== null ? tip(hovered) : [...new Set([x, y, color])].map((column) => [column.title, text(column), hovered === null ? null : differenceOf(column, hovered, base)] as const));
  const isPointed = at !== undefined && (hovered !== null || found !== null);
  return (
    <div class="scatter" ref={host} style={{ height: `${area.height}px` }} tabIndex={0} role="group" aria-label={label} aria-keyshortcuts="ArrowLeft ArrowRight ArrowUp ArrowDown Enter Escape" data-drawn={area.width > 0 ? shown : undefined} data-surface={surface?.kind} onKeyDown={onKeyDown} onBlur={leave}>
      {children}
      <canvas ref={canvas} aria-hidden="true" style={{ width: `${area.width}px`, height: `${area.height}px`, cursor: hovered === null ? "default" : "pointer" }} onPointerMove={move} onPointerLeave={leave} onClick={() => hovered !== null && onOpen(hovered)} />
      {marked && <span class={`baseline-mark ${marked[0] > area.width / 2 ? "left" : ""}`} aria-hidden="true" style={{ left: `${marked[0]}px`, top: `${marked[1]}px` }}><span>baseline</span></span>}
      <PointTip at={isPointed ? at : null} width={area.width} height={area.height} title={found ? found.title : nameOf(names, hovered, base)} pairs={isPointed ? pairs() : []} isMarked={hovered !== null} />
    </div>
  );
}

const gridText = ({ xEdges, yEdges }: Cells) => `${xEdges.length - 1} × ${yEdges.length - 1}`;

/** How the surface was computed, on how many runs it rests, and where it is best. */
function SurfaceText({ surface, x, y, color, better, left }: Omit<Props, "surface"> & { surface: Surface; left: number }) {
  if (surface.runs < MIN_RUNS) return <p class="notice warn" role="status">Too few runs: {plural(surface.runs, "run")} with all three values, but a surface needs at least {MIN_RUNS}.</p>;
  const best = better ? placeOf(surface, x, y, color, bestOf(surface, better, axisOf(x), axisOf(y))) : null;
  return (
    <p class="small soft" role="status">
      {surface.kind === "cells" ? `Binned: the mean ${color.title} in ${gridText(surface)} cells; cells without a run are blank.` : `Interpolated: the mean ${color.title}, weighted with a Gaussian kernel of ${Math.round(100 * surface.bandwidth)} % of each axis; blank where no run is near.`}
      {" "}Rests on {plural(surface.runs, "run")}{left > 0 && ` (${left.toLocaleString("en-US")} without all three values)`}.
      {best && <> {better === "lower" ? "Lowest" : "Highest"} mean <strong>{best.mean}</strong>{surface.kind === "cells" && ` (${best.title})`} at {x.title} {best.x} and {y.title} {best.y}.</>}
    </p>
  );
}
