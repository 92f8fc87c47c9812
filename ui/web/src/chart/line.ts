// What a chart draws, and the arithmetic on it.

/** One of the curves behind a band. */
export interface Who { run: string; source: string; label: string }

/** One curve. Where values were thinned out, lo and hi are the extremes that the points stand for. */
export interface Line {
  key: string;
  label: string;
  colour: string;
  dash?: number[];
  width?: number;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  lo?: ArrayLike<number>;
  hi?: ArrayLike<number>;
  /** A band that is not thinning but meaning, e.g. over ranks: filled. */
  band?: { lo: ArrayLike<number>; hi: ArrayLike<number>; name: string };
  /** Who has the smallest and the largest value at a point, and the spread there: told on hovering, opened by a click. */
  extremes?: { lo: ArrayLike<number>; hi: ArrayLike<number>; who: (at: number, end: "lo" | "hi") => Who | null; deviation: ArrayLike<number> };
  /** Where given, y is smoothed and this is what was logged. */
  raw?: ArrayLike<number>;
}

/** An exponential moving average that starts without a bias; NaN leaves a gap and is not part of it. */
export function smooth(y: ArrayLike<number>, weight: number): Float64Array {
  const out = new Float64Array(y.length);
  let sum = 0;
  let mass = 0;
  for (let i = 0; i < y.length; i++) {
    const value = y[i]!;
    if (!Number.isFinite(value)) {
      out[i] = value;
      continue;
    }
    sum = sum * weight + value * (1 - weight);
    mass = mass * weight + (1 - weight);
    out[i] = sum / mass;
  }
  return out;
}

/** Index of the x nearest to `at`, or -1; x ascends. */
export function nearest(x: ArrayLike<number>, at: number): number {
  const n = x.length;
  if (n === 0) return -1;
  let low = 0;
  let high = n - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! < at) low = middle + 1;
    else high = middle;
  }
  return low > 0 && at - x[low - 1]! <= x[low]! - at ? low - 1 : low;
}

/** The range of x over all lines; null without any point. */
export function extentX(lines: readonly Line[]): [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  for (const { x } of lines) {
    if (x.length === 0) continue;
    low = Math.min(low, x[0]!);
    high = Math.max(high, x[x.length - 1]!);
  }
  return low <= high ? [low, high] : null;
}

/** At most `most` round numbers of a logarithmic axis: 1, 2 and 5 times powers of ten, or powers alone; of a range that has
 * none of them, numbers at equal distances. */
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
  const parts = Math.max(2, Math.min(4, most));
  return Array.from({ length: parts }, (_, i) => Number((low + ((i + 0.5) * (high - low)) / parts).toPrecision(4)));
}

/** The range of what is drawn between two x, a little wider; positive values only on a logarithmic scale. */
export function extentY(lines: readonly Line[], x0: number, x1: number, log: boolean): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const line of lines) {
    const { x, y } = line;
    const lo = line.band?.lo ?? line.lo ?? line.raw ?? y;
    const hi = line.band?.hi ?? line.hi ?? line.raw ?? y;
    for (let i = 0; i < x.length; i++) {
      if (x[i]! < x0 || x[i]! > x1) continue;
      for (const v of [lo[i]!, hi[i]!, y[i]!]) {
        if (!Number.isFinite(v) || (log && v <= 0)) continue;
        if (v < low) low = v;
        if (v > high) high = v;
      }
    }
  }
  if (low > high) return log ? [0.1, 1] : [0, 1];
  if (log) {
    if (low === high) return [low / 2, high * 2];
    const pad = (high / low) ** 0.05;
    return [low / pad, high * pad];
  }
  if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high))) {
    const pad = Math.abs(low) * 0.1 || 1;
    return [low === 0 ? 0 : low - pad, high + pad];
  }
  const pad = (high - low) * 0.06;
  return [low >= 0 && low - pad < 0 ? 0 : low - pad, high + pad];
}
