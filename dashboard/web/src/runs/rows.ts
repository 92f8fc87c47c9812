// The rows of the table, fetched page by page as they scroll into view.
import type { Group, RunRow } from "../data/source";
import { both, fieldWord, quoted } from "../data/filter";
import { source } from "../store";
import { isRequested } from "./columns";

const PAGE = 100;
/** The maximum number of runs in one response. */
export const MAX_SELECTED = 1000;

export interface Section {
  /** Null if the table is not grouped. */
  group: Group | null;
  filter: string;
  count: number;
  open: boolean;
}

export type Row =
  | { kind: "group"; section: Section; index: number }
  | { kind: "run"; run: RunRow | null; section: Section; at: number };

export function groupFilter(filter: string, by: string, value: unknown): string {
  const condition = value === null || value === undefined ? `not has ${fieldWord(by)}` : `${fieldWord(by)} == ${quoted(value)}`;
  return both(filter, condition);
}

export class Rows {
  sections: Section[] = [];
  private pages = new Map<string, { runs: RunRow[]; version: number }>();
  private pending = new Set<string>();
  /** Incremented when runs or columns change: pages of earlier versions are shown until they are refetched. */
  private version = 0;
  /** Incremented when the sort order changes: responses to earlier requests are dropped. */
  private generation = 0;
  sort = "-created";
  columns: string[] = [];
  onChange: () => void = () => undefined;
  onError: (error: Error) => void = () => undefined;

  get length(): number {
    return this.sections.reduce((n, s) => n + (s.group ? 1 : 0) + (s.open ? s.count : 0), 0);
  }

  /** Sets what to show. Loaded rows stay visible until they are refetched. */
  reset(sections: Section[], sort: string, columns: string[]) {
    this.sections = sections;
    this.version++;
    if (this.sort !== sort) {
      this.generation++;
      this.pages.clear();
      this.pending.clear();
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

  /** The visible runs that have been loaded. */
  loaded(): RunRow[] {
    const filters = new Set(this.sections.map((section) => section.filter));
    return [...this.pages].flatMap(([key, { runs }]) => (filters.has(key.slice(0, key.lastIndexOf("\n"))) ? runs : []));
  }

  private run(section: Section, at: number): RunRow | null {
    const page = Math.floor(at / PAGE);
    const key = `${section.filter}\n${page}`;
    const cached = this.pages.get(key);
    if (!cached || cached.version < this.version) this.fetch(section, page, key);
    return cached?.runs[at % PAGE] ?? null;
  }

  private fetch(section: Section, page: number, key: string) {
    if (this.pending.has(key)) return;
    this.pending.add(key);
    const { generation, version } = this;
    source().runs({ filter: section.filter, sort: this.sort, offset: page * PAGE, limit: PAGE, columns: this.columns.filter(isRequested) }).then(
      (response) => {
        if (generation !== this.generation) return;
        this.pending.delete(key);
        this.pages.set(key, { runs: response.runs, version });
        if (this.pages.size > 60) this.pages.delete(this.pages.keys().next().value!);
        section.count = response.matching;
        this.onChange();
      },
      (error: Error) => {
        if (generation !== this.generation) return;
        this.pending.delete(key);
        // Requested again after the next reset(), not whenever the table is drawn.
        this.pages.set(key, { runs: this.pages.get(key)?.runs ?? [], version });
        this.onError(error);
      },
    );
  }
}
