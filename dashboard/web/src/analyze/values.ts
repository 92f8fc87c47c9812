// The values of many runs in one field, their scale, and brushes over them.
import { logTicks, positionTicks, settingFormat, timeTicks, valueTicks } from "../chart/ticks";
import { fieldWord, quoted } from "../data/filter";
import type { ValueColumn } from "../data/source";
import { clock, day, metricValue, moment, toNumber } from "../format";
import { type Delta, deltaOf } from "../metrics";
import { isMetric, metricOf } from "../runs/columns";

/** `values`: numbers, or indices into `labels`; NaN: none. `isSetting`: a setting or a label, whose equal values may be drawn apart. */
export interface Values { field: string; title: string; values: Float64Array; labels: string[] | null; scale: Scale; isSetting: boolean }

export interface Tick { at: number; label: string }
/** Positions from 0 (smallest) to 1 (largest). */
export interface Scale {
  low: number; high: number; log: boolean;
  position: (value: number) => number;
  value: (position: number) => number;
  ticks: (max: number) => Tick[];
  text: (value: number) => string;
}

export const titleOf = (field: string) => field.replace(/^(config|metric)\./, "");

const isSettingField = (field: string) => !isMetric(field) && field !== "duration";
const isWhole = (values: Float64Array) => values.every((value) => !Number.isFinite(value) || Number.isInteger(value));

/** Whether positive values over a wide range are spread more evenly on a logarithmic scale. */
function isLogarithmic(sorted: Float64Array): boolean {
  const [low, middle, high] = [sorted[0]!, sorted[sorted.length >> 1]!, sorted[sorted.length - 1]!];
  if (!(low > 0) || high / low < 10) return false;
  const off = (position: number) => Math.abs(position - 0.5);
  return off(Math.log(middle / low) / Math.log(high / low)) < off((middle - low) / (high - low));
}

function numberScale(field: string, values: Float64Array, canBeLog = true): Scale {
  const sorted = values.filter(Number.isFinite).sort();
  const [low, high] = sorted.length > 0 ? [sorted[0]!, sorted[sorted.length - 1]!] : [0, 1];
  const log = canBeLog && field !== "created" && sorted.length > 0 && isLogarithmic(sorted);
  const flat = low === high;
  const position = flat ? () => 0.5 : log ? (value: number) => Math.log(value / low) / Math.log(high / low) : (value: number) => (value - low) / (high - low);
  const value = flat ? () => low : log ? (at: number) => low * (high / low) ** at : (at: number) => low + (high - low) * at;
  const distinct = sorted.filter((number, i) => i === 0 || number !== sorted[i - 1]);
  const settings = settingFormat(Array.from(distinct.length > 50 ? distinct.filter((_, i) => i % Math.ceil(distinct.length / 50) === 0) : distinct));
  const isSetting = isSettingField(field);
  const text = (number: number) => (Number.isNaN(number) ? "–" : field === "created" ? moment(number) : isSetting ? settings(number) : metricValue(field === "duration" ? "duration_s" : metricOf(field), number));
  const ticks = (max: number): Tick[] => {
    if (flat) return [{ at: 0.5, label: text(low) }];
    if (field === "created") return timeTicks(low, high, max).at.map((at) => ({ at: position(at), label: high - low < 86400 ? clock(at) : high - low < 7 * 86400 ? moment(at).slice(5, 16) : day(at) }));
    // Few distinct values are their own ticks.
    if (isSetting && distinct.length <= Math.min(max, 8)) return Array.from(distinct, (at) => ({ at: position(at), label: text(at) }));
    if (log) return logTicks(low, high, max).map((at) => ({ at: position(at), label: text(at) }));
    const found = isSetting ? positionTicks(low, high, max, isWhole(values)) : valueTicks(field === "duration" ? "duration_s" : metricOf(field), low, high, max);
    return found.at.map((at, i) => ({ at: position(at), label: found.labels[i]! }));
  };
  return { low, high, log, position, value, ticks, text };
}

function labelScale(labels: string[]): Scale {
  const position = (value: number) => (labels.length === 1 ? 0.5 : value / (labels.length - 1));
  return {
    low: 0, high: labels.length - 1, log: false, position, value: (at) => at * (labels.length - 1), text: (value) => labels[value] ?? "–",
    ticks: (max) => labels.map((label, i) => ({ at: position(i), label })).filter((_, i) => i % Math.ceil(labels.length / Math.max(1, max)) === 0),
  };
}

export function valuesOf(column: ValueColumn): Values {
  const { field } = column;
  const labels = column.type === "bool" ? ["false", "true"] : column.labels ?? null;
  const values = new Float64Array(column.values.length);
  column.values.forEach((value, i) => {
    values[i] = typeof value === "boolean" ? Number(value) : labels && value === -1 ? NaN : toNumber(value);
  });
  return { field, title: titleOf(field), values, labels, scale: labels ? labelScale(labels) : numberScale(field, values), isSetting: labels !== null || isSettingField(field) };
}

/** Coordinates: differences of any size have a meaning. `whole`: of places in an order, with ticks that are whole numbers. */
export const linearValues = (title: string, values: Float64Array, whole = false): Values => ({ field: title, title, values, labels: null, scale: numberScale(whole ? "config." : "metric.", values, false), isSetting: false });

/** A range of numbers, or labels. */
export type Brush = [number, number] | string[];
export type Brushes = Record<string, Brush>;

export const isRange = (brush: Brush): brush is [number, number] => typeof brush[0] === "number";

export function parseBrushes(text: string | null): Brushes {
  try {
    const json: unknown = JSON.parse(text ?? "{}");
    if (json === null || typeof json !== "object") return {};
    return Object.fromEntries(Object.entries(json).filter(([, brush]) => Array.isArray(brush) && (brush.every((v) => typeof v === "string") || (brush.length === 2 && brush.every((v) => typeof v === "number")))));
  } catch {
    return {};
  }
}

/** Of six digits, and not smaller: the runs at the bounds stay inside. */
function rounded([low, high]: [number, number]): [number, number] {
  const [down, up] = [Number(low.toPrecision(6)), Number(high.toPrecision(6))];
  return [down <= low ? down : low, up >= high ? up : high];
}

export function brushText(brushes: Brushes): string | null {
  const entries = Object.entries(brushes).map(([field, brush]) => [field, isRange(brush) ? rounded(brush) : brush]);
  return entries.length > 0 ? JSON.stringify(Object.fromEntries(entries)) : null;
}

/** 1 for the runs that are inside of every brush. */
export function insideOf(brushes: Brushes, columns: ReadonlyMap<string, Values>, count: number): Uint8Array {
  const inside = new Uint8Array(count).fill(1);
  for (const [field, brush] of Object.entries(brushes)) {
    const column = columns.get(field);
    if (!column) continue;
    const { values, labels } = column;
    if (isRange(brush)) {
      for (let i = 0; i < count; i++) if (!(values[i]! >= brush[0] && values[i]! <= brush[1])) inside[i] = 0;
    } else {
      const chosen = new Set(brush);
      for (let i = 0; i < count; i++) if (!labels || !chosen.has(labels[values[i]!] ?? "")) inside[i] = 0;
    }
  }
  return inside;
}

/** The brush for two positions on the scale of a column; null if it contains nothing. */
export function brushBetween({ labels, scale }: Values, from: number, to: number): Brush | null {
  const [low, high] = [Math.min(from, to), Math.max(from, to)];
  if (!labels) return [low <= 0 ? scale.low : scale.value(low), high >= 1 ? scale.high : scale.value(high)];
  const chosen = labels.filter((_, i) => scale.position(i) >= low - 1e-9 && scale.position(i) <= high + 1e-9);
  return chosen.length > 0 ? chosen : null;
}

/** The positions that a brush covers. */
export function brushSpan({ labels, scale }: Values, brush: Brush): [number, number] | null {
  if (isRange(brush)) return [scale.position(brush[0]), scale.position(brush[1])];
  const at = (labels ?? []).flatMap((label, i) => (brush.includes(label) ? [scale.position(i)] : []));
  const half = labels && labels.length > 1 ? 0.35 / (labels.length - 1) : 0.1;
  return at.length > 0 ? [Math.min(...at) - half, Math.max(...at) + half] : null;
}

/** A step of the keyboard along an axis of numbers. */
const BRUSH_STEP = 0.05;

/** The brush after a step up or down: it moves, or with `isEnd` its upper end does. Without one, half of the axis. */
export function steppedBrush(column: Values, brush: Brush | undefined, by: -1 | 1, isEnd: boolean): Brush | null {
  const { labels, scale } = column;
  const [last, step] = labels ? [labels.length - 1, 1] : [1, BRUSH_STEP];
  const bounded = (place: number) => Math.max(0, Math.min(last, place));
  const chosen: readonly (string | number)[] = brush ?? [];
  const places = labels ? labels.flatMap((label, i) => (chosen.includes(label) ? [i] : [])) : chosen.map((value) => bounded(scale.position(Number(value))));
  if (places.length === 0) return by > 0 ? brushBetween(column, 0.5, 1) : brushBetween(column, 0, 0.5);
  const [low, high] = [Math.min(...places), Math.max(...places)];
  const end = Math.max(low, bounded(high + by * step));
  const off = Math.max(-low, Math.min(last - high, by * step));
  if (labels) return labels.filter((_, i) => (isEnd ? i >= low && i <= end : places.includes(i - off)));
  return isEnd ? brushBetween(column, low, end) : brushBetween(column, low + off, high + off);
}

/** A brush in words. */
export const brushWords = ({ title, scale }: Values, brush: Brush | undefined): string => `${title}: ${!brush ? "all" : isRange(brush) ? `${scale.text(brush[0])} to ${scale.text(brush[1])}` : brush.join(", ")}`;

/** The brushes in the filter language. */
export function brushFilter(brushes: Brushes, columns: ReadonlyMap<string, Values>): string {
  return Object.entries(brushes).map(([field, brush]) => {
    if (isRange(brush)) {
      const [low, high] = rounded(brush);
      return `${fieldWord(field)} >= ${low} and ${fieldWord(field)} <= ${high}`;
    }
    const isBool = columns.get(field)?.labels?.join() === "false,true";
    // "in" compares as "=" does, whose asterisk matches anything.
    if (brush.some((label) => label.includes("*"))) return `(${brush.map((label) => `${fieldWord(field)} == ${quoted(label)}`).join(" or ")})`;
    return `${fieldWord(field)} in (${brush.map((label) => (isBool ? label : quoted(label))).join(", ")})`;
  }).join(" and ");
}

/** Mean, population deviation and the extremes of the finite values of the chosen runs. */
export interface Summary { count: number; mean: number; deviation: number; low: number; high: number; lowest: number; highest: number }

export function summaryOf(values: Float64Array, chosen: Iterable<number>): Summary {
  const found: Summary = { count: 0, mean: 0, deviation: 0, low: Infinity, high: -Infinity, lowest: -1, highest: -1 };
  let squares = 0;
  for (const i of chosen) {
    const value = values[i]!;
    if (!Number.isFinite(value)) continue;
    found.count++;
    const off = value - found.mean;
    found.mean += off / found.count;
    squares += off * (value - found.mean);
    if (value < found.low) [found.low, found.lowest] = [value, i];
    if (value > found.high) [found.high, found.highest] = [value, i];
  }
  if (found.count === 0) found.mean = NaN;
  found.deviation = found.count > 0 ? Math.sqrt(squares / found.count) : NaN;
  return found;
}

/** The difference of the value of a run from that of the baseline (-1: none); null if there is none, or it has no meaning. */
export function differenceOf({ field, labels, values }: Values, run: number, base: number): Delta | null {
  if (labels || base < 0 || !(isMetric(field) || field === "duration" || field.startsWith("config."))) return null;
  return deltaOf(isMetric(field) ? metricOf(field) : field === "duration" ? "duration_s" : "", values[run]!, values[base]!);
}

/** The title of the tooltip of a run. */
export const nameOf = (names: readonly string[], run: number | null, base: number) => (run === null ? undefined : `${names[run] ?? ""}${run === base ? " · baseline" : ""}`);

/** The runs from the first to the last start. Of equal starts, the one that is listed later is first: lists begin with the newest. */
export const startOrder = (created: Float64Array): number[] => Array.from(created.keys()).sort((a, b) => created[a]! - created[b]! || b - a);

/** The runs, in the given order, whose value was better than all before. */
export function bestSoFar(order: readonly number[], values: Float64Array, better: "lower" | "higher"): { run: number; value: number }[] {
  const found: { run: number; value: number }[] = [];
  for (const run of order) {
    const value = values[run]!;
    const before = found[found.length - 1]?.value;
    if (Number.isFinite(value) && (before === undefined || (better === "lower" ? value < before : value > before))) found.push({ run, value });
  }
  return found;
}

/** How many runs after this one in the given order have a value. */
export const countAfter = (order: readonly number[], values: Float64Array, run: number): number => order.slice(order.indexOf(run) + 1).filter((other) => Number.isFinite(values[other]!)).length;

export interface Part { label: string; order: number; runs: number[]; filter: string }

/** The runs by their value in a column; numbers with many values by ranges with about equal counts. */
export function partsOf(column: Values, inside: Uint8Array, maxParts = 12): Part[] {
  const { values, labels, scale } = column;
  const field = fieldWord(column.field);
  const parts = new Map<number, Part>();
  const add = (order: number, i: number, label: () => string, filter: () => string) => {
    const part = parts.get(order);
    if (part) part.runs.push(i);
    else parts.set(order, { label: label(), order, runs: [i], filter: filter() });
  };
  const chosen = Array.from(inside.keys()).filter((i) => inside[i]);
  const sorted = chosen.map((i) => values[i]!).filter(Number.isFinite).sort((a, b) => a - b);
  const distinct = new Set(sorted);
  const isBool = labels?.join() === "false,true";
  const edges = !labels && distinct.size > maxParts ? [...new Set(Array.from({ length: 8 }, (_, k) => sorted[Math.floor((k * sorted.length) / 8)]!))] : null;
  for (const i of chosen) {
    const value = values[i]!;
    if (Number.isNaN(value)) add(Infinity, i, () => "–", () => (isMetric(column.field) ? `(not has ${field} or ${field} = nan)` : `not has ${field}`));
    else if (!edges) add(value, i, () => scale.text(value), () => `${field} == ${labels && !isBool ? quoted(labels[value]) : String(value)}`);
    else {
      let k = edges.length - 1;
      while (k > 0 && edges[k]! > value) k--;
      const [low, next] = [edges[k]!, edges[k + 1]];
      add(low, i, () => `${scale.text(low)} – ${scale.text(next ?? sorted[sorted.length - 1]!)}`, () => `${field} >= ${low}${next === undefined ? "" : ` and ${field} < ${next}`}`);
    }
  }
  return [...parts.values()].sort((a, b) => a.order - b.order);
}

/** How a result changes with a parameter, for people. `better`: which results are better. */
export function directionText(effect: string, better: "lower" | "higher" | null, best: string | null): string {
  if (effect === "none") return "depends on others";
  if (effect === "mixed") return best !== null && better ? `best at ${best}` : "rises and falls";
  if (!better) return effect === "rises" ? "result rises" : "result falls";
  return (effect === "rises") === (better === "higher") ? "higher is better" : "lower is better";
}
