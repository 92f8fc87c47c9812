// Colors of runs by their value in a column, and the legend of them.
import { HUES, rampColor, styleAt } from "../chart/palette";
import type { Legend } from "../chart/save";
import { shownTheme } from "../settings";
import type { Values } from "./values";

const STEPS = 24;
const MAX_LABELS = 12;
const missing = () => (shownTheme.value === "light" ? "#8b9197" : "#7b838b");

/** One color per run; gray without a value. Numbers have at most 24 colors. */
export function runColors({ values, labels, scale }: Values): string[] {
  const theme = shownTheme.value;
  const ramp = Array.from({ length: STEPS }, (_, i) => rampColor(i / (STEPS - 1), theme));
  return Array.from(values, (value) => {
    if (!Number.isFinite(value)) return missing();
    return labels ? styleAt(value, theme).color : ramp[Math.round(scale.position(value) * (STEPS - 1))]!;
  });
}

/** Of any number of runs. */
export function legendOf({ labels, scale, title }: Values): Legend {
  const theme = shownTheme.value;
  if (!labels) return { title, ramp: Array.from({ length: STEPS }, (_, i) => rampColor(i / (STEPS - 1), theme)), ends: [scale.text(scale.low), scale.text(scale.high)], log: scale.log };
  const names = labels.slice(0, Math.min(MAX_LABELS, HUES.light.length)).map((label, i) => ({ label, color: styleAt(i, theme).color }));
  return { title, names, more: labels.length - names.length };
}

export function ColorLegend({ column }: { column: Values }) {
  const legend = legendOf(column);
  const { title } = legend;
  if ("ramp" in legend)
    return (
      <p class="row tiny soft color-ramp" role="img" aria-label={`Color: ${title} from ${legend.ends[0]} to ${legend.ends[1]}`}>
        <span class="ellipsis" title={title}>{title}</span>
        {legend.ends[0]}
        <span class="ramp">{legend.ramp.map((color, i) => <i key={i} style={{ background: color }} />)}</span>
        {legend.ends[1]}
        {legend.log && <span class="dim">log</span>}
      </p>
    );
  return (
    <ul class="row wrap tiny soft color-names" aria-label={`Color: ${title}`}>
      {legend.names.map(({ label, color }) => <li key={label} class="row"><i class="dot" style={{ background: color }} />{label}</li>)}
      {legend.more > 0 && <li class="dim">and {legend.more} more</li>}
    </ul>
  );
}
