// Controls shared by images, histograms, tables and heatmaps.
import { heatColor } from "../chart/heat";

export function StepSlider({ steps, at, onChange, name }: { steps: number[]; at: number; onChange: (at: number) => void; name: string }) {
  if (steps.length < 2) return <span class="dim small">step {steps[0]?.toLocaleString("en-US")}</span>;
  return (
    <label class="row small soft stepper">step
      <input type="range" min="0" max={steps.length - 1} step="1" value={at} aria-label={`Step of ${name}`} aria-valuetext={String(steps[at])} onInput={(event) => onChange(Number(event.currentTarget.value))} />
      <output>{steps[at]?.toLocaleString("en-US")}</output>
    </label>
  );
}

export function SaveButtons({ name, png, csv }: { name: string; png?: () => void; csv: () => void }) {
  return (
    <span class="row">
      {png && <button type="button" class="button quiet mini" aria-label={`Save ${name} as PNG`} onClick={png}>PNG</button>}
      <button type="button" class="button quiet mini" aria-label={`Save ${name} as CSV`} onClick={csv}>CSV</button>
    </span>
  );
}

/** The color scale of a heatmap, linear or with the `shade` of each fraction. */
export function HeatRamp({ low, high, title, shade = (fraction) => fraction }: { low: string; high: string; title?: string; shade?: (fraction: number) => number }) {
  return (
    <span class="row small soft heat-scale" title={title}>
      {low}
      <span class="ramp">{Array.from({ length: 24 }, (_, i) => <i key={i} style={{ background: `rgb(${heatColor(shade(i / 23)).join(" ")})` }} />)}</span>
      {high}
    </span>
  );
}
