// What the pages of sweeps show of a sweep and its trials.
import { settingFormat } from "../chart/ticks";
import { quoted } from "../data/filter";
import type { Objective, RunState, SweepFile, SweepRow, Trial, TrialState } from "../data/source";
import { metricValue, plain, plural } from "../format";

export const objectivesOf = ({ objective }: SweepFile): Objective[] => (Array.isArray(objective) ? objective : [objective]);

export const numTrials = ({ counts }: SweepRow): number => Object.values(counts).reduce((sum, count) => sum + count, 0);

export const TRIAL_STATES: TrialState[] = ["finished", "pruned", "failed", "open"];

/** "12 finished, 3 pruned" */
export function countsText(counts: SweepRow["counts"]): string {
  const words = TRIAL_STATES.filter((state) => counts[state] > 0).map((state) => `${counts[state]} ${state}`);
  return words.length > 0 ? words.join(", ") : "no trials yet";
}

/** The marks of runs that the states resemble. */
export const MARK_OF_SWEEP: Record<SweepRow["state"], RunState> = { running: "running", done: "finished", stopped: "preempted" };
export const MARK_OF_TRIAL: Record<TrialState, RunState> = { open: "running", finished: "finished", pruned: "preempted", failed: "failed" };

export function resultText({ metric }: Objective, value: number | null | undefined): string {
  return value === undefined ? "–" : value === null ? "NaN" : metricValue(metric, value);
}

/** How to write the values of a parameter: numbers with the digits that tell them apart. */
export function parameterFormat(key: string, trials: readonly Trial[]): (value: unknown) => string {
  const written = settingFormat(trials.map((trial) => trial.parameters[key]).filter((value): value is number => typeof value === "number"));
  return (value) => (value === undefined ? "–" : typeof value === "number" ? written(value) : plain(value));
}

/** How the sweep chooses and ends trials. */
export function methodText({ ranks, sweep }: SweepRow): string {
  const { search, pruning, budget, seeds } = sweep;
  const limits = [budget.trials ? plural(budget.trials, "trial") : "", budget.time ?? "", typeof budget.target === "number" ? `${objectivesOf(sweep)[0]!.metric} ${budget.target}` : ""].filter(Boolean);
  return [
    `search: ${search.name}`, `pruning: ${pruning.name}`, ...(limits.length > 0 ? [`until ${limits.join(" or ")}`] : []), `${plural(ranks, "rank")} per trial`, ...(seeds > 1 ? [`${seeds} seeds`] : []),
  ].join(" · ");
}

/** The runs of a sweep. Those of imported trials can be in other groups. */
export const runsFilter = (name: string) => `group = ${quoted(name)}`;

/** Best first: finished trials by the first objective, then the others by number. */
export function byResult(objective: Objective) {
  const sign = objective.direction === "maximize" ? -1 : 1;
  const loss = (trial: Trial) => (trial.state === "finished" && typeof trial.values?.[0] === "number" ? sign * trial.values[0] : Infinity);
  return (a: Trial, b: Trial) => (loss(a) === loss(b) ? a.number - b.number : loss(a) - loss(b));
}
