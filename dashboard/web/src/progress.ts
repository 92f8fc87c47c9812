// The progress of a run, and its estimated remaining time.
import type { WireNumber } from "./format";

export interface Planned { steps: number | null; epochs: number | null }
export interface Progress {
  /** 0 to 1. */
  fraction: number;
  /** The unit of `done` and `total`. */
  unit: "step" | "epoch";
  done: number;
  total: number;
}

interface Position { planned?: Planned | null; step: number | null; epoch: WireNumber | null }

const isPositive = (value: number | null | undefined): value is number => typeof value === "number" && Number.isFinite(value) && value > 0;

/** Null if the planned length is unknown. The run ends at whichever limit it reaches first. */
export function progressOf({ planned, step, epoch }: Position): Progress | null {
  const kinds: Progress[] = [];
  if (isPositive(planned?.steps) && typeof step === "number") kinds.push({ fraction: Math.min(1, step / planned.steps), unit: "step", done: step, total: planned.steps });
  if (isPositive(planned?.epochs) && typeof epoch === "number" && Number.isFinite(epoch)) kinds.push({ fraction: Math.min(1, epoch / planned.epochs), unit: "epoch", done: epoch, total: planned.epochs });
  if (kinds.length === 0) return null;
  return kinds.reduce((furthest, kind) => (kind.fraction > furthest.fraction + 0.02 ? kind : furthest));
}

interface Observation { time: number; fraction: number; rate: number | null }

const TIME_CONSTANT_S = 60;

/** Observed progress per second of each run, as an exponential moving average. */
export class Rates {
  private observations = new Map<string, Observation>();

  /** Reports that the run had completed `fraction` at `time` (seconds). */
  observe(id: string, fraction: number, time: number) {
    const before = this.observations.get(id);
    if (!before || fraction < before.fraction || time < before.time) return void this.observations.set(id, { time, fraction, rate: null });
    const passed = time - before.time;
    if (passed < 1 || fraction === before.fraction) return;
    const now = (fraction - before.fraction) / passed;
    const weight = before.rate === null ? 0 : Math.exp(-passed / TIME_CONSTANT_S);
    this.observations.set(id, { time, fraction, rate: now * (1 - weight) + (before.rate ?? 0) * weight });
  }

  /** The remaining seconds at `now`. Without observations, extrapolates from the start of the run. */
  remaining(id: string, fraction: number, now: number, created: number, updated: number): number | null {
    const observed = this.observations.get(id);
    const rate = observed?.rate ?? (updated > created ? fraction / (updated - created) : 0);
    if (!(rate > 0) || fraction <= 0) return null;
    return Math.max(0, (1 - fraction) / rate - Math.max(0, Math.min(now - updated, TIME_CONSTANT_S)));
  }
}
