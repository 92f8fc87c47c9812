// Change events for one page, while it is visible. All pages of a browser share one stream: browsers allow six connections per
// server, so the seventh page would wait forever.
import { request } from "./request";
import type { Changes, Connection } from "./source";
import { listen, type StreamState } from "./stream";

/** The last change that the page has; null: the page is hidden or closed. */
export interface ToWorker { since: number | null }
/** `joined`: the stream was already open; the page must fetch earlier changes itself. */
export interface FromWorker { changes?: Changes; state?: StreamState; joined?: boolean }

interface Stream { begin: (since: number) => void; end: () => void }

type OnMessage = (message: FromWorker) => void;

function ownStream(onMessage: OnMessage): Stream {
  let stop = () => {};
  return { begin: (since) => (stop = listen(since, (changes) => onMessage({ changes }), (state) => onMessage({ state }))), end: () => stop() };
}

/** Null if the browser does not support shared workers. `onFailure` is called if the worker cannot be started. */
function sharedStream(onMessage: OnMessage, onFailure: () => void): Stream | null {
  if (typeof SharedWorker === "undefined") return null;
  const worker = new SharedWorker("/events.js");
  worker.onerror = onFailure;
  worker.port.onmessage = ({ data }: MessageEvent<FromWorker>) => onMessage(data);
  const send = (message: ToWorker) => worker.port.postMessage(message);
  return { begin: (since) => send({ since }), end: () => send({ since: null }) };
}

export function watch(since: number, onChanges: (changes: Changes) => void, onConnection: (state: Connection) => void): () => void {
  let seq = since;
  let isActive = false;
  const apply = (changes: Changes) => {
    seq = changes.seq;
    onChanges(changes);
  };
  const handle = ({ changes, state, joined }: FromWorker) => {
    if (!isActive) return;
    if (changes) apply(changes);
    if (joined) void request<Changes>("changes", { since: seq }).then(apply, () => undefined); // on failure, the stream reports the connection state
    if (state === "unauthorized") location.reload();
    else if (state) onConnection(state);
  };
  let stream = sharedStream(handle, () => {
    stream = ownStream(handle);
    if (isActive) stream.begin(seq);
  }) ?? ownStream(handle);
  const setActive = (on: boolean) => {
    if (on === isActive) return;
    isActive = on;
    if (on) stream.begin(seq);
    else stream.end();
  };
  const update = () => setActive(!document.hidden);
  const stop = () => setActive(false);
  document.addEventListener("visibilitychange", update);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", update);
  update();
  return () => {
    document.removeEventListener("visibilitychange", update);
    removeEventListener("pagehide", stop);
    removeEventListener("pageshow", update);
    stop();
  };
}
