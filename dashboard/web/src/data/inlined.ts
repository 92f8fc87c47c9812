// Data that came with the page: a report (docs/dashboard_api.md, "Reports"). Nothing is asked for, nothing changes.
import { smooth as smoothed } from "../chart/line";
import { toNumber } from "../format";
import { link } from "../router";
import { toArray } from "./http";
import { joinedBand, type Piece, placeOn } from "./report_band";
import { chosenRuns, comparisonOf, runFields, runGroups, runList } from "./report_runs";
import { type Axis, type Band, type BandQuery, type Comparison, type Curve, type CurveQuery, type DataSource, type Heatmap, type HistogramItem, type ImageItem, type Range, Refusal, type Run, type TablePage, type TextItem } from "./source";

/** As many as a report has of a curve (dashboard/api/report.cpp). */
const MOST_COLUMNS = 2000;

interface Report {
  exported: number;
  version: string;
  runs: Run[];
  series: { run: string; source: string; metric: string; raw: boolean; total: number; step: unknown[]; epoch: unknown[]; time: unknown[]; value: unknown[] }[];
  bands: (Record<string, unknown> & { run: string; metric: string; x: unknown[]; mean: unknown[]; min: unknown[]; max: unknown[]; deviation: unknown[]; p10: unknown[]; median: unknown[]; p90: unknown[] })[];
  images: (ImageItem & { run?: string })[];
  heatmaps: (Heatmap & { run: string })[];
  histograms: { run: string; source: string; name: string; items: HistogramItem[] }[];
  /** The last version of each, and its first rows. */
  tables: (TablePage & { run: string; source: string; name: string })[];
  texts: { run: string; items: TextItem[] }[];
  /** The last lines; a report counts places in them by lines. */
  console: { run: string; stream: string; lines: string[] }[];
  compare: Comparison | null;
}

const refuse = <T>(what: string): Promise<T> => Promise.reject(new Refusal("not_in_report", `${what} is not part of a report. Open the run in the dashboard: lockstep ui`));

/** The points between two x, and one more on each side. */
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
  const found = (id: string) => report.runs.find((run) => run.id === id);

  const curves = async (query: CurveQuery): Promise<Curve[]> => {
    const answer: Curve[] = [];
    for (const { id, created } of query.runs) {
      const all = report.series.filter((s) => s.run === id && s.metric === query.metric);
      const chosen = query.sources === null ? all.slice(0, 1)
        : Array.isArray(query.sources) ? all.filter((s) => query.sources!.includes(s.source))
        : query.sources === "ranks" ? all.filter((s) => s.source.startsWith("rank-")) : all;
      for (const s of chosen) {
        const x = toArray(s[query.x], query.x === "time" ? toNumber(created) : 0);
        const y = toArray(s.value);
        const [from, to] = cut(x, query.range);
        const smooth = query.smooth ? { smooth: smoothed(y, query.smooth).subarray(from, to) } : {};
        answer.push({ run: s.run, source: s.source, metric: s.metric, raw: s.raw, total: s.total, x: x.subarray(from, to), y: y.subarray(from, to), ...smooth });
      }
    }
    return answer;
  };

  /** What is known of one run: its band, or else its curves. */
  const pieces = (run: Run, metric: string, axis: Axis): Piece[] => {
    const curves = report.series.filter((s) => s.run === run.id && s.metric === metric);
    const ranks = curves.some((s) => s.source.startsWith("rank-")) ? curves.filter((s) => s.source.startsWith("rank-")) : curves;
    const created = toNumber(run.created);
    const placeOf = (s: Report["series"][number]) => (axis === "step" ? (step: number) => step : placeOn(toArray(s.step), toArray(s[axis], axis === "time" ? created : 0)));
    const kept = report.bands.find((b) => b.run === run.id && b.metric === metric);
    if (kept && ranks[0]) return [{ ...(kept as unknown as Band), step: toArray(kept.x), mean: toArray(kept.mean), min: toArray(kept.min), max: toArray(kept.max), deviation: toArray(kept.deviation), p10: toArray(kept.p10), median: toArray(kept.median), p90: toArray(kept.p90), place: placeOf(ranks[0]) }];
    return ranks.map((s) => {
      const value = toArray(s.value);
      const known = Array.from(value, (v) => (Number.isNaN(v) ? 0 : 1));
      const curve = known.map((n) => n - 1);
      return { curves: [{ run: s.run, source: s.source }], raw: s.raw, step: toArray(s.step), mean: value, min: value, max: value, deviation: new Float64Array(value.length), p10: value, median: value, p90: value, count: known, min_curve: curve, max_curve: curve, place: placeOf(s) };
    });
  };

  const band = async (query: BandQuery): Promise<Band | null> => {
    const runs = Array.isArray(query.runs) ? query.runs.flatMap((id) => found(id) ?? []) : chosenRuns(report.runs, query.runs.filter, report.exported);
    const all = runs.flatMap((run) => pieces(run, query.metric, query.x));
    if (all.length === 0) return null;
    const whole = joinedBand(query.metric, all, query.x, MOST_COLUMNS);
    const [from, to] = cut(whole.x, query.range);
    return {
      ...whole, x: whole.x.subarray(from, to), mean: whole.mean.subarray(from, to), min: whole.min.subarray(from, to), max: whole.max.subarray(from, to),
      deviation: whole.deviation.subarray(from, to), p10: whole.p10.subarray(from, to), median: whole.median.subarray(from, to), p90: whole.p90.subarray(from, to), count: whole.count.slice(from, to), min_curve: whole.min_curve.slice(from, to), max_curve: whole.max_curve.slice(from, to),
    };
  };

  const printed = (run: string, stream: string) => report.console.find((c) => c.run === run && c.stream === stream)?.lines ?? [];

  const table = async (run: string, name: string): Promise<TablePage> => {
    const kept = report.tables.find((t) => t.run === run && t.name === name);
    return kept ? { ...kept, versions: kept.versions.filter((v) => v.at === kept.at), num_rows: kept.rows.length } : refuse("This table");
  };

  return {
    live: false,
    server: async () => ({ version: report.version, dir: "", seq: 0, indexing: { done: 1, total: 1 }, actions: false, token: false }),
    start: report.runs.length === 1 ? link(["run", report.runs[0]!.id]) : link(["compare"], { runs: report.runs.map((run) => run.id).join(",") }),
    runs: async (query) => runList(report.runs, query, report.exported),
    fields: async (filter = "") => runFields(chosenRuns(report.runs, filter, report.exported)),
    groups: async (by, filter, columns) => runGroups(chosenRuns(report.runs, filter, report.exported), by, columns),
    run: async (id) => found(id) ?? refuse("This run"),
    curves,
    band,
    heatmap: async (run, metric) => report.heatmaps.find((map) => map.run === run && map.metric === metric) ?? null,
    images: async (run, name) => report.images.filter((image) => image.name === name && (image.run === undefined || image.run === run)),
    histograms: async (run, name, from) => report.histograms.find((h) => h.run === run && h.name === name && h.source === from)?.items ?? refuse("This histogram"),
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
    compare: async (ids) => (report.compare ? comparisonOf(report.compare, ids) : refuse("A comparison")),
    artifacts: async () => ({ artifacts: [], problems: [] }),
    files: async () => [],
    fileUrl: () => null,
    reportUrl: () => null,
    csvUrl: () => null,
    change: () => refuse("Tagging"),
    stop: () => refuse("Stopping"),
    remove: () => refuse("Deleting"),
    watch: () => () => undefined,
  };
}
