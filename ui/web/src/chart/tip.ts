// The values under the pointer, as a small card that follows it. Made by hand, because it changes with every move.
import { type Line, nearest } from "./line";

const MOST = 12;

function element(parent: HTMLElement, kind: string, text: string): HTMLElement {
  const made = document.createElement("span");
  made.className = kind;
  made.textContent = text;
  parent.append(made);
  return made;
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
  const centre = Math.max(0, values.indexOf(first));
  const from = Math.max(0, Math.min(centre - MOST / 2, values.length - MOST));
  for (const { line, at, value } of values.slice(from, from + MOST)) {
    const row = document.createElement("div");
    row.className = line.key === closest ? "tip-row on" : "tip-row";
    element(row, "swatch", "").style.background = line.colour;
    element(row, "tip-label", line.label);
    element(row, "tip-value", format(line.raw ? line.raw[at]! : value));
    if (line.raw) element(row, "tip-extra", `smoothed ${format(value)}`);
    tip.append(row);
    if (line.extremes) {
      if (line.extremes.lo[at] === line.extremes.hi[at]) {
        const same = document.createElement("div");
        same.className = "tip-row sub";
        element(same, "swatch none", "");
        element(same, "tip-label", "the same in all of them");
        tip.append(same);
        continue;
      }
      for (const end of ["hi", "lo"] as const) {
        const extreme = document.createElement("div");
        extreme.className = "tip-row sub";
        element(extreme, "swatch none", "");
        element(extreme, "tip-label", `${end === "hi" ? "largest" : "smallest"} · ${line.extremes.who(at, end)?.label ?? ""}`);
        element(extreme, "tip-value", format(line.extremes[end][at]!));
        tip.append(extreme);
      }
      const spread = document.createElement("div");
      spread.className = "tip-row sub";
      element(spread, "swatch none", "");
      element(spread, "tip-label", "deviation");
      element(spread, "tip-value", `± ${format(line.extremes.deviation[at]!)}`);
      tip.append(spread);
    }
  }
  if (values.length > MOST) element(tip, "tip-x", `and ${values.length - MOST} more`);
}
