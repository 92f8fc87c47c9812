// Formats values for display.

/** A number from JSON, which represents non-finite numbers as strings. */
export function toNumber(value: unknown): number {
  if (typeof value === "number") return value;
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return NaN;
}

/** A number as the server sends it: JSON cannot represent NaN and infinities. */
export type WireNumber = number | "nan" | "inf" | "-inf";

/** With `digits` decimals. */
export function fixed(wire: WireNumber, digits: number): string {
  const value = toNumber(wire);
  return Number.isFinite(value) ? value.toFixed(digits) : number(value);
}

export function number(value: number, digits = 4): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return minus(value.toLocaleString("en-US"));
  if (size >= 1e6 || size < 1e-4) return minus(value.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e").replace("e+", "e"));
  if (size >= 1000) return minus(value.toLocaleString("en-US", { maximumFractionDigits: Math.max(1, digits - 4) }));
  return minus(String(Number(value.toPrecision(digits))));
}

function minus(text: string): string {
  return text.replace(/^-/, "−").replace("e-", "e−");
}

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
export function bytes(value: number, digits = 3): string {
  if (!Number.isFinite(value)) return number(value);
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 1024 && unit < BYTES.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${value < 0 ? "−" : ""}${Number.isInteger(size) ? size : Number(size.toPrecision(digits))} ${BYTES[unit]}`;
}

export const isBytes = (name: string) => /_bytes(_per_s)?$/.test(name);
/** Including the phases of a step that the trainer measures. */
export const isSeconds = (name: string) => (name.endsWith("_s") && !name.endsWith("per_s")) || /^time\/(step|data_wait|forward|backward|communication|optimizer)(\/(min|median|max))?$/.test(name);

/** A file size with a fixed number of decimals. */
export function fileSize(size: number): string {
  const power = size >= 1 ? Math.min(BYTES.length - 1, Math.floor(Math.log2(size) / 10)) : 0;
  return `${(size / 1024 ** power).toFixed(power > 0 ? 1 : 0)} ${BYTES[power]}`;
}

/** A value of a metric, in the unit implied by its name. */
export function metricValue(name: string, value: number, digits = 4): string {
  if (name.endsWith("_bytes_per_s")) return `${bytes(value, Math.max(3, digits - 1))}/s`;
  if (name.endsWith("_bytes")) return bytes(value, Math.max(3, digits - 1));
  if (name.endsWith("percent") || name.endsWith(".utilization")) return `${number(value, digits)} %`;
  if (name.endsWith("_celsius")) return `${number(value, digits)} °C`;
  if (name.endsWith("_watts")) return `${number(value, digits)} W`;
  if (name.endsWith("_mhz")) return `${number(value, digits)} MHz`;
  if (isSeconds(name)) return seconds(value, digits);
  return number(value, digits);
}

function seconds(value: number, digits: number): string {
  if (!Number.isFinite(value)) return number(value);
  const size = Math.abs(value);
  if (size > 0 && size < 1e-3) return `${number(value * 1e6, Math.max(3, digits - 1))} µs`;
  if (size > 0 && size < 1) return `${number(value * 1e3, digits)} ms`;
  return `${number(value, digits)} s`;
}

export function duration(wire: WireNumber): string {
  const s = toNumber(wire);
  if (!Number.isFinite(s) || s < 0) return "–";
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(s % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** An estimated duration in seconds. */
export function approximateDuration(s: number): string {
  if (s < 60) return `${Math.max(1, Math.round(s))} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(1)} d`;
}

export function ago(wire: WireNumber, now: number): string {
  const unix = toNumber(wire);
  const s = now - unix;
  if (!Number.isFinite(s)) return "–";
  if (s < 45) return "just now";
  if (s < 3600) return `${Math.max(1, Math.round(s / 60))} min ago`;
  if (s < 86400) return `${Math.round(s / 3600)} h ago`;
  if (s < 86400 * 30) return `${Math.round(s / 86400)} d ago`;
  return day(unix);
}

const pad = (n: number) => String(n).padStart(2, "0");
export function day(unix: WireNumber): string {
  const d = new Date(toNumber(unix) * 1000);
  return Number.isNaN(d.getTime()) ? "–" : `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
}
export function clock(unix: WireNumber): string {
  const d = new Date(toNumber(unix) * 1000);
  return Number.isNaN(d.getTime()) ? "–" : `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}
export const moment = (unix: WireNumber) => `${day(unix)} ${clock(unix)}`;

const SIGNALS: Record<number, string> = {
  1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
};
export const signalName = (signal: number) => SIGNALS[signal] ?? `signal ${signal}`;

/** Any value of a configuration or a table as one line. */
export function plain(value: unknown): string {
  if (value === null) return "null";
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(12)));
  return JSON.stringify(value);
}

export const plural = (n: number, one: string, many = `${one}s`) => `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;
