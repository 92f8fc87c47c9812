// Colours of runs and ranks. A run's hue comes from its id. Where two runs that are compared share one, the later takes a
// free one, in this browser from then on: a run looks the same everywhere. The ten hues keep apart for the common kinds of
// colour blindness; with more runs than hues, the later ones are dashed.
import { hues, shownTheme } from "./settings";

const LIGHT = ["#2667b0", "#cf5a0a", "#0f8468", "#b0306f", "#80690a", "#5a4bb8", "#1c93bb", "#9b3a1e", "#5c7a16", "#5e646b"];
const DARK = ["#74aef0", "#f79a55", "#43c8a5", "#ef80b6", "#dcbf45", "#a99cf7", "#69cfee", "#e58467", "#a9c85a", "#b4bac1"];
const DASHES: number[][] = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h ^= h >>> 15;
  h = Math.imul(h, 0x85ebca6b);
  return (h ^ (h >>> 13)) >>> 0;
}

const palette = () => (shownTheme.value === "dark" ? DARK : LIGHT);

const hueOf = (id: string): number => hues.value[id] ?? hash(id) % LIGHT.length;
const MOST_KEPT = 1000;

/** Gives the runs of one view different hues, as far as there are. */
export function tellApart(ids: readonly string[]) {
  const taken = new Set<number>();
  const moved: [string, number][] = [];
  for (const id of ids.slice(0, LIGHT.length)) {
    let hue = hueOf(id);
    while (taken.has(hue)) hue = (hue + 3) % LIGHT.length;
    taken.add(hue);
    if (hue !== hueOf(id)) moved.push([id, hue]);
  }
  if (moved.length > 0) hues.value = Object.fromEntries([...Object.entries(hues.value).filter(([id]) => !moved.some((m) => m[0] === id)), ...moved].slice(-MOST_KEPT));
}

export const runColour = (id: string): string => palette()[hueOf(id)]!;
export const rankColour = (rank: number): string => palette()[rank % LIGHT.length]!;
export const rankDash = (rank: number): number[] => DASHES[Math.floor(rank / LIGHT.length) % DASHES.length]!;

/** How the lines of `ids` look beside each other. */
export function runStyles(ids: readonly string[]): Map<string, { colour: string; dash: number[] }> {
  const seen = new Map<number, number>();
  const styles = new Map<string, { colour: string; dash: number[] }>();
  for (const id of ids) {
    const hue = hueOf(id);
    const before = seen.get(hue) ?? 0;
    seen.set(hue, before + 1);
    styles.set(id, { colour: palette()[hue]!, dash: DASHES[before % DASHES.length]! });
  }
  return styles;
}

const known = new Map<string, string>();

/** A colour of design/tokens.css. Asked for with every line that is drawn, so it is kept until the theme changes. */
export function cssColour(name: string): string {
  const key = `${shownTheme.value} ${name}`;
  let colour = known.get(key);
  if (colour === undefined) known.set(key, (colour = getComputedStyle(document.documentElement).getPropertyValue(name).trim()));
  return colour;
}
