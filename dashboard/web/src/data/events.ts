// Changes for one page, while it is visible. All pages of a browser share one stream: it allows six connections to a server,
// and the seventh page would wait for one for ever.
import { ask } from "./ask";
import type { Changes, Connection } from "./source";
import { listen, type StreamState } from "./stream";

/** From which change on; null: the page is hidden or goes. */
export interface ToWorker { since: number | null }
/** `joined`: the stream was there already, and what came before is the page's to ask for. */
export interface FromWorker { changes?: Changes; state?: StreamState; joined?: boolean }

interface Stream { begin: (since: number) => void; end: () => void }

type Heard = (message: FromWorker) => void;

function ownStream(heard: Heard): Stream {
  let stop = () => {};
  return { begin: (since) => (stop = listen(since, (changes) => heard({ changes }), (state) => heard({ state }))), end: () => stop() };
}

/** Null where the browser has no shared workers. `onFailure`: it has, but could not start this one. */
function sharedStream(heard: Heard, onFailure: () => void): Stream | null {
  if (typeof SharedWorker === "undefined") return null;
  const worker = new SharedWorker("/events.js");
  worker.onerror = onFailure;
  worker.port.onmessage = ({ data }: MessageEvent<FromWorker>) => heard(data);
  const send = (message: ToWorker) => worker.port.postMessage(message);
  return { begin: (since) => send({ since }), end: () => send({ since: null }) };
}

export function watch(since: number, onChanges: (changes: Changes) => void, onConnection: (state: Connection) => void): () => void {
  let seq = since;
  let isOn = false;
  const take = (changes: Changes) => {
    seq = changes.seq;
    onChanges(changes);
  };
  const heard = ({ changes, state, joined }: FromWorker) => {
    if (!isOn) return;
    if (changes) take(changes);
    if (joined) void ask<Changes>("changes", { since: seq }).then(take, () => undefined); // what the stream says of the server holds
    if (state === "unauthorized") location.reload();
    else if (state) onConnection(state);
  };
  let stream = sharedStream(heard, () => {
    stream = ownStream(heard);
    if (isOn) stream.begin(seq);
  }) ?? ownStream(heard);
  const turn = (on: boolean) => {
    if (on === isOn) return;
    isOn = on;
    if (on) stream.begin(seq);
    else stream.end();
  };
  const look = () => turn(!document.hidden);
  const leave = () => turn(false);
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    removeEventListener("pagehide", leave);
    removeEventListener("pageshow", look);
    leave();
  };
}
