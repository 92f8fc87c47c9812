// Colours of runs and ranks. A run's colour comes from its id, so it is the same everywhere and for everybody. The ten hues
// keep apart for the common kinds of colour blindness; where two runs of one view share a hue, the later ones are dashed.
import { shownTheme } from "./settings";

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

export const runColour = (id: string): string => palette()[hash(id) % LIGHT.length]!;
export const rankColour = (rank: number): string => palette()[rank % LIGHT.length]!;
export const rankDash = (rank: number): number[] => DASHES[Math.floor(rank / LIGHT.length) % DASHES.length]!;

/** How the lines of `ids` look beside each other. */
export function runStyles(ids: readonly string[]): Map<string, { colour: string; dash: number[] }> {
  const seen = new Map<number, number>();
  const styles = new Map<string, { colour: string; dash: number[] }>();
  for (const id of ids) {
    const hue = hash(id) % LIGHT.length;
    const before = seen.get(hue) ?? 0;
    seen.set(hue, before + 1);
    styles.set(id, { colour: palette()[hue]!, dash: DASHES[before % DASHES.length]! });
  }
  return styles;
}

export function cssColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
