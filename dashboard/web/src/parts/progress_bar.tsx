// How far a run is, as a thin bar, and how long it still takes.
import { useMemo } from "preact/hooks";
import type { RunRow } from "../data/source";
import { toNumber } from "../format";
import { type Progress, progressOf, Rates } from "../progress";

/** What all views have seen of the runs that go on. */
const rates = new Rates();

export interface Told {
  progress: Progress | null;
  /** Seconds; null where the run does not go on, or nothing can be said yet. */
  left: number | null;
}

type Going = Pick<RunRow, "id" | "state" | "created" | "updated" | "step" | "epoch" | "planned">;

export function useProgress(run: Going, now: number): Told {
  const updated = toNumber(run.updated);
  const progress = progressOf({ ...run, epoch: run.epoch === null ? null : toNumber(run.epoch) });
  useMemo(() => progress && run.state === "running" && rates.observe(run.id, progress.part, updated), [run.id, run.state, progress?.part, updated]);
  const left = progress && run.state === "running" ? rates.left(run.id, progress.part, now, toNumber(run.created), updated) : null;
  return { progress, left };
}

export function ProgressBar({ progress, label }: { progress: Progress; label: string }) {
  const percent = Math.round(1000 * progress.part) / 10;
  return (
    <span class="progress" role="progressbar" aria-label={`Progress of ${label}`} aria-valuemin={0} aria-valuemax={100} aria-valuenow={percent} aria-valuetext={`${progress.unit} ${Number(progress.done.toFixed(2)).toLocaleString("en-US")} of ${progress.of.toLocaleString("en-US")}`}>
      <i style={{ width: `${percent}%` }} />
    </span>
  );
}
