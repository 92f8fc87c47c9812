// The rows of the table, fetched page by page as they come into view: ten thousand runs are never loaded at once.
import type { Group, RunRow } from "../data/source";
import { source } from "../store";
import { isAsked } from "./columns";

const PAGE = 100;
/** As many as one answer lists. */
export const MOST_SELECTED = 1000;

export interface Section {
  /** Null: the table is not grouped. */
  group: Group | null;
  filter: string;
  count: number;
  open: boolean;
}

export type Row =
  | { kind: "group"; section: Section; index: number }
  | { kind: "run"; run: RunRow | null; section: Section; at: number };

/** Names a value in the filter language. */
export function quoted(value: unknown): string {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return `"${String(value).replace(/[\\"]/g, "\\$&")}"`;
}

export function groupFilter(filter: string, by: string, value: unknown): string {
  const own = value === null || value === undefined ? `not has ${by}` : `${by} = ${quoted(value)}`;
  return filter.trim() ? `(${filter}) and ${own}` : own;
}

export class Rows {
  sections: Section[] = [];
  private pages = new Map<string, { runs: RunRow[]; version: number }>();
  private asked = new Set<string>();
  /** Grows when runs or columns changed: pages of an earlier one are shown until they have been fetched again. */
  private version = 0;
  /** Grows when the order changed: answers to an earlier one are of no use. */
  private generation = 0;
  sort = "-created";
  columns: string[] = [];
  onChange: () => void = () => undefined;
  onError: (error: Error) => void = () => undefined;

  get length(): number {
    return this.sections.reduce((n, s) => n + (s.group ? 1 : 0) + (s.open ? s.count : 0), 0);
  }

  /** What to show now. What is there stays until it has come anew. */
  reset(sections: Section[], sort: string, columns: string[]) {
    this.sections = sections;
    this.version++;
    if (this.sort !== sort) {
      this.generation++;
      this.pages.clear();
      this.asked.clear();
    }
    this.sort = sort;
    this.columns = columns;
    this.onChange();
  }

  row(index: number): Row | null {
    let left = index;
    for (const [number, section] of this.sections.entries()) {
      if (section.group) {
        if (left === 0) return { kind: "group", section, index: number };
        left--;
      }
      if (!section.open) continue;
      if (left < section.count) return { kind: "run", section, at: left, run: this.run(section, left) };
      left -= section.count;
    }
    return null;
  }

  /** Of what is shown, what has been fetched. */
  known(): RunRow[] {
    const filters = new Set(this.sections.map((section) => section.filter));
    return [...this.pages].flatMap(([key, { runs }]) => (filters.has(key.slice(0, key.lastIndexOf("\n"))) ? runs : []));
  }

  private run(section: Section, at: number): RunRow | null {
    const page = Math.floor(at / PAGE);
    const key = `${section.filter}\n${page}`;
    const kept = this.pages.get(key);
    if (!kept || kept.version < this.version) this.fetch(section, page, key);
    return kept?.runs[at % PAGE] ?? null;
  }

  private fetch(section: Section, page: number, key: string) {
    if (this.asked.has(key)) return;
    this.asked.add(key);
    const { generation, version } = this;
    source().runs({ filter: section.filter, sort: this.sort, offset: page * PAGE, limit: PAGE, columns: this.columns.filter(isAsked) }).then(
      (answer) => {
        if (generation !== this.generation) return;
        this.asked.delete(key);
        this.pages.set(key, { runs: answer.runs, version });
        if (this.pages.size > 60) this.pages.delete(this.pages.keys().next().value!);
        section.count = answer.matching;
        this.onChange();
      },
      (error: Error) => generation === this.generation && this.onError(error),
    );
  }
}
