// What the name of a metric implies: its section, its sort order, and whether higher or lower is better.
import { toNumber } from "./format";

/** Evaluation results first, then training metrics, then system metrics. */
const FIRST = ["eval", "test", "val", "train"];
const LAST = ["time", "data", "rank", "system"];

export function sectionOrder(section: string): number {
  const head = section.split("/")[0]!;
  if (FIRST.includes(head)) return FIRST.indexOf(head);
  return LAST.includes(head) ? 100 + LAST.indexOf(head) : 50;
}

export const sectionOf = (name: string) => name.slice(0, Math.max(0, name.lastIndexOf("/")));

export function compareMetrics(a: string, b: string): number {
  return sectionOrder(sectionOf(a)) - sectionOrder(sectionOf(b)) || a.localeCompare(b, "en", { numeric: true });
}

/** Which values are better, or null if unknown or a system metric. */
export function betterDirection(name: string): "lower" | "higher" | null {
  if (sectionOrder(sectionOf(name)) >= 100) return null;
  if (/loss|error|perplexity|time_s$/.test(name)) return "lower";
  return /accuracy|precision|recall|f1|auc|per_s$/.test(name) ? "higher" : null;
}

/** Index of the best number; -1 if there is none, or if all are equal. */
export function indexOfBest(name: string, numbers: readonly number[]): number {
  const direction = betterDirection(name);
  const finite = numbers.filter(Number.isFinite);
  if (!direction || new Set(finite).size < 2) return -1;
  return numbers.indexOf(direction === "lower" ? Math.min(...finite) : Math.max(...finite));
}

interface Totals { min: unknown; max: unknown; count: number; num_nan: number }

/** The value of a metric that never changed, or null. `minCount`: how many values are required. */
export function constantValue(all: readonly (Totals | null)[], minCount = 2): number | null {
  const existing = all.filter((totals): totals is Totals => totals !== null);
  const value = toNumber(existing[0]?.min);
  if (!Number.isFinite(value) || existing.some((t) => t.num_nan > 0 || toNumber(t.min) !== value || toNumber(t.max) !== value)) return null;
  return existing.some((t) => t.count >= minCount) ? value : null;
}
