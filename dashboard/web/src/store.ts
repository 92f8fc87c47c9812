// State shared by all views: the data source and the latest changes.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { replaceRoute } from "./router";
import type { Changes, Connection, DataSource, Indexing, ServerInfo } from "./data/source";

let dataSource: DataSource;
export const source = (): DataSource => dataSource;

export const server = signal<ServerInfo | null>(null);
export const connection = signal<Connection>("live");
export const indexing = signal<Indexing>({ done: 0, total: 0 });
/** Incremented with every change of any run. */
export const tick = signal(0);
/** Versions of runs that changed since the page was opened. */
export const versions = signal<ReadonlyMap<string, number>>(new Map());
export const removed = signal<ReadonlySet<string>>(new Set());

export async function initialize(data: DataSource) {
  dataSource = data;
  const info = await data.server();
  server.value = info;
  indexing.value = info.indexing;
  if (data.start && !location.hash) replaceRoute(data.start);
  if (data.live) data.watch(info.seq, applyChanges, (state) => (connection.value = state));
}

function applyChanges(changes: Changes) {
  indexing.value = changes.indexing;
  if (changes.runs.length > 0 || changes.reset) {
    const next = new Map(versions.value);
    for (const run of changes.runs) next.set(run.id, run.version);
    if (changes.reset) for (const id of next.keys()) next.set(id, Date.now());
    versions.value = next;
  }
  if (changes.removed.length > 0 || changes.runs.some((run) => removed.value.has(run.id))) {
    const next = new Set([...removed.value, ...changes.removed]);
    for (const run of changes.runs) next.delete(run.id); // created again
    removed.value = next;
  }
  if (changes.runs.length > 0 || changes.removed.length > 0 || changes.reset) tick.value++;
}

/** Refreshes views after a local change, of these runs, without waiting for the server's notification. */
export function invalidate(...ids: string[]) {
  if (ids.length > 0) versions.value = new Map([...versions.value, ...ids.map((id) => [id, Date.now()] as const)]);
  tick.value++;
}

export interface AsyncState<T> { value: T | undefined; error: Error | undefined; pending: boolean }

/** The result of `load`. The last result is kept while it reloads, and results that arrive out of order are dropped. */
export function useAsync<T>(load: () => Promise<T>, deps: unknown[], keep = true): AsyncState<T> {
  const [state, setState] = useState<AsyncState<T>>({ value: undefined, error: undefined, pending: true });
  const latest = useRef(0);
  const shown = useRef(0);
  // Starts before the frame is painted: an effect after it would delay the request by one to two frames.
  useLayoutEffect(() => {
    const request = ++latest.current;
    const isNewer = () => request > shown.current && Boolean((shown.current = request));
    setState((before) => ({ value: keep ? before.value : undefined, error: undefined, pending: true }));
    load().then(
      (value) => isNewer() && setState({ value, error: undefined, pending: request < latest.current }),
      (error: Error) => isNewer() && setState((before) => ({ value: keep ? before.value : undefined, error, pending: request < latest.current })),
    );
  }, deps);
  useEffect(() => () => void (shown.current = Infinity), []);
  return state;
}

/** The value, updated at most once per `ms`. */
export function useThrottled<T>(value: T, ms: number): T {
  const [shown, setShown] = useState(value);
  const last = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, last.current + ms - performance.now());
    const timer = setTimeout(() => {
      last.current = performance.now();
      setShown(value);
    }, wait);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return shown;
}

/** The value, once it has been unchanged for `ms`. */
export function useDebounced<T>(value: T, ms: number): T {
  const [shown, setShown] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setShown(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return shown;
}

/** Unix seconds, updated every `ms`. */
export function useNow(ms: number): number {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return now;
}
