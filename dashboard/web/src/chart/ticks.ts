// Ticks of axes and how numbers beside each other are written: round, in one unit, with equal decimals.
import { isSeconds } from "../format";

export interface Ticks { at: number[]; labels: string[] }
export interface Unit { size: number; suffix: string }

const NONE: Unit = { size: 1, suffix: "" };
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** The unit for values of a metric that are about as large as `value`; the metric's name tells the kind. */
export function unitOf(name: string, value: number): Unit {
  const magnitude = Math.abs(value);
  if (/_bytes(_per_s)?$/.test(name)) {
    const power = magnitude >= 1 && Number.isFinite(magnitude) ? Math.min(BYTES.length - 1, Math.floor(Math.log2(magnitude) / 10)) : 0;
    return { size: 1024 ** power, suffix: ` ${BYTES[power]}${name.endsWith("_per_s") ? "/s" : ""}` };
  }
  if (isPercent(name)) return { size: 1, suffix: " %" };
  if (name.endsWith("_celsius")) return { size: 1, suffix: " °C" };
  if (name.endsWith("_watts")) return { size: 1, suffix: " W" };
  if (name.endsWith("_mhz")) return { size: 1, suffix: " MHz" };
  if (isSeconds(name)) {
    if (magnitude > 0 && magnitude < 1e-3) return { size: 1e-6, suffix: " µs" };
    return magnitude > 0 && magnitude < 1 ? { size: 1e-3, suffix: " ms" } : { size: 1, suffix: " s" };
  }
  return NONE;
}

const isPercent = (name: string) => name.endsWith("percent") || name.endsWith(".utilization");

/** Between what a metric can be, as its name tells; null where it does not. */
export function limitsOf(name: string): [number, number] | null {
  if (isPercent(name)) return [0, 100];
  return /(^|[/_.])(accuracy|precision|recall|f1|auc)$/.test(name) ? [0, 1] : null;
}

/** The smallest of 1, 2 and 5 times a power of ten that is not below `least`. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const digit of [1, 2, 5, 10]) if (digit * power >= least * (1 - 1e-9)) return digit * power;
  return 10 * power;
}

/** Multiples of `step` from `low` to `high`. */
function multiples(low: number, high: number, step: number): number[] {
  const ticks: number[] = [];
  const last = Math.floor(high / step + 1e-6);
  for (let i = Math.ceil(low / step - 1e-6); i <= last && ticks.length < 100; i++) ticks.push(Number((i * step).toPrecision(15)));
  return ticks;
}

/** A number with exactly so many decimals. */
export function fixed(value: number, decimals: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const text = value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return text.replace(/^-(?=[\d.,]*[1-9])/, "−").replace(/^-/, "");
}

/** Numbers that stand beside each other, one step apart, as texts that can be told apart. */
function written(ticks: number[], step: number): string[] {
  const largest = ticks.reduce((most, tick) => Math.max(most, Math.abs(tick)), 0);
  if (largest >= 1e6 || (largest > 0 && largest < 1e-3)) {
    const digits = Math.max(0, Math.min(14, Math.floor(Math.log10(largest) + 1e-9) - Math.floor(Math.log10(step) + 1e-9)));
    return ticks.map((tick) => (tick === 0 ? "0" : tick.toExponential(digits).replace("e+", "e").replace("e-", "e−").replace(/^-/, "−")));
  }
  const decimals = Math.max(0, Math.min(14, -Math.floor(Math.log10(step) + 1e-9)));
  return ticks.map((tick) => (tick === 0 ? "0" : fixed(tick, decimals)));
}

/** At most `most` ticks of an axis of values, all in the same unit. `flat`: the only value there is. */
export function valueTicks(name: string, low: number, high: number, most: number, flat: number | null = null): Ticks {
  const unit = unitOf(name, Math.max(Math.abs(low), Math.abs(high)));
  if (flat !== null) return { at: [flat], labels: [significant(flat / unit.size, 4) + unit.suffix] };
  const step = roundStep((high - low) / unit.size / Math.max(1, most));
  if (!Number.isFinite(step) || step <= 0) return { at: [], labels: [] };
  const ticks = multiples(low / unit.size, high / unit.size, step);
  return { at: ticks.map((tick) => tick * unit.size), labels: written(ticks, step).map((text) => text + unit.suffix) };
}

function significant(value: number, digits: number): string {
  if (value === 0 || !Number.isFinite(value)) return fixed(value, 0);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 2).replace(/\.?0+e/, "e").replace("e+", "e").replace("e-", "e−").replace(/^-/, "−");
  return Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 8 }).replace(/^-/, "−");
}

/** At most `most` round numbers of a logarithmic axis: 1, 2 and 5 times powers of ten, or powers alone; within less than that,
 * multiples of a round step. */
export function logTicks(low: number, high: number, most: number): number[] {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  if (!Number.isFinite(first) || !Number.isFinite(last)) return [];
  for (const digits of [[1, 2, 5], [1]]) {
    const every = digits.length > 1 ? 1 : Math.max(1, Math.ceil((last - first) / most));
    const ticks: number[] = [];
    for (let power = first; power <= last; power += every)
      for (const digit of digits) ticks.push(Number(`${digit}e${power}`));
    const shown = ticks.filter((tick) => tick >= low && tick <= high);
    if (shown.length >= 2 && shown.length <= most) return shown;
  }
  return multiples(low, high, roundStep((high - low) / Math.max(2, most)));
}

export function logValueTicks(name: string, low: number, high: number, most: number, flat: number | null = null): Ticks {
  if (flat !== null) return valueTicks(name, low, high, most, flat);
  const at = logTicks(low, high, most);
  return { at, labels: at.map((tick) => {
    const unit = unitOf(name, tick);
    return significant(tick / unit.size, 6) + unit.suffix;
  }) };
}

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Seconds since the start, in the largest unit of which the step is a multiple. */
export function timeTicks(low: number, high: number, most: number): Ticks {
  const least = (high - low) / Math.max(1, most);
  const step = least < 1 ? roundStep(least) : (TIMES.find((time) => time >= least * (1 - 1e-9)) ?? 86400 * roundStep(least / 86400));
  if (!Number.isFinite(step) || step <= 0) return { at: [], labels: [] };
  const [size, suffix] = step >= 86400 ? [86400, " d"] : step >= 3600 ? [3600, " h"] : step >= 60 ? [60, " min"] : [1, " s"];
  const at = multiples(low, high, step);
  return { at, labels: written(at.map((tick) => tick / size), step / size).map((text) => (text === "0" ? "0" : text + suffix)) };
}

/** Ticks of steps or epochs: whole numbers of steps; thousands as 10k. */
export function placeTicks(low: number, high: number, most: number, whole: boolean): Ticks {
  const least = roundStep((high - low) / Math.max(1, most));
  if (!Number.isFinite(least) || least <= 0) return { at: [], labels: [] };
  const step = whole ? Math.max(1, least) : least;
  const at = multiples(low, high, step);
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const [size, suffix] = largest >= 1e6 ? [1e6, "M"] : largest >= 1e4 ? [1e3, "k"] : [1, ""];
  return { at, labels: written(at.map((tick) => tick / size), step / size).map((text) => (text === "0" ? "0" : text + suffix)) };
}

/** How the values of a metric that stand in one column are written: in one unit, with equal decimals. What would have lost its
 * digits by that is null. */
export function columnFormat(name: string, values: readonly number[], digits = 4): (value: number) => string | null {
  const sizes = values.filter((value) => Number.isFinite(value) && value !== 0).map(Math.abs).sort((a, b) => a - b);
  const typical = sizes[Math.floor(sizes.length / 2)];
  if (typical === undefined) return () => null;
  const unit = unitOf(name, typical);
  if (typical / unit.size >= 1e6) return () => null;
  const scaled = sizes.map((size) => size / unit.size);
  const decimals = scaled.every(Number.isInteger) ? 0 : Math.max(0, Math.min(6, digits - 1 - Math.floor(Math.log10(typical / unit.size))));
  return (value) => {
    const size = Math.abs(value) / unit.size;
    if (!Number.isFinite(value) || (size !== 0 && (size < 9.5 * 10 ** -decimals && !Number.isInteger(size) || size >= 1e6))) return null;
    return fixed(value / unit.size, decimals) + unit.suffix;
  };
}

/** How the numbers of one configuration key are written: as many decimals as the longest needs, of at most four digits each.
 * What needs a power of ten is written by itself. */
export function settingFormat(values: readonly number[]): (value: number) => string {
  const needed = (value: number) => /\.(\d+)$/.exec(plainDigits(value))?.[1]?.length ?? 0;
  const alone = (value: number) => !Number.isFinite(value) || /e/.test(plainDigits(value)) || (value !== 0 && Math.abs(value) < 1e-4);
  const decimals = values.filter((value) => !alone(value)).reduce((most, value) => Math.max(most, needed(value)), 0);
  return (value) => (decimals > 5 || alone(value) ? significant(value, 4) : Number.isInteger(value) && decimals === 0 ? value.toString() : fixed(value, decimals).replaceAll(",", ""));
}

function plainDigits(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}
