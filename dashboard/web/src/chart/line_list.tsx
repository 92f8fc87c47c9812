// The lines of charts as a list: checkbox, color, name, and value at the pointer.
import { useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { plural } from "../format";
import { highlighted, hovered } from "./hover";

export interface Entry { key: string; label: string; color: string; dash: readonly number[]; href?: string; title?: string; more?: ComponentChildren }

interface Props {
  entries: readonly Entry[];
  /** A noun for the lines, e.g. "run". */
  what: string;
  hidden: ReadonlySet<string>;
  onHide: (hidden: ReadonlySet<string>) => void;
  /** Content between the header and the lines. */
  children?: ComponentChildren;
}

export function Stroke({ color, dash }: { color: string; dash: readonly number[] }) {
  return <svg class="stroke" width="22" height="8" aria-hidden="true"><line x1="1" x2="21" y1="4" y2="4" stroke={color} stroke-width="3" stroke-dasharray={dash.join(" ")} /></svg>;
}

export function LineList({ entries, what, hidden, onHide, children }: Props) {
  const all = useRef<HTMLInputElement>(null);
  const shown = entries.filter((entry) => !hidden.has(entry.key)).length;
  useEffect(() => void (all.current!.indeterminate = shown > 0 && shown < entries.length));
  useEffect(() => () => void (highlighted.value = null), []);
  const toggle = (key: string) => {
    const next = new Set(hidden);
    if (!next.delete(key)) next.add(key);
    onHide(next);
  };
  return (
    <div class="line-list">
      <div class="line-list-head">
        <label class="row small">
          <input ref={all} type="checkbox" class="check" checked={shown === entries.length} onChange={() => onHide(shown === entries.length ? new Set(entries.map((entry) => entry.key)) : new Set())} />
          {shown === entries.length ? plural(entries.length, what) : `${shown} of ${plural(entries.length, what)}`}
        </label>
        <HoveredX />
      </div>
      {children}
      <ul class="lines" aria-label={plural(entries.length, what)}>
        {entries.map((entry) => (
          <li key={entry.key} class={hidden.has(entry.key) ? "off" : ""} onPointerEnter={() => (highlighted.value = hidden.has(entry.key) ? null : entry.key)} onPointerLeave={() => (highlighted.value = null)}>
            <input type="checkbox" class="check" checked={!hidden.has(entry.key)} aria-label={`Show ${entry.label}`} onChange={() => toggle(entry.key)} onFocus={() => (highlighted.value = hidden.has(entry.key) ? null : entry.key)} onBlur={() => (highlighted.value = null)} />
            <Stroke color={entry.color} dash={entry.dash} />
            {entry.href ? <a href={entry.href} class="line-name ellipsis" title={entry.title ?? entry.label}>{entry.label}</a> : <span class="line-name ellipsis" title={entry.title ?? entry.label}>{entry.label}</span>}
            <ValueAt of={entry.key} />
            {entry.more}
          </li>
        ))}
      </ul>
    </div>
  );
}

function HoveredX() {
  const now = hovered.value;
  return <span class="hint ellipsis line-list-at" title={now ? `${now.name}, ${now.x}` : undefined}>{now ? `${now.name.split("/").pop()}, ${now.x}` : ""}</span>;
}

function ValueAt({ of }: { of: string }) {
  const value = useComputed(() => hovered.value?.values.get(of) ?? "");
  return <span class="line-value">{value}</span>;
}
