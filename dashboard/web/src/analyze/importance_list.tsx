// Which hyperparameters mattered for a result, in which direction, and on how many runs this rests.
import type { Importance, ParameterImportance } from "../data/source";
import { plural, toNumber } from "../format";
import { Icon } from "../parts/icons";
import { directionText, titleOf, type Values } from "./values";

interface Props {
  importance: Importance;
  columns: ReadonlyMap<string, Values>;
  target: Values;
  better: "lower" | "higher" | null;
  chosen: string;
  onChoose: (x: string, color?: string) => void;
}

const percent = (share: number) => `${share < 0.0995 ? (100 * share).toFixed(1) : Math.round(100 * share)} %`;

function bestOf(entry: ParameterImportance, better: "lower" | "higher" | null): unknown {
  if (!better || entry.mean.length === 0) return null;
  const mean = entry.mean.map(toNumber);
  return entry.at[mean.indexOf(better === "lower" ? Math.min(...mean) : Math.max(...mean))] ?? null;
}

const described = (correlation: number | null) => (correlation === null ? "–" : `${correlation < 0 ? "−" : "+"}${Math.abs(correlation).toFixed(2)}`);

export function ImportanceList({ importance, columns, target, better, chosen, onChoose }: Props) {
  const { parameters, runs, used, needed, explained, interactions } = importance;
  const isKnown = used > 0;
  const shown = parameters.filter((entry) => entry.above_noise).sort((a, b) => b.importance - a.importance);
  const others = parameters.filter((entry) => !entry.above_noise).sort((a, b) => Math.abs(b.correlation ?? 0) - Math.abs(a.correlation ?? 0));
  const largest = Math.max(...shown.map((entry) => entry.importance), 0.01);
  const text = (field: string, value: unknown) => (typeof value === "number" ? columns.get(field)?.scale.text(value) ?? String(value) : String(value));
  const head = <thead><tr><th>Hyperparameter</th><th>Importance</th><th>Effect</th><th>Direction</th><th class="num" title="Spearman's rank correlation with the result">Correlation</th><th class="num">Runs</th></tr></thead>;
  const row = (entry: ParameterImportance) => {
    const best = bestOf(entry, better);
    const title = titleOf(entry.field);
    return (
      <tr key={entry.field} class={chosen === entry.field ? "at" : ""}>
        <th scope="row"><button type="button" class="plain-link ellipsis" title={`Plot ${target.title} against ${title}`} aria-pressed={chosen === entry.field} onClick={() => onChoose(entry.field)}>{title}</button></th>
        <td><span class="share"><i style={{ width: `${Math.max(2, (100 * entry.importance) / largest)}%` }} /></span><span class="share-text">{percent(entry.importance)}</span></td>
        <td><Sparkline entry={entry} isCategory={columns.get(entry.field)?.labels != null} /></td>
        <td class="soft">{directionText(entry.effect, better, best === null ? null : text(entry.field, best))}</td>
        <td class="num mono">{described(entry.correlation)}</td>
        <td class="num">{entry.runs.toLocaleString("en-US")}</td>
      </tr>
    );
  };
  return (
    <>
      {isKnown ? (
        <p class="small soft">Rests on {plural(used, "run")}. A random forest explains <strong>{percent(explained)}</strong> of the variation of {target.title} in runs that it has not seen{explained < 0.3 ? ": these hyperparameters say little about the result" : ""}.</p>
      ) : runs < needed ? (
        <p class="notice warn" role="status"><Icon name="warn" />Too few runs: {plural(runs, "run")} with {target.title}, but {plural(parameters.length, "hyperparameter")} need at least {needed}. Correlations are shown without importance.</p>
      ) : (
        <p class="notice">{parameters.length === 0 ? "These runs do not differ in any hyperparameter." : `${target.title} is the same in all runs.`}</p>
      )}
      {shown.length > 0 && <div class="scroll-x" tabIndex={0} role="region" aria-label="Importance of hyperparameters"><table class="plain importance">{head}<tbody>{shown.map(row)}</tbody></table></div>}
      {isKnown && shown.length === 0 && parameters.length > 0 && <p class="notice">None of {plural(parameters.length, "hyperparameter")} stands out from noise.</p>}
      {interactions.length > 0 && (
        <div class="row wrap interactions">
          <span class="small soft">Depend on each other:</span>
          {interactions.slice(0, 4).map(({ fields: [a, b], strength }) => <button type="button" class="button mini" key={`${a} ${b}`} title={`Plot ${titleOf(a)} against ${titleOf(b)}, colored by ${target.title}`} onClick={() => onChoose(a, b)}>{titleOf(a)} × {titleOf(b)} <span class="dim">{percent(strength)}</span></button>)}
        </div>
      )}
      {others.length > 0 && (
        <details class="constants" open={!isKnown}>
          <summary>{isKnown ? `${plural(others.length, "hyperparameter")} not distinguishable from noise` : "Correlations"}</summary>
          <div class="scroll-x"><table class="plain importance"><thead><tr><th>Hyperparameter</th><th class="num">Correlation</th><th class="num">Runs</th></tr></thead><tbody>{others.map((entry) => (
            <tr key={entry.field}><th scope="row"><button type="button" class="plain-link ellipsis" onClick={() => onChoose(entry.field)}>{titleOf(entry.field)}</button></th><td class="num mono">{described(entry.correlation)}</td><td class="num">{entry.runs.toLocaleString("en-US")}</td></tr>
          ))}</tbody></table></div>
        </details>
      )}
    </>
  );
}

/** The mean prediction over the values of a hyperparameter: a line, or a bar per category. */
function Sparkline({ entry, isCategory }: { entry: ParameterImportance; isCategory: boolean }) {
  const mean = entry.mean.map(toNumber);
  const [low, high] = [Math.min(...mean), Math.max(...mean)];
  const y = (value: number) => 20 - (high > low ? ((value - low) / (high - low)) * 16 : 8);
  const x = (i: number) => 2 + (mean.length < 2 ? 28 : (i * 56) / (mean.length - 1));
  const label = `mean result over its values: ${mean.map((value) => Number(value.toPrecision(3))).join(", ")}`;
  return (
    <svg class="spark" width="60" height="24" role="img" aria-label={label}>
      {isCategory
        ? mean.map((value, i) => <rect key={i} x={(i * 60) / mean.length + 1} width={Math.max(2, 60 / mean.length - 2)} y={y(value)} height={22 - y(value)} fill="currentColor" rx="1" />)
        : <path d={mean.map((value, i) => `${i > 0 ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("")} fill="none" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round" />}
    </svg>
  );
}
