// The server's changes as they happen, in a page or in the worker that all pages share.
import { address, ask } from "./ask";
import { type Changes, type Connection, Refusal } from "./source";

/** "unauthorized": the server was started again and does not know this browser. */
export type StreamState = Connection | "unauthorized";

const POLL_MS = 2000;
const LISTEN_AGAIN_MS = 60000;

/** Tells every change after `since` until the returned function is called. */
export function listen(since: number, onChanges: (changes: Changes) => void, onState: (state: StreamState) => void): () => void {
  let seq = since;
  let ended = false;
  let poller: ReturnType<typeof setTimeout> | undefined;
  let listener: ReturnType<typeof setTimeout> | undefined;
  let events: EventSource | null = null;
  const take = (changes: Changes) => {
    if (ended) return;
    seq = changes.seq;
    onChanges(changes);
  };
  const poll = async () => {
    try {
      take(await ask<Changes>("changes", { since: seq }));
      if (!ended) onState("polling");
    } catch (error) {
      if (!ended) onState(error instanceof Refusal && error.code === "unauthorized" ? "unauthorized" : "lost");
    }
    if (!ended) poller = setTimeout(poll, POLL_MS);
  };
  const open = () => {
    clearTimeout(poller);
    events = new EventSource(address("events", { since: seq }));
    events.onopen = () => onState("live");
    events.addEventListener("change", (event) => take(JSON.parse((event as MessageEvent<string>).data)));
    events.onerror = () => {
      if (ended) return;
      // The browser connects again by itself, unless it was refused: too many streams, or no server.
      if (events?.readyState !== EventSource.CLOSED) return onState("lost");
      void poll();
      listener = setTimeout(open, LISTEN_AGAIN_MS);
    };
  };
  open();
  return () => {
    ended = true;
    clearTimeout(poller);
    clearTimeout(listener);
    events?.close();
  };
}
