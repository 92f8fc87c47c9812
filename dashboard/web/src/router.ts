// The URL fragment holds the view: #/path/parts?query. A change of the path adds a history entry; a change of the query only
// (a filter, a zoom) replaces the current one.
import { signal } from "@preact/signals";

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
