// How charts look is in the address, so that a link shows what its sender saw: x=time&smooth=0.9&log=1&pins=train/loss&size=large.
// An address with `x` says all of it, and what is missing is as usual; one without takes what this browser's user chose last.
import { useLayoutEffect } from "preact/hooks";
import type { Axis } from "../data/source";
import { type Query, route, setQuery } from "../router";
import { adopt, axis, chartSize, logScale, pinned, smoothing } from "../settings";

const AXES: readonly string[] = ["step", "epoch", "time"] satisfies Axis[];
const MOST_SMOOTH = 0.99;

// Names are joined by commas.
const escaped = (name: string) => name.replace(/[%,]/g, encodeURIComponent);
function unescaped(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

export function lookInAddress(): Query {
  return {
    x: axis.value, smooth: smoothing.value > 0 ? String(smoothing.value) : null, log: logScale.value ? "1" : null,
    pins: pinned.value.map(escaped).join(","), size: chartSize.value === "medium" ? null : chartSize.value,
  };
}

function takeLook(query: URLSearchParams) {
  const x = query.get("x") ?? "";
  const smooth = Number(query.get("smooth") ?? 0);
  const size = query.get("size");
  const pins = (query.get("pins") ?? "").split(",").filter(Boolean).map(unescaped);
  adopt(() => {
    axis.value = AXES.includes(x) ? (x as Axis) : "step";
    smoothing.value = smooth > 0 ? Math.min(smooth, MOST_SMOOTH) : 0;
    logScale.value = query.get("log") === "1";
    if (pins.join() !== pinned.value.join()) pinned.value = pins;
    chartSize.value = size === "small" || size === "large" ? size : "medium";
  });
}

/** Keeps the address and what is drawn the same. */
export function useLook() {
  const { query } = route.value;
  useLayoutEffect(() => {
    if (query.has("x")) takeLook(query);
    else setQuery(lookInAddress());
  }, [query]);
}

/** Something that the user chose: kept for other views, and put into the address. */
export function choose(change: () => void, more: Query = {}) {
  change();
  setQuery({ ...lookInAddress(), ...more });
}
