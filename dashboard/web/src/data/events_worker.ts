// A shared worker: one event stream for all pages of a browser while at least one of them is visible. Browsers allow only six
// connections per server.
import { listen, type StreamState } from "./stream";
import type { FromWorker, ToWorker } from "./events";

const pages = new Set<MessagePort>();
let state: StreamState = "live";
let stop: (() => void) | null = null;

const broadcast = (message: FromWorker) => pages.forEach((page) => page.postMessage(message));

function begin(since: number) {
  state = "live";
  stop = listen(since, (changes) => broadcast({ changes }), (now) => broadcast({ state: (state = now) }));
}

addEventListener("connect", (event) => {
  const page = (event as MessageEvent).ports[0]!;
  page.onmessage = ({ data }: MessageEvent<ToWorker>) => {
    if (data.since === null) {
      pages.delete(page);
      if (pages.size > 0) return;
      stop?.();
      stop = null;
      return;
    }
    pages.add(page);
    if (stop) page.postMessage({ joined: true, state } satisfies FromWorker);
    else begin(data.since);
  };
});
