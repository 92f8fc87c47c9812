// Data from `lockstep ui`.
import { toNumber } from "../format";
import { type Band, type BandQuery, type Changes, type Connection, type Curve, type CurveQuery, type DataSource, Refusal } from "./source";

type Words = Record<string, string | number | string[] | null | undefined>;

function address(path: string, words: Words = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(words)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(key, String(one));
  }
  const text = query.toString();
  return `/api/${path}${text ? `?${text}` : ""}`;
}

async function ask<T>(path: string, words?: Words, body?: { method: string; json: unknown }): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(address(path, words), body
      ? { method: body.method, body: JSON.stringify(body.json), headers: { "Content-Type": "application/json", "X-Lockstep-Request": "1" } }
      : {});
  } catch {
    throw new Refusal("unreachable", "The server does not answer. Is `lockstep ui` still running?");
  }
  if (answer.ok) return (await answer.json()) as T;
  let told: { error?: { code?: string; message?: string; column?: number } } = {};
  try {
    told = await answer.json();
  } catch {
    // Not from our server; the status says enough.
  }
  throw new Refusal(told.error?.code ?? String(answer.status), told.error?.message ?? `The server answered ${answer.status}.`, told.error?.column);
}

const at = (id: string) => `runs/${encodeURIComponent(id)}`;
const pathOf = (path: string) => path.split("/").map(encodeURIComponent).join("/");

export function toArray(values: readonly unknown[], minus = 0): Float64Array {
  const out = new Float64Array(values.length);
  for (let i = 0; i < out.length; i++) out[i] = toNumber(values[i]) - minus;
  return out;
}

/** Requests for curves that come in the same frame and differ in the metric only go as one. */
class Batch<Q extends { metric: string }, A> {
  private waiting = new Map<string, { query: Q; metrics: Map<string, ((answer: A | Promise<A>) => void)[]> }>();
  private scheduled = false;
  constructor(private send: (query: Q, metrics: string[]) => Promise<Map<string, A>>, private none: () => A) {}

  get(query: Q): Promise<A> {
    const key = JSON.stringify({ ...query, metric: "" });
    let group = this.waiting.get(key);
    if (!group) this.waiting.set(key, (group = { query, metrics: new Map() }));
    const { metrics } = group;
    const answer = new Promise<A>((resolve) => metrics.set(query.metric, [...(metrics.get(query.metric) ?? []), resolve]));
    if (!this.scheduled) {
      this.scheduled = true;
      queueMicrotask(() => setTimeout(() => this.flush()));
    }
    return answer;
  }

  private flush() {
    this.scheduled = false;
    const groups = [...this.waiting.values()];
    this.waiting.clear();
    for (const { query, metrics } of groups) {
      // A request line may have 8 KiB, and many curves in one answer would delay the first chart.
      const inOrder = [...metrics.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      for (const part of pieces(inOrder, 6, 3000)) {
        const answer = this.send(query, part);
        for (const metric of part) for (const resolve of metrics.get(metric)!) resolve(answer.then((all) => all.get(metric) ?? this.none()));
      }
    }
  }
}

function* pieces(words: string[], most: number, letters: number): Generator<string[]> {
  let part: string[] = [];
  let length = 0;
  for (const word of words) {
    const size = encodeURIComponent(word).length + 8;
    if (part.length > 0 && (part.length >= most || length + size > letters)) {
      yield part;
      part = [];
      length = 0;
    }
    part.push(word);
    length += size;
  }
  if (part.length > 0) yield part;
}

interface SeriesAnswer { series: { run: string; source: string; metric: string; raw: boolean; total: number; x: unknown[]; y: unknown[]; smooth?: unknown[] }[] }
interface BandAnswer { bands: (Omit<Band, "x" | "mean" | "min" | "max" | "deviation"> & Record<"x" | "mean" | "min" | "max" | "deviation", unknown[]>)[] }

async function sendCurves(query: CurveQuery, metrics: string[]): Promise<Map<string, Curve[]>> {
  // Time counts from each run's own beginning, so runs that began at different times are asked for one by one.
  const parts = query.x === "time" ? query.runs.map((run) => [run]) : [query.runs];
  const answers = await Promise.all(parts.map((runs) => {
    const zero = query.x === "time" ? runs[0]!.created : 0;
    return ask<SeriesAnswer>("series", {
      run: runs.map((run) => run.id), metric: metrics, source: query.sources, x: query.x, points: query.points, smooth: query.smooth || null,
      from: query.range ? query.range[0] + zero : null, to: query.range ? query.range[1] + zero : null,
    }).then((answer) => ({ answer, zero }));
  }));
  const found = new Map<string, Curve[]>(metrics.map((metric) => [metric, []]));
  for (const { answer, zero } of answers) {
    for (const { run, source, metric, raw, total, x, y, smooth } of answer.series) {
      found.get(metric)?.push({ run, source, metric, raw, total, x: toArray(x, zero), y: toArray(y), ...(smooth ? { smooth: toArray(smooth) } : {}) });
    }
  }
  return found;
}

async function sendBands(query: BandQuery, metrics: string[]): Promise<Map<string, Band | null>> {
  const answer = await ask<BandAnswer>("band", {
    ...(Array.isArray(query.runs) ? { run: query.runs } : query.runs), metric: metrics, x: query.x, points: query.points, from: query.range?.[0], to: query.range?.[1],
  });
  return new Map(answer.bands.map((band) => [band.metric, {
    ...band, x: toArray(band.x), mean: toArray(band.mean), min: toArray(band.min), max: toArray(band.max), deviation: toArray(band.deviation),
  }]));
}

const curves = new Batch<CurveQuery, Curve[]>(sendCurves, () => []);
const bands = new Batch<BandQuery, Band | null>(sendBands, () => null);

function watch(since: number, onChanges: (changes: Changes) => void, onConnection: (state: Connection) => void): () => void {
  let seq = since;
  let timer = 0;
  let ended = false;
  let events: EventSource | null = null;
  const take = (changes: Changes) => {
    seq = changes.seq;
    onChanges(changes);
  };
  const poll = async () => {
    try {
      take(await ask<Changes>("changes", { since: seq }));
      onConnection("polling");
    } catch (error) {
      // A server that was started anew knows nobody: the page asks for the token again.
      if (error instanceof Refusal && error.code === "unauthorized") location.reload();
      onConnection("lost");
    }
    if (!ended) timer = window.setTimeout(poll, 2000);
  };
  const listen = () => {
    events = new EventSource(address("events", { since: seq }));
    events.onopen = () => onConnection("live");
    events.addEventListener("change", (event) => take(JSON.parse((event as MessageEvent<string>).data)));
    events.onerror = () => {
      // Closed for good (too many streams, or no server): ask every two seconds, and try to listen again after a minute.
      if (events?.readyState === EventSource.CLOSED || ended) {
        events?.close();
        if (!ended && !timer) {
          void poll();
          window.setTimeout(() => {
            clearTimeout(timer);
            timer = 0;
            if (!ended) listen();
          }, 60000);
        }
      } else {
        onConnection("lost");
      }
    };
  };
  listen();
  return () => {
    ended = true;
    clearTimeout(timer);
    events?.close();
  };
}

export const http: DataSource = {
  live: true,
  server: () => ask("server"),
  runs: ({ columns, ...query }) => ask("runs", { ...query, column: columns }),
  fields: async (filter) => (await ask<{ fields: never[] }>("fields", { filter })).fields,
  groups: async (by, filter) => (await ask<{ groups: never[] }>("groups", { by, filter })).groups,
  run: (id) => ask(at(id)),
  curves: (query) => curves.get(query),
  band: (query) => bands.get(query),
  heatmap: (run, metric, range, columns) => ask("heatmap", { run, metric, from: range?.[0], to: range?.[1], columns }),
  images: async (run, name) => (await ask<{ items: never[] }>(`${at(run)}/images`, { name, limit: 200 })).items,
  histograms: async (run, name, source) => (await ask<{ items: never[] }>(`${at(run)}/histograms`, { name, source, limit: 200 })).items,
  table: (run, name, version, offset, rows) => ask(`${at(run)}/tables`, { name, at: version, offset, rows }),
  texts: async (run) => (await ask<{ items: never[] }>(`${at(run)}/texts`, { level: "debug", offset: -500, limit: 500 })).items,
  console: (run, stream, where) => ask(`${at(run)}/console`, { stream, bytes: 262144, ...where }),
  searchConsole: (run, stream, search, from) => ask(`${at(run)}/console`, { stream, search, from, limit: 500 }),
  alerts: async () => (await ask<{ alerts: never[] }>("alerts", { limit: 200 })).alerts,
  compare: (runs) => ask("compare", { run: runs }),
  artifacts: (run) => ask("artifacts", { run }),
  files: async (run) => (await ask<{ files: never[] }>(`${at(run)}/files`)).files,
  fileUrl: (run, path) => `/api/${at(run)}/files/${pathOf(path)}`,
  reportUrl: (runs) => address("report.html", { run: runs }),
  csvUrl: ({ runs, metric, sources }) => address("series.csv", { run: runs.map((run) => run.id), metric, source: sources }),
  change: (run, json) => ask(`${at(run)}/tags`, {}, { method: "POST", json }),
  stop: (run, reason) => ask(`${at(run)}/stop`, {}, { method: "POST", json: { reason } }),
  remove: async (run) => void (await ask(at(run), {}, { method: "DELETE", json: { confirm: run } })),
  watch,
};
