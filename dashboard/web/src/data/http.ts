// The data source that requests data from `lockstep ui`.
import { toNumber, type WireNumber } from "../format";
import { apiUrl, request } from "./request";
import { watch } from "./events";
import type { Band, BandQuery, Curve, CurveQuery, DataSource, Newest, RunChoice } from "./source";

const at = (id: string) => `runs/${encodeURIComponent(id)}`;
const pathOf = (path: string) => path.split("/").map(encodeURIComponent).join("/");

export function toArray(values: readonly unknown[], minus = 0): Float64Array {
  const out = new Float64Array(values.length);
  for (let i = 0; i < out.length; i++) out[i] = toNumber(values[i]) - minus;
  return out;
}

/** Combines requests of the same frame that differ only in the metric. */
class Batch<Q extends { metric: string }, A> {
  private pending = new Map<string, { query: Q; metrics: Map<string, ((result: A | Promise<A>) => void)[]> }>();
  private scheduled = false;
  /** `maxMetrics`: of one request. */
  constructor(private send: (query: Q, metrics: string[]) => Promise<Map<string, A>>, private none: () => A, private maxMetrics: (query: Q) => number = () => 6) {}

  get(query: Q): Promise<A> {
    const key = JSON.stringify({ ...query, metric: "" });
    let group = this.pending.get(key);
    if (!group) this.pending.set(key, (group = { query, metrics: new Map() }));
    const { metrics } = group;
    const result = new Promise<A>((resolve) => metrics.set(query.metric, [...(metrics.get(query.metric) ?? []), resolve]));
    if (!this.scheduled) {
      this.scheduled = true;
      queueMicrotask(() => setTimeout(() => this.flush()));
    }
    return result;
  }

  private flush() {
    this.scheduled = false;
    const groups = [...this.pending.values()];
    this.pending.clear();
    for (const { query, metrics } of groups) {
      // A request line is limited to 8 KiB, and many curves in one response would delay the first chart.
      const inOrder = [...metrics.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      for (const part of chunks(inOrder, this.maxMetrics(query), 3000)) {
        const results = this.send(query, part);
        for (const metric of part) for (const resolve of metrics.get(metric)!) resolve(results.then((all) => all.get(metric) ?? this.none()));
      }
    }
  }
}

function* chunks(words: string[], maxWords: number, maxLength: number): Generator<string[]> {
  let part: string[] = [];
  let length = 0;
  for (const word of words) {
    const size = encodeURIComponent(word).length + 8;
    if (part.length > 0 && (part.length >= maxWords || length + size > maxLength)) {
      yield part;
      part = [];
      length = 0;
    }
    part.push(word);
    length += size;
  }
  if (part.length > 0) yield part;
}

interface SeriesResponse { series: { run: string; source: string; metric: string; raw: boolean; total: number; x: unknown[]; y: unknown[]; smooth?: unknown[] }[] }
type BandColumn = "x" | "mean" | "min" | "max" | "deviation" | "p10" | "median" | "p90";
interface BandResponse { bands: (Omit<Band, BandColumn> & Record<BandColumn, unknown[]>)[] }

async function sendCurves(query: CurveQuery, metrics: string[]): Promise<Map<string, Curve[]>> {
  if (!Array.isArray(query.runs)) return sendFiltered(query, query.runs, metrics);
  // Times are relative to the start of each run, so runs with different start times are requested separately.
  const parts = query.x === "time" ? query.runs.map((run) => [run]) : [query.runs];
  const responses = await Promise.all(parts.map((runs) => {
    const zero = query.x === "time" ? toNumber(runs[0]!.created) : 0;
    return request<SeriesResponse>("series", {
      run: runs.map((run) => run.id), metric: metrics, source: query.sources, x: query.x, points: query.points, smooth: query.smooth || null,
      from: query.range ? query.range[0] + zero : null, to: query.range ? query.range[1] + zero : null,
    }).then((response) => ({ response, zero }));
  }));
  const found = new Map<string, Curve[]>(metrics.map((metric) => [metric, []]));
  for (const { response, zero } of responses) {
    for (const { run, source, metric, raw, total, x, y, smooth } of response.series) {
      found.get(metric)?.push({ run, source, metric, raw, total, x: toArray(x, zero), y: toArray(y), ...(smooth ? { smooth: toArray(smooth) } : {}) });
    }
  }
  return found;
}

/** The curves of the runs that match a filter ("has id": all, as an empty parameter is not sent). On the time axis, the range is not sent: each run has its own start. */
async function sendFiltered(query: CurveQuery, { filter, created }: { filter: string; created: ReadonlyMap<string, WireNumber> }, metrics: string[]): Promise<Map<string, Curve[]>> {
  const range = query.x === "time" ? null : query.range;
  const response = await request<SeriesResponse>("series", { filter: filter || "has id", metric: metrics, source: query.sources, x: query.x, points: query.points, smooth: query.smooth || null, from: range?.[0], to: range?.[1] });
  const found = new Map<string, Curve[]>(metrics.map((metric) => [metric, []]));
  for (const { run, source, metric, raw, total, x, y, smooth } of response.series) {
    const zero = query.x === "time" ? toNumber(created.get(run)) : 0;
    found.get(metric)?.push({ run, source, metric, raw, total, x: toArray(x, zero), y: toArray(y), ...(smooth ? { smooth: toArray(smooth) } : {}) });
  }
  return found;
}

async function sendBands(query: BandQuery, metrics: string[]): Promise<Map<string, Band | null>> {
  const response = await request<BandResponse>("band", {
    ...(Array.isArray(query.runs) ? { run: query.runs } : { filter: query.runs.filter || "has id" }), metric: metrics, x: query.x, points: query.points, from: query.range?.[0], to: query.range?.[1],
  });
  return new Map(response.bands.map((band) => [band.metric, {
    ...band, x: toArray(band.x), mean: toArray(band.mean), min: toArray(band.min), max: toArray(band.max), deviation: toArray(band.deviation),
    p10: toArray(band.p10), median: toArray(band.median), p90: toArray(band.p90),
  }]));
}

const curves = new Batch<CurveQuery, Curve[]>(sendCurves, () => [], ({ runs }) => (Array.isArray(runs) ? 6 : Math.max(1, Math.min(6, Math.floor(500 / runs.created.size)))));
const bands = new Batch<BandQuery, Band | null>(sendBands, () => null);

/** The newest images or files of a name, in responses of at most 200. */
async function newest<T>(path: string, name: string, count: number): Promise<Newest<T>> {
  const items: T[] = [];
  let more = true;
  for (let offset = 0; offset < count && more; offset += 200) {
    const page = await request<Newest<T>>(path, { name, offset, limit: Math.min(200, count - offset) });
    items.push(...page.items);
    more = page.more;
  }
  return { items, more };
}

const chosen = (runs: RunChoice) => (Array.isArray(runs) ? { run: runs } : runs);

export const http: DataSource = {
  live: true,
  server: () => request("server"),
  runs: ({ columns, ...query }) => request("runs", { ...query, column: columns }),
  fields: async (filter) => (await request<{ fields: never[] }>("fields", { filter })).fields,
  groups: async (by, filter, columns) => (await request<{ groups: never[] }>("groups", { by, filter, column: columns })).groups,
  run: (id) => request(at(id)),
  code: async (run) => (await request<{ code: never }>(`${at(run)}/code`)).code,
  curves: (query) => curves.get(query),
  band: (query) => bands.get(query),
  heatmap: (run, metric, range, columns) => request("heatmap", { run, metric, from: range?.[0], to: range?.[1], columns }),
  images: (run, name, count) => newest(`${at(run)}/images`, name, count),
  clips: (run, name, count) => newest(`${at(run)}/clips`, name, count),
  histograms: async (run, name, source) => (await request<{ items: never[] }>(`${at(run)}/histograms`, { name, source, limit: 200 })).items,
  table: (run, name, version, offset, rows) => request(`${at(run)}/tables`, { name, at: version, offset, rows }),
  texts: async (run) => (await request<{ items: never[] }>(`${at(run)}/texts`, { level: "debug", offset: -500, limit: 500 })).items,
  console: (run, stream, where) => request(`${at(run)}/console`, { stream, bytes: 262144, ...where }),
  searchConsole: (run, stream, search, from) => request(`${at(run)}/console`, { stream, search, from, limit: 500 }),
  alerts: async () => (await request<{ alerts: never[] }>("alerts", { limit: 200 })).alerts,
  compare: (runs) => request("compare", { run: runs }),
  analysis: (runs, column) => request("analysis", {}, { method: "POST", json: { ...chosen(runs), column } }),
  importance: (runs, target, parameter) => request("importance", {}, { method: "POST", json: { ...chosen(runs), target, parameter } }),
  sweeps: async () => (await request<{ sweeps: never[] }>("sweeps")).sweeps,
  sweep: (name) => request(`sweeps/${encodeURIComponent(name)}`),
  artifacts: (run) => request("artifacts", { run }),
  files: async (run) => (await request<{ files: never[] }>(`${at(run)}/files`)).files,
  fileUrl: (run, path) => `/api/${at(run)}/files/${pathOf(path)}`,
  reportUrl: (runs) => apiUrl("report.html", { run: runs }),
  csvUrl: ({ runs, metric, sources }) => apiUrl("series.csv", { run: runs.map((run) => run.id), metric, source: sources }),
  views: async () => (await request<{ views: never[] }>("views")).views,
  saveView: async (name, view) => (await request<{ views: never[] }>("views", {}, { method: "POST", json: { name, view } })).views,
  change: (run, json) => request(`${at(run)}/tags`, {}, { method: "POST", json }),
  stop: (run, reason) => request(`${at(run)}/stop`, {}, { method: "POST", json: { reason } }),
  remove: async (run) => void (await request(at(run), {}, { method: "DELETE", json: { confirm: run } })),
  watch,
};
