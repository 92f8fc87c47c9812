// Tables of a comparison, one column per run: differences in configuration and environment, and results.
import type { ComponentChildren } from "preact";
import { Stroke } from "../chart/line_list";
import { columnFormat, settingFormat } from "../chart/ticks";
import { runStyles } from "../colors";
import type { Compared, Comparison, RunRow } from "../data/source";
import { metricValue, plain, toNumber } from "../format";
import { Icon } from "../parts/icons";
import { link, useUrlState } from "../router";
import { quoteWord } from "../run/config_tab";
import { compareMetrics, type Delta, deltaOf, indexOfBest } from "../metrics";
import { labels } from "./legend";

/** A command is written as in a shell. */
const settingText = (key: string, value: unknown) => (key === "command" && Array.isArray(value) ? value.map((word) => quoteWord(String(word))).join(" ") : plain(value));

export function Differences({ comparison }: { comparison: Comparison }) {
  const [allText, setAll] = useUrlState("all");
  const all = allText === "1";
  const [search, setSearch] = useUrlState("find");
  const matches = (c: Compared) => (all || c.differs) && `${c.key} ${c.values.map(plain).join(" ")}`.toLowerCase().includes(search.toLowerCase());
  const parts = [["Configuration", comparison.config], ["Environment", comparison.environment]] as const;
  return (
    <div class="stack">
      <SameCode comparison={comparison} />
      <div class="tools">
        <div class="searchfield"><Icon name="search" /><input class="field" type="search" aria-label="Search keys and values" placeholder="Search keys and values" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></div>
        <label class="row small"><input type="checkbox" class="check" checked={all} onChange={() => setAll(all ? "" : "1")} />Show identical values</label>
      </div>
      {parts.map(([title, entries]) => {
        const shown = entries.filter(matches);
        return (
          <section class="card block" key={title}>
            <h2>{title}</h2>
            {shown.length === 0 ? <p class="soft">{entries.some((e) => e.differs) ? "No matches." : `Identical in ${allRuns(comparison.runs.length)}.`}</p> : (
              <SideBySide name={title} runs={comparison.runs} rows={shown.map((entry) => {
                const written = settingFormat(entry.values.filter((value): value is number => typeof value === "number"));
                return { key: entry.key, differs: entry.differs, cells: entry.values.map((value, i) => (entry.missing?.[i] || (value === null && !entry.missing) ? "–" : typeof value === "number" ? written(value) : settingText(entry.key, value))), exact: entry.values.map((value) => settingText(entry.key, value)) };
              })} />
            )}
          </section>
        );
      })}
    </div>
  );
}

const allRuns = (count: number) => (count === 2 ? "both runs" : `all ${count} runs`);

/** Whether the runs were started with the same commit and the same uncommitted changes; nothing if a run has no record of them. */
function SameCode({ comparison: { environment, runs } }: { comparison: Comparison }) {
  const [commit, changes] = ["git.commit", "uncommitted_changes"].map((key) => environment.find((entry) => entry.key === key));
  if (!commit || !changes || [commit, changes].some((entry) => entry.values.some((value) => typeof value !== "string" || value.startsWith("unknown")))) return null;
  const isSame = !commit.differs && !changes.differs;
  const same = `The same commit${changes.values[0] === "none" ? "" : " and the same changes of tracked files"} in ${allRuns(runs.length)}`;
  const which = isSame ? (changes.values[0] === "none" ? ", without changes of tracked files" : `: ${plain(changes.values[0])}`)
    : `: ${[...(commit.differs ? ["commits"] : []), ...(changes.differs ? ["uncommitted changes"] : [])].join(" and ")} differ`;
  return <p class="notice"><Icon name={isSame ? "check" : "compare"} /><span>{isSame ? same : "Different code"}{which}.</span></p>;
}

/** `deltas`: differences from the baseline, and whether they are improvements. */
interface SideRow { key: string; differs: boolean; cells: string[]; best?: number; exact?: string[]; deltas?: (Delta | null)[] }

/** Longer texts, such as commands, have several lines. */
const LONG_TEXT = 60;

function SideBySide({ name, runs, rows, numeric }: { name: string; runs: RunRow[]; rows: SideRow[]; numeric?: boolean }) {
  const styles = runStyles(runs.map((r) => r.id));
  const names = labels(runs);
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={`${name} side by side`}>
      <table class="plain side">
        <thead><tr><th><span class="sr">Key</span></th>{runs.map((run) => <th key={run.id} class={numeric ? "num" : ""}><span class="row run-of"><Stroke {...styles.get(run.id)!} /><a href={link(["run", run.id])} class="ellipsis" title={run.id}>{names.get(run.id)}</a></span></th>)}</tr></thead>
        <tbody>{rows.map((row) => ({ row, common: mostCommon(row.cells) })).map(({ row, common }) => (
          <tr key={row.key} class={row.differs ? "" : "same"}>
            <th scope="row" class="mono">{row.key}</th>
            {row.cells.map((text, i) => {
              const isUncommon = row.differs && !numeric && runs.length > 2 && common !== null && common !== text;
              return <td key={i} class={`mono ${numeric ? "num" : ""} ${isUncommon ? "odd" : ""} ${row.best === i ? "best" : ""} ${text.length > LONG_TEXT ? "long" : ""}`} title={row.exact?.[i]}>{text}{row.best === i && <span class="sr"> best</span>}{row.deltas?.[i] && <span class={`delta ${row.deltas[i].tone}`} title={`${row.deltas[i].absolute} from the baseline`}>{row.deltas[i].percent ?? row.deltas[i].absolute}</span>}</td>;
            })}
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}

/** The most common cell; null if all differ. */
function mostCommon(cells: string[]): string | null {
  const times = new Map<string, number>();
  for (const cell of cells) times.set(cell, (times.get(cell) ?? 0) + 1);
  const [cell, count] = [...times].reduce((best, now) => (now[1] > best[1] ? now : best));
  return count > 1 ? cell : null;
}

const WHICH = ["last", "min", "max", "mean"] as const;

/** `tools`: further controls. */
export function Results({ comparison, base, tools }: { comparison: Comparison; base: string | null; tools?: ComponentChildren }) {
  const baseIndex = comparison.runs.findIndex((run) => run.id === base);
  const [whichText, setWhich] = useUrlState("which");
  const which = WHICH.find((one) => one === whichText) ?? "last";
  const [search, setSearch] = useUrlState("find");
  const rows: SideRow[] = comparison.metrics.filter((m) => m.name.toLowerCase().includes(search.toLowerCase())).sort((a, b) => compareMetrics(a.name, b.name)).map(({ name, values }) => {
    const numbers = values.map((v) => (v ? toNumber(v[which]) : NaN));
    const written = columnFormat(name, numbers);
    return { key: name, differs: true, cells: values.map((v, i) => (v ? written(numbers[i]!) ?? metricValue(name, numbers[i]!) : "–")), best: indexOfBest(name, numbers), exact: numbers.map(String), ...(baseIndex >= 0 ? { deltas: numbers.map((value, i) => (i === baseIndex ? null : deltaOf(name, value, numbers[baseIndex]!))) } : {}) };
  });
  return (
    <div class="stack">
      <div class="tools">
        <div class="searchfield"><Icon name="search" /><input class="field" type="search" aria-label="Search metrics" placeholder="Search metrics" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></div>
        <div class="segmented" role="group" aria-label="Which value">{WHICH.map((w) => <button type="button" key={w} aria-pressed={which === w} onClick={() => setWhich(w === "last" ? "" : w)}>{w}</button>)}</div>
        {tools}
      </div>
      <section class="card block"><SideBySide name="Results" runs={comparison.runs} rows={rows} numeric /></section>
    </div>
  );
}
