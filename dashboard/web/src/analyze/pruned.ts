// Pruned trials of sweeps: left out of an analysis, because their results are those of an early evaluation. No DOM.
import { both, compares, isValid } from "../data/filter";
import type { RunChoice } from "../data/source";

/** As isPruned() of the tags of a run. */
export const PRUNED = "tag = pruned and tag = trial:*";
export const NOT_PRUNED = `not (${PRUNED})`;

/** Those of the runs that match a condition. */
const those = (choice: RunChoice, condition: string): RunChoice => (Array.isArray(choice) ? { run: choice, filter: condition } : { ...choice, filter: both(choice.filter, condition) });

/** The chosen runs without pruned ones, and only these; null if the filter compares the tag, or is not valid. */
export function splitPruned(choice: RunChoice): { others: RunChoice; pruned: RunChoice } | null {
  if (!Array.isArray(choice) && (!isValid(choice.filter) || compares(choice.filter, "tag", "pruned"))) return null;
  return { others: those(choice, NOT_PRUNED), pruned: those(choice, PRUNED) };
}
