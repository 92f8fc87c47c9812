// What a user chose for this browser: the theme and how charts look. Kept in local storage where there is one.
import { batch, effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

let isAdopting = false;

/** What `change` sets holds for this page and is not kept: somebody else chose it. */
export function adopt(change: () => void) {
  isAdopting = true;
  try {
    batch(change);
  } finally {
    isAdopting = false;
  }
}

function stored<T>(key: string, fallback: T) {
  let value = fallback;
  try {
    const text = localStorage.getItem(`lockstep.${key}`);
    if (text !== null) value = JSON.parse(text) as T;
  } catch {
    // No storage (a file opened by itself, or a private window): the choice lasts as long as the page.
  }
  const kept = signal(value);
  let first = true;
  effect(() => {
    const now = kept.value;
    if (first) {
      first = false;
      return;
    }
    if (isAdopting) return;
    try {
      localStorage.setItem(`lockstep.${key}`, JSON.stringify(now));
    } catch {
      // As above.
    }
  });
  return kept;
}

export const theme = stored<Theme>("theme", "auto");
export const smoothing = stored<number>("smoothing", 0);
export const logScale = stored<boolean>("log", false);
export const axis = stored<"step" | "epoch" | "time">("axis", "step");
export const pinned = stored<string[]>("pinned", []);
export const closedSections = stored<string[]>("closed", []);
export const tableColumns = stored<string[] | null>("columns", null);
/** The key of the configuration that compared runs are colored by; "" where each has a hue. */
export const colorKey = stored<string>("color", "");
export const chartSize = stored<"small" | "medium" | "large">("size", "medium");

const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(darkSystem.matches);
darkSystem.addEventListener("change", () => (systemIsDark.value = darkSystem.matches));

/** "light" or "dark", whatever was chosen. */
export const shownTheme = signal<"light" | "dark">("light");
effect(() => {
  const dark = theme.value === "dark" || (theme.value === "auto" && systemIsDark.value);
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  shownTheme.value = dark ? "dark" : "light";
});
