// How far a run is, and when it will be done.
import type { Sent } from "./format";

export interface Planned { steps: number | null; epochs: number | null }
export interface Progress {
  /** 0 to 1. */
  part: number;
  /** What is counted. */
  unit: "step" | "epoch";
  done: number;
  of: number;
}

interface Counted { planned?: Planned | null; step: number | null; epoch: Sent | null }

const whole = (value: number | null | undefined): value is number => typeof value === "number" && Number.isFinite(value) && value > 0;

/** Null where nothing says how long the run is going to be. It ends with whichever is reached first. */
export function progressOf({ planned, step, epoch }: Counted): Progress | null {
  const kinds: Progress[] = [];
  if (whole(planned?.steps) && typeof step === "number") kinds.push({ part: Math.min(1, step / planned.steps), unit: "step", done: step, of: planned.steps });
  if (whole(planned?.epochs) && typeof epoch === "number" && Number.isFinite(epoch)) kinds.push({ part: Math.min(1, epoch / planned.epochs), unit: "epoch", done: epoch, of: planned.epochs });
  if (kinds.length === 0) return null;
  const furthest = kinds.reduce((most, now) => (now.part > most.part + 0.02 ? now : most));
  return furthest;
}

interface Seen { time: number; part: number; rate: number | null }

const REMEMBERED_S = 60;

/** Parts of runs per second, as they are observed: recent ones count more. */
export class Rates {
  private seen = new Map<string, Seen>();

  /** A run was `part` done at `time` (seconds). */
  observe(id: string, part: number, time: number) {
    const before = this.seen.get(id);
    if (!before || part < before.part || time < before.time) return void this.seen.set(id, { time, part, rate: null });
    const passed = time - before.time;
    if (passed < 1 || part === before.part) return;
    const now = (part - before.part) / passed;
    const kept = before.rate === null ? 0 : Math.exp(-passed / REMEMBERED_S);
    this.seen.set(id, { time, part, rate: now * (1 - kept) + (before.rate ?? 0) * kept });
  }

  /** Seconds that are left at `now`; before anything was observed, from what was done since the run began. */
  left(id: string, part: number, now: number, created: number, updated: number): number | null {
    const seen = this.seen.get(id);
    const rate = seen?.rate ?? (updated > created ? part / (updated - created) : 0);
    if (!(rate > 0) || part <= 0) return null;
    return Math.max(0, (1 - part) / rate - Math.max(0, Math.min(now - updated, REMEMBERED_S)));
  }
}
