// What the name of a metric implies: its section, its sort order, and whether higher or lower is better.
import { metricValue, number, toNumber } from "./format";

/** Evaluation results first, then training metrics, then system metrics. */
const FIRST = ["eval", "test", "val", "train"];
const LAST = ["time", "data", "rank", "system"];

export function sectionOrder(section: string): number {
  const head = section.split("/")[0]!;
  if (FIRST.includes(head)) return FIRST.indexOf(head);
  return LAST.includes(head) ? 100 + LAST.indexOf(head) : 50;
}

/** The order of results: accuracy and loss of evaluations, the training loss, then other results of evaluations. */
export function resultOrder(name: string): number {
  const order = ["eval/accuracy", "eval/loss", "train/loss"].indexOf(name);
  if (order >= 0) return order;
  return /^(eval|test|val)\//.test(name) ? 3 : /per_s$/.test(name) ? 4 : 5;
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

/** A difference from the baseline. `percent` is null if it has no meaning, as with a baseline of 0; `tone`: whether it is an improvement. */
export interface Delta { absolute: string; percent: string | null; tone: "good" | "bad" | "dim" }

/** The difference of a value of a metric (or, with an empty name, of a setting) from that of the baseline; null if there is none. */
export function deltaOf(name: string, value: number, base: number): Delta | null {
  if (!Number.isFinite(value) || !Number.isFinite(base) || value === base) return null;
  const off = value - base;
  const share = base !== 0 ? Math.abs(off / base) : Infinity;
  const sign = off > 0 ? "+" : "−";
  const better = betterDirection(name);
  return {
    absolute: `${sign}${metricValue(name, Math.abs(off), 3)}`,
    percent: share < 10 ? `${sign}${number(100 * share, 3)} %` : null,
    tone: !better ? "dim" : (off > 0) === (better === "higher") ? "good" : "bad",
  };
}

interface Totals { min: unknown; max: unknown; count: number; num_nan: number }

/** The value of a metric that never changed, or null. `minCount`: how many values are required. */
export function constantValue(all: readonly (Totals | null)[], minCount = 2): number | null {
  const existing = all.filter((totals): totals is Totals => totals !== null);
  const value = toNumber(existing[0]?.min);
  if (!Number.isFinite(value) || existing.some((t) => t.num_nan > 0 || toNumber(t.min) !== value || toNumber(t.max) !== value)) return null;
  return existing.some((t) => t.count >= minCount) ? value : null;
}

/** What gainWithout() needs of the main rank, by step. */
export const STEP_TIMES = ["time/step/median", "time/slowest_rank", "time/slowest_rank_s", "time/other_ranks_s"] as const;

/** Mean seconds per step, and how many there would be without a rank. `isBound`: it would be at least that many. */
export interface Gain { step: number; without: number; isBound: boolean }

/** In each step, the others wait for what the rank takes longer than the slowest of them. `own`: the seconds of each rank, by rank and step;
 *  without them, only the median of the others is known, which the slowest of them reaches if there is one other. Null if nothing is known. */
export function gainWithout(rank: number, times: readonly ReadonlyMap<number, number>[], numRanks: number, own: ReadonlyMap<number, ReadonlyMap<number, number>> | null): Gain | null {
  const [whole, slowest, seconds, medians] = times;
  const mine = own?.size === numRanks ? own.get(rank) : undefined;
  const others = mine ? [...own!].filter(([other]) => other !== rank).map(([, values]) => values) : [];
  const excessAt = (at: number): number => {
    if (mine) return Math.max(0, mine.get(at)! - others.reduce((most, values) => Math.max(most, values.get(at) ?? NaN), -Infinity));
    const excess = seconds!.get(at)! - medians!.get(at)!;
    return slowest!.get(at) === rank || Number.isNaN(excess) ? excess : 0;
  };
  let step = 0, lost = 0, count = 0;
  for (const [at, duration] of whole ?? []) {
    const excess = excessAt(at);
    if (!Number.isFinite(excess)) continue;
    count++;
    step += duration;
    lost += Math.min(excess, duration);
  }
  return count > 0 ? { step: step / count, without: (step - lost) / count, isBound: !mine && numRanks > 2 } : null;
}
