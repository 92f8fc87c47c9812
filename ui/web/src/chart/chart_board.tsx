// Many charts: in sections, found by a word, pinned ones first; axis, scale, smoothing and zoom are shared.
import { useMemo } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { Axis, Range } from "../data/source";
import { number, plural } from "../format";
import { Icon } from "../parts/icons";
import { Popover } from "../parts/overlay";
import { route, setQuery } from "../router";
import { axis, chartSize, closedSections, logScale, pinned, smoothing } from "../settings";
import { ChartCard, type Plot } from "./chart_card";
import type { Line, Who } from "./line";
import { xLabel } from "./line_chart";

export interface BoardMetric { name: string; section: string; axis: Axis }

interface Props {
  metrics: BoardMetric[];
  plot: (metric: BoardMetric, axis: Axis, smooth: number) => Plot;
  onPick?: ((line: Line, who: Who | null) => void) | undefined;
  /** More controls, in front. */
  children?: ComponentChildren;
  empty: ComponentChildren;
}

const SIZES = { small: [15, 9.5], medium: [24, 13.5], large: [38, 20] } as const;

/** The zoom, as the address has it: "step:100:200". */
function zoomOf(text: string | null): { axis: Axis; range: Range } | null {
  const [kind, from, to] = (text ?? "").split(":");
  const range: Range = [Number(from), Number(to)];
  const known = kind === "step" || kind === "epoch" || kind === "time";
  return known && from && to && Number.isFinite(range[0]) && Number.isFinite(range[1]) && range[0] < range[1] ? { axis: kind, range } : null;
}

export function ChartBoard({ metrics, plot, onPick, children, empty }: Props) {
  const { query } = route.value;
  const search = query.get("m") ?? "";
  const zoom = zoomOf(query.get("zoom"));
  const chosenAxis = (query.get("x") as Axis | null) ?? axis.value;
  const smooth = smoothing.value;
  const sections = useMemo(() => sectionsOf(metrics, search), [metrics, search]);
  const kept = metrics.filter((m) => pinned.value.includes(m.name) && matches(m.name, search));
  const onZoom = (of: Axis, range: Range | null) => setQuery({ zoom: range ? `${of}:${Number(range[0].toPrecision(8))}:${Number(range[1].toPrecision(8))}` : null });
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const [width, height] = SIZES[chartSize.value];
  const card = (metric: BoardMetric) => {
    const of = metric.axis === "time" ? "time" : chosenAxis;
    return (
      <ChartCard key={metric.name} plot={plot(metric, of, smooth)} range={zoom?.axis === of ? zoom.range : null} log={logScale.value} height={Math.round(height * rem)} pinned={pinned.value.includes(metric.name)}
        onPin={() => (pinned.value = pinned.value.includes(metric.name) ? pinned.value.filter((n) => n !== metric.name) : [...pinned.value, metric.name])}
        onZoom={onZoom} onPick={onPick} />
    );
  };
  const grid = { gridTemplateColumns: `repeat(auto-fit, minmax(min(100%, ${width}rem), 1fr))` };
  return (
    <div class="board">
      <div class="tools board-tools" role="toolbar" aria-label="Charts">
        <div class="searchfield"><Icon name="search" /><input class="field" type="search" aria-label="Search metrics" placeholder="Search metrics" value={search} onInput={(event) => setQuery({ m: event.currentTarget.value })} /></div>
        {children}
        <span class="spread" />
        {zoom && <button type="button" class="button mini" onClick={() => setQuery({ zoom: null })} title="Show everything"><Icon name="reset" size={13} />{zoom.axis} {xLabel(zoom.axis, zoom.range[0])} – {xLabel(zoom.axis, zoom.range[1])}</button>}
        <div class="segmented" role="group" aria-label="Horizontal axis">
          {(["step", "epoch", "time"] as const).map((a) => <button type="button" key={a} aria-pressed={chosenAxis === a} onClick={() => { axis.value = a; setQuery({ x: a === "step" ? null : a, zoom: null }); }}>{a}</button>)}
        </div>
        <label class="smoothing" title="Exponential moving average; what was logged stays visible">
          <span class="small soft">Smoothing</span>
          <input type="range" min="0" max="0.99" step="0.01" value={smooth} aria-valuetext={smooth ? number(smooth, 2) : "off"} onInput={(event) => (smoothing.value = Number(event.currentTarget.value))} />
          <output class="small">{smooth ? smooth.toFixed(2) : "off"}</output>
        </label>
        <button type="button" class="button" aria-pressed={logScale.value} onClick={() => (logScale.value = !logScale.value)} title="Logarithmic vertical axis">Log</button>
        <Popover menu align="right" class="button icon" name="Size of charts" label={<Icon name="expand" />}>
          {(close) => (["small", "medium", "large"] as const).map((size) => <button type="button" key={size} onClick={() => { chartSize.value = size; close(); }}>{chartSize.value === size ? <Icon name="check" size={13} /> : <span class="gap" />}{size}</button>)}
        </Popover>
      </div>
      {metrics.length === 0 ? empty : sections.length === 0 && kept.length === 0 && (
        <div class="empty"><h2>No metric is called so</h2><p>None of {plural(metrics.length, "metric")} has <code>{search}</code> in its name.</p><button class="button" type="button" onClick={() => setQuery({ m: null })}>Show all</button></div>
      )}
      {kept.length > 0 && <section class="chart-section"><h2 class="row"><Icon name="pin" size={14} />Pinned</h2><div class="charts" style={grid}>{kept.map(card)}</div></section>}
      {sections.map(({ name, metrics: own }) => {
        const closed = closedSections.value.includes(name) && !search;
        return (
          <section class="chart-section" key={name}>
            <h2>
              <button type="button" aria-expanded={!closed} onClick={() => (closedSections.value = closed ? closedSections.value.filter((n) => n !== name) : [...closedSections.value, name])}>
                <Icon name={closed ? "right" : "down"} size={14} />{name || "other"}<span class="dim small">{own.length}</span>
              </button>
            </h2>
            {!closed && <div class="charts" style={grid}>{own.map(card)}</div>}
          </section>
        );
      })}
    </div>
  );
}

const matches = (name: string, search: string) => search.toLowerCase().split(/\s+/).every((word) => name.toLowerCase().includes(word));

/** Results first, then how training went, then the machine. */
const ORDER = ["eval", "train", "val", "test"];
const LAST = ["rank", "system"];
function place(section: string): number {
  const head = section.split("/")[0]!;
  if (ORDER.includes(head)) return ORDER.indexOf(head);
  return LAST.includes(head) ? 100 + LAST.indexOf(head) : 50;
}

function sectionsOf(metrics: BoardMetric[], search: string): { name: string; metrics: BoardMetric[] }[] {
  const found = new Map<string, BoardMetric[]>();
  for (const metric of metrics) {
    if (search && !matches(metric.name, search)) continue;
    const own = found.get(metric.section);
    if (own) own.push(metric);
    else found.set(metric.section, [metric]);
  }
  return [...found].map(([name, own]) => ({ name, metrics: own.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true })) })).sort((a, b) => place(a.name) - place(b.name) || a.name.localeCompare(b.name, "en", { numeric: true }));
}
