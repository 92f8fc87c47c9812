import { useMemo } from "preact/hooks";
import { ChartBoard } from "../chart/chart_board";
import type { Line, BandCurve } from "../chart/line";
import type { Metric, Run } from "../data/source";
import { toNumber } from "../format";
import { constantValue } from "../metrics";
import { Icon } from "../parts/icons";
import { Popover } from "../parts/overlay";
import { route, setQuery } from "../router";
import { rankColor } from "../colors";
import { Figures } from "./figures";
import { runPlot, ranksOf, type Ranks } from "./plots";

export function ChartsTab({ run }: { run: Run }) {
  const ranks = ranksOf(route.value.query.get("ranks"));
  const byName = useMemo(() => new Map(run.metrics.map((m) => [m.name, m])), [run]);
  const metrics = useMemo(() => run.metrics.map((m) => ({ ...m, constant: constantOnAllSources(run, m) })), [run]);
  const all = run.sources.filter((s) => s.kind === "rank").map((s) => s.rank ?? 0);
  const pick = (_: Line, curve: BandCurve | null) => {
    const rank = curve?.source.startsWith("rank-") ? Number(curve.source.slice(5)) : -1;
    if (rank >= 0) setRanks(toggled(ranks, rank));
  };
  return (
    <>
    <Figures run={run} />
    <ChartBoard metrics={metrics} drawn={[run.id]} onPick={all.length > 1 ? pick : undefined} plot={(metric, axis, smooth) => runPlot(run, byName.get(metric.name)!, ranks, run.version)(metric, axis, smooth)}
      empty={run.state === "running"
        ? <div class="empty"><h2>Waiting for metrics</h2><p>Charts appear here when the run logs its first metrics (<code>train.log_every</code>).</p></div>
        : <div class="empty"><h2>No metrics</h2><p>This run ended before it logged any metrics. Check its console for errors.</p></div>}>
      {all.length > 1 && <RankPicker ranks={ranks} all={all} />}
    </ChartBoard>
    </>
  );
}

/** The value of a metric that never changed and is equal on all ranks and nodes, or null. Except for the first, only last values are known. */
function constantOnAllSources(run: Run, metric: Metric): number | null {
  // For a run that is over, a single value is sufficient.
  const value = constantValue([metric], run.state === "running" ? 2 : 1);
  const others = run.sources.filter((s) => metric.sources.includes(s.source) && s.summary && metric.name in s.summary);
  return value !== null && others.every((s) => toNumber(s.summary![metric.name]) === value) ? value : null;
}

const setRanks = (ranks: Ranks) => setQuery({ ranks: ranks === "band" ? null : ranks === "all" ? "all" : ranks.join(",") });

function toggled(ranks: Ranks, rank: number): Ranks {
  const now = Array.isArray(ranks) ? ranks : [];
  const next = now.includes(rank) ? now.filter((r) => r !== rank) : [...now, rank].sort((a, b) => a - b);
  return next.length > 0 ? next : "band";
}

function RankPicker({ ranks, all }: { ranks: Ranks; all: number[] }) {
  return (
    <div class="row">
      <div class="segmented" role="group" aria-label="Ranks">
        <button type="button" aria-pressed={ranks !== "all"} onClick={() => setRanks(ranks === "all" ? "band" : ranks)} title="Median, 10th to 90th percentile, minimum and maximum over all ranks">Median & range</button>
        <button type="button" aria-pressed={ranks === "all"} onClick={() => setRanks("all")} title="One line per rank">Each rank</button>
      </div>
      {ranks !== "all" && (
        <Popover class="button" name="Overlay ranks" label={<>{Array.isArray(ranks) ? <>{ranks.slice(0, 6).map((r) => <i key={r} class="dot" style={{ background: rankColor(r) }} />)}<span>{ranks.length === 1 ? `rank ${ranks[0]}` : `${ranks.length} ranks`}</span></> : "+ ranks"}<Icon name="down" size={12} /></>}>
          {() => (
            <div class="rank-choice">
              {Array.isArray(ranks) && <button type="button" class="button quiet mini" onClick={() => setRanks("band")}>None</button>}
              <div class="rank-grid">
                {all.map((rank) => <button type="button" key={rank} class="button mini" aria-pressed={Array.isArray(ranks) && ranks.includes(rank)} onClick={() => setRanks(toggled(ranks, rank))}><i class="dot" style={{ background: rankColor(rank) }} />{rank}</button>)}
              </div>
            </div>
          )}
        </Popover>
      )}
    </div>
  );
}
