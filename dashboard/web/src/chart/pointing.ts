// What the pointer is at, for everything that shows the same lines: the other charts, and the list at their side.
import { signal } from "@preact/signals";

export interface Pointed {
  /** The metric, and where on its x axis. */
  name: string;
  place: string;
  /** The values there, by the keys of their lines. */
  values: ReadonlyMap<string, string>;
}

export const pointed = signal<Pointed | null>(null);
/** The key of the line that is highlighted in all charts. */
export const highlighted = signal<string | null>(null);
