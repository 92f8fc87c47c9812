// Computes a UMAP without blocking the page, which ends the worker to cancel it.
import type { UmapMessage, UmapProgress, UmapRequest } from "./umap";
import { umapLayout } from "./umap_layout";

const REPORT_MS = 100;

const send = (message: UmapMessage) => postMessage(message);
let reported = 0;

function report(progress: UmapProgress) {
  if (performance.now() < reported + REPORT_MS) return;
  reported = performance.now();
  send({ progress });
}

addEventListener("message", (event: MessageEvent<UmapRequest>) => {
  try {
    send({ scores: umapLayout(event.data, report) });
  } catch (error) {
    send({ error: (error as Error).message });
  }
});
