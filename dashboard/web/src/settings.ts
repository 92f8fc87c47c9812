// User preferences: theme and chart appearance. Stored in local storage, if available.
import { batch, effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

let isStoringDisabled = false;

/** Runs `change` without storing the new values: they come from a link, not from the user. */
export function withoutStoring(change: () => void) {
  isStoringDisabled = true;
  try {
    batch(change);
  } finally {
    isStoringDisabled = false;
  }
}

function stored<T>(key: string, fallback: T) {
  let value = fallback;
  try {
    const text = localStorage.getItem(`lockstep.${key}`);
    if (text !== null) value = JSON.parse(text) as T;
  } catch {
    // No storage (a local file or a private window): the setting lasts as long as the page.
  }
  const setting = signal(value);
  let first = true;
  effect(() => {
    const now = setting.value;
    if (first) {
      first = false;
      return;
    }
    if (isStoringDisabled) return;
    try {
      localStorage.setItem(`lockstep.${key}`, JSON.stringify(now));
    } catch {
      // As above.
    }
  });
  return setting;
}

export const theme = stored<Theme>("theme", "auto");
export const smoothing = stored<number>("smoothing", 0);
export const logScale = stored<boolean>("log", false);
export const axis = stored<"step" | "epoch" | "time">("axis", "step");
export const pinned = stored<string[]>("pinned", []);
/** Metrics without a chart, and charts of expressions. */
export const hiddenMetrics = stored<string[]>("hidden", []);
export const expressions = stored<string[]>("expressions", []);
export const closedSections = stored<string[]>("closed", []);
export const tableColumns = stored<string[] | null>("columns", null);
/** The id of the run that all others are compared with, or "". */
export const baseline = stored<string>("baseline", "");
/** The configuration key by which compared runs are colored; "" for one hue per run. */
export const colorKey = stored<string>("color", "");
export const chartSize = stored<"small" | "medium" | "large">("size", "medium");

const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(darkSystem.matches);
darkSystem.addEventListener("change", () => (systemIsDark.value = darkSystem.matches));

/** The effective theme. */
export const shownTheme = signal<"light" | "dark">("light");
effect(() => {
  const dark = theme.value === "dark" || (theme.value === "auto" && systemIsDark.value);
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  shownTheme.value = dark ? "dark" : "light";
});
