// Colors of runs and ranks in the current theme. In a comparison, the hue and dash of a line depend on its position; outside of
// one, the hue of a run is derived from its id.
import { HUES, type Style, styleAt } from "./chart/palette";
import { shownTheme } from "./settings";

function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h ^= h >>> 15;
  h = Math.imul(h, 0x85ebca6b);
  return (h ^ (h >>> 13)) >>> 0;
}

export const runColor = (id: string): string => styleAt(hash(id) % HUES.light.length, shownTheme.value).color;
export const rankColor = (rank: number): string => styleAt(rank, shownTheme.value).color;
export const rankDash = (rank: number): number[] => styleAt(rank, shownTheme.value).dash;

/** The line styles of `ids` in a comparison. */
export function runStyles(ids: readonly string[]): Map<string, Style> {
  return new Map(ids.map((id, index) => [id, styleAt(index, shownTheme.value)]));
}

const known = new Map<string, string>();

/** A color of design/tokens.css. Needed for every line that is drawn, therefore cached until the theme changes. */
export function cssColor(name: string): string {
  const key = `${shownTheme.value} ${name}`;
  let color = known.get(key);
  if (color === undefined) known.set(key, (color = getComputedStyle(document.documentElement).getPropertyValue(name).trim()));
  return color;
}
