// A chart as SVG: the content of the canvas, with a title, axis names and a legend.
import { extentX, flatValue, type Line, nearest, rangeY, spanY } from "./line";
import { limitsOf, logValueTicks, positionTicks, type Ticks, timeTicks, valueTicks } from "./ticks";

export interface SvgChart {
  title: string;
  /** The metric. */
  name: string;
  xName: string;
  xKind: "step" | "epoch" | "time";
  lines: readonly Line[];
  range: [number, number] | null;
  limits?: readonly [number, number] | undefined;
  log: boolean;
  width: number;
  height: number;
  font: string;
  colors: { paper: string; ink: string; soft: string; grid: string };
}

const HEAD = 34;
const FOOT = 40;
const ROW = 18;
const RIGHT = 18;
const MAX_LEGEND_ENTRIES = 60;

const escaped = (text: string) => text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`).replace(/[^\P{Cc}\n]|\p{Cs}/gu, " ");
/** Whole letters: half of a surrogate pair cannot be encoded. */
function short(text: string, letters: number): string {
  const all = [...text];
  return all.length > letters ? `${all.slice(0, Math.max(1, letters - 1)).join("")}…` : text;
}

type Scale = (value: number) => number;

/** "M1,2L3,4" through the points, with gaps at points without a finite y. */
function path(line: Line, y: ArrayLike<number>, [from, to]: [number, number], toX: Scale, toY: Scale): string {
  let text = "";
  let open = false;
  for (let i = from; i < to; i++) {
    const py = toY(y[i]!);
    if (!Number.isFinite(py)) {
      open = false;
      continue;
    }
    text += `${open ? "L" : "M"}${toX(line.x[i]!).toFixed(1)},${py.toFixed(1)}`;
    if (!open && (i + 1 >= to || !Number.isFinite(toY(y[i + 1]!)))) text += "h0.01"; // draws an isolated point as a dot
    open = true;
  }
  return text;
}

function area(line: Line, lo: ArrayLike<number>, hi: ArrayLike<number>, [from, to]: [number, number], toX: Scale, toY: Scale): string {
  const finite: number[] = [];
  for (let i = from; i < to; i++) if (Number.isFinite(toY(lo[i]!)) && Number.isFinite(toY(hi[i]!))) finite.push(i);
  if (finite.length < 2) return "";
  const point = (i: number, y: ArrayLike<number>) => `${toX(line.x[i]!).toFixed(1)},${toY(y[i]!).toFixed(1)}`;
  return `M${[...finite.map((i) => point(i, hi)), ...finite.reverse().map((i) => point(i, lo))].join("L")}Z`;
}

function shape(line: Line, span: [number, number], toX: Scale, toY: Scale): string {
  const color = escaped(line.color);
  const stroke = (y: ArrayLike<number>, width: number, alpha: number, dash: readonly number[] = []) =>
    `<path d="${path(line, y, span, toX, toY)}" fill="none" stroke="${color}" stroke-width="${width}" stroke-opacity="${alpha}" stroke-linejoin="round" stroke-linecap="${dash.length ? "butt" : "round"}"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""}/>`;
  const fill = (lo: ArrayLike<number>, hi: ArrayLike<number>, alpha: number) => `<path d="${area(line, lo, hi, span, toX, toY)}" fill="${color}" fill-opacity="${alpha}"/>`;
  return [
    line.band ? fill(line.band.lo, line.band.hi, 0.2) : "",
    ...(line.extremes ? [stroke(line.extremes.lo, 0.7, 0.45), stroke(line.extremes.hi, 0.7, 0.45)] : []),
    line.lo && line.hi ? fill(line.lo, line.hi, 0.2) : "",
    line.raw ? stroke(line.raw, 1, 0.32) : "",
    stroke(line.y, line.width ?? 1.6, 1, line.dash),
  ].join("");
}

export function chartSvg(chart: SvgChart): string {
  const { lines, log, name, width, height, colors } = chart;
  const all = chart.range ?? extentX(lines) ?? [0, 1];
  const [x0, x1] = all[0] === all[1] ? [all[0] - 0.5, all[1] + 0.5] : all;
  const span = spanY(lines, x0, x1, log);
  const [y0, y1] = rangeY(span, log, chart.limits ?? limitsOf(name));
  const yTicks: Ticks = span ? (log ? logValueTicks : valueTicks)(name, y0, y1, Math.max(2, Math.floor(height / 34)), flatValue(span)) : { at: [], labels: [] };
  const most = Math.max(2, Math.floor(width / 80));
  const xTicks = chart.xKind === "time" ? timeTicks(x0, x1, most) : positionTicks(x0, x1, most, chart.xKind === "step");
  const left = 24 + 6.5 * Math.max(3, ...yTicks.labels.map((label) => label.length));
  const right = left + width;
  const bottom = HEAD + height;
  const toX: Scale = (value) => left + ((value - x0) / (x1 - x0)) * width;
  const scaled: Scale = log ? Math.log10 : (value) => value;
  const toY: Scale = (value) => (log && value <= 0 ? NaN : bottom - ((scaled(value) - scaled(y0)) / (scaled(y1) - scaled(y0))) * height);
  const text = (x: number, y: number, content: string, more = "") => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escaped(content)}</text>`;
  const grid = [
    ...yTicks.at.map((tick, i) => `<line x1="${left}" x2="${right}" y1="${toY(tick).toFixed(1)}" y2="${toY(tick).toFixed(1)}" stroke="${colors.grid}"/>${text(left - 8, toY(tick) + 4, yTicks.labels[i]!, 'text-anchor="end"')}`),
    ...xTicks.at.map((tick, i) => `<line x1="${toX(tick).toFixed(1)}" x2="${toX(tick).toFixed(1)}" y1="${HEAD}" y2="${bottom}" stroke="${colors.grid}"/>${text(toX(tick), bottom + 16, xTicks.labels[i]!, 'text-anchor="middle"')}`),
    text((left + right) / 2, bottom + 32, chart.xName, 'text-anchor="middle"'),
  ];
  const shapes = lines.filter((line) => line.x.length > 0).map((line) => shape(line, [Math.max(0, nearest(line.x, x0) - 1), Math.min(line.x.length, nearest(line.x, x1) + 2)], toX, toY));
  const named = lines.slice(0, MAX_LEGEND_ENTRIES);
  const columns = Math.max(1, Math.floor((right - 14) / 220));
  const wide = (right - 14) / columns;
  const legend = named.map((line, i) => {
    const [x, y] = [14 + (i % columns) * wide, bottom + FOOT + 12 + Math.floor(i / columns) * ROW];
    return `<line x1="${x}" x2="${x + 22}" y1="${y}" y2="${y}" stroke="${escaped(line.color)}" stroke-width="2.5"${line.dash?.length ? ` stroke-dasharray="${line.dash.join(" ")}"` : ""}/>${text(x + 28, y + 4, short(line.label, Math.floor((wide - 34) / 6.4)))}`;
  });
  const total = bottom + FOOT + Math.ceil(named.length / columns) * ROW + 10;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.ceil(right + RIGHT)}" height="${Math.ceil(total)}" viewBox="0 0 ${Math.ceil(right + RIGHT)} ${Math.ceil(total)}" font-family="${escaped(chart.font)}" font-size="11" fill="${colors.soft}">
<rect width="100%" height="100%" fill="${colors.paper}"/>
${text(14, 22, short(chart.title, Math.floor(right / 8)), `font-size="14" font-weight="600" fill="${colors.ink}"`)}
<clipPath id="plot"><rect x="${left - 2}" y="${HEAD - 2}" width="${width + 4}" height="${height + 4}"/></clipPath>
${grid.join("")}<g clip-path="url(#plot)">${shapes.join("")}</g>${legend.join("")}
</svg>`;
}
