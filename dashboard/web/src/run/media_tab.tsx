// Images, histograms over time, and tables.
import { useEffect, useRef, useState } from "preact/hooks";
import { drawHeat } from "../chart/heat";
import { saveHeatPng, saveRows } from "../chart/save";
import type { HistogramItem, ImageItem, Media, Run } from "../data/source";
import { number, plural } from "../format";
import { Dialog } from "../parts/overlay";
import { source, useAsync } from "../store";
import { SaveButtons, StepSlider } from "./media_parts";
import { Tables } from "./tables";

export function MediaTab({ run }: { run: Run }) {
  if (run.media.length === 0) {
    return <div class="empty"><h2>No images, histograms or tables</h2><p>Programs log them with the tracker API; see docs/tracking.md.</p></div>;
  }
  const kinds = ["image", "histogram", "table"] as const;
  return (
    <div class="media">
      {kinds.flatMap((kind) => run.media.filter((m) => m.kind === kind)).map((media) => (
        <section class="card block" key={`${media.kind}/${media.name}`}>
          <h2 class="row"><span class="ellipsis">{media.name}</span><span class="dim small">{plural(media.count, media.kind)}</span></h2>
          {media.kind === "image" ? <Images run={run} media={media} /> : media.kind === "histogram" ? <Histograms run={run} media={media} /> : <Tables run={run} media={media} />}
        </section>
      ))}
    </div>
  );
}

function Images({ run, media }: { run: Run; media: Media }) {
  const { value, error } = useAsync<ImageItem[]>(() => source().images(run.id, media.name), [run.id, media.name, media.count]);
  const [chosen, setChosen] = useState<number | null>(null);
  const [large, setLarge] = useState<ImageItem | null>(null);
  if (!value) return <p class="soft small" role="alert">{error?.message}</p>;
  const steps = [...new Set(value.map((i) => i.step))].sort((a, b) => a - b);
  const at = chosen ?? steps.length - 1;
  const shown = value.filter((i) => i.step === steps[at]);
  return (
    <>
      <StepSlider steps={steps} at={at} onChange={setChosen} name={media.name} />
      <ul class="images">
        {shown.map((image) => (
          <li key={`${image.source}/${image.at}`}>
            <button type="button" onClick={() => setLarge(image)} aria-label={`Enlarge ${image.caption || image.name}`}><img src={image.url} width={image.width} height={image.height} alt={image.caption || `${image.name} at step ${image.step}`} loading="lazy" class={image.width < 128 ? "crisp" : ""} /></button>
            <span class="small soft">{image.caption || image.source.replace("-", " ")}</span>
          </li>
        ))}
      </ul>
      {large && <Dialog wide title={large.caption || large.name} close={() => setLarge(null)} footer={<button type="button" class="button" onClick={() => setLarge(null)}>Close</button>}><img class={`large-image ${large.width < 256 ? "crisp" : ""}`} src={large.url} alt={large.caption || large.name} /><p class="hint">step {large.step} · {large.source} · {large.width} × {large.height}</p></Dialog>}
    </>
  );
}

/** A heatmap of counts over steps (horizontal) and values (vertical); below it, the histogram at the selected step. */
function Histograms({ run, media }: { run: Run; media: Media }) {
  const { value, error } = useAsync<HistogramItem[]>(() => source().histograms(run.id, media.name, media.sources[0]!), [run.id, media.name, media.count]);
  const [chosen, setChosen] = useState<number | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const items = value ?? [];
  const low = Math.min(...items.map((h) => h.edges[0]!));
  const high = Math.max(...items.map((h) => h.edges[h.edges.length - 1]!));
  const ROWS = 80;
  useEffect(() => {
    if (!canvas.current || items.length === 0) return;
    const cells = Array.from({ length: ROWS }, () => new Array<number | null>(items.length).fill(null));
    items.forEach((h, column) => {
      const density = Array.from({ length: ROWS }, (_, row) => {
        const from = low + ((high - low) * row) / ROWS;
        return countBetween(h, from, from + (high - low) / ROWS);
      });
      const most = Math.max(...density, 1e-12);
      density.forEach((d, row) => (cells[ROWS - 1 - row]![column] = d > 0 ? Math.sqrt(d / most) * 0.92 + 0.08 : null));
    });
    drawHeat(canvas.current, cells);
  });
  if (!value) return <p class="soft small" role="alert">{error?.message}</p>;
  const at = chosen ?? items.length - 1;
  const one = items[at];
  const most = one ? Math.max(...one.counts, 1) : 1;
  return (
    <div class="histogram">
      <div class="histogram-time">
        <div class="histogram-scale small dim" aria-hidden="true"><span>{number(high)}</span><span>{number(low)}</span></div>
        <canvas ref={canvas} role="img" aria-label={`${media.name} over ${plural(items.length, "step")}, values from ${number(low)} to ${number(high)}`} onClick={(event) => {
          const box = canvas.current!.getBoundingClientRect();
          setChosen(Math.max(0, Math.min(items.length - 1, Math.floor(((event.clientX - box.left) / box.width) * items.length))));
        }} />
        {items.length > 1 && <i class="at" style={{ left: `calc(4rem + (100% - 4rem) * ${(at + 0.5) / items.length})` }} />}
      </div>
      <div class="row wrap">
        <StepSlider steps={items.map((h) => h.step)} at={at} onChange={setChosen} name={media.name} />
        <span class="spread" />
        <SaveButtons name={media.name}
          png={() => saveHeatPng(media.name, canvas.current!, [number(high), number(low)], [`step ${items[0]?.step}`, String(items[items.length - 1]?.step)])}
          csv={() => saveRows(media.name, ["source", "step", "from", "to", "count"], items.flatMap((h) => h.counts.map((count, i) => [h.source, h.step, h.edges[i]!, h.edges[i + 1]!, count])))} />
      </div>
      {one && <div class="bars" role="img" aria-label={`Histogram at step ${one.step}`}>{one.counts.map((count, i) => <i key={i} style={{ height: `${(100 * count) / most}%`, flexGrow: Math.max(0.001, (one.edges[i + 1]! - one.edges[i]!) / (one.edges[one.edges.length - 1]! - one.edges[0]! || 1)) }} title={`${number(one.edges[i]!)} to ${number(one.edges[i + 1]!)}: ${number(count)}`} />)}</div>}
      {one && <div class="row small dim"><span>{number(one.edges[0]!)}</span><span class="spread" /><span>{number(one.edges[one.edges.length - 1]!)}</span></div>}
    </div>
  );
}

/** The number of values between two bounds; bins that overlap in part count in proportion. */
function countBetween({ edges, counts }: HistogramItem, from: number, to: number): number {
  let sum = 0;
  for (let i = 0; i < counts.length; i++) {
    const a = edges[i]!;
    const b = edges[i + 1]!;
    const common = Math.min(b, to) - Math.max(a, from);
    if (common > 0 && b > a) sum += (counts[i]! * common) / (b - a);
    else if (a === b && a >= from && a < to) sum += counts[i]!;
  }
  return sum;
}
