// Colors of runs by their value in a column, and the legend of them.
import { HUES, rampColor, styleAt } from "../chart/palette";
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

/** Of any number of runs: a ramp, or the first labels. */
export function ColorLegend({ column }: { column: Values }) {
  const { labels, scale, title } = column;
  const theme = shownTheme.value;
  if (!labels)
    return (
      <p class="row tiny soft color-ramp" role="img" aria-label={`Color: ${title} from ${scale.text(scale.low)} to ${scale.text(scale.high)}`}>
        <span class="ellipsis" title={title}>{title}</span>
        {scale.text(scale.low)}
        <span class="ramp">{Array.from({ length: STEPS }, (_, i) => <i key={i} style={{ background: rampColor(i / (STEPS - 1), theme) }} />)}</span>
        {scale.text(scale.high)}
        {scale.log && <span class="dim">log</span>}
      </p>
    );
  const shown = labels.slice(0, Math.min(MAX_LABELS, HUES.light.length));
  return (
    <ul class="row wrap tiny soft color-names" aria-label={`Color: ${title}`}>
      {shown.map((label, i) => <li key={label} class="row"><i class="dot" style={{ background: styleAt(i, theme).color }} />{label}</li>)}
      {labels.length > shown.length && <li class="dim">and {labels.length - shown.length} more</li>}
    </ul>
  );
}
