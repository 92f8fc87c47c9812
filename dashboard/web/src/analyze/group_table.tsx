// The chosen runs grouped by the values of a key: mean, deviation and best of a result.
import { columnFormat } from "../chart/ticks";
import { both } from "../data/filter";
import { metricOf } from "../runs/columns";
import { link, useUrlState } from "../router";
import { partsOf, summaryOf, type Values } from "./values";

interface Props { by: Values; target: Values; ids: string[]; names: string[]; inside: Uint8Array; better: "lower" | "higher" | null; filter: string; archived: string | null }

const MAX_ROWS = 200;

export function GroupTable({ by, target, ids, names, inside, better, filter, archived }: Props) {
  const [sortText, setSort] = useUrlState("bysort");
  const sort = sortText === "mean" || sortText === "best" ? sortText : "value";
  const rows = partsOf(by, inside).map((part) => ({ ...part, summary: summaryOf(target.values, part.runs) })).filter((row) => row.runs.length > 0);
  const best = (row: (typeof rows)[number]) => (better === "higher" ? row.summary.high : row.summary.low);
  const sign = better === "higher" ? -1 : 1;
  if (sort === "mean") rows.sort((a, b) => sign * ((Number.isNaN(a.summary.mean) ? sign * Infinity : a.summary.mean) - (Number.isNaN(b.summary.mean) ? sign * Infinity : b.summary.mean)));
  if (sort === "best") rows.sort((a, b) => sign * (best(a) - best(b)));
  const counted = rows.filter((row) => row.summary.count > 0);
  const format = columnFormat(metricOf(target.field), counted.flatMap((row) => [row.summary.mean, row.summary.low, row.summary.high]));
  const text = (value: number) => (Number.isFinite(value) ? format(value) ?? target.scale.text(value) : "–");
  const [low, high] = [Math.min(...counted.map((row) => row.summary.low)), Math.max(...counted.map((row) => row.summary.high))];
  const at = (value: number) => (high > low ? (100 * (value - low)) / (high - low) : 50);
  const bestMean = better && counted.length > 1 ? counted.reduce((most, row) => (sign * row.summary.mean < sign * most.summary.mean ? row : most)) : null;
  const button = (name: typeof sort, label: string) => <button type="button" class="plain-link" aria-pressed={sort === name} onClick={() => setSort(name === "value" ? "" : name)}>{label}</button>;
  return (
    <div class="scroll-x tall" tabIndex={0} role="region" aria-label={`${target.title} by ${by.title}`}>
      <table class="plain grouped-results">
        <thead><tr><th>{button("value", by.title)}</th><th class="num">Runs</th><th class="num">{button("mean", "Mean")}</th><th class="num" title="Population standard deviation">Deviation</th><th>Range</th><th class="num">{button("best", better === "higher" ? "Best (highest)" : better === "lower" ? "Best (lowest)" : "Lowest")}</th><th>Run</th></tr></thead>
        <tbody>{rows.slice(0, MAX_ROWS).map((row) => {
          const { summary } = row;
          const of = better === "higher" ? summary.highest : summary.lowest;
          return (
            <tr key={row.order}>
              <th scope="row" class="mono"><a class="link" href={link([], { q: both(filter, row.filter), archived })}>{row.label}</a></th>
              <td class="num">{row.runs.length.toLocaleString("en-US")}</td>
              <td class={`num mono ${row === bestMean ? "best" : ""}`}>{text(summary.mean)}{row === bestMean && <span class="sr"> best mean</span>}</td>
              <td class="num mono dim">{summary.count > 1 ? `± ${text(summary.deviation).replace(/^–$/, "0")}` : "–"}</td>
              <td>{summary.count > 0 && <span class="range-bar" role="img" aria-label={`from ${text(summary.low)} to ${text(summary.high)}`}><i style={{ left: `${at(summary.low)}%`, right: `${100 - at(summary.high)}%` }} /><b style={{ left: `${at(summary.mean)}%` }} /></span>}</td>
              <td class="num mono">{text(best(row))}</td>
              <td>{of >= 0 && <a class="link ellipsis" href={link(["run", ids[of]!])}>{names[of]}</a>}</td>
            </tr>
          );
        })}</tbody>
      </table>
    </div>
  );
}
