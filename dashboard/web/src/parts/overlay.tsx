// Overlays: popovers, dialogs and toasts.
import { signal } from "@preact/signals";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** A button that opens a panel. Escape or a click outside closes the panel. */
export function Popover(props: {
  label: ComponentChildren; name?: string; class?: string; menu?: boolean; align?: "left" | "right"; tabIndex?: number;
  children: (close: () => void) => ComponentChildren;
}) {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    <>
      <button ref={button} type="button" class={props.class ?? "button"} tabIndex={props.tabIndex} aria-label={props.name} title={props.name} aria-expanded={open} aria-haspopup={props.menu ? "menu" : "dialog"} onClick={() => setOpen(!open)}>
        {props.label}
      </button>
      {open && <PopoverPanel anchor={button} name={props.name ?? "options"} menu={props.menu ?? false} align={props.align ?? "left"} close={close}>{props.children(close)}</PopoverPanel>}
    </>
  );
}

function PopoverPanel(props: { anchor: RefObject<HTMLElement | null>; name: string; menu: boolean; align: "left" | "right"; close: () => void; children: ComponentChildren }) {
  const panel = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const box = props.anchor.current!.getBoundingClientRect();
    const own = panel.current!;
    const width = own.offsetWidth;
    const height = own.offsetHeight;
    const left = props.align === "right" ? box.right - width : box.left;
    const below = box.bottom + 6;
    own.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
    own.style.top = `${below + height > innerHeight - 8 ? Math.max(8, box.top - height - 6) : below}px`;
    (own.querySelector<HTMLElement>("[data-first], input, button, a") ?? own).focus();
  }, []);
  useEffect(() => {
    const onPointerDown = (event: Event) => {
      const target = event.target as Node;
      if (!panel.current?.contains(target) && !props.anchor.current?.contains(target)) props.close();
    };
    addEventListener("pointerdown", onPointerDown, true);
    return () => removeEventListener("pointerdown", onPointerDown, true);
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      props.close();
    }
    if (props.menu && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const items = [...panel.current!.querySelectorAll<HTMLElement>("button, a")];
      const at = items.indexOf(document.activeElement as HTMLElement);
      items[(at + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length]?.focus();
    }
  };
  return (
    <div ref={panel} class={`popover ${props.menu ? "menu" : ""}`} role={props.menu ? "group" : "dialog"} aria-label={props.name} tabIndex={-1} onKeyDown={onKeyDown}>
      {props.children}
    </div>
  );
}

export function Dialog(props: { title: string; wide?: boolean; close: () => void; children: ComponentChildren; footer?: ComponentChildren; onSubmit?: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={dialog} class={props.wide ? "wide" : ""} aria-label={props.title} onClose={props.close} onClick={(event) => event.target === dialog.current && props.close()}>
      <form method="dialog" onSubmit={(event) => { event.preventDefault(); props.onSubmit?.(); }}>
        <div class="body"><h2>{props.title}</h2>{props.children}</div>
        {props.footer && <div class="footer">{props.footer}</div>}
      </form>
    </dialog>
  );
}

/** Whether the window is at most `pixels` wide. */
export function useNarrow(pixels: number): boolean {
  const [narrow, setNarrow] = useState(() => matchMedia(`(max-width: ${pixels}px)`).matches);
  useEffect(() => {
    const query = matchMedia(`(max-width: ${pixels}px)`);
    const update = () => setNarrow(query.matches);
    update();
    query.addEventListener("change", update);
    return () => query.removeEventListener("change", update);
  }, [pixels]);
  return narrow;
}

interface Toast { id: number; text: string; bad: boolean; undo: (() => void) | undefined }
const toasts = signal<Toast[]>([]);
let lastToast = 0;

const removeToast = (id: number) => void (toasts.value = toasts.value.filter((t) => t.id !== id));

/** `undo`: called by a button "Undo", which is shown for 15 seconds. */
export function toast(text: string, bad = false, undo?: () => void) {
  const id = ++lastToast;
  toasts.value = [...toasts.value.slice(-3), { id, text, bad, undo }];
  setTimeout(() => removeToast(id), undo ? 15000 : bad ? 8000 : 3500);
}

export async function copyText(text: string) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast(text);
  }
}

export function Toasts() {
  return <div class="toasts" role="status" aria-live="polite">{toasts.value.map((t) => (
    <div key={t.id} class={`toast ${t.bad ? "bad" : ""}`}>{t.text}{t.undo && <button type="button" onClick={() => { removeToast(t.id); t.undo!(); }}>Undo</button>}</div>
  ))}</div>;
}
