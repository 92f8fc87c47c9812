// The tooltip of a chart. Built without Preact, because it changes with every pointer move.
import { escapeBidi } from "../bidi";
import { type Line, nearest } from "./line";

const MAX_ROWS = 8;

function element(parent: HTMLElement, kind: string, text: string): HTMLElement {
  const made = document.createElement("span");
  made.className = kind;
  made.textContent = escapeBidi(text);
  parent.append(made);
  return made;
}

/** A detail row below the value of a line. */
function sub(tip: HTMLElement, label: string, value: string) {
  const row = document.createElement("div");
  row.className = "tip-row sub";
  element(row, "swatch none", "");
  element(row, "tip-label", label);
  element(row, "tip-value", value);
  tip.append(row);
}

/** The values of all lines at x, in descending order. */
export function valuesAt(lines: readonly Line[], x: number): { line: Line; at: number; value: number }[] {
  return lines
    .map((line) => ({ line, at: nearest(line.x, x), value: NaN }))
    .filter((v) => v.at >= 0)
    .map((v) => ({ ...v, value: v.line.y[v.at]! }))
    .sort((a, b) => (Number.isNaN(b.value) ? -1 : Number.isNaN(a.value) ? 1 : b.value - a.value));
}

export function renderTooltip(tip: HTMLElement, lines: readonly Line[], x: number, place: (x: number) => string, format: (value: number) => string, closest: string | null) {
  tip.replaceChildren();
  const values = valuesAt(lines, x);
  const first = values.find((v) => v.line.key === closest) ?? values[0];
  if (!first) return;
  element(tip, "tip-x", place(first.line.x[first.at]!));
  // With many lines, those around the hovered one.
  const center = Math.max(0, values.indexOf(first));
  const from = Math.max(0, Math.min(center - MAX_ROWS / 2, values.length - MAX_ROWS));
  for (const { line, at, value } of values.slice(from, from + MAX_ROWS)) {
    const row = document.createElement("div");
    row.className = line.key === closest ? "tip-row on" : "tip-row";
    element(row, "swatch", "").style.background = line.color;
    element(row, "tip-label", line.label);
    element(row, "tip-value", format(line.raw ? line.raw[at]! : value));
    if (line.raw) element(row, "tip-extra", `smoothed ${format(value)}`);
    tip.append(row);
    if (line.extremes) {
      if (line.extremes.lo[at] === line.extremes.hi[at]) {
        sub(tip, "identical in all curves", "");
        continue;
      }
      if (line.band) sub(tip, line.band.name, `${format(line.band.lo[at]!)} – ${format(line.band.hi[at]!)}`);
      for (const end of ["hi", "lo"] as const) {
        sub(tip, `${end === "hi" ? "max" : "min"} · ${line.extremes.curveAt(at, end)?.label ?? ""}`, format(line.extremes[end][at]!));
      }
      sub(tip, "mean ± std", `${format(line.extremes.mean[at]!)} ± ${format(line.extremes.deviation[at]!)}`);
    }
  }
  if (values.length > MAX_ROWS) element(tip, "tip-x", `and ${values.length - MAX_ROWS} more`);
}
