// One sweep: its progress, the best trials, the results in the order of start, and all trials with why they were stopped.
import { useEffect, useMemo } from "preact/hooks";
import { OrderPanel } from "../analyze/order_panel";
import { valuesOf } from "../analyze/values";
import type { Objective, Sweep, Trial } from "../data/source";
import { ago, plain } from "../format";
import { Icon } from "../parts/icons";
import { StateMark } from "../parts/state_mark";
import { go, link } from "../router";
import { source, tick, useAsync, useNow, useThrottled } from "../store";
import { countsText, MARK_OF_SWEEP, methodText, objectivesOf, resultText, runsFilter, TRIAL_STATES } from "./sweep_values";
import { SweepProgress } from "./sweeps_page";
import { RunLink, TrialTable } from "./trial_table";

export function SweepPage({ name }: { name: string }) {
  const { value: sweep, error } = useAsync(() => source().sweep(name), [name, useThrottled(tick.value, 2000)]);
  const now = useNow(30000);
  useEffect(() => void (document.title = `${name} · Lockstep`), [name]);
  if (error) return <div class="empty"><h1>Cannot load this sweep</h1><p>{error.message}</p><a class="button" href={link(["sweeps"])}>All sweeps</a></div>;
  if (!sweep) return <p class="waiting">Loading…</p>;
  const objectives = objectivesOf(sweep.sweep);
  const filter = runsFilter(name);
  return (
    <div class="page sweep-page">
      <div class="tools">
        <h1 class="ellipsis">{name}</h1>
        <StateMark state={MARK_OF_SWEEP[sweep.state]} text={sweep.state} />
        <span class="spread" />
        <a class="button" href={link(["analyze"], { q: filter, title: name, target: `metric.${objectives[0]!.metric}`, better: objectives[0]!.direction === "maximize" ? "higher" : "lower" })}><Icon name="chart" size={14} />Analyze</a>
        <a class="button" href={link([], { q: filter })}><Icon name="search" size={14} />Show in table</a>
      </div>
      <div class="stack">
        <section class="card block" aria-label="Progress">
          <div class="row wrap"><SweepProgress row={sweep} /><span role="status">{countsText(sweep.counts)}</span><span class="dim">· started {ago(sweep.created, now)}</span></div>
          <p class="small soft">{methodText(sweep)}</p>
        </section>
        <Best sweep={sweep} objectives={objectives} />
        {sweep.trials.length > 1 && objectives.map((objective, i) => <Order key={objective.metric} sweep={sweep} objective={objective} at={i} />)}
        <TrialTable sweep={sweep} objectives={objectives} />
      </div>
    </div>
  );
}

function Best({ sweep, objectives }: { sweep: Sweep; objectives: Objective[] }) {
  const { best, name } = sweep;
  if (best.length === 0) return <section class="card block" aria-label="Best"><h2>Best</h2><p class="soft">No trial has finished with a result yet.</p></section>;
  return (
    <section class="card block" aria-label="Best">
      <h2>{best.length === 1 ? "Best" : `Best: ${best.length} trials (Pareto front)`}</h2>
      {best.map((trial) => (
        <div key={trial.number} class="sweep-best">
          <p><RunLink trial={trial} />{objectives.map((objective, i) => <span key={objective.metric}> · {objective.metric} <strong class="mono">{resultText(objective, trial.values?.[i])}</strong></span>)}</p>
          <p class="mono small soft">{Object.entries(trial.parameters).map(([key, value]) => `${key}=${plain(value)}`).join("  ")}</p>
        </div>
      ))}
      <p class="small soft">Write the run file: <code>lockstep sweep best {name}{best.length > 1 ? ` --trial ${best[0]!.number}` : ""} -o best.yaml</code></p>
    </section>
  );
}

/** Only finished trials count for the best so far. */
function Order({ sweep, objective, at }: { sweep: Sweep; objective: Objective; at: number }) {
  const { trials } = sweep;
  const values = useMemo(() => {
    const states = TRIAL_STATES.filter((state) => sweep.counts[state] > 0);
    const column = (field: string, value: (trial: Trial) => unknown) => ({ field, type: "number" as const, values: trials.map(value) });
    return {
      target: valuesOf(column(`metric.${objective.metric}`, (trial) => trial.values?.[at])),
      created: valuesOf(column("created", (trial) => trial.created)),
      color: valuesOf({ field: "state", type: "text", labels: states, values: trials.map((trial) => states.indexOf(trial.state)) }),
      inside: new Uint8Array(trials.length).fill(1), settled: Uint8Array.from(trials, (trial) => Number(trial.state === "finished")),
      ids: trials.map((trial) => trial.runs?.[0] ?? ""), names: trials.map((trial) => `trial ${trial.number}`),
    };
  }, [trials, objective.metric, at]);
  const { ids } = values;
  return <OrderPanel {...values} base={-1} better={objective.direction === "maximize" ? "higher" : "lower"} onOpen={(trial) => ids[trial] && go(["run", ids[trial]])} />;
}
