// Runs deferred tasks within a time budget per frame, so that scrolling stays smooth.
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
    await null; // uPlot draws in a microtask after the task: most of the work, which must count
  }
  if (waiting.length > 0) requestAnimationFrame(work);
  else scheduled = false;
}

/** Runs `task` in one of the next frames; the returned function cancels it. */
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
