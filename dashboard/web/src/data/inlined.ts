// The data source of a report, whose data is inlined in the page (docs/dashboard_api.md, "Reports").
import { smooth as smoothed } from "../chart/line";
import { toNumber } from "../format";
import { link } from "../router";
import { toArray } from "./http";
import { mergeBands, type BandPart, interpolateSteps } from "./report_band";
import { filterRuns, comparisonOf, runFields, runGroups, runList } from "./report_runs";
import { type Axis, type Band, type BandQuery, type Comparison, type Curve, type CurveQuery, type DataSource, type Heatmap, type HistogramItem, type ImageItem, type Range, ApiError, type Run, type TablePage, type TextItem } from "./source";

/** Same as kReportColumns in dashboard/api/report.cpp. */
const MAX_COLUMNS = 2000;

interface Report {
  exported: number;
  version: string;
  runs: Run[];
  series: { run: string; source: string; metric: string; raw: boolean; total: number; step: unknown[]; epoch: unknown[]; time: unknown[]; value: unknown[] }[];
  bands: (Record<string, unknown> & { run: string; metric: string; x: unknown[]; mean: unknown[]; min: unknown[]; max: unknown[]; deviation: unknown[]; p10: unknown[]; median: unknown[]; p90: unknown[] })[];
  images: (ImageItem & { run?: string })[];
  heatmaps: (Heatmap & { run: string })[];
  histograms: { run: string; source: string; name: string; items: HistogramItem[] }[];
  /** The first rows of the last version of each table. */
  tables: (TablePage & { run: string; source: string; name: string })[];
  texts: { run: string; items: TextItem[] }[];
  /** The last lines; offsets in a report are line numbers. */
  console: { run: string; stream: string; lines: string[] }[];
  compare: Comparison | null;
}

const unavailable = <T>(what: string): Promise<T> => Promise.reject(new ApiError("not_in_report", `${what} is not available in a report. Open the run in the dashboard: lockstep ui`));

/** Indices of the points in a range of x, and one more on each side. */
function cut(x: Float64Array, range: Range | null): [number, number] {
  if (!range) return [0, x.length];
  let from = 0;
  let to = x.length;
  while (from < x.length && x[from]! < range[0]) from++;
  while (to > from && x[to - 1]! > range[1]) to--;
  return [Math.max(0, from - 1), Math.min(x.length, to + 1)];
}

export function inlined(text: string): DataSource {
  const report = JSON.parse(text) as Report;
  const findRun = (id: string) => report.runs.find((run) => run.id === id);

  const loadCurves = async (query: CurveQuery): Promise<Curve[]> => {
    const curves: Curve[] = [];
    for (const { id, created } of Array.isArray(query.runs) ? query.runs : filterRuns(report.runs, query.runs.filter, report.exported)) {
      const all = report.series.filter((s) => s.run === id && s.metric === query.metric);
      const chosen = query.sources === null ? all.slice(0, 1)
        : Array.isArray(query.sources) ? all.filter((s) => query.sources!.includes(s.source))
        : query.sources === "ranks" ? all.filter((s) => s.source.startsWith("rank-")) : all;
      for (const s of chosen) {
        const x = toArray(s[query.x], query.x === "time" ? toNumber(created) : 0);
        const y = toArray(s.value);
        const [from, to] = cut(x, query.range);
        const smooth = query.smooth ? { smooth: smoothed(y, query.smooth).subarray(from, to) } : {};
        curves.push({ run: s.run, source: s.source, metric: s.metric, raw: s.raw, total: s.total, x: x.subarray(from, to), y: y.subarray(from, to), ...smooth });
      }
    }
    return curves;
  };

  /** The band of a run, or its curves if the report has no band. */
  const parts = (run: Run, metric: string, axis: Axis): BandPart[] => {
    const curves = report.series.filter((s) => s.run === run.id && s.metric === metric);
    const ranks = curves.some((s) => s.source.startsWith("rank-")) ? curves.filter((s) => s.source.startsWith("rank-")) : curves;
    const created = toNumber(run.created);
    const toXOf = (s: Report["series"][number]) => (axis === "step" ? (step: number) => step : interpolateSteps(toArray(s.step), toArray(s[axis], axis === "time" ? created : 0)));
    const entry = report.bands.find((b) => b.run === run.id && b.metric === metric);
    if (entry && ranks[0]) return [{ ...(entry as unknown as Band), step: toArray(entry.x), mean: toArray(entry.mean), min: toArray(entry.min), max: toArray(entry.max), deviation: toArray(entry.deviation), p10: toArray(entry.p10), median: toArray(entry.median), p90: toArray(entry.p90), toX: toXOf(ranks[0]) }];
    return ranks.map((s) => {
      const value = toArray(s.value);
      const known = Array.from(value, (v) => (Number.isNaN(v) ? 0 : 1));
      const curve = known.map((n) => n - 1);
      return { curves: [{ run: s.run, source: s.source }], raw: s.raw, step: toArray(s.step), mean: value, min: value, max: value, deviation: new Float64Array(value.length), p10: value, median: value, p90: value, count: known, min_curve: curve, max_curve: curve, toX: toXOf(s) };
    });
  };

  const band = async (query: BandQuery): Promise<Band | null> => {
    const runs = Array.isArray(query.runs) ? query.runs.flatMap((id) => findRun(id) ?? []) : filterRuns(report.runs, query.runs.filter, report.exported);
    const all = runs.flatMap((run) => parts(run, query.metric, query.x));
    if (all.length === 0) return null;
    const whole = mergeBands(query.metric, all, query.x, MAX_COLUMNS);
    const [from, to] = cut(whole.x, query.range);
    return {
      ...whole, x: whole.x.subarray(from, to), mean: whole.mean.subarray(from, to), min: whole.min.subarray(from, to), max: whole.max.subarray(from, to),
      deviation: whole.deviation.subarray(from, to), p10: whole.p10.subarray(from, to), median: whole.median.subarray(from, to), p90: whole.p90.subarray(from, to), count: whole.count.slice(from, to), min_curve: whole.min_curve.slice(from, to), max_curve: whole.max_curve.slice(from, to),
    };
  };

  const printed = (run: string, stream: string) => report.console.find((c) => c.run === run && c.stream === stream)?.lines ?? [];

  const table = async (run: string, name: string): Promise<TablePage> => {
    const entry = report.tables.find((t) => t.run === run && t.name === name);
    return entry ? { ...entry, versions: entry.versions.filter((v) => v.at === entry.at), num_rows: entry.rows.length, left_out: entry.num_rows - entry.rows.length } : unavailable("This table");
  };

  return {
    live: false,
    server: async () => ({ version: report.version, dir: "", seq: 0, indexing: { done: 1, total: 1 }, actions: false, token: false }),
    start: report.runs.length === 1 ? link(["run", report.runs[0]!.id]) : link(["compare"], { runs: report.runs.map((run) => run.id).join(",") }),
    runs: async (query) => runList(report.runs, query, report.exported),
    fields: async (filter = "") => runFields(filterRuns(report.runs, filter, report.exported)),
    groups: async (by, filter, columns) => runGroups(filterRuns(report.runs, filter, report.exported), by, columns),
    run: async (id) => findRun(id) ?? unavailable("This run"),
    code: () => unavailable("The diff"),
    clips: () => unavailable("A sound, a video or a page"),
    curves: loadCurves,
    band,
    heatmap: async (run, metric) => report.heatmaps.find((map) => map.run === run && map.metric === metric) ?? null,
    images: async (run, name) => ({ items: report.images.filter((image) => image.name === name && (image.run === undefined || image.run === run)), more: false }),
    histograms: async (run, name, from) => report.histograms.find((h) => h.run === run && h.name === name && h.source === from)?.items ?? unavailable("This histogram"),
    table,
    texts: async (run) => report.texts.find((t) => t.run === run)?.items ?? [],
    console: async (run, stream, where) => {
      const lines = printed(run, stream);
      const begin = "from" in where ? Math.min(where.from, lines.length) : 0;
      const end = "to" in where ? where.to : lines.length;
      return { stream, begin, end, size: lines.length, lines: lines.slice(begin, end) };
    },
    searchConsole: async (run, stream, text, from) => {
      const lines = printed(run, stream);
      const matches = lines.map((line, offset) => ({ offset, line })).filter((m) => m.offset >= from && m.line.toLowerCase().includes(text.toLowerCase()));
      return { matches, end: lines.length, size: lines.length };
    },
    alerts: async () => report.runs.flatMap((run) => run.alerts),
    compare: async (ids) => (report.compare ? comparisonOf(report.compare, ids) : unavailable("A comparison")),
    analysis: () => unavailable("The analysis"),
    importance: () => unavailable("The analysis"),
    sweeps: async () => [],
    sweep: () => unavailable("A sweep"),
    artifacts: async () => ({ artifacts: [], problems: [] }),
    files: async () => [],
    fileUrl: () => null,
    reportUrl: () => null,
    csvUrl: () => null,
    views: async () => [],
    saveView: () => unavailable("Saving a view"),
    change: () => unavailable("Tagging"),
    stop: () => unavailable("Stopping"),
    remove: () => unavailable("Deleting"),
    watch: () => () => undefined,
  };
}
