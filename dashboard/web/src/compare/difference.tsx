// Two runs on one page: outcome, results, configuration, environment and curves.
import type { ComponentChildren } from "preact";
import { setBaseline } from "../baseline";
import { Stroke } from "../chart/line_list";
import { runStyles } from "../colors";
import { type Comparison, shownState } from "../data/source";
import { duration, moment } from "../format";
import { Icon } from "../parts/icons";
import { NoteText } from "../parts/note";
import { StateMark } from "../parts/state_mark";
import { link } from "../router";
import { Differences, Results } from "./tables";

/** `base`: the run that the other is compared with; `isOther`: the chosen baseline is neither of them. */
export function Difference({ comparison, base, isOther, curves }: { comparison: Comparison; base: string; isOther: boolean; curves: ComponentChildren }) {
  const styles = runStyles(comparison.runs.map((run) => run.id));
  return (
    <div class="stack">
      <div class="two-runs">
        {comparison.runs.map((run) => (
          <section class="card block" key={run.id} aria-label={run.name}>
            <div class="row wrap">
              <Stroke {...styles.get(run.id)!} />
              <h2 class="ellipsis"><a href={link(["run", run.id])} title={run.id}>{run.name}</a></h2>
              <StateMark state={shownState(run)} exit={run.exit} signal={run.signal} />
              <span class="spread" />
              {run.id === base && !isOther ? <span class="tag">baseline</span> : <button type="button" class="button mini" onClick={() => setBaseline(run.id)}>Use as baseline</button>}
            </div>
            <dl class="facts">
              <div><dt>Started</dt><dd>{moment(run.created)}</dd></div>
              <div><dt>Duration</dt><dd>{duration(run.duration)}</dd></div>
              <div><dt>Step</dt><dd>{run.step?.toLocaleString("en-US") ?? "–"}</dd></div>
              <div><dt>Ranks</dt><dd>{run.world_size}</dd></div>
              <div><dt>Host</dt><dd>{run.host}</dd></div>
            </dl>
            {run.reason && <p class="notice"><Icon name="note" />{run.reason}</p>}
            {run.note && <NoteText text={run.note} />}
          </section>
        ))}
      </div>
      <div class="two-runs">
        <div class="stack"><h2>What differs</h2><Differences comparison={comparison} /></div>
        <div class="stack"><h2>Results</h2>{isOther && <p class="soft small">Compared with {comparison.runs.find((run) => run.id === base)?.name}.</p>}<Results comparison={comparison} base={base} /></div>
      </div>
      <h2>Curves</h2>
      {curves}
    </div>
  );
}
