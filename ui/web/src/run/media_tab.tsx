// Images, histograms over time, and tables, two kinds of which are drawn: confusion matrices and precision-recall curves.
import { useEffect, useRef, useState } from "preact/hooks";
import { ChartCard, type Plot } from "../chart/chart_card";
import { drawHeat, heatColour } from "../chart/heat";
import { saveHeatPng, saveRows } from "../chart/save";
import { rankColour } from "../colours";
import type { HistogramItem, ImageItem, Media, Run, TablePage } from "../data/source";
import { number, plain, plural, toNumber } from "../format";
import { Dialog } from "../parts/overlay";
import { source, useAnswer } from "../store";

export function MediaTab({ run }: { run: Run }) {
  if (run.media.length === 0) {
    return <div class="empty"><h2>No images, histograms or tables</h2><p>A program with Lockstep inside logs them with its tracker; see docs/tracking.md.</p></div>;
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

function StepSlider({ steps, at, onChange, name }: { steps: number[]; at: number; onChange: (at: number) => void; name: string }) {
  if (steps.length < 2) return <span class="dim small">step {steps[0]?.toLocaleString("en-US")}</span>;
  return (
    <label class="row small soft stepper">step
      <input type="range" min="0" max={steps.length - 1} step="1" value={at} aria-label={`Step of ${name}`} aria-valuetext={String(steps[at])} onInput={(event) => onChange(Number(event.currentTarget.value))} />
      <output>{steps[at]?.toLocaleString("en-US")}</output>
    </label>
  );
}

function Images({ run, media }: { run: Run; media: Media }) {
  const { value, error } = useAnswer<ImageItem[]>(() => source().images(run.id, media.name), [run.id, media.name, media.count]);
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
      {large && <Dialog wide title={large.caption || large.name} close={() => setLarge(null)} feet={<button type="button" class="button" onClick={() => setLarge(null)}>Close</button>}><img class={`large-image ${large.width < 256 ? "crisp" : ""}`} src={large.url} alt={large.caption || large.name} /><p class="hint">step {large.step} · {large.source} · {large.width} × {large.height}</p></Dialog>}
    </>
  );
}

/** Time to the right, values upwards, how many as the colour; below, the one at a chosen step. */
function Histograms({ run, media }: { run: Run; media: Media }) {
  const { value, error } = useAnswer<HistogramItem[]>(() => source().histograms(run.id, media.name, media.sources[0]!), [run.id, media.name, media.count]);
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
        <button type="button" class="button quiet mini" aria-label={`Save ${media.name} as PNG`} onClick={() => saveHeatPng(media.name, canvas.current!, [number(high), number(low)], [`step ${items[0]?.step}`, String(items[items.length - 1]?.step)])}>PNG</button>
        <button type="button" class="button quiet mini" aria-label={`Save ${media.name} as CSV`} onClick={() => saveRows(media.name, ["source", "step", "from", "to", "count"], items.flatMap((h) => h.counts.map((count, i) => [h.source, h.step, h.edges[i]!, h.edges[i + 1]!, count])))}>CSV</button>
      </div>
      {one && <div class="bars" role="img" aria-label={`Histogram at step ${one.step}`}>{one.counts.map((count, i) => <i key={i} style={{ height: `${(100 * count) / most}%`, flexGrow: Math.max(0.001, (one.edges[i + 1]! - one.edges[i]!) / (one.edges[one.edges.length - 1]! - one.edges[0]! || 1)) }} title={`${number(one.edges[i]!)} to ${number(one.edges[i + 1]!)}: ${number(count)}`} />)}</div>}
      {one && <div class="row small dim"><span>{number(one.edges[0]!)}</span><span class="spread" /><span>{number(one.edges[one.edges.length - 1]!)}</span></div>}
    </div>
  );
}

/** Values between two bounds, a bin that is cut counting in part. */
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

function Tables({ run, media }: { run: Run; media: Media }) {
  const [at, setAt] = useState<number | null>(null);
  const [offset, setOffset] = useState(0);
  const { value: table, error } = useAnswer<TablePage>(() => source().table(run.id, media.name, at, offset), [run.id, media.name, media.count, at, offset]);
  if (!table) return <p class="soft small" role="alert">{error?.message}</p>;
  const versions = [...table.versions].sort((a, b) => a.step - b.step);
  const has = (...names: string[]) => names.every((name) => table.columns.includes(name));
  return (
    <>
      <StepSlider steps={versions.map((v) => v.step)} at={Math.max(0, versions.findIndex((v) => v.at === table.at))} onChange={(i) => { setAt(versions[i]!.at); setOffset(0); }} name={media.name} />
      {has("actual", "predicted", "count") ? <Confusion table={table} /> : has("precision", "recall") ? <PrecisionRecall table={table} name={media.name} /> : <PlainTable table={table} />}
      {table.num_rows > table.rows.length && (
        <div class="row small"><button type="button" class="button mini" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - 200))}>Before</button><span class="dim">{offset + 1} – {offset + table.rows.length} of {table.num_rows.toLocaleString("en-US")}</span><button type="button" class="button mini" disabled={offset + table.rows.length >= table.num_rows} onClick={() => setOffset(offset + 200)}>After</button></div>
      )}
    </>
  );
}

function PlainTable({ table }: { table: TablePage }) {
  return (
    <div class="scroll-x tall" tabIndex={0} role="region" aria-label="Table">
      <table class="plain">
        <thead><tr>{table.columns.map((c) => <th key={c}>{c}</th>)}</tr></thead>
        <tbody>{table.rows.map((row, i) => <tr key={i}>{row.map((v, k) => <td key={k} class={typeof v === "number" ? "num" : ""}>{typeof v === "number" ? number(v, 6) : plain(v)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

function Confusion({ table }: { table: TablePage }) {
  const [a, p, c] = ["actual", "predicted", "count"].map((n) => table.columns.indexOf(n)) as [number, number, number];
  const classes = [...new Set(table.rows.flatMap((row) => [plain(row[a]), plain(row[p])]))].sort((x, y) => x.localeCompare(y, "en", { numeric: true }));
  const counts = new Map(table.rows.map((row) => [`${plain(row[a])}\n${plain(row[p])}`, toNumber(row[c])]));
  const total = (actual: string) => classes.reduce((n, predicted) => n + (counts.get(`${actual}\n${predicted}`) ?? 0), 0);
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Confusion matrix">
      <table class="confusion">
        <caption class="hint">Rows are what it was, columns what it was taken for; colours are parts of the row.</caption>
        <thead><tr><td />{classes.map((name) => <th key={name} scope="col">{name}</th>)}<th scope="col">right</th></tr></thead>
        <tbody>{classes.map((actual) => {
          const sum = total(actual);
          return (
            <tr key={actual}><th scope="row">{actual}</th>
              {classes.map((predicted) => {
                const count = counts.get(`${actual}\n${predicted}`) ?? 0;
                const part = sum > 0 ? count / sum : 0;
                const [r, g, b] = heatColour(part ** 0.5);
                const ink = r * 0.3 + g * 0.59 + b * 0.11 > 140 ? "#10161a" : "#ffffff";
                return <td key={predicted} style={count ? { background: `rgb(${r} ${g} ${b})`, color: ink } : {}} title={`${actual} taken for ${predicted}: ${count} of ${sum}`}>{count ? number(count) : "·"}</td>;
              })}
              <td class="num soft">{sum > 0 ? `${((100 * (counts.get(`${actual}\n${actual}`) ?? 0)) / sum).toFixed(1)} %` : "–"}</td>
            </tr>
          );
        })}</tbody>
      </table>
    </div>
  );
}

function PrecisionRecall({ table, name }: { table: TablePage; name: string }) {
  const [r, p, k] = ["recall", "precision", "class"].map((n) => table.columns.indexOf(n)) as [number, number, number];
  const classes = [...new Set(table.rows.map((row) => (k >= 0 ? plain(row[k]) : "")))];
  const plot: Plot = {
    name, title: "precision over recall", axis: "epoch", version: String(table.at), csv: null,
    load: async () => classes.map((own, i) => {
      const rows = table.rows.filter((row) => k < 0 || plain(row[k]) === own).map((row) => [toNumber(row[r]), toNumber(row[p])] as const).sort((x, y) => x[0] - y[0]);
      return { key: own, label: own || "precision", colour: rankColour(i), x: rows.map((row) => row[0]), y: rows.map((row) => row[1]) };
    }),
  };
  return <ChartCard plot={plot} range={null} log={false} height={280} onZoom={() => undefined} />;
}

