// The chart settings in the URL, so that a link shows what its sender saw: x=time&smooth=0.9&log=1&pins=train/loss&size=large;
// hide, exprs and closed (sections) are lists like pins; base is the baseline. Of several runs, color is the key of their colors.
// A URL with `x` specifies all of them, with defaults for missing ones. A URL without `x` uses the stored preferences.
import { useLayoutEffect } from "preact/hooks";
import type { Axis } from "../data/source";
import { type Query, route, setQuery } from "../router";
import { withoutStoring, axis, baseline, chartSize, closedSections, colorKey, expressions, hiddenMetrics, logScale, pinned, smoothing } from "../settings";

const AXES: readonly string[] = ["step", "epoch", "time"] satisfies Axis[];
const MAX_SMOOTHING = 0.99;

// Names are separated by commas.
const escaped = (name: string) => name.replace(/[%,]/g, encodeURIComponent);
function unescaped(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

// The section of metrics without a prefix has no name.
const UNNAMED = "(other)";
const sectionText = (name: string) => (name === "" ? UNNAMED : escaped(name));

const COLORED_PAGES = ["compare", "group"];

/** That of the link, or of the user if the URL has no settings. */
export const shownColorKey = (): string => route.value.query.get("color") ?? (route.value.query.has("x") ? "" : colorKey.value);

export function settingsQuery(): Query {
  return {
    x: axis.value, smooth: smoothing.value > 0 ? String(smoothing.value) : null, log: logScale.value ? "1" : null,
    pins: pinned.value.map(escaped).join(","), hide: hiddenMetrics.value.map(escaped).join(","), exprs: expressions.value.map(escaped).join(","), size: chartSize.value === "medium" ? null : chartSize.value,
    closed: closedSections.value.map(sectionText).join(","), base: baseline.value, ...(COLORED_PAGES.includes(route.value.path[0] ?? "") ? { color: shownColorKey() } : {}),
  };
}

function applyQuery(query: URLSearchParams) {
  const x = query.get("x") ?? "";
  const smooth = Number(query.get("smooth") ?? 0);
  const size = query.get("size");
  const listOf = (key: string) => (query.get(key) ?? "").split(",").filter(Boolean).map(unescaped);
  withoutStoring(() => {
    axis.value = AXES.includes(x) ? (x as Axis) : "step";
    smoothing.value = smooth > 0 ? Math.min(smooth, MAX_SMOOTHING) : 0;
    logScale.value = query.get("log") === "1";
    for (const [key, setting] of [["pins", pinned], ["hide", hiddenMetrics], ["exprs", expressions]] as const) if (listOf(key).join("\n") !== setting.value.join("\n")) setting.value = listOf(key);
    const closed = listOf("closed").map((name) => (name === UNNAMED ? "" : name));
    if (closed.join("\n") !== closedSections.value.join("\n") || closed.length !== closedSections.value.length) closedSections.value = closed;
    baseline.value = query.get("base") ?? "";
    chartSize.value = size === "small" || size === "large" ? size : "medium";
  });
}

/** Synchronizes the URL and the settings. */
export function useChartSettings() {
  const { query } = route.value;
  useLayoutEffect(() => {
    if (query.has("x")) applyQuery(query);
    else setQuery({ ...settingsQuery(), ...(query.has("base") ? { base: query.get("base") } : {}) });
  }, [query]);
}

/** Applies a change by the user, stores it, and updates the URL. */
export function changeSetting(change: () => void, more: Query = {}) {
  change();
  setQuery({ ...settingsQuery(), ...more });
}
