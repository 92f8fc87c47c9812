// The configuration keys that the table shows by default: hyperparameters in which the runs differ.
import type { Field } from "../data/source";

/** Keys that differ between runs but do not affect training. */
const IGNORED = /^config\.(run\.(?!seed$)|tracking\.|checkpoint\.|launch|distributed\.|log)/;
const PRIORITIES = [/^config\.optimizer\.lr$/, /^config\.optimizer\./, /^config\.model\./, /^config\.(data\.batch_size|data\.)/, /^config\.(schedule|scheduler|lr_schedule)/, /^config\.train\./, /seed$/];
const priority = (field: string) => {
  const at = PRIORITIES.findIndex((pattern) => pattern.test(field));
  return at < 0 ? PRIORITIES.length : at;
};

/** Whether a configuration key that differs is a hyperparameter. */
export const isHyperparameter = (field: string) => field.startsWith("config.") && !IGNORED.test(field);

export function differingKeys(fields: readonly Field[], maxKeys = 4): string[] {
  return fields
    .filter((f) => f.differs === true && isHyperparameter(f.field))
    .sort((a, b) => priority(a.field) - priority(b.field) || b.runs - a.runs || a.field.localeCompare(b.field))
    .slice(0, maxKeys)
    .map((f) => f.field);
}
