// Axis ticks and consistent number formats: round values, one unit, equal decimals.
import { isSeconds } from "../format";

export interface Ticks { at: number[]; labels: string[] }
export interface Unit { size: number; suffix: string }

const NONE: Unit = { size: 1, suffix: "" };
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** The unit for values of a metric of the magnitude of `value`; the metric name implies the kind. */
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

/** The limits of a metric, if implied by its name; else null. */
export function limitsOf(name: string): [number, number] | null {
  if (isPercent(name)) return [0, 100];
  return /(^|[/_.])(accuracy|precision|recall|f1|auc)$/.test(name) ? [0, 1] : null;
}

/** The smallest of 1, 2 and 5 times a power of ten that is at least `min`. */
export function roundStep(min: number): number {
  const power = 10 ** Math.floor(Math.log10(min));
  for (const digit of [1, 2, 5, 10]) if (digit * power >= min * (1 - 1e-9)) return digit * power;
  return 10 * power;
}

/** Multiples of `step` from `low` to `high`. */
function multiples(low: number, high: number, step: number): number[] {
  const ticks: number[] = [];
  const last = Math.floor(high / step + 1e-6);
  for (let i = Math.ceil(low / step - 1e-6); i <= last && ticks.length < 100; i++) ticks.push(Number((i * step).toPrecision(15)));
  return ticks;
}

/** A number with exactly `decimals` decimals. */
export function fixed(value: number, decimals: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const text = value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return text.replace(/^-(?=[\d.,]*[1-9])/, "−").replace(/^-/, "");
}

/** Formats ticks that are one step apart such that their labels are distinct. */
function formatTicks(ticks: number[], step: number): string[] {
  const largest = ticks.reduce((most, tick) => Math.max(most, Math.abs(tick)), 0);
  if (largest >= 1e6 || (largest > 0 && largest < 1e-3)) {
    const digits = Math.max(0, Math.min(14, Math.floor(Math.log10(largest) + 1e-9) - Math.floor(Math.log10(step) + 1e-9)));
    return ticks.map((tick) => (tick === 0 ? "0" : tick.toExponential(digits).replace("e+", "e").replace("e-", "e−").replace(/^-/, "−")));
  }
  const decimals = Math.max(0, Math.min(14, -Math.floor(Math.log10(step) + 1e-9)));
  return ticks.map((tick) => (tick === 0 ? "0" : fixed(tick, decimals)));
}

/** At most `maxTicks` ticks of a value axis in one unit. `flat`: the only value. */
export function valueTicks(name: string, low: number, high: number, maxTicks: number, flat: number | null = null): Ticks {
  const unit = unitOf(name, Math.max(Math.abs(low), Math.abs(high)));
  if (flat !== null) return { at: [flat], labels: [significant(flat / unit.size, 4) + unit.suffix] };
  const step = roundStep((high - low) / unit.size / Math.max(1, maxTicks));
  if (!Number.isFinite(step) || step <= 0) return { at: [], labels: [] };
  const ticks = multiples(low / unit.size, high / unit.size, step);
  return { at: ticks.map((tick) => tick * unit.size), labels: formatTicks(ticks, step).map((text) => text + unit.suffix) };
}

function significant(value: number, digits: number): string {
  if (value === 0 || !Number.isFinite(value)) return fixed(value, 0);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 2).replace(/\.?0+e/, "e").replace("e+", "e").replace("e-", "e−").replace(/^-/, "−");
  return Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 8 }).replace(/^-/, "−");
}

/** At most `maxTicks` round ticks of a logarithmic axis: 1, 2 and 5 times powers of ten, or only powers of ten; within a decade,
 * multiples of a round step. */
export function logTicks(low: number, high: number, maxTicks: number): number[] {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  if (!Number.isFinite(first) || !Number.isFinite(last)) return [];
  const most = Math.max(2, maxTicks);
  const ticksOf = (digits: number[]) => Array.from({ length: last - first + 1 }, (_, i) => digits.map((digit) => Number(`${digit}e${first + i}`))).flat().filter((tick) => tick >= low && tick <= high);
  const thinned = (ticks: number[]) => ticks.filter((_, i) => i % Math.ceil(ticks.length / most) === 0);
  const [all, powers] = [ticksOf([1, 2, 5]), ticksOf([1])];
  if (all.length >= 2 && all.length <= most) return all;
  if (powers.length >= 2) return thinned(powers);
  if (all.length >= 2 && high > 10 * low) return thinned(all);
  return multiples(low, high, roundStep((high - low) / Math.max(2, maxTicks)));
}

export function logValueTicks(name: string, low: number, high: number, maxTicks: number, flat: number | null = null): Ticks {
  if (flat !== null) return valueTicks(name, low, high, maxTicks, flat);
  const at = logTicks(low, high, maxTicks);
  return { at, labels: at.map((tick) => {
    const unit = unitOf(name, tick);
    return significant(tick / unit.size, 6) + unit.suffix;
  }) };
}

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Ticks of seconds since start, in the largest unit that divides the step. */
export function timeTicks(low: number, high: number, maxTicks: number): Ticks {
  const minStep = (high - low) / Math.max(1, maxTicks);
  const step = minStep < 1 ? roundStep(minStep) : (TIMES.find((time) => time >= minStep * (1 - 1e-9)) ?? 86400 * roundStep(minStep / 86400));
  if (!Number.isFinite(step) || step <= 0) return { at: [], labels: [] };
  const [size, suffix] = step >= 86400 ? [86400, " d"] : step >= 3600 ? [3600, " h"] : step >= 60 ? [60, " min"] : [1, " s"];
  const at = multiples(low, high, step);
  return { at, labels: formatTicks(at.map((tick) => tick / size), step / size).map((text) => (text === "0" ? "0" : text + suffix)) };
}

/** Ticks of steps or epochs. `whole`: integers only. Thousands are written as 10k. */
export function positionTicks(low: number, high: number, maxTicks: number, whole: boolean): Ticks {
  const minStep = roundStep((high - low) / Math.max(1, maxTicks));
  if (!Number.isFinite(minStep) || minStep <= 0) return { at: [], labels: [] };
  const step = whole ? Math.max(1, minStep) : minStep;
  const at = multiples(low, high, step);
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const [size, suffix] = largest >= 1e6 ? [1e6, "M"] : largest >= 1e4 ? [1e3, "k"] : [1, ""];
  return { at, labels: formatTicks(at.map((tick) => tick / size), step / size).map((text) => (text === "0" ? "0" : text + suffix)) };
}

/** Formats the values of a metric in a column: one unit, equal decimals. Null for a value that would lose significant digits. */
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

/** Formats the numbers of a configuration key with equal decimals and at most four significant digits. Numbers that need an exponent
 * are formatted separately, and large ones if others have decimals. */
export function settingFormat(values: readonly number[]): (value: number) => string {
  const needed = (value: number) => /\.(\d+)$/.exec(plainDigits(value))?.[1]?.length ?? 0;
  const alone = (value: number) => !Number.isFinite(value) || /e/.test(plainDigits(value)) || (value !== 0 && Math.abs(value) < 1e-4);
  const decimals = values.filter((value) => !alone(value)).reduce((most, value) => Math.max(most, needed(value)), 0);
  const isLarge = (value: number) => decimals > 0 && Math.abs(value) >= 1e6;
  return (value) => (decimals > 5 || alone(value) || isLarge(value) ? significant(value, 4) : Number.isInteger(value) && decimals === 0 ? value.toString() : fixed(value, decimals).replaceAll(",", ""));
}

function plainDigits(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}
