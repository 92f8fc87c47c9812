// The URL fragment holds the view: #/path/parts?query. A change of the path adds a history entry; a change of the query only
// (a filter, a zoom) replaces the current one.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Route {
  path: string[];
  query: URLSearchParams;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function read(): Route {
  const hash = location.hash.replace(/^#\/?/, "");
  const at = hash.indexOf("?");
  const path = (at < 0 ? hash : hash.slice(0, at)).split("/").filter(Boolean).map(decode);
  return { path, query: new URLSearchParams(at < 0 ? "" : hash.slice(at + 1)) };
}

export const route = signal<Route>(read());
addEventListener("hashchange", () => (route.value = read()));

/** Navigates without a new history entry. */
export function replaceRoute(target: string) {
  history.replaceState(null, "", target);
  route.value = read();
}

export type Query = Record<string, string | null | undefined>;

export function link(path: string[], query: Query = {}): string {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value) words.set(key, value);
  const text = words.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(path: string[], query: Query = {}) {
  location.hash = link(path, query);
}

/** Changes query parameters; null or "" removes one. */
export function setQuery(changes: Query, keepHistory = false) {
  const query = new URLSearchParams(route.value.query);
  for (const [key, value] of Object.entries(changes)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  const target = link(route.value.path, Object.fromEntries(query));
  if (target === location.hash || (target === "#/" && location.hash === "")) return;
  if (keepHistory) {
    location.hash = target;
    return;
  }
  replaceRoute(target);
}

/** Browsers limit how often a page changes its URL, and a slider or a text changes more often. */
const WRITE_DELAY_MS = 150;

/** A choice that is part of the URL: the value of a query parameter, "" if it is not set. The URL has a change shortly after the last one. */
export function useUrlState(key: string): [string, (value: string) => void] {
  const inUrl = route.value.query.get(key) ?? "";
  // Shown until it is in the URL, or the URL changes meanwhile: by a link, a saved view.
  const [own, setOwn] = useState<{ key: string; value: string; before: string } | null>(null);
  const pending = useRef<{ timer: number; write: () => void } | null>(null);
  const stop = () => {
    clearTimeout(pending.current?.timer);
    const left = pending.current;
    pending.current = null;
    return left;
  };
  useEffect(() => () => stop()?.write(), [key]);
  const set = (value: string) => {
    stop();
    setOwn({ key, value, before: inUrl });
    const page = route.value.path.join("/");
    const write = () => {
      if (route.value.path.join("/") === page) setQuery({ [key]: value });
    };
    const timer = window.setTimeout(() => {
      stop();
      write();
      setOwn(null);
    }, WRITE_DELAY_MS);
    pending.current = { timer, write };
  };
  return [own !== null && own.key === key && own.before === inUrl ? own.value : inUrl, set];
}

/** As useUrlState(), of a place in an ascending list of numbers: the URL has the number, and "" is the last place, also of a list that grows. */
export function useUrlPlace(key: string, numbers: readonly number[]): [number, (at: number) => void] {
  const [text, set] = useUrlState(key);
  const found = text === "" ? -1 : numbers.indexOf(Number(text));
  return [found < 0 ? numbers.length - 1 : found, (at) => set(at === numbers.length - 1 ? "" : String(numbers[at]))];
}
