// The lines of charts, and computations on them.

/** One of the curves that a band aggregates. */
export interface BandCurve { run: string; source: string; label: string }

/** One curve. If it is downsampled, lo and hi are the extremes that each point represents. */
export interface Line {
  key: string;
  label: string;
  color: string;
  dash?: number[];
  width?: number;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  lo?: ArrayLike<number>;
  hi?: ArrayLike<number>;
  /** A filled band, e.g. the 10th to 90th percentile of ranks. */
  band?: { lo: ArrayLike<number>; hi: ArrayLike<number>; name: string };
  /** The extremes, mean and deviation at each point, and the curves that have the extremes. Shown in the tooltip; a click opens the curve. */
  extremes?: { lo: ArrayLike<number>; hi: ArrayLike<number>; curveAt: (at: number, end: "lo" | "hi") => BandCurve | null; mean: ArrayLike<number>; deviation: ArrayLike<number> };
  /** The logged values, if y is smoothed. */
  raw?: ArrayLike<number>;
  /** The curve of the baseline, which is drawn in the charts of other runs. */
  isBaseline?: boolean;
  /** Drawn for comparison; not part of the data. */
  isReference?: boolean;
}

/** A bias-corrected exponential moving average; NaN leaves a gap and is ignored. */
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

/** Index of the x nearest to `at`, or -1 if empty. x is sorted. */
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

/** The value of a line at the point nearest to x or, of a band, one of its ends; NaN if it has none. */
export function valueAt(line: Line, x: number, end: "lo" | "hi" | null): number {
  const at = nearest(line.x, x);
  return (end === null ? line.y : line.extremes?.[end])?.[at] ?? NaN;
}

/** The next (by = 1) or previous (by = -1) x of any line relative to `at`, between x0 and x1; null if there is none. */
export function neighbor(lines: readonly Line[], by: -1 | 1, at: number, x0: number, x1: number): number | null {
  let found: number | null = null;
  for (const { x } of lines) {
    let low = 0;
    let high = x.length;
    const isBefore = (value: number) => (by > 0 ? value <= at || value < x0 : value < at && value <= x1);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(x[middle]!)) low = middle + 1;
      else high = middle;
    }
    const next = x[by > 0 ? low : low - 1];
    if (next !== undefined && next >= x0 && next <= x1 && (found === null || by * (next - found) < 0)) found = next;
  }
  return found;
}

/** The range of x over all lines; null without points. */
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

/** The points between two x; without any, the two next to them. The first, and the one after the last. */
function pointsBetween(x: ArrayLike<number>, x0: number, x1: number): [number, number] {
  let first = 0;
  while (first < x.length && x[first]! < x0) first++;
  let last = first;
  while (last < x.length && x[last]! <= x1) last++;
  return last > first || first === 0 || first === x.length ? [first, last] : [first - 1, first + 1];
}

/** The minimum and maximum drawn between two x; null without values. On a logarithmic scale, of positive values only. */
export function spanY(lines: readonly Line[], x0: number, x1: number, log: boolean): [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  for (const line of lines) {
    const { x, y } = line;
    const lo = line.extremes?.lo ?? line.band?.lo ?? line.lo ?? line.raw ?? y;
    const hi = line.extremes?.hi ?? line.band?.hi ?? line.hi ?? line.raw ?? y;
    // Of a line without points between both, the ends of the part that crosses.
    const [first, last] = pointsBetween(x, x0, x1);
    for (let i = first; i < last; i++) {
      for (const v of [lo[i]!, hi[i]!, y[i]!]) {
        if (!Number.isFinite(v) || (log && v <= 0)) continue;
        if (v < low) low = v;
        if (v > high) high = v;
      }
    }
  }
  return low <= high ? [low, high] : null;
}

/** The value, if the span contains only one, else null. */
export function flatValue(span: [number, number] | null): number | null {
  return span && span[1] - span[0] <= 1e-9 * Math.max(Math.abs(span[0]), Math.abs(span[1])) ? span[0] : null;
}

/** The range of an axis that shows `span`: slightly wider, but within the limits of the metric. */
export function rangeY(span: [number, number] | null, log: boolean, limits: readonly [number, number] | null): [number, number] {
  if (!span) return log ? [0.1, 1] : [0, 1];
  const [low, high] = span;
  const flat = flatValue(span) !== null;
  if (log) {
    if (flat) return [low / 2, high * 2];
    const pad = (high / low) ** 0.05;
    return [low / pad, high * pad];
  }
  // Centers the line.
  if (flat) return [low - (Math.abs(low) || 1), high + (Math.abs(high) || 1)];
  const pad = (high - low) * 0.06;
  const floor = low >= 0 ? 0 : -Infinity;
  const [min, max] = limits && low >= limits[0] && high <= limits[1] ? limits : [-Infinity, Infinity];
  return [Math.max(low - pad, floor, min), Math.min(high + pad, max)];
}
