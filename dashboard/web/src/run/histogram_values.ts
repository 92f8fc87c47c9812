// Computations on histograms over time: their order, shares on a common grid, quantiles, and the columns of a step axis.
import type { HistogramItem } from "../data/source";

/** By step; of several with the same step, which a resumed run records, the last. */
export function byStep(items: readonly HistogramItem[]): HistogramItem[] {
  return [...new Map(items.map((item) => [item.step, item])).values()].sort((a, b) => a.step - b.step);
}

/** The smallest and the largest edge; slightly apart if all values are equal. */
export function spanOf(items: readonly HistogramItem[]): [number, number] {
  const low = items.reduce((least, { edges }) => Math.min(least, edges[0] ?? Infinity), Infinity);
  const high = items.reduce((most, { edges }) => Math.max(most, edges[edges.length - 1] ?? -Infinity), -Infinity);
  if (!(low <= high)) return [0, 1];
  return low < high ? [low, high] : [low - 0.5, high + 0.5];
}

export const totalOf = ({ counts }: HistogramItem) => counts.reduce((sum, count) => sum + count, 0);

/** The share of the values in each of `rows` equal ranges, the smallest values first. Bins that overlap in part count in proportion. */
export function sharesOf(item: HistogramItem, [low, high]: [number, number], rows: number): Float64Array {
  const shares = new Float64Array(rows);
  const total = totalOf(item) || 1;
  const toRow = (value: number) => ((value - low) / (high - low)) * rows;
  item.counts.forEach((count, i) => {
    const [a, b] = [toRow(item.edges[i]!), toRow(item.edges[i + 1]!)];
    if (b - a < 1e-9) {
      shares[Math.min(rows - 1, Math.max(0, Math.floor(a)))]! += count / total;
      return;
    }
    for (let row = Math.max(0, Math.floor(a)); row < Math.min(rows, b); row++)
      shares[row]! += (count * Math.max(0, Math.min(b, row + 1) - Math.max(a, row))) / (b - a) / total;
  });
  return shares;
}

/** The value below which a fraction of all values is, with equal density inside of a bin; NaN if the histogram is empty. */
export function quantileOf(item: HistogramItem, fraction: number): number {
  const wanted = fraction * totalOf(item);
  let sum = 0;
  for (let i = 0; i < item.counts.length; i++) {
    const count = item.counts[i]!;
    if (count > 0 && sum + count >= wanted) return item.edges[i]! + (item.edges[i + 1]! - item.edges[i]!) * ((wanted - sum) / count);
    sum += count;
  }
  return NaN;
}

/** The bin that contains a value; -1: none. The last bin includes its upper edge. */
export function binAt({ edges, counts }: HistogramItem, value: number): number {
  for (let i = 0; i < counts.length; i++) if (value >= edges[i]! && (value < edges[i + 1]! || (i === counts.length - 1 && value === edges[i + 1]))) return i;
  return -1;
}

/** Where one step ends and the next begins on a step axis: halfway. One more than there are steps. */
export function stepEdges(steps: readonly number[]): number[] {
  const n = steps.length;
  if (n < 2) return [(steps[0] ?? 0) - 0.5, (steps[0] ?? 0) + 0.5];
  const middles = steps.slice(1).map((step, i) => (step + steps[i]!) / 2);
  return [2 * steps[0]! - middles[0]!, ...middles, 2 * steps[n - 1]! - middles[n - 2]!];
}

/** The index of the part that contains `at`; `edges` ascend. */
export function partAt(edges: readonly number[], at: number): number {
  let part = 0;
  while (part < edges.length - 2 && at >= edges[part + 1]!) part++;
  return part;
}

/** At most `most` of `count` indices at even distances, with the first and the last. */
export function thinned(count: number, most: number): number[] {
  const shown = Math.min(count, most);
  return Array.from({ length: shown }, (_, i) => (shown < 2 ? count - 1 : Math.round((i * (count - 1)) / (shown - 1))));
}

/** The share at which a color scale ends: the 98th percentile of the shares, so that a single peak does not dominate it. */
export function largestShare(shares: readonly Float64Array[]): number {
  const sorted = shares.flatMap((row) => Array.from(row)).filter((share) => share > 0).sort((a, b) => a - b);
  return sorted[Math.floor(0.98 * (sorted.length - 1))] ?? 1;
}

/** The place on the color scale, from 0 to 1, of a positive share; `fraction`: of the largest share, from which on it is 1. Small shares are
 * farther apart, and the smallest differ from the background. */
export const shadeOf = (fraction: number): number => 0.08 + 0.92 * Math.sqrt(Math.min(1, fraction));
