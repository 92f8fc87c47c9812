// Which keys of the configuration the table shows by itself: those in which the runs differ and that people search over.
import type { Field } from "../data/source";

/** What differs in every run without saying how it trains. */
const OWN = /^config\.(run\.(?!seed$)|tracking\.|checkpoint\.|launch|distributed\.|log)/;
const FIRST = [/^config\.optimizer\.lr$/, /^config\.optimizer\./, /^config\.model\./, /^config\.(data\.batch_size|data\.)/, /^config\.(schedule|scheduler|lr_schedule)/, /^config\.train\./, /seed$/];
const rate = (field: string) => {
  const at = FIRST.findIndex((form) => form.test(field));
  return at < 0 ? FIRST.length : at;
};

export function differingKeys(fields: readonly Field[], most = 4): string[] {
  return fields
    .filter((f) => f.field.startsWith("config.") && f.differs === true && !OWN.test(f.field))
    .sort((a, b) => rate(a.field) - rate(b.field) || b.runs - a.runs || a.field.localeCompare(b.field))
    .slice(0, most)
    .map((f) => f.field);
}
