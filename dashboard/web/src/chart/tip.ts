// The values under the pointer, as a small card that follows it. Made by hand, because it changes with every move.
import { legible } from "../legible";
import { type Line, nearest } from "./line";

const MOST = 8;

function element(parent: HTMLElement, kind: string, text: string): HTMLElement {
  const made = document.createElement("span");
  made.className = kind;
  made.textContent = legible(text);
  parent.append(made);
  return made;
}

/** A line of detail below a line's value. */
function sub(tip: HTMLElement, label: string, value: string) {
  const row = document.createElement("div");
  row.className = "tip-row sub";
  element(row, "swatch none", "");
  element(row, "tip-label", label);
  element(row, "tip-value", value);
  tip.append(row);
}

/** The values of all lines at x, the largest first. */
export function valuesAt(lines: readonly Line[], x: number): { line: Line; at: number; value: number }[] {
  return lines
    .map((line) => ({ line, at: nearest(line.x, x), value: NaN }))
    .filter((v) => v.at >= 0)
    .map((v) => ({ ...v, value: v.line.y[v.at]! }))
    .sort((a, b) => (Number.isNaN(b.value) ? -1 : Number.isNaN(a.value) ? 1 : b.value - a.value));
}

export function fillTip(tip: HTMLElement, lines: readonly Line[], x: number, place: (x: number) => string, format: (value: number) => string, closest: string | null) {
  tip.replaceChildren();
  const values = valuesAt(lines, x);
  const first = values.find((v) => v.line.key === closest) ?? values[0];
  if (!first) return;
  element(tip, "tip-x", place(first.line.x[first.at]!));
  // Of many, those around the one that is pointed at.
  const center = Math.max(0, values.indexOf(first));
  const from = Math.max(0, Math.min(center - MOST / 2, values.length - MOST));
  for (const { line, at, value } of values.slice(from, from + MOST)) {
    const row = document.createElement("div");
    row.className = line.key === closest ? "tip-row on" : "tip-row";
    element(row, "swatch", "").style.background = line.color;
    element(row, "tip-label", line.label);
    element(row, "tip-value", format(line.raw ? line.raw[at]! : value));
    if (line.raw) element(row, "tip-extra", `smoothed ${format(value)}`);
    tip.append(row);
    if (line.extremes) {
      if (line.extremes.lo[at] === line.extremes.hi[at]) {
        sub(tip, "the same in all of them", "");
        continue;
      }
      if (line.band) sub(tip, line.band.name, `${format(line.band.lo[at]!)} – ${format(line.band.hi[at]!)}`);
      for (const end of ["hi", "lo"] as const) {
        sub(tip, `${end === "hi" ? "largest" : "smallest"} · ${line.extremes.who(at, end)?.label ?? ""}`, format(line.extremes[end][at]!));
      }
      sub(tip, "mean and deviation", `${format(line.extremes.mean[at]!)} ± ${format(line.extremes.deviation[at]!)}`);
    }
  }
  if (values.length > MOST) element(tip, "tip-x", `and ${values.length - MOST} more`);
}
