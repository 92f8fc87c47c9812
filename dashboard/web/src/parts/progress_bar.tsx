// The progress bar of a run, and the estimate of its remaining time.
import { useMemo } from "preact/hooks";
import type { RunRow } from "../data/source";
import { toNumber } from "../format";
import { type Progress, progressOf, Rates } from "../progress";

/** Shared by all views. */
const rates = new Rates();

export interface ProgressEstimate {
  progress: Progress | null;
  /** Remaining seconds; null if the run is not running or there is no estimate yet. */
  remaining: number | null;
}

type RunProgress = Pick<RunRow, "id" | "state" | "created" | "updated" | "step" | "epoch" | "planned">;

export function useProgress(run: RunProgress, now: number): ProgressEstimate {
  const updated = toNumber(run.updated);
  const progress = progressOf({ ...run, epoch: run.epoch === null ? null : toNumber(run.epoch) });
  useMemo(() => progress && run.state === "running" && rates.observe(run.id, progress.fraction, updated), [run.id, run.state, progress?.fraction, updated]);
  const remaining = progress && run.state === "running" ? rates.remaining(run.id, progress.fraction, now, toNumber(run.created), updated) : null;
  return { progress, remaining };
}

export function ProgressBar({ progress, label }: { progress: Progress; label: string }) {
  return <Bar fraction={progress.fraction} label={label} text={`${progress.unit} ${Number(progress.done.toFixed(2)).toLocaleString("en-US")} of ${progress.total.toLocaleString("en-US")}`} />;
}

/** `fraction`: from 0 to 1; `text`: it in words. */
export function Bar({ fraction, label, text }: { fraction: number; label: string; text: string }) {
  const percent = Math.round(1000 * fraction) / 10;
  return (
    <span class="progress" role="progressbar" aria-label={`Progress of ${label}`} aria-valuemin={0} aria-valuemax={100} aria-valuenow={percent} aria-valuetext={text}>
      <i style={{ width: `${percent}%` }} />
    </span>
  );
}
