// The sweeps of the directory.
import { useEffect } from "preact/hooks";
import type { SweepProblem, SweepRow } from "../data/source";
import { ago } from "../format";
import { Icon } from "../parts/icons";
import { Bar } from "../parts/progress_bar";
import { StateMark } from "../parts/state_mark";
import { link } from "../router";
import { source, tick, useAsync, useNow, useThrottled } from "../store";
import { countsText, MARK_OF_SWEEP, numTrials, objectivesOf, resultText } from "./sweep_values";

const isReadable = (row: SweepRow | SweepProblem): row is SweepRow => !("problem" in row);

export function SweepsPage() {
  const { value, error } = useAsync(() => source().sweeps(), [useThrottled(tick.value, 5000)]);
  const now = useNow(30000);
  useEffect(() => void (document.title = "Sweeps · Lockstep"), []);
  const rows = value?.filter(isReadable);
  return (
    <div class="page">
      <div class="tools"><h1>Sweeps</h1></div>
      {error && <p class="notice bad" role="alert">{error.message}</p>}
      <div class="stack">{value?.map((row) => !isReadable(row) && <p class="notice warn" key={row.name}><Icon name="warn" />{row.name}: {row.problem}</p>)}
      {rows && rows.length > 0 && (
        <section class="card block" aria-label="Sweeps">
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of sweeps">
            <table class="plain">
              <thead><tr><th>Sweep</th><th>State</th><th>Progress</th><th>Trials</th><th>Best</th><th>Search</th><th>Started</th></tr></thead>
              <tbody>{rows.map((row) => <SweepLine key={row.name} row={row} now={now} />)}</tbody>
            </table>
          </div>
        </section>
      )}</div>
      {value?.length === 0 && <div class="empty"><h2>No sweeps yet</h2><p>A sweep finds hyperparameters with many runs. It appears here as soon as it begins.</p><pre>lockstep sweep sweep.yaml -n 2</pre></div>}
      {!value && !error && <p class="waiting">Loading…</p>}
    </div>
  );
}

function SweepLine({ row, now }: { row: SweepRow; now: number }) {
  const objectives = objectivesOf(row.sweep);
  const [best] = row.best;
  return (
    <tr>
      <th scope="row"><a class="link" href={link(["sweeps", row.name])}>{row.name}</a></th>
      <td><StateMark state={MARK_OF_SWEEP[row.state]} text={row.state} /></td>
      <td><SweepProgress row={row} /></td>
      <td>{countsText(row.counts)}</td>
      <td>{!best ? "–" : row.best.length > 1 ? `${row.best.length} trials (Pareto front)` : <>{objectives[0]!.metric} <span class="mono">{resultText(objectives[0]!, best.values?.[0])}</span></>}</td>
      <td>{row.sweep.search.name}</td>
      <td class="dim">{ago(row.created, now)}</td>
    </tr>
  );
}

/** Nothing if the number of trials is not limited. */
export function SweepProgress({ row }: { row: SweepRow }) {
  const limit = row.sweep.budget.trials;
  if (!limit) return null;
  const ended = numTrials(row) - row.counts.open;
  return <Bar fraction={Math.min(1, ended / limit)} label={row.name} text={`${ended} of ${limit} trials`} />;
}
