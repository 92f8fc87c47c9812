import { useMemo } from "preact/hooks";
import { ChartBoard } from "../chart/chart_board";
import type { Line, Who } from "../chart/line";
import type { Metric, Run } from "../data/source";
import { toNumber } from "../format";
import { constantOf } from "../metrics";
import { Icon } from "../parts/icons";
import { Popover } from "../parts/overlay";
import { route, setQuery } from "../router";
import { rankColor } from "../colors";
import { Figures } from "./figures";
import { runPlot, ranksOf, type Ranks } from "./plots";

export function ChartsTab({ run }: { run: Run }) {
  const ranks = ranksOf(route.value.query.get("ranks"));
  const byName = useMemo(() => new Map(run.metrics.map((m) => [m.name, m])), [run]);
  const metrics = useMemo(() => run.metrics.map((m) => ({ ...m, constant: constantEverywhere(run, m) })), [run]);
  const all = run.sources.filter((s) => s.kind === "rank").map((s) => s.rank ?? 0);
  const pick = (_: Line, who: Who | null) => {
    const rank = who?.source.startsWith("rank-") ? Number(who.source.slice(5)) : -1;
    if (rank >= 0) setRanks(toggled(ranks, rank));
  };
  return (
    <>
    <Figures run={run} />
    <ChartBoard metrics={metrics} onPick={all.length > 1 ? pick : undefined} plot={(metric, axis, smooth) => runPlot(run, byName.get(metric.name)!, ranks, run.version)(metric, axis, smooth)}
      empty={run.state === "running"
        ? <div class="empty"><h2>Waiting for the first values</h2><p>They appear here as soon as the run logs some (<code>train.log_every</code>).</p></div>
        : <div class="empty"><h2>No values</h2><p>This run ended before it logged any. The console may say why.</p></div>}>
      {all.length > 1 && <RankChoice ranks={ranks} all={all} />}
    </ChartBoard>
    </>
  );
}

/** The value that a metric always had, on each rank and node that has it. Of the others only the last value is known. */
function constantEverywhere(run: Run, metric: Metric): number | null {
  // Of a run that is over, a single value stays the only one.
  const value = constantOf([metric], run.state === "running" ? 2 : 1);
  const others = run.sources.filter((s) => metric.sources.includes(s.source) && s.summary && metric.name in s.summary);
  return value !== null && others.every((s) => toNumber(s.summary![metric.name]) === value) ? value : null;
}

const setRanks = (ranks: Ranks) => setQuery({ ranks: ranks === "band" ? null : ranks === "all" ? "all" : ranks.join(",") });

function toggled(ranks: Ranks, rank: number): Ranks {
  const now = Array.isArray(ranks) ? ranks : [];
  const next = now.includes(rank) ? now.filter((r) => r !== rank) : [...now, rank].sort((a, b) => a - b);
  return next.length > 0 ? next : "band";
}

function RankChoice({ ranks, all }: { ranks: Ranks; all: number[] }) {
  return (
    <div class="row">
      <div class="segmented" role="group" aria-label="Ranks">
        <button type="button" aria-pressed={ranks !== "all"} onClick={() => setRanks(ranks === "all" ? "band" : ranks)} title="Median of all ranks, the middle 80 % of them, the smallest and the largest">Median & range</button>
        <button type="button" aria-pressed={ranks === "all"} onClick={() => setRanks("all")} title="One line per rank">Each rank</button>
      </div>
      {ranks !== "all" && (
        <Popover class="button" name="Ranks to show over the band" label={<>{Array.isArray(ranks) ? <>{ranks.slice(0, 6).map((r) => <i key={r} class="dot" style={{ background: rankColor(r) }} />)}<span>{ranks.length === 1 ? `rank ${ranks[0]}` : `${ranks.length} ranks`}</span></> : "+ ranks"}<Icon name="down" size={12} /></>}>
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
