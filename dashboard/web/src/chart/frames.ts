// Work that may wait for the next frame, a little per frame, so that scrolling stays smooth.
const BUDGET_MS = 7;
const waiting: (() => void)[] = [];
let scheduled = false;

async function work() {
  const begin = performance.now();
  while (waiting.length > 0 && performance.now() - begin < BUDGET_MS) {
    try {
      waiting.shift()!();
    } catch (error) {
      reportError(error);
    }
    await null; // uPlot draws when the task is over: that is most of the work, and has to count
  }
  if (waiting.length > 0) requestAnimationFrame(work);
  else scheduled = false;
}

/** Runs `task` in one of the next frames; the returned function takes it back. */
export function inSomeFrame(task: () => void): () => void {
  waiting.push(task);
  if (!scheduled) {
    scheduled = true;
    requestAnimationFrame(work);
  }
  return () => {
    const at = waiting.indexOf(task);
    if (at >= 0) waiting.splice(at, 1);
  };
}
