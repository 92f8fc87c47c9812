// The trials of a sweep: parameters, results, and why a trial was pruned or failed.
import { useMemo, useState } from "preact/hooks";
import type { Objective, Sweep, Trial, TrialState } from "../data/source";
import { duration, plural } from "../format";
import { StateMark } from "../parts/state_mark";
import { link, useUrlState } from "../router";
import { byResult, MARK_OF_TRIAL, parameterFormat, resultText, TRIAL_STATES } from "./sweep_values";

const FIRST_ROWS = 200;

export function TrialTable({ sweep, objectives }: { sweep: Sweep; objectives: Objective[] }) {
  const [state, setState] = useUrlState("state");
  const [sort, setSort] = useUrlState("sort");
  const [all, setAll] = useState(false);
  const { trials } = sweep;
  const formats = useMemo(() => [...new Set(trials.flatMap((trial) => Object.keys(trial.parameters)))].map((key) => ({ key, text: parameterFormat(key, trials) })), [trials]);
  const chosen = state ? trials.filter((trial) => trial.state === state) : trials;
  const rows = sort === "number" ? chosen : [...chosen].sort(byResult(objectives[0]!));
  const button = (value: string, label: string) => <button type="button" class="plain-link" aria-pressed={sort === value} onClick={() => setSort(value)}>{label}</button>;
  return (
    <section class="card block" aria-label="Trials">
      <div class="row wrap panel-head">
        <h2>Trials</h2>
        <div class="segmented" role="group" aria-label="State of the trials">
          <Choice name="" label="All" count={trials.length} chosen={state} onChoose={setState} />
          {TRIAL_STATES.map((one) => sweep.counts[one] > 0 && <Choice key={one} name={one} label={one} count={sweep.counts[one]} chosen={state} onChoose={setState} />)}
        </div>
      </div>
      {rows.length === 0 ? <p class="soft">No trials.</p> : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of trials">
          <table class="plain trials">
            <thead><tr><th>{button("number", "Trial")}</th><th>State</th>{objectives.map((objective, i) => <th key={objective.metric} class="num">{i === 0 ? button("", objective.metric) : objective.metric}</th>)}{formats.map(({ key }) => <th key={key} class="num">{key}</th>)}<th class="num">Evaluations</th><th class="num">Time</th><th>Reason</th></tr></thead>
            <tbody>{(all ? rows : rows.slice(0, FIRST_ROWS)).map((trial) => <TrialRow key={trial.number} trial={trial} objectives={objectives} formats={formats} isBest={sweep.best.some((best) => best.number === trial.number)} />)}</tbody>
          </table>
        </div>
      )}
      {!all && rows.length > FIRST_ROWS && <button type="button" class="button" onClick={() => setAll(true)}>Show all {plural(rows.length, "trial")}</button>}
    </section>
  );
}

function Choice({ name, label, count, chosen, onChoose }: { name: TrialState | ""; label: string; count: number; chosen: string; onChoose: (name: string) => void }) {
  return <button type="button" aria-pressed={chosen === name} onClick={() => onChoose(name)}>{label} <span class="dim">{count.toLocaleString("en-US")}</span></button>;
}

interface RowProps { trial: Trial; objectives: Objective[]; formats: { key: string; text: (value: unknown) => string }[]; isBest: boolean }

function TrialRow({ trial, objectives, formats, isBest }: RowProps) {
  return (
    <tr>
      <th scope="row"><RunLink trial={trial} />{isBest && <> <span class="tag">best</span></>}</th>
      <td><StateMark state={MARK_OF_TRIAL[trial.state]} text={trial.state} /></td>
      {objectives.map((objective, i) => <td key={objective.metric} class={`num mono ${isBest ? "best" : ""}`}>{resultText(objective, trial.values?.[i])}</td>)}
      {formats.map(({ key, text }) => <td key={key} class="num mono">{text(trial.parameters[key])}</td>)}
      <td class="num">{trial.evaluations?.length ?? "–"}</td>
      <td class="num">{trial.ended && trial.created ? duration(trial.ended - trial.created) : "–"}</td>
      <td class="long">{trial.reason}</td>
    </tr>
  );
}

export function RunLink({ trial }: { trial: Trial }) {
  const [run] = trial.runs ?? [];
  return run ? <a class="link" href={link(["run", run])}>trial {trial.number}</a> : <>trial {trial.number}</>;
}
