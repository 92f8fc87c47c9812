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

const NAMES: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Enter: "Enter", " ": "Space", Escape: "Esc" };

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
          {byTitle(active.value).map(([title, keys]) => (
            <section key={title} class="keylist">
              <h3>{title}</h3>
              <dl>{keys.map((key) => <div key={key.description}><dt>{key.keys.map((k) => <kbd key={k}>{NAMES[k] ?? k}</kbd>)}</dt><dd>{key.description}</dd></div>)}</dl>
            </section>
          ))}
          <section class="keylist">
            <h3>Charts (focus with Tab)</h3>
            <dl>
              <div><dt><kbd>←</kbd><kbd>→</kbd></dt><dd>Previous or next value</dd></div>
              <div><dt><kbd>+</kbd><kbd>-</kbd><kbd>0</kbd></dt><dd>Zoom in, zoom out, reset zoom</dd></div>
            </dl>
          </section>
          <section class="keylist">
            <h3>Points in three dimensions (focus with Tab)</h3>
            <dl>
              <div><dt><kbd>←</kbd><kbd>→</kbd><kbd>↑</kbd><kbd>↓</kbd></dt><dd>Rotate</dd></div>
              <div><dt><kbd>+</kbd><kbd>-</kbd><kbd>0</kbd></dt><dd>Zoom in, zoom out, reset</dd></div>
            </dl>
          </section>
        </Dialog>
      )}
    </>
  );
}
