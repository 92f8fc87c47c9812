// Colors and dashes of lines.
export type Theme = "light" | "dark";

/** Ten hues that are distinguishable with the common kinds of color blindness. */
export const HUES: Record<Theme, readonly string[]> = {
  light: ["#2667b0", "#cf5a0a", "#0f8468", "#b0306f", "#80690a", "#5a4bb8", "#1c93bb", "#9b3a1e", "#5e646b", "#5c7a16"],
  dark: ["#74aef0", "#f79a55", "#43c8a5", "#ef80b6", "#dcbf45", "#a99cf7", "#69cfee", "#e58467", "#b4bac1", "#a9c85a"],
};
export const DASHES: readonly (readonly number[])[] = [[], [8, 4], [2, 3], [12, 3, 2, 3], [5, 2, 1, 2, 1, 2]];

const RAMP: Record<Theme, readonly string[]> = {
  light: ["#c98a00", "#cf5a0a", "#b0306f", "#6a3fa8", "#16245e"],
  dark: ["#4f6bd8", "#a678ee", "#ef80b6", "#f79a55", "#f5e27a"],
};

export interface Style { color: string; dash: number[] }

/** The hue and dash of the line at an index; the first 50 are distinct. */
export function styleAt(index: number, theme: Theme): Style {
  const hues = HUES[theme];
  return { color: hues[index % hues.length]!, dash: [...DASHES[Math.floor(index / hues.length) % DASHES.length]!] };
}

const parts = (color: string) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));

/** The color for a fraction from 0 (minimum) to 1 (maximum). */
export function rampColor(fraction: number, theme: Theme): string {
  const stops = RAMP[theme];
  const at = Math.min(1, Math.max(0, fraction)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  const [a, b] = [parts(stops[i]!), parts(stops[i + 1]!)];
  return `#${a.map((value, k) => Math.round(value + (b[k]! - value) * (at - i)).toString(16).padStart(2, "0")).join("")}`;
}

export interface KeyColors {
  /** One per value. */
  colors: string[];
  /** For numbers; null: one hue per value. */
  ramp: { low: number; high: number; log: boolean } | null;
}

const MISSING: Record<Theme, string> = { light: "#8b9197", dark: "#7b838b" };

/** Colors by the values of a configuration key: a ramp for numbers, hues for other values. */
export function keyColors(values: readonly unknown[], theme: Theme): KeyColors {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length > 0 && known.every((value) => typeof value === "number")) {
    const low = Math.min(...known);
    const high = Math.max(...known);
    const log = low > 0 && high / low >= 20;
    const fraction = (value: number) => (low === high ? 0.5 : log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
    return { colors: values.map((value) => (typeof value === "number" ? rampColor(fraction(value), theme) : MISSING[theme])), ramp: { low, high, log } };
  }
  const names = [...new Set(known.map((value) => JSON.stringify(value)))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return { colors: values.map((value) => (value === null || value === undefined ? MISSING[theme] : styleAt(names.indexOf(JSON.stringify(value)), theme).color)), ramp: null };
}
