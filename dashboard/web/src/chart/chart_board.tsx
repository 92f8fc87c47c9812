// A page of charts in sections, with search and pins; axis, scale, smoothing and zoom are shared.
import { useMemo, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { BaselineTag, useBaseline, withBaseline } from "../baseline";
import type { Axis, Range } from "../data/source";
import { metricValue, number, plural } from "../format";
import { compareMetrics, sectionOrder } from "../metrics";
import { Icon } from "../parts/icons";
import { Popover, useNarrow } from "../parts/overlay";
import { route, setQuery } from "../router";
import { axis, chartSize, closedSections, expressions, hiddenMetrics, logScale, pinned, smoothing } from "../settings";
import { ChartCard, type Plot } from "./chart_card";
import type { Line, BandCurve } from "./line";
import { changeSetting, useChartSettings } from "./chart_settings";
import { type Expression, expressionLines, parseExpression, unitNameOf } from "./expression";
import { ExpressionList } from "./expression_list";
import { xLabel } from "./line_chart";

/** `constant`: the value of a metric that never changed. */
export interface BoardMetric { name: string; section: string; axis: Axis; constant?: number | null }

interface Props {
  metrics: BoardMetric[];
  plot: (metric: BoardMetric, axis: Axis, smooth: number) => Plot;
  onPick?: ((line: Line, curve: BandCurve | null) => void) | undefined;
  /** Keys of hidden lines. */
  hidden?: ReadonlySet<string>;
  /** Ids of runs whose charts need no curve of the baseline if they are the baseline. */
  drawn?: readonly string[];
  /** Additional controls of the toolbar. */
  children?: ComponentChildren;
  empty: ComponentChildren;
}

const MAX_CHARTS = 1000;
const SIZES = { small: [15, 9.5], medium: [24, 13.5], large: [38, 20] } as const;

/** Parses the zoom of the URL, such as "step:100:200". */
function zoomOf(text: string | null): { axis: Axis; range: Range } | null {
  const [kind, from, to] = (text ?? "").split(":");
  const range: Range = [Number(from), Number(to)];
  const known = kind === "step" || kind === "epoch" || kind === "time";
  return known && from && to && Number.isFinite(range[0]) && Number.isFinite(range[1]) && range[0] < range[1] ? { axis: kind, range } : null;
}

export function ChartBoard({ metrics, plot: ownPlot, onPick, hidden, drawn, children, empty }: Props) {
  useChartSettings();
  const baseline = useBaseline();
  const compared = drawn?.includes(baseline.id) ? null : baseline.run;
  const plot: Props["plot"] = (metric, axis, smooth) => withBaseline(ownPlot(metric, axis, smooth), compared, smooth);
  const { query } = route.value;
  const search = query.get("m") ?? "";
  const zoom = zoomOf(query.get("zoom"));
  const chosenAxis = axis.value;
  const smooth = smoothing.value;
  const [maxCharts, setMaxCharts] = useState(MAX_CHARTS);
  const matching = metrics.filter((m) => matches(m.name, search) && (search !== "" || !hiddenMetrics.value.includes(m.name)));
  const constants = matching.filter((m) => typeof m.constant === "number" && !pinned.value.includes(m.name)).sort((a, b) => compareMetrics(a.name, b.name));
  const sections = useMemo(() => sectionsOf(metrics.filter((m) => typeof m.constant !== "number" && (search !== "" || !hiddenMetrics.value.includes(m.name))), search), [metrics, search, hiddenMetrics.value]);
  const count = sections.reduce((n, s) => n + s.metrics.length, 0);
  const pinnedMetrics = matching.filter((m) => pinned.value.includes(m.name));
  const onZoom = (of: Axis, range: Range | null) => setQuery({ zoom: range ? `${of}:${Number(range[0].toPrecision(8))}:${Number(range[1].toPrecision(8))}` : null });
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const [width, height] = SIZES[chartSize.value];
  const card = (metric: BoardMetric) => {
    const of = metric.axis === "time" ? "time" : chosenAxis;
    return (
      <ChartCard key={metric.name} plot={plot(metric, of, smooth)} range={zoom?.axis === of ? zoom.range : null} log={logScale.value} height={Math.round(height * rem)} pinned={pinned.value.includes(metric.name)}
        onPin={() => changeSetting(() => (pinned.value = pinned.value.includes(metric.name) ? pinned.value.filter((n) => n !== metric.name) : [...pinned.value, metric.name]))}
        remove={hiddenMetrics.value.includes(metric.name) ? { label: "Show without search", run: () => setHidden(metric.name, false) } : { label: "Hide", run: () => setHidden(metric.name, true) }}
        onZoom={onZoom} onPick={onPick} {...(hidden ? { hidden } : {})} />
    );
  };
  const names = useMemo(() => metrics.map((m) => m.name), [metrics]);
  const shownExpressions = expressions.value.flatMap((text) => {
    try {
      return matches(text, search) ? [{ text, expression: parseExpression(text, names) }] : [];
    } catch {
      return []; // of metrics that these runs do not have
    }
  });
  const expressionCard = ({ text, expression }: { text: string; expression: Expression }) => {
    const own = metrics.find((m) => m.name === expression.names[0])!;
    const of = own.axis === "time" ? "time" : chosenAxis;
    return (
      <ChartCard key={text} plot={expressionPlot(text, expression, of, smooth, (name) => plot(metrics.find((m) => m.name === name)!, of, 0))} range={!expression.x && zoom?.axis === of ? zoom.range : null} log={logScale.value} height={Math.round(height * rem)}
        remove={{ label: "Remove", run: () => changeSetting(() => (expressions.value = expressions.value.filter((other) => other !== text))) }}
        onZoom={expression.x ? () => undefined : onZoom} onPick={onPick} {...(hidden ? { hidden } : {})} />
    );
  };
  const hiddenHere = search ? [] : names.filter((name) => hiddenMetrics.value.includes(name));
  // With very many metrics, only the first are shown, until the user requests more.
  let room = maxCharts;
  const firstOf = (own: BoardMetric[]) => {
    const shown = own.slice(0, Math.max(0, room));
    room -= shown.length;
    return shown;
  };
  const grid = { gridTemplateColumns: `repeat(auto-fit, minmax(min(100%, ${width}rem), 1fr))` };
  const narrow = useNarrow(900);
  const reset = zoom && <button type="button" class="button mini" onClick={() => setQuery({ zoom: null })} title="Reset zoom"><Icon name="reset" size={13} />{zoom.axis} {xLabel(zoom.axis, zoom.range[0])} – {xLabel(zoom.axis, zoom.range[1])}</button>;
  const choices = (
    <>
      {metrics.some((metric) => metric.axis !== "time") && <div class="segmented" role="group" aria-label="Horizontal axis">
        {(["step", "epoch", "time"] as const).map((a) => <button type="button" key={a} aria-pressed={chosenAxis === a} onClick={() => changeSetting(() => (axis.value = a), { zoom: null })}>{a}</button>)}
      </div>}
      <label class="smoothing" title="Exponential moving average; the logged values stay visible">
        <span class="small soft">Smoothing</span>
        <input type="range" min="0" max="0.99" step="0.01" value={smooth} aria-valuetext={smooth ? number(smooth, 2) : "off"} onInput={(event) => changeSetting(() => (smoothing.value = Number(event.currentTarget.value)))} />
        <output class="small">{smooth ? smooth.toFixed(2) : "off"}</output>
      </label>
      <button type="button" class="button" aria-pressed={logScale.value} onClick={() => changeSetting(() => (logScale.value = !logScale.value))} title="Logarithmic y-axis">Log</button>
    </>
  );
  const sizes = (
    <Popover menu align="right" class="button icon" name="Chart size" label={<Icon name="size" />}>
      {(close) => (["small", "medium", "large"] as const).map((size) => <button type="button" key={size} onClick={() => { changeSetting(() => (chartSize.value = size)); close(); }}>{chartSize.value === size ? <Icon name="check" size={13} /> : <span class="gap" />}{size}</button>)}
    </Popover>
  );
  return (
    <div class="board">
      <div class="tools board-tools" role="toolbar" aria-label="Charts">
        <div class="searchfield"><Icon name="search" /><input class="field" type="search" aria-label="Search metrics" placeholder="Search metrics" value={search} onInput={(event) => setQuery({ m: event.currentTarget.value })} /></div>
        <BaselineTag baseline={baseline} />
        {narrow ? <Popover name="Chart options" align="right" label={<><Icon name="options" />Chart options</>}>{() => <div class="options-panel">{children}<ExpressionList names={names} />{choices}</div>}</Popover> : <>{children}<ExpressionList names={names} /><span class="spread" />{reset}{choices}{sizes}</>}
        {narrow && reset}
      </div>
      {metrics.length === 0 ? empty : matching.length === 0 && (
        <div class="empty"><h2>No matching metrics</h2><p>None of {plural(metrics.length, "metric")} matches <code>{search}</code>.</p><button class="button" type="button" onClick={() => setQuery({ m: null })}>Show all</button></div>
      )}
      {pinnedMetrics.length > 0 && <section class="chart-section"><h2 class="row"><Icon name="pin" size={14} />Pinned</h2><div class="charts" style={grid}>{pinnedMetrics.map(card)}</div></section>}
      {shownExpressions.length > 0 && <section class="chart-section"><h2>Expressions</h2><div class="charts" style={grid}>{shownExpressions.map(expressionCard)}</div></section>}
      {sections.map(({ name, metrics: own }) => {
        const closed = closedSections.value.includes(name) && !search;
        return (
          <section class="chart-section" key={name}>
            <h2>
              <button type="button" aria-expanded={!closed} onClick={() => changeSetting(() => (closedSections.value = closed ? closedSections.value.filter((n) => n !== name) : [...closedSections.value, name]))}>
                <Icon name={closed ? "right" : "down"} size={14} />{name || "other"}<span class="dim small">{own.length}</span>
              </button>
            </h2>
            {!closed && <div class="charts" style={grid}>{firstOf(own).map(card)}</div>}
          </section>
        );
      })}
      {count > maxCharts && <p class="row"><span class="dim">Showing the first {maxCharts.toLocaleString("en-US")} of {plural(count, "chart")}. Search by name to find others.</span><button type="button" class="button" onClick={() => setMaxCharts(maxCharts + MAX_CHARTS)}>Show more</button></p>}
      {hiddenHere.length > 0 && (
        <details class="constants"><summary>{plural(hiddenHere.length, "hidden metric")}</summary>
          <ul class="row wrap">{hiddenHere.map((name) => <li key={name}><button type="button" class="button mini" title={`Show ${name}`} onClick={() => setHidden(name, false)}>{name}</button></li>)}</ul>
        </details>
      )}
      {constants.length > 0 && <Constants metrics={constants.slice(0, maxCharts)} open={sections.length === 0 && pinnedMetrics.length === 0} />}
    </div>
  );
}

const setHidden = (name: string, on: boolean) => changeSetting(() => (hiddenMetrics.value = on ? [...hiddenMetrics.value, name] : hiddenMetrics.value.filter((other) => other !== name)));

/** Points to load for an expression: interpolation between extremes of columns would be wrong. */
const EXPRESSION_POINTS = 5000;

function expressionPlot(text: string, expression: Expression, of: Axis, smooth: number, plotOf: (name: string) => Plot): Plot {
  const parts = expression.names.map((name) => [name, plotOf(name)] as const);
  const { x, y } = expression;
  return {
    name: text, unit: unitNameOf(expression), title: text, axis: x ? "epoch" : of, ...(x ? { columns: ["run", x.text, y.text] as const } : {}), csv: null,
    version: `${text}|${smooth}|${parts.map(([, part]) => part.version).join()}`,
    load: async (range, points) => {
      const lines = await Promise.all(parts.map(async ([name, part]) => [name, await part.load(expression.runs ? null : range, Math.max(points, EXPRESSION_POINTS))] as const));
      return expressionLines(expression, new Map(lines), smooth);
    },
  };
}

/** Metrics that never changed, as a list. */
function Constants({ metrics, open }: { metrics: BoardMetric[]; open: boolean }) {
  return (
    <details class="constants" open={open}>
      <summary>{plural(metrics.length, "constant metric")}</summary>
      <dl>{metrics.map(({ name, constant }) => <div key={name}><dt class="ellipsis" title={name}>{name}</dt><dd>{metricValue(name, constant!)}</dd></div>)}</dl>
    </details>
  );
}

const matches = (name: string, search: string) => search.toLowerCase().split(/\s+/).every((word) => name.toLowerCase().includes(word));

const byNumber = new Intl.Collator("en", { numeric: true });

function sectionsOf(metrics: BoardMetric[], search: string): { name: string; metrics: BoardMetric[] }[] {
  const found = new Map<string, BoardMetric[]>();
  for (const metric of metrics) {
    if (search && !matches(metric.name, search)) continue;
    const own = found.get(metric.section);
    if (own) own.push(metric);
    else found.set(metric.section, [metric]);
  }
  return [...found].map(([name, own]) => ({ name, metrics: own.sort((a, b) => byNumber.compare(a.name, b.name)) })).sort((a, b) => sectionOrder(a.name) - sectionOrder(b.name) || byNumber.compare(a.name, b.name));
}
