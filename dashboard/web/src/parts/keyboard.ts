// The keyboard in drawings: each is one tab stop, in which keys move the place that the pointer also sets. No DOM.

/** Runs the action of a key, if there is one. Keys with modifiers other than Shift belong to the browser. */
export function handleKey(event: KeyboardEvent, actions: Readonly<Record<string, (() => void) | false>>) {
  const action = !event.ctrlKey && !event.metaKey && !event.altKey && Object.hasOwn(actions, event.key) && actions[event.key];
  if (!action) return;
  event.preventDefault();
  event.stopPropagation();
  action();
}

/** The item after (1) or before (-1) `now` in an order that does not wrap; without it, the first or the last one. Null if there is none. */
export function stepIn<T>(order: readonly T[], now: T | null, by: -1 | 1): T | null {
  const at = now === null ? -1 : order.indexOf(now);
  const to = at < 0 ? (by > 0 ? 0 : order.length - 1) : Math.max(0, Math.min(order.length - 1, at + by));
  return order[to] ?? null;
}
