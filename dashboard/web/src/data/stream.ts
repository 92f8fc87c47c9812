// The event stream of the server, in a page or in the shared worker.
import { apiUrl, request } from "./request";
import { type Changes, type Connection, ApiError } from "./source";

/** "unauthorized": the server was restarted and the session is no longer valid. */
export type StreamState = Connection | "unauthorized";

const POLL_MS = 2000;
const RECONNECT_MS = 60000;

/** Reports every change after `since` until the returned function is called. */
export function listen(since: number, onChanges: (changes: Changes) => void, onState: (state: StreamState) => void): () => void {
  let seq = since;
  let ended = false;
  let polls = 0; // of a loop that has been replaced, no further request is made
  let poller: ReturnType<typeof setTimeout> | undefined;
  let reconnect: ReturnType<typeof setTimeout> | undefined;
  let events: EventSource | null = null;
  const apply = (changes: Changes) => {
    if (ended) return;
    seq = changes.seq;
    onChanges(changes);
  };
  const poll = async (loop: number) => {
    try {
      apply(await request<Changes>("changes", { since: seq }));
      if (!ended && loop === polls) onState("polling");
    } catch (error) {
      if (!ended) onState(error instanceof ApiError && error.code === "unauthorized" ? "unauthorized" : "lost");
    }
    if (!ended && loop === polls) poller = setTimeout(() => void poll(loop), POLL_MS);
  };
  const open = () => {
    clearTimeout(poller);
    polls++;
    events = new EventSource(apiUrl("events", { since: seq }));
    events.onopen = () => onState("live");
    events.addEventListener("change", (event) => apply(JSON.parse((event as MessageEvent<string>).data)));
    events.onerror = () => {
      if (ended) return;
      // The browser reconnects automatically, unless the request failed: too many streams, or no server.
      if (events?.readyState !== EventSource.CLOSED) return onState("lost");
      void poll(++polls);
      reconnect = setTimeout(open, RECONNECT_MS);
    };
  };
  open();
  return () => {
    ended = true;
    clearTimeout(poller);
    clearTimeout(reconnect);
    events?.close();
  };
}
