// What the name of a metric tells: where it belongs, and whether more or less of it is better.
import { toNumber } from "./format";

/** Results first, then how training went, then the machine. */
const ORDER = ["eval", "test", "val", "train"];
const LAST = ["time", "data", "rank", "system"];

export function sectionPlace(section: string): number {
  const head = section.split("/")[0]!;
  if (ORDER.includes(head)) return ORDER.indexOf(head);
  return LAST.includes(head) ? 100 + LAST.indexOf(head) : 50;
}

export const sectionOf = (name: string) => name.slice(0, Math.max(0, name.lastIndexOf("/")));

export function byPlace(a: string, b: string): number {
  return sectionPlace(sectionOf(a)) - sectionPlace(sectionOf(b)) || a.localeCompare(b, "en", { numeric: true });
}

/** "less", "more", or null where the name does not tell, or where it is about the machine. */
export function better(name: string): "less" | "more" | null {
  if (sectionPlace(sectionOf(name)) >= 100) return null;
  if (/loss|error|perplexity|time_s$/.test(name)) return "less";
  return /accuracy|precision|recall|f1|auc|per_s$/.test(name) ? "more" : null;
}

/** Place of the best of the numbers; -1 where there is none, or where all are the same. */
export function bestOf(name: string, numbers: readonly number[]): number {
  const way = better(name);
  const finite = numbers.filter(Number.isFinite);
  if (!way || new Set(finite).size < 2) return -1;
  return numbers.indexOf(way === "less" ? Math.min(...finite) : Math.max(...finite));
}

interface Totals { min: unknown; max: unknown; count: number; num_nan: number }

/** The value that a metric always had; null when it changed. `least`: how many values it takes to say so. */
export function constantOf(all: readonly (Totals | null)[], least = 2): number | null {
  const there = all.filter((totals): totals is Totals => totals !== null);
  const value = toNumber(there[0]?.min);
  if (!Number.isFinite(value) || there.some((t) => t.num_nan > 0 || toNumber(t.min) !== value || toNumber(t.max) !== value)) return null;
  return there.some((t) => t.count >= least) ? value : null;
}
