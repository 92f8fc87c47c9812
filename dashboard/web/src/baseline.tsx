// The baseline: a run that all others are compared with, on every page. It is in the URL (`base`), so that links and saved views have it,
// and a preference of the browser for URLs without it.
import { useLayoutEffect } from "preact/hooks";
import type { Plot } from "./chart/chart_card";
import { type Line, smooth as smoothed } from "./chart/line";
import { cssColor } from "./colors";
import type { Axis, Metric, Run } from "./data/source";
import { Icon } from "./parts/icons";
import { link, route, setQuery } from "./router";
import { baseline, withoutStoring } from "./settings";
import { removed, source, useAsync, useThrottled, versions } from "./store";

/** The id of the baseline, or "". A URL with chart settings (`x`) specifies it, even if it is none. */
export function baselineId(): string {
  const { query } = route.value;
  return query.get("base") ?? (query.has("x") ? "" : baseline.value);
}

/** Chooses the baseline; "" for none. */
export function setBaseline(id: string) {
  baseline.value = id;
  setQuery({ base: id });
}

/** Keeps the baseline in the URL of a page without charts; chart settings contain it. */
export function useBaselineInUrl() {
  const inUrl = route.value.query.get("base");
  useLayoutEffect(() => {
    if (inUrl !== null) withoutStoring(() => (baseline.value = inUrl));
    else if (baseline.value) setQuery({ base: baseline.value });
  }, [inUrl]);
}

/** `run` is null while it is loaded, and if there is no such run (any more: `isMissing`) or no baseline. */
export interface Baseline { id: string; run: Run | null; isMissing: boolean }

export function useBaseline(): Baseline {
  const id = baselineId();
  const version = useThrottled(versions.value.get(id) ?? 0, 2000);
  const { value, error } = useAsync<Run | null>(() => (id ? source().run(id) : Promise.resolve(null)), [id, version]);
  if (removed.value.has(id)) return { id, run: null, isMissing: true };
  return { id, run: value?.id === id ? value : null, isMissing: id !== "" && error !== undefined && value?.id !== id };
}

/** The name of the baseline, with a button that removes it. */
export function BaselineTag({ baseline: { id, run, isMissing } }: { baseline: Baseline }) {
  if (!id || (isMissing && !source().live)) return null;
  return (
    <span class="tag baseline-tag">
      Baseline {run ? <a href={link(["run", id])} class="ellipsis" title={id}>{run.name}</a> : <span class="ellipsis" title={id}>{isMissing ? `${id}: not found` : "…"}</span>}
      <button type="button" aria-label="Remove the baseline" title="Remove the baseline" onClick={() => setBaseline("")}><Icon name="close" size={11} /></button>
    </span>
  );
}

export const baselineStyle = () => ({ color: cssColor("--ink-2"), dash: [6, 4] });
export const baselineLabel = (run: { name: string }) => `baseline ${run.name}`;

async function baselineLine(run: Run, metric: Metric, query: { x: Axis; range: [number, number] | null; points: number; smooth: number }): Promise<Line | null> {
  const look = { key: run.id, label: baselineLabel(run), ...baselineStyle(), width: 1.6, isBaseline: true };
  if (metric.sources.filter((name) => name.startsWith("rank-")).length > 1) {
    const band = await source().band({ runs: [run.id], metric: metric.name, x: query.x, range: query.range, points: query.points });
    return band && { ...look, label: `${look.label}, median of ${band.curves.length} ranks`, x: band.x, y: query.smooth ? smoothed(band.median, query.smooth) : band.median };
  }
  const [curve] = await source().curves({ ...query, runs: [{ id: run.id, created: run.created }], metric: metric.name, sources: null });
  return curve ? { ...look, x: curve.x, y: curve.smooth ?? curve.y } : null;
}

/** The plot with the curve of the baseline, unless it is one of the lines. */
export function withBaseline(plot: Plot, run: Run | null, smooth: number): Plot {
  const metric = run?.metrics.find((m) => m.name === plot.name);
  if (!run || !metric) return plot;
  return {
    ...plot,
    version: `${plot.version}|${run.id} ${run.version}`,
    load: async (range, points) => {
      // Without the baseline, e.g. if it was just deleted, the chart is as before.
      const own = baselineLine(run, metric, { x: plot.axis, range, points, smooth }).catch(() => null);
      const [lines, line] = await Promise.all([plot.load(range, points), own]);
      return !line || lines.some((other) => other.key === line.key) ? lines : [...lines, line];
    },
  };
}
