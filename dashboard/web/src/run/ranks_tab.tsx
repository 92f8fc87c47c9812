// Comparison of ranks: slow and lost ranks, and system metrics of their nodes.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ChartBoard } from "../chart/chart_board";
import { drawHeat } from "../chart/heat";
import { columnFormat } from "../chart/ticks";
import { saveHeatPng, saveRows } from "../chart/save";
import { rankColor } from "../colors";
import type { Heatmap, Range, Run, Source } from "../data/source";
import { ago, metricValue, plural, toNumber } from "../format";
import { Icon } from "../parts/icons";
import { handleKey } from "../parts/keyboard";
import { Popover } from "../parts/overlay";
import { StateMark } from "../parts/state_mark";
import { link, route, setQuery } from "../router";
import { constantValue, gainWithout, STEP_TIMES } from "../metrics";
import { source, useAsync, useNow, useThrottled } from "../store";
import { HeatRamp } from "./media_parts";
import { runPlot } from "./plots";

const STEP_TIME = "rank/step_time_s";
/** The phases of a step. */
const PHASES: Record<string, string> = { "rank/data_wait_s": "waiting for data", "rank/forward_s": "in the forward pass", "rank/backward_s": "in the backward pass", "rank/optimizer_s": "in the optimizer" };
/** What the gain without a rank is computed from, and how often in a live run. */
const [MAX_STEPS, MIN_STEPS, MAX_VALUES, REFRESH_MS] = [2000, 100, 50000, 10000];
/** The number of the slowest rank; available even if only the main rank logs. */
const SLOWEST = "time/slowest_rank";

export function RanksTab({ run }: { run: Run }) {
  const ranks = run.sources.filter((s) => s.kind === "rank");
  // A report contains only the heatmaps of rank/* metrics.
  const metrics = run.metrics.filter((m) => m.name.startsWith("rank/") || (source().live && m.sources.filter((s) => s.startsWith("rank-")).length > 1)).map((m) => m.name).sort((a, b) => Number(b.startsWith("rank/")) - Number(a.startsWith("rank/")) || a.localeCompare(b));
  const metric = route.value.query.get("heat") ?? (metrics.includes(STEP_TIME) ? STEP_TIME : metrics[0]);
  const heat = useAsync<Heatmap | null>(() => (metric ? source().heatmap(run.id, metric, null, 600) : Promise.resolve(null)), [run.id, run.version, metric]);
  const byName = useMemo(() => new Map(run.metrics.map((m) => [m.name, m])), [run]);
  const known = Object.keys(PHASES).filter((part) => byName.has(part));
  const parts = useAsync<(Heatmap | null)[]>(() => Promise.all(metric === STEP_TIME && ranks.length > 1 ? known.map((part) => source().heatmap(run.id, part, null, 1)) : []), [run.id, run.version, metric]);
  const systemMetrics = run.metrics.filter((m) => m.name.startsWith("system/"));
  return (
    <div class="ranks">
      {ranks.length > 1 && heat.value && metric && <Verdict run={run} heat={heat.value} ranks={ranks} metric={metric} parts={parts.value ?? []} />}
      {ranks.length < 2 && run.world_size > 1 && byName.has(SLOWEST) && <Slowest run={run} />}
      {ranks.length < run.world_size && (
        <p class="notice"><Icon name="warn" /><span>Only {ranks.length} of {run.world_size} ranks logged metrics. Set <code>tracking.ranks=all</code> to compare all ranks.</span></p>
      )}
      {heat.value && heat.value.sources.length > 0 && metric && (
        <section class="card block">
          <div class="row wrap">
            <h2>Heatmap by rank and step</h2>
            <label class="sr" for="heat-metric">Metric</label>
            <select id="heat-metric" class="field" value={metric} onChange={(event) => setQuery({ heat: event.currentTarget.value === STEP_TIME ? null : event.currentTarget.value })}>
              {metrics.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
            <span class="spread" />
            <span class="row"><Scale heat={heat.value} metric={metric} /><SaveMap heat={heat.value} metric={metric} /></span>
          </div>
          <HeatmapView heat={heat.value} metric={metric} run={run} />
        </section>
      )}
      <RankTable run={run} ranks={ranks} heat={heat.value ?? null} metric={metric ?? STEP_TIME} />
      {systemMetrics.length > 0 && (
        <section>
          <h2 class="apart">System metrics</h2>
          <ChartBoard metrics={systemMetrics.map((m) => ({ ...m, constant: constantValue([m], run.state === "running" ? 2 : 1) }))} plot={(m, axis, smooth) => runPlot(run, byName.get(m.name)!, "band", run.version)(m, axis, smooth)} empty={null} />
        </section>
      )}
    </div>
  );
}

function SaveMap({ heat, metric }: { heat: Heatmap; metric: string }) {
  const step = (at: number) => heat.edges[at] ?? heat.to + 1;
  const png = () => saveHeatPng(metric, document.querySelector<HTMLCanvasElement>(".heat-body canvas")!, heat.sources.map((s) => s.replace("-", " ")), [`step ${heat.from}`, String(heat.to)]);
  const csv = () => saveRows(`${metric}_by_rank`, ["source", "from_step", "before_step", "mean", "max"], heat.sources.flatMap((name, row) =>
    heat.mean[row]!.map((mean, i) => [name, step(i), step(i + 1), mean ?? "", heat.max[row]![i] ?? ""])));
  return (
    <Popover menu align="right" class="button quiet mini icon" name={`More options for the heatmap of ${metric}`} label={<Icon name="more" size={13} />}>
      {(close) => (
        <>
          <button type="button" onClick={() => { png(); close(); }}><Icon name="download" size={13} />Save as PNG</button>
          <button type="button" onClick={() => { csv(); close(); }}><Icon name="download" size={13} />Save as CSV</button>
        </>
      )}
    </Popover>
  );
}

function means(heat: Heatmap): number[] {
  return heat.mean.map((row) => {
    const values = row.map(toNumber).filter(Number.isFinite);
    return values.length > 0 ? values.reduce((a, b) => a + b, 0) / values.length : NaN;
  });
}

function median(values: number[]): number {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? NaN;
}

/** A sentence that names the slowest rank, and ranks that failed. */
function Verdict({ run, heat, ranks, metric, parts }: { run: Run; heat: Heatmap; ranks: Source[]; metric: string; parts: (Heatmap | null)[] }) {
  if (metric !== STEP_TIME) return null;
  const own = means(heat);
  const middle = median(own);
  const worst = own.reduce((best, value, i) => (Number.isFinite(value) && !(value <= (own[best] ?? -Infinity)) ? i : best), 0);
  const factor = own[worst]! / middle;
  const bad = ranks.filter((r) => r.state && !["running", "finished"].includes(r.state));
  const name = (i: number) => heat.sources[i]!.replace("-", " ");
  const why = slowPhase(parts, heat.sources[worst]!, own[worst]! - middle);
  return (
    <p class="verdict" data-verdict>
      {bad.length > 0 && <span>{bad.map((r) => `Rank ${r.rank} ${r.state === "lost" ? "is lost" : r.state === "failed" ? "failed" : `was ${r.state}`}`).slice(0, 4).join(", ")}{bad.length > 4 ? ` and ${bad.length - 4} more` : ""}. </span>}
      {Number.isFinite(factor) && (factor < 1.02
        ? <span>All ranks take the same time per step, {metricValue(metric, middle)}.</span>
        : <span><strong>{name(worst)[0]!.toUpperCase() + name(worst).slice(1)} is {own.length === 2 ? "slower" : "the slowest"}</strong>: {metricValue(metric, own[worst]!)} of local work per step, {factor.toFixed(2)} × the {own.length === 2 ? `${metricValue(metric, middle)} of the other` : `median of ${metricValue(metric, middle)}`}{why && `, mostly ${why}`}.<Gain run={run} rank={Number(heat.sources[worst]!.replace("rank-", ""))} /></span>)}
    </p>
  );
}

/** The phase that accounts for more than half of the time by which a rank exceeds the median. */
function slowPhase(parts: (Heatmap | null)[], rank: string, behind: number): string {
  for (const part of parts) {
    const own = part ? means(part) : [];
    const at = part?.sources.indexOf(rank) ?? -1;
    if (at >= 0 && own[at]! - median(own) > behind / 2) return PHASES[part!.metric] ?? "";
  }
  return "";
}

/** The last steps are read, so that all of their values are, also of a long run with many ranks. */
function recentSteps(run: Run, curves: number): Range {
  const last = Math.max(run.step ?? 0, ...run.sources.map(({ step }) => step ?? 0));
  return [Math.max(0, last + 1 - Math.max(MIN_STEPS, Math.min(MAX_STEPS, Math.floor(MAX_VALUES / curves)))), last];
}

/** The values of a metric by step, of one or of all ranks; empty if the source has only some of them. */
async function valuesByStep(run: Run, metric: string, range: Range, sources: "ranks" | null = null): Promise<Map<string, Map<number, number>>> {
  const curves = await source().curves({ runs: [{ id: run.id, created: run.created }], metric, sources, x: "step", range, points: 20000, smooth: 0 });
  const isKnown = (step: number, value: number) => step >= range[0] && step <= range[1] && Number.isFinite(value);
  return new Map(curves.filter(({ raw }) => raw).map((curve) => [curve.source, new Map(Array.from(curve.x, (step, i): [number, number] => [step, curve.y[i]!]).filter(([step, value]) => isKnown(step, value)))]));
}

const first = (curves: ReadonlyMap<string, Map<number, number>>) => [...curves.values()][0] ?? new Map<number, number>();

const lastSteps = ([from, to]: Range) => (from > 0 ? ` (the last ${(to - from + 1).toLocaleString("en-US")} steps)` : "");

/** The same from time/slowest_rank, if only the main rank logged. */
function Slowest({ run }: { run: Run }) {
  const range = recentSteps(run, 1);
  const curve = useAsync(async () => ({ range, values: first(await valuesByStep(run, SLOWEST, range)) }), [run.id, useThrottled(run.version, REFRESH_MS)]);
  const slowest = [...(curve.value?.values.values() ?? [])];
  if (slowest.length === 0) return null;
  const times = new Map<number, number>();
  for (const rank of slowest) times.set(rank, (times.get(rank) ?? 0) + 1);
  const [worst, count] = [...times].reduce((most, now) => (now[1] > most[1] ? now : most));
  return <p class="verdict" data-verdict><strong>Rank {worst} was {run.world_size === 2 ? "slower" : "the slowest"}</strong> in {count} of {plural(slowest.length, "measurement")}{lastSteps(curve.value!.range)}.<Gain run={run} rank={worst} /></p>;
}

/** The local work of each rank by step; null if it is not known, e.g. of more ranks than there are curves in a response. */
async function ownTimes(run: Run, range: Range): Promise<Map<number, Map<number, number>> | null> {
  if (!run.metrics.some(({ name }) => name === STEP_TIME)) return null;
  const curves = await valuesByStep(run, STEP_TIME, range, "ranks").catch(() => null);
  return curves && new Map([...curves].map(([name, values]) => [Number(name.replace("rank-", "")), values]));
}

/** What the run would gain without a rank, if that is at least 2 % of a step. */
function Gain({ run, rank }: { run: Run; rank: number }) {
  const range = recentSteps(run, run.world_size + STEP_TIMES.length);
  const { value } = useAsync(async () => {
    const [own, ...times] = await Promise.all([ownTimes(run, range), ...STEP_TIMES.map(async (metric) => first(await valuesByStep(run, metric, range)))]);
    return { range, gain: gainWithout(rank, times, run.world_size, own) };
  }, [run.id, rank, useThrottled(run.version, REFRESH_MS)]);
  const gain = value?.gain;
  if (!gain || gain.without > 0.98 * gain.step) return null;
  return <span> Without rank {rank}, a step would take {gain.isBound && "at least "}{metricValue(STEP_TIME, gain.without, 3)} instead of {metricValue(STEP_TIME, gain.step, 3)}{lastSteps(value.range)}.</span>;
}

/** The color scale covers the 2nd to the 98th percentile, so that outliers do not dominate it. */
function limits(heat: Heatmap): [number, number] {
  const values = heat.mean.flat().map(toNumber).filter(Number.isFinite).sort((a, b) => a - b);
  if (values.length === 0) return [0, 1];
  const low = values[Math.floor(values.length * 0.02)]!;
  const high = values[Math.min(values.length - 1, Math.floor(values.length * 0.98))]!;
  return low < high ? [low, high] : [low - 0.5, high + 0.5];
}

function Scale({ heat, metric }: { heat: Heatmap; metric: string }) {
  const [low, high] = limits(heat);
  return <HeatRamp low={metricValue(metric, low)} high={metricValue(metric, high)} />;
}

function HeatmapView({ heat, metric, run }: { heat: Heatmap; metric: string; run: Run }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [at, setAt] = useState<{ row: number; column: number } | null>(null);
  const [low, high] = limits(heat);
  useEffect(() => drawHeat(canvas.current!, heat.mean.map((row) => row.map((v) => (v === null ? null : (toNumber(v) - low) / (high - low))))));
  const rows = heat.sources.length;
  const rowHeight = Math.max(6, Math.min(26, Math.floor(420 / rows)));
  const find = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * heat.columns);
    return row >= 0 && row < rows && column >= 0 && column < heat.columns ? { row, column } : null;
  };
  const overlay = (row: number) => (location.hash = link(["run", run.id, "charts"], { ranks: heat.sources[row]!.replace("rank-", ""), m: metric }));
  const onKeyDown = (event: KeyboardEvent) => {
    const { row, column } = at ?? { row: 0, column: 0 };
    const go = (to: number, step: number) => setAt({ row: Math.max(0, Math.min(rows - 1, to)), column: Math.max(0, Math.min(heat.columns - 1, step)) });
    const [by, page] = at ? [1, Math.ceil(heat.columns / 10)] : [0, 0]; // the first key shows the first cell
    handleKey(event, {
      ArrowLeft: () => go(row, column - by), ArrowRight: () => go(row, column + by), ArrowUp: () => go(row - by, column), ArrowDown: () => go(row + by, column),
      PageUp: () => go(row, column - page), PageDown: () => go(row, column + page), Home: () => go(row, 0), End: () => go(row, heat.columns - 1),
      Enter: at !== null && (() => overlay(at.row)), Escape: at !== null && (() => setAt(null)),
    });
  };
  const every = Math.max(1, Math.ceil(16 / rowHeight));
  const shown = at ? heat.mean[at.row]?.[at.column] : null;
  const text = at && <span class="soft">{heat.sources[at.row]!.replace("-", " ")}, steps {heat.edges[at.column]?.toLocaleString("en-US")} to {((heat.edges[at.column + 1] ?? heat.to + 1) - 1).toLocaleString("en-US")}: <strong>{shown === null || shown === undefined ? "no value" : metricValue(metric, toNumber(shown))}</strong></span>;
  return (
    <div class="heatmap">
      <div class="heat-rows" style={{ height: `${rows * rowHeight}px` }} aria-hidden="true">
        {heat.sources.map((name, i) => <span key={name} style={{ height: `${rowHeight}px` }} class={at?.row === i ? "on" : ""}>{i % every === 0 || at?.row === i ? name.replace("-", " ") : ""}</span>)}
      </div>
      <div class="heat-body">
        <div class="heat-cells" role="group" tabIndex={0} aria-label={`${metric} of ${plural(rows, "rank")} over steps ${heat.from} to ${heat.to}`} aria-keyshortcuts="ArrowLeft ArrowRight ArrowUp ArrowDown PageUp PageDown Enter Escape" onKeyDown={onKeyDown} onBlur={() => setAt(null)}>
          <canvas ref={canvas} aria-hidden="true" style={{ height: `${rows * rowHeight}px` }}
            onMouseMove={(event) => setAt(find(event))} onMouseLeave={() => setAt(null)}
            onClick={(event) => {
              const found = find(event);
              if (found) overlay(found.row);
            }} />
          {at && <i class="heat-mark" style={{ left: `${(100 * at.column) / heat.columns}%`, width: `${100 / heat.columns}%`, top: `${at.row * rowHeight}px`, height: `${rowHeight}px` }} />}
        </div>
        <div class="row small dim"><span>step {heat.from.toLocaleString("en-US")}</span><span class="spread heat-readout" aria-live="polite">{text ?? "Click a rank to overlay its curve on the band"}</span><span>{heat.to.toLocaleString("en-US")}</span></div>
      </div>
    </div>
  );
}

function RankTable({ run, ranks, heat, metric }: { run: Run; ranks: Source[]; heat: Heatmap | null; metric: string }) {
  const now = useNow(5000);
  const own = heat ? means(heat) : [];
  const middle = median(own);
  const format = columnFormat(metric, own);
  const ahead = Math.max(...ranks.map((r) => r.step ?? 0));
  return (
    <section class="card block">
      <h2>{plural(ranks.length, "logging rank")}</h2>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Ranks">
        <table class="plain">
          <thead><tr><th>Rank</th><th>State</th><th class="num">Step</th><th class="num" title={metric}>{metric.split("/").pop()}</th><th class="num">Relative to median</th><th>Host</th><th class="num">Node</th><th class="num">Local rank</th><th class="num">PID</th><th>Last record</th></tr></thead>
          <tbody>
            {ranks.map((r) => {
              const mean = own[heat?.sources.indexOf(r.source) ?? -1] ?? NaN;
              const factor = mean / middle;
              const behind = ahead - (r.step ?? 0);
              return (
                <tr key={r.source}>
                  <td><a class="row" href={link(["run", run.id, "charts"], { ranks: String(r.rank) })} title="Overlay the curves of this rank on the band"><i class="dot" style={{ background: rankColor(r.rank ?? 0) }} />{r.rank}</a></td>
                  <td>{r.state && <StateMark state={r.state} />}</td>
                  <td class="num">{r.step?.toLocaleString("en-US") ?? "–"}{behind > 0 && run.state === "running" && <span class="dim"> −{behind.toLocaleString("en-US")}</span>}</td>
                  <td class="num">{Number.isFinite(mean) ? format(mean) ?? metricValue(metric, mean) : "–"}</td>
                  <td class="num"><Factor factor={factor} /></td>
                  <td>{r.host}</td><td class="num">{r.node}</td><td class="num">{r.local_rank}</td><td class="num">{r.pid}</td>
                  <td class="soft">{r.updated ? ago(r.updated, now) : "–"}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Factor({ factor }: { factor: number }) {
  if (!Number.isFinite(factor)) return <span class="nothing">–</span>;
  const part = Math.min(1, Math.abs(factor - 1));
  return (
    <span class="factor">
      <i class="bar" aria-hidden="true"><b class={factor > 1.1 ? "slow" : ""} style={{ width: `${Math.round(50 * part)}%`, [factor >= 1 ? "left" : "right"]: "50%" }} /></i>
      <span class={factor > 1.1 ? "slow" : ""}>{factor.toFixed(2)} ×</span>
    </span>
  );
}
