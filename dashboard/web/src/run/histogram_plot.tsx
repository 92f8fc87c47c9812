// The drawings of histograms over time: a heat map over steps, or one ridge per step. The pointer and the keyboard read values.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { drawHeat, heatColor } from "../chart/heat";
import { positionTicks, valueTicks } from "../chart/ticks";
import { cssColor } from "../colors";
import type { HistogramItem } from "../data/source";
import { number, plural } from "../format";
import { handleKey } from "../parts/keyboard";
import { useWidth } from "../parts/size";
import { shownTheme } from "../settings";
import { binAt, largestShare, partAt, quantileOf, shadeOf, stepEdges, thinned, totalOf } from "./histogram_values";

/** Of the common grid of values. */
export const ROWS = 72;
const COLUMNS = 480;
const MAX_RIDGES = 40;
const HEIGHT = 236;
const PAD = { left: 60, right: 14, top: 8, bottom: 22 };
const RIDGE_GAP = 11;
const RIDGE_HEIGHT = 58;

export type HistogramKind = "heat" | "ridges";

interface PlotProps {
  name: string;
  items: readonly HistogramItem[];
  /** shares[item][row] on the common grid from span[0] to span[1]. */
  shares: readonly Float64Array[];
  span: readonly [number, number];
  width: number;
  /** The selected item. */
  at: number;
}

/** "step 20: −0.1 to 0.1, 134 of 4,096 values (3.3 %)" */
function readout(item: HistogramItem, value: number): [string, string, string] {
  const bin = binAt(item, value);
  const total = totalOf(item);
  const count = bin < 0 ? 0 : item.counts[bin]!;
  return [
    `step ${item.step.toLocaleString("en-US")}`,
    bin < 0 ? `at ${number(value)}` : `${number(item.edges[bin]!)} to ${number(item.edges[bin + 1]!)}`,
    bin < 0 ? "no values" : `${number(count)} of ${number(total)} values (${number(total > 0 ? (100 * count) / total : 0, 2)} %)`,
  ];
}

const described = (name: string, items: readonly HistogramItem[], kind: HistogramKind) => {
  const [first, last] = [items[0]!, items[items.length - 1]!];
  const spread = (item: HistogramItem) => `median ${number(quantileOf(item, 0.5))}, middle 80 % from ${number(quantileOf(item, 0.1))} to ${number(quantileOf(item, 0.9))}`;
  return `${kind === "heat" ? "Heat map" : "Ridgelines"} of ${name} over ${plural(items.length, "step")}. Step ${first.step}: ${spread(first)}. Step ${last.step}: ${spread(last)}. Arrow keys read single values.`;
};

interface Cursor { item: number; value: number; x: number; y: number }

/** One of the drawings with the pointer and the keyboard: left and right change the step, up and down the value. */
export function HistogramPlot({ kind, onChoose, ...props }: Omit<PlotProps, "width"> & { kind: HistogramKind; onChoose: (item: number) => void }) {
  const { name, items, span, at } = props;
  const host = useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const geometry = useMemo(() => (kind === "heat" ? heatGeometry : ridgeGeometry)({ ...props, width }), [kind, items, width]);
  const cursorAt = (item: number, value: number): Cursor => ({ item, value, ...geometry.place(item, value) });
  const find = (event: MouseEvent) => {
    const box = host.current!.getBoundingClientRect();
    return geometry.find(event.clientX - box.left, event.clientY - box.top);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = (span[1] - span[0]) / ROWS;
    const { item, value } = cursor ?? { item: at, value: quantileOf(items[at]!, 0.5) || (span[0] + span[1]) / 2 };
    const go = (to: number, wanted = value) => {
      const next = Math.max(0, Math.min(items.length - 1, to));
      setCursor(cursorAt(next, Math.max(span[0], Math.min(span[1], wanted))));
      onChoose(next);
    };
    handleKey(event, {
      ArrowLeft: () => go(item - 1), ArrowRight: () => go(item + 1), ArrowUp: () => go(item, value + step), ArrowDown: () => go(item, value - step), Home: () => go(0), End: () => go(items.length - 1),
      Escape: cursor !== null && (() => setCursor(null)),
    });
  };
  // Made once: the pointer must not draw it again.
  const drawing = useMemo(() => width > 0 && (kind === "heat" ? <HeatPlot {...props} width={width} /> : <RidgePlot {...props} width={width} />), [kind, items, width, at, shownTheme.value]);
  const text = cursor && items[cursor.item] ? readout(items[cursor.item]!, cursor.value) : null;
  return (
    <div class="histogram-plot" ref={host} style={{ height: `${geometry.height}px` }} tabIndex={0} role="group" aria-label={described(name, items, kind)} data-kind={kind} data-drawn={width > 0 ? items.length : undefined} onKeyDown={onKeyDown} onBlur={() => setCursor(null)}
      onPointerMove={(event) => { const found = find(event); setCursor(found && cursorAt(found.item, found.value)); }} onPointerLeave={() => setCursor(null)}
      onClick={(event) => { const found = find(event); if (found) onChoose(found.item); }}>
      {drawing}
      {cursor && <i class="scatter-mark" style={{ left: `${cursor.x}px`, top: `${cursor.y}px` }} />}
      <div class="tip" aria-live="polite" hidden={!text} style={cursor ? { [cursor.x > width / 2 ? "right" : "left"]: `${(cursor.x > width / 2 ? width - cursor.x : cursor.x) + 14}px`, top: `${Math.max(0, cursor.y - 20)}px` } : {}}>
        {text && <><span class="tip-x">{text[0]}</span><div>{text[1]}</div><strong>{text[2]}</strong></>}
      </div>
    </div>
  );
}

interface Geometry {
  height: number;
  place: (item: number, value: number) => { x: number; y: number };
  find: (x: number, y: number) => { item: number; value: number } | null;
}

const AXIS = { "font-size": "10.5" };
const axisColor = () => cssColor("--ink-2");

/** Steps from left to right, values from bottom to top. */
function heatGeometry({ items, span, width }: Pick<PlotProps, "items" | "span" | "width">): Geometry & { edges: number[]; x: (step: number) => number; y: (value: number) => number } {
  const edges = stepEdges(items.map((item) => item.step));
  const [from, to] = [edges[0]!, edges[edges.length - 1]!];
  const [inner, tall] = [Math.max(1, width - PAD.left - PAD.right), HEIGHT - PAD.top - PAD.bottom];
  const x = (step: number) => PAD.left + (inner * (step - from)) / (to - from);
  const y = (value: number) => PAD.top + tall * (1 - (value - span[0]) / (span[1] - span[0]));
  return {
    height: HEIGHT, edges, x, y,
    place: (item, value) => ({ x: x((edges[item]! + edges[item + 1]!) / 2), y: y(value) }),
    find: (px, py) => (px < PAD.left || px > PAD.left + inner || py < PAD.top || py > PAD.top + tall ? null : { item: partAt(edges, from + ((px - PAD.left) / inner) * (to - from)), value: span[0] + (1 - (py - PAD.top) / tall) * (span[1] - span[0]) }),
  };
}

function HeatPlot({ name, items, shares, span, width, at }: PlotProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { edges, x, y } = heatGeometry({ items, span, width });
  useEffect(() => {
    const largest = largestShare(shares);
    const [from, to] = [edges[0]!, edges[edges.length - 1]!];
    const columns = Array.from({ length: COLUMNS }, (_, i) => partAt(edges, from + ((i + 0.5) / COLUMNS) * (to - from)));
    drawHeat(canvas.current!, Array.from({ length: ROWS }, (_, row) => columns.map((item) => {
      const share = shares[item]![ROWS - 1 - row]!;
      return share > 0 ? shadeOf(share / largest) : null;
    })));
  }, [shares, shownTheme.value]);
  const steps = positionTicks(items[0]!.step, items[items.length - 1]!.step, Math.max(2, Math.floor(width / 84)), true);
  const values = valueTicks(name, span[0], span[1], 6);
  return (
    <>
      <canvas ref={canvas} aria-hidden="true" style={{ left: `${PAD.left}px`, top: `${PAD.top}px`, width: `${width - PAD.left - PAD.right}px`, height: `${HEIGHT - PAD.top - PAD.bottom}px` }} />
      <svg width={width} height={HEIGHT} aria-hidden="true" {...AXIS} fill={axisColor()}>
        {values.at.map((tick, i) => <text key={tick} x={PAD.left - 8} y={y(tick) + 3.5} text-anchor="end">{values.labels[i]}</text>)}
        {(items.length > 1 ? steps.at : [items[0]!.step]).map((tick, i) => <text key={tick} x={x(tick)} y={HEIGHT - PAD.bottom + 14} text-anchor="middle">{items.length > 1 ? steps.labels[i] : tick}</text>)}
        <text x={PAD.left - 8} y={HEIGHT - PAD.bottom + 14} text-anchor="end" fill={cssColor("--ink-3")}>step</text>
        {items.length > 1 && <rect x={x(edges[at]!)} y={PAD.top - 2} width={Math.max(2, x(edges[at + 1]!) - x(edges[at]!))} height={HEIGHT - PAD.top - PAD.bottom + 4} fill="none" stroke={cssColor("--ink")} />}
      </svg>
    </>
  );
}

/** Values from left to right, steps from top to bottom; the newest in front. Each ridge is scaled to its highest point: a distribution
 * that becomes narrow would flatten all others. */
function ridgeGeometry({ items, shares, span, width }: Pick<PlotProps, "items" | "shares" | "span" | "width">): Geometry & { shown: number[]; base: (ridge: number) => number; x: (value: number) => number; tall: (item: number, row: number) => number } {
  const shown = thinned(items.length, MAX_RIDGES);
  const height = Math.max(HEIGHT, PAD.top + RIDGE_HEIGHT + RIDGE_GAP * (shown.length - 1) + PAD.bottom);
  const gap = shown.length > 1 ? (height - PAD.top - PAD.bottom - RIDGE_HEIGHT) / (shown.length - 1) : 0;
  const inner = Math.max(1, width - PAD.left - PAD.right);
  const largest = shares.map((own) => own.reduce((a, b) => Math.max(a, b), 1e-12));
  const tall = (item: number, row: number) => (shares[item]![row]! / largest[item]!) * (shown.length > 1 ? RIDGE_HEIGHT : height - PAD.top - PAD.bottom);
  const base = (ridge: number) => height - PAD.bottom - gap * (shown.length - 1 - ridge);
  const x = (value: number) => PAD.left + (inner * (value - span[0])) / (span[1] - span[0]);
  const row = (value: number) => Math.max(0, Math.min(ROWS - 1, Math.floor(((value - span[0]) / (span[1] - span[0])) * ROWS)));
  return {
    height, shown, base, x, tall,
    place: (item, value) => {
      const ridge = shown.reduce((best, other, i) => (Math.abs(other - item) < Math.abs(shown[best]! - item) ? i : best), 0);
      return { x: x(value), y: base(ridge) - tall(shown[ridge]!, row(value)) };
    },
    find: (px, py) => {
      if (px < PAD.left || px > PAD.left + inner || py > height - PAD.bottom + 4) return null;
      const value = span[0] + ((px - PAD.left) / inner) * (span[1] - span[0]);
      for (let ridge = shown.length - 1; ridge >= 0; ridge--) if (py <= base(ridge) + 3 && py >= base(ridge) - tall(shown[ridge]!, row(value)) - 3) return { item: shown[ridge]!, value };
      const ridge = Math.round(gap > 0 ? (py - base(0)) / gap : 0);
      return ridge >= 0 && ridge < shown.length ? { item: shown[ridge]!, value } : null;
    },
  };
}

function RidgePlot({ name, items, shares, span, width, at }: PlotProps) {
  const { height, shown, base, x, tall } = ridgeGeometry({ items, shares, span, width });
  const values = valueTicks(name, span[0], span[1], Math.max(3, Math.floor(width / 90)));
  const every = Math.ceil(13 / Math.max(1, shown.length > 1 ? base(1) - base(0) : 13));
  const outline = (item: number, y: number) => {
    const points = Array.from({ length: ROWS }, (_, row) => `L${x(span[0] + ((row + 0.5) / ROWS) * (span[1] - span[0])).toFixed(1)} ${(y - tall(item, row)).toFixed(1)}`);
    return `M${x(span[0]).toFixed(1)} ${y.toFixed(1)}${points.join("")}L${x(span[1]).toFixed(1)} ${y.toFixed(1)}`;
  };
  return (
    <svg xmlns="http://www.w3.org/2000/svg" width={width} height={height} aria-hidden="true" {...AXIS} fill={axisColor()} font-family={getComputedStyle(document.body).fontFamily}>
      <rect width={width} height={height} fill={cssColor("--surface")} />
      {values.at.map((tick, i) => (
        <g key={tick}>
          <line x1={x(tick)} x2={x(tick)} y1={PAD.top} y2={height - PAD.bottom} stroke={cssColor("--grid")} />
          <text x={x(tick)} y={height - PAD.bottom + 15} text-anchor="middle">{values.labels[i]}</text>
        </g>
      ))}
      {shown.map((item, ridge) => {
        const [r, g, b] = heatColor(0.3 + (0.5 * ridge) / Math.max(1, shown.length - 1));
        const y = base(ridge);
        return (
          <g key={item}>
            <path d={outline(item, y)} fill={`rgb(${r},${g},${b})`} fill-opacity="0.86" stroke={cssColor(item === at ? "--ink" : "--surface")} stroke-width={item === at ? 1.8 : 0.9} />
            <line x1={PAD.left} x2={width - PAD.right} y1={y} y2={y} stroke={`rgb(${r},${g},${b})`} stroke-opacity="0.5" />
            {((shown.length - 1 - ridge) % every === 0 || item === at) && <text x={PAD.left - 8} y={y + 3.5} text-anchor="end" font-weight={item === at ? 700 : 400} fill={item === at ? cssColor("--ink") : axisColor()}>{items[item]!.step.toLocaleString("en-US")}</text>}
          </g>
        );
      })}
      <text x={PAD.left - 8} y={PAD.top + 8} text-anchor="end" fill={cssColor("--ink-3")}>step</text>
      <text x={PAD.left - 8} y={height - PAD.bottom + 15} text-anchor="end" fill={cssColor("--ink-3")}>value</text>
    </svg>
  );
}
