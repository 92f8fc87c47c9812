// What all views share: where data comes from, and what changed last.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { land } from "./router";
import type { Changes, Connection, DataSource, Indexing, ServerInfo } from "./data/source";

let chosen: DataSource;
export const source = (): DataSource => chosen;

export const server = signal<ServerInfo | null>(null);
export const connection = signal<Connection>("live");
export const indexing = signal<Indexing>({ done: 0, total: 0 });
/** Grows with every change of anything. */
export const tick = signal(0);
/** Versions of runs that changed since the page was opened. */
export const versions = signal<ReadonlyMap<string, number>>(new Map());
export const removed = signal<ReadonlySet<string>>(new Set());

export async function begin(data: DataSource) {
  chosen = data;
  const info = await data.server();
  server.value = info;
  indexing.value = info.indexing;
  if (data.start && !location.hash) land(data.start);
  if (data.live) data.watch(info.seq, take, (state) => (connection.value = state));
}

function take(changes: Changes) {
  indexing.value = changes.indexing;
  if (changes.runs.length > 0 || changes.reset) {
    const next = new Map(versions.value);
    for (const run of changes.runs) next.set(run.id, run.version);
    if (changes.reset) for (const id of next.keys()) next.set(id, Date.now());
    versions.value = next;
  }
  if (changes.removed.length > 0) removed.value = new Set([...removed.value, ...changes.removed]);
  if (changes.runs.length > 0 || changes.removed.length > 0 || changes.reset) tick.value++;
}

/** Something was done here: views need not wait for the server to tell. */
export function touch(id?: string) {
  if (id) versions.value = new Map(versions.value).set(id, Date.now());
  tick.value++;
}

export interface Answer<T> { value: T | undefined; error: Error | undefined; pending: boolean }

/** What `ask` answers. While it asks again, the last answer stays; an answer that comes after a later one is dropped. */
export function useAnswer<T>(ask: () => Promise<T>, deps: unknown[], keep = true): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>({ value: undefined, error: undefined, pending: true });
  const number = useRef(0);
  const shown = useRef(0);
  useEffect(() => {
    const own = ++number.current;
    const isNews = () => own > shown.current && Boolean((shown.current = own));
    setAnswer((before) => ({ value: keep ? before.value : undefined, error: undefined, pending: true }));
    ask().then(
      (value) => isNews() && setAnswer({ value, error: undefined, pending: own < number.current }),
      (error: Error) => isNews() && setAnswer((before) => ({ value: keep ? before.value : undefined, error, pending: own < number.current })),
    );
  }, deps);
  useEffect(() => () => void (shown.current = Infinity), []);
  return answer;
}

/** The value, but no newer than `ms` after its last change: for what grows all the time. */
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

/** The value, once it has been the same for `ms`. */
export function useSettled<T>(value: T, ms: number): T {
  const [shown, setShown] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setShown(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return shown;
}

/** Seconds since 1970, renewed every `ms`. */
export function useNow(ms: number): number {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return now;
}
