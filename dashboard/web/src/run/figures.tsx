// The key metrics of a run: latest value, best value and a sparkline.
import { useMemo } from "preact/hooks";
import { type Baseline, useBaseline } from "../baseline";
import { columnFormat } from "../chart/ticks";
import { cssColor } from "../colors";
import type { Curve, Metric, Run } from "../data/source";
import { metricValue, plural, toNumber } from "../format";
import { betterDirection, deltaOf, resultOrder } from "../metrics";
import { setQuery } from "../router";
import { source, useAsync } from "../store";

const MAX_FIGURES = 5;
const POINTS = 60;
const [WIDTH, HEIGHT] = [68, 26];

const isFigure = (name: string) => !/^(system|rank|data|time)\//.test(name) && !/\/(lr|grad_norm)$/.test(name);

export function figuresOf(metrics: readonly Metric[]): Metric[] {
  return metrics.filter((m) => isFigure(m.name)).sort((a, b) => resultOrder(a.name) - resultOrder(b.name) || a.name.localeCompare(b.name)).slice(0, MAX_FIGURES);
}

export function Figures({ run }: { run: Run }) {
  const shown = useMemo(() => figuresOf(run.metrics), [run]);
  const baseline = useBaseline();
  const names = shown.map((m) => m.name).join("\n");
  const curves = useAsync<Curve[][]>(() => Promise.all(shown.map((m) => source().curves({ runs: [{ id: run.id, created: run.created }], metric: m.name, sources: null, x: "step", range: null, points: POINTS, smooth: 0 }))), [run.id, run.version, names]);
  if (shown.length === 0) return null;
  return (
    <ul class="figures" aria-label="Latest results">
      {shown.map((m, i) => ({ m, curve: curves.value?.[i]?.[0], ...textOf(m) })).map(({ m, curve, last, more }) => (
        <li key={m.name}>
          <button type="button" title={`Show chart of ${m.name}`} onClick={() => setQuery({ m: m.name })}>
            <span class="figure-text">
              <span class="figure-name" title={m.name}>{m.name}</span>
              <span class="figure-value" title={String(toNumber(m.last))}>{last}</span>
              <span class="figure-more">{more}</span>
              {baseline.id !== run.id && <AgainstBaseline metric={m} baseline={baseline} />}
            </span>
            <Spark curve={curve} />
          </button>
        </li>
      ))}
    </ul>
  );
}

/** The difference of the last value from that of the baseline. */
function AgainstBaseline({ metric, baseline: { run } }: { metric: Metric; baseline: Baseline }) {
  const base = run?.metrics.find((m) => m.name === metric.name);
  if (!run || !base) return null;
  const delta = deltaOf(metric.name, toNumber(metric.last), toNumber(base.last));
  const tip = `Baseline ${run.name}: ${metricValue(metric.name, toNumber(base.last))}`;
  return <span class={`figure-delta ${delta?.tone ?? "dim"}`} title={tip}>{delta ? [delta.absolute, delta.percent].filter(Boolean).join(" · ") : "equal"}<span class="dim"> vs baseline</span></span>;
}

/** The latest value, and the best or the mean, with equal decimals. */
function textOf(m: Metric): { last: string; more: string } {
  const direction = /per_s$/.test(m.name) ? null : betterDirection(m.name);
  const [last, other] = [toNumber(m.last), toNumber(direction === "lower" ? m.min : direction === "higher" ? m.max : m.mean)];
  const format = columnFormat(m.name, [last, other]);
  const written = (value: number) => format(value) ?? metricValue(m.name, value);
  const more = m.count < 2 ? plural(m.count, "value") : `${direction ? "best" : "mean"} ${written(other)}`;
  return { last: written(last), more };
}

function Spark({ curve }: { curve: Curve | undefined }) {
  const path = useMemo(() => sparkPath(curve), [curve]);
  return <svg class="spark" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">{path && <path d={path} fill="none" stroke={cssColor("--accent")} stroke-width="1.5" stroke-linejoin="round" />}</svg>;
}

function sparkPath(curve: Curve | undefined): string {
  if (!curve || curve.x.length < 2) return "";
  const finite = Array.from(curve.y).filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const [x0, x1] = [curve.x[0]!, curve.x[curve.x.length - 1]!];
  let text = "";
  let open = false;
  for (let i = 0; i < curve.x.length; i++) {
    if (!Number.isFinite(curve.y[i]!)) {
      open = false;
      continue;
    }
    const x = 1 + ((WIDTH - 2) * (curve.x[i]! - x0)) / (x1 - x0 || 1);
    const y = high > low ? HEIGHT - 2 - ((HEIGHT - 4) * (curve.y[i]! - low)) / (high - low) : HEIGHT / 2;
    text += `${open ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`;
    open = true;
  }
  return text;
}
