// Histograms over time: a heat map over steps, or one ridge per step; below, the histogram at the selected step.
import { useMemo, useRef } from "preact/hooks";
import { saveHeatPng, savePng, saveRows } from "../chart/save";
import type { HistogramItem, Media, Run } from "../data/source";
import { number } from "../format";
import { useNearViewport } from "../parts/size";
import { route, setQuery, useUrlPlace } from "../router";
import { source, useAsync } from "../store";
import { type HistogramKind, HistogramPlot, ROWS } from "./histogram_plot";
import { byStep, largestShare, shadeOf, sharesOf, spanOf } from "./histogram_values";
import { HeatRamp, SaveButtons, StepSlider } from "./media_parts";

const shownKind = (): HistogramKind => (route.value.query.get("hist") === "ridges" ? "ridges" : "heat");

/** How the histograms of the page are drawn. */
export function HistogramKindChoice() {
  const kind = shownKind();
  return (
    <div class="segmented" role="group" aria-label="Histograms as">
      <button type="button" aria-pressed={kind === "heat"} onClick={() => setQuery({ hist: null })}>Heat map</button>
      <button type="button" aria-pressed={kind === "ridges"} onClick={() => setQuery({ hist: "ridges" })}>Ridgelines</button>
    </div>
  );
}

export function Histograms({ run, media }: { run: Run; media: Media }) {
  const host = useRef<HTMLDivElement>(null);
  // Loaded once it is near; a report may be printed, so all of its histograms are drawn.
  const near = useNearViewport(host, !source().live);
  const seen = useRef(false);
  seen.current ||= near;
  const { value, error } = useAsync<HistogramItem[]>(async () => (seen.current ? source().histograms(run.id, media.name, media.sources[0]!) : []), [run.id, media.name, media.count, seen.current]);
  const items = useMemo(() => byStep(value ?? []), [value]);
  return (
    <div class="histogram" ref={host}>
      {error && <p class="soft small" role="alert">{error.message}</p>}
      {items.length > 0 && <HistogramOverTime name={media.name} items={items} kind={shownKind()} />}
    </div>
  );
}

function HistogramOverTime({ name, items, kind }: { name: string; items: HistogramItem[]; kind: HistogramKind }) {
  const [at, choose] = useUrlPlace(`step.${name}`, items.map((item) => item.step));
  const plot = useRef<HTMLDivElement>(null);
  const span = useMemo(() => spanOf(items), [items]);
  const shares = useMemo(() => items.map((item) => sharesOf(item, span, ROWS)), [items]);
  const one = items[at]!;
  const last = items[items.length - 1]!;
  const png = () => {
    const [canvas, svg] = [plot.current!.querySelector("canvas"), plot.current!.querySelector("svg")!];
    if (canvas) saveHeatPng(name, canvas, Array.from({ length: ROWS }, (_, row) => (row === 0 ? number(span[1]) : row === ROWS - 1 ? number(span[0]) : "")), [`step ${items[0]!.step}`, String(last.step)]);
    else void savePng(name, svg.outerHTML);
  };
  return (
    <>
      <div ref={plot}><HistogramPlot name={name} items={items} shares={shares} span={span} kind={kind} at={at} onChoose={choose} /></div>
      <div class="row wrap histogram-tools">
        <StepSlider steps={items.map((h) => h.step)} at={at} onChange={choose} name={name} />
        {kind === "heat" && <HeatRamp shade={shadeOf} low="0 %" high={`≥ ${number(100 * largestShare(shares), 2)} %`} title={`Share of the values of a step in a range of ${number((span[1] - span[0]) / ROWS, 2)}`} />}
        <span class="spread" />
        <SaveButtons name={name} png={png}
          csv={() => saveRows(name, ["source", "step", "from", "to", "count"], items.flatMap((h) => h.counts.map((count, i) => [h.source, h.step, h.edges[i]!, h.edges[i + 1]!, count])))} />
      </div>
      <Bars item={one} />
    </>
  );
}

/** The histogram at one step. */
function Bars({ item: { step, edges, counts } }: { item: HistogramItem }) {
  const most = counts.reduce((largest, count) => Math.max(largest, count), 1);
  const whole = edges[edges.length - 1]! - edges[0]! || 1;
  return (
    <>
      <div class="bars" role="img" aria-label={`Histogram at step ${step}`}>{counts.map((count, i) => <i key={i} style={{ height: `${(100 * count) / most}%`, flexGrow: Math.max(0.001, (edges[i + 1]! - edges[i]!) / whole) }} title={`${number(edges[i]!)} to ${number(edges[i + 1]!)}: ${number(count)}`} />)}</div>
      <div class="row small dim"><span>{number(edges[0]!)}</span><span class="spread" /><span>{number(edges[edges.length - 1]!)}</span></div>
    </>
  );
}
