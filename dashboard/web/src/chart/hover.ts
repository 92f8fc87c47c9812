// The hovered point and line, shared by all charts and lists of the same lines.
import { signal } from "@preact/signals";

export interface Hovered {
  /** The metric, and the x value as text. */
  name: string;
  x: string;
  /** The values at this x, by line key. */
  values: ReadonlyMap<string, string>;
}

export const hovered = signal<Hovered | null>(null);
/** The key of the line that all charts highlight. */
export const highlighted = signal<string | null>(null);
