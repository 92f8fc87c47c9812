// Keyboard shortcuts. Each view registers its own; "?" lists all of them.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "./parts/icons";
import { Dialog } from "./parts/overlay";
import { go } from "./router";

export interface Key { keys: string[]; description: string; run: (event: KeyboardEvent) => void }

const active = signal<{ title: string; keys: Key[] }[]>([]);
const open = signal(false);

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.matches("input:not([type=checkbox]):not([type=range]), textarea, select") || target.isContentEditable);

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (event.key === "?") {
    open.value = true;
    return;
  }
  for (const { keys } of [...active.value].reverse()) {
    const key = keys.find((k) => k.keys.includes(event.key));
    if (!key) continue;
    event.preventDefault();
    key.run(event);
    return;
  }
});

/** Registers `keys` while the component is mounted. They may change with every render. */
export function useKeys(title: string, keys: Key[]) {
  const entry = useRef({ title, keys }).current;
  // Not through the signal: the component that renders the list registers keys too and would rerender forever.
  useLayoutEffect(() => void Object.assign(entry, { title, keys }));
  useLayoutEffect(() => {
    active.value = [...active.value, entry];
    return () => void (active.value = active.value.filter((other) => other !== entry));
  }, [entry]);
}

/** The keys of each title; several components of a page can have the same. */
function byTitle(entries: readonly { title: string; keys: Key[] }[]): [string, Key[]][] {
  const found = new Map<string, Key[]>();
  for (const { title, keys } of entries) found.set(title, [...(found.get(title) ?? []), ...keys]);
  return [...found];
}

const NAMES: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Enter: "Enter", " ": "Space", Escape: "Esc", PageUp: "Page Up", PageDown: "Page Down" };

const SIDES = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
const LEAVE = { keys: ["Escape"], description: "Leave" };

/** The keys of drawings, which have the focus. */
const DRAWINGS: Record<string, Omit<Key, "run">[]> = {
  "Charts (focus with Tab)": [
    { keys: ["ArrowLeft", "ArrowRight"], description: "Previous or next value" },
    { keys: ["ArrowUp", "ArrowDown"], description: "Line above or below, or end of a band" },
    { keys: ["Enter"], description: "As a click on the line: open its run, or overlay its rank" },
    { keys: ["+", "-", "0"], description: "Zoom in, zoom out, reset zoom" },
    LEAVE,
  ],
  "Scatter plots (focus with Tab)": [
    { keys: SIDES, description: "Next point to this side" },
    { keys: ["Enter"], description: "Open its run" },
    LEAVE,
  ],
  "Lines of parallel coordinates (focus with Tab)": [
    { keys: ["ArrowUp", "ArrowDown"], description: "Line above or below on an axis" },
    { keys: ["ArrowLeft", "ArrowRight"], description: "Another axis" },
    { keys: ["Enter"], description: "Open its run" },
    LEAVE,
  ],
  "Names of their axes (focus with Tab)": [
    { keys: ["ArrowUp", "ArrowDown"], description: "Select half of the axis, or move the selection" },
    { keys: ["Shift+↑", "Shift+↓"], description: "Move its upper end" },
    { keys: ["Escape"], description: "Clear it" },
    { keys: ["ArrowLeft", "ArrowRight"], description: "Another axis" },
  ],
  "Heatmap of ranks (focus with Tab)": [
    { keys: SIDES, description: "Another rank or step" },
    { keys: ["PageUp", "PageDown"], description: "A tenth of the steps" },
    { keys: ["Enter"], description: "Overlay the curve of the rank" },
    LEAVE,
  ],
  "Points in three dimensions (focus with Tab)": [
    { keys: SIDES, description: "Rotate" },
    { keys: ["+", "-", "0"], description: "Zoom in, zoom out, reset" },
  ],
};

export function Keys() {
  useKeys("Global", [
    { keys: ["?"], description: "Show keyboard shortcuts", run: () => (open.value = true) },
    { keys: ["g"], description: "Go to all runs", run: () => go([]) },
  ]);
  return (
    <>
      <button type="button" class="button quiet icon keyboard" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={() => (open.value = true)}><Icon name="keyboard" /></button>
      {open.value && (
        <Dialog title="Keyboard shortcuts" close={() => (open.value = false)} footer={<button class="button" type="button" data-first onClick={() => (open.value = false)}>Close</button>}>
          {[...byTitle(active.value), ...Object.entries(DRAWINGS)].map(([title, keys]) => (
            <section key={title} class="keylist">
              <h3>{title}</h3>
              <dl>{keys.map((key) => <div key={key.description}><dt>{key.keys.map((k) => <kbd key={k}>{NAMES[k] ?? k}</kbd>)}</dt><dd>{key.description}</dd></div>)}</dl>
            </section>
          ))}
        </Dialog>
      )}
    </>
  );
}
