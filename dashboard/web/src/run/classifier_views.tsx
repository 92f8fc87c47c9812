// Tables of classifiers as drawings: ROC and precision-recall curves with their areas, and confusion matrices.
import { useMemo } from "preact/hooks";
import { ChartCard, type Plot } from "../chart/chart_card";
import { heatColor } from "../chart/heat";
import type { Line } from "../chart/line";
import { Stroke } from "../chart/line_list";
import { type Cell, saveTablePng } from "../chart/save";
import { cssColor, rankColor, rankDash } from "../colors";
import type { TablePage } from "../data/source";
import { number, plain, plural, toNumber } from "../format";
import { useUrlState } from "../router";
import { shownTheme } from "../settings";
import { type ClassCurve, type ClassScores, classScores, confusionOfScores, countsAt, labelsWithoutScores, loggedCurves, precisionRecallCurve, rocCurve, thresholdsOf } from "./classifier_curves";

export const SCORE_VIEWS = { roc: "ROC", pr: "Precision-recall", confusion: "Confusion", table: "Table" } as const;
export type ScoreView = keyof typeof SCORE_VIEWS;

interface ConfusionRow { actual: string; right: string; cells: (Cell & { title: string })[] }

/** A confusion matrix; the color is the share of the row. */
function confusionOf(table: TablePage): { classes: string[]; rows: ConfusionRow[] } {
  const [a, p, c] = ["actual", "predicted", "count"].map((n) => table.columns.indexOf(n)) as [number, number, number];
  const classes = [...new Set(table.rows.flatMap((row) => [plain(row[a]), plain(row[p])]))].sort((x, y) => x.localeCompare(y, "en", { numeric: true }));
  const counts = new Map<string, number>();
  const count = (actual: string, predicted: string) => counts.get(`${actual}\n${predicted}`) ?? 0;
  // Rows of the same pair, such as of several ranks, add up.
  for (const row of table.rows) counts.set(`${plain(row[a])}\n${plain(row[p])}`, count(plain(row[a]), plain(row[p])) + toNumber(row[c]));
  const rows = classes.map((actual) => {
    const sum = classes.reduce((n, predicted) => n + count(actual, predicted), 0);
    const cells = classes.map((predicted) => {
      const times = count(actual, predicted);
      const title = `${actual} predicted as ${predicted}: ${times} of ${sum}`;
      if (!times) return { text: "·", title };
      const [r, g, b] = heatColor((times / sum) ** 0.5);
      return { text: number(times), title, fill: `rgb(${r} ${g} ${b})`, ink: r * 0.3 + g * 0.59 + b * 0.11 > 140 ? "#10161a" : "#ffffff" };
    });
    return { actual, cells, right: sum > 0 ? `${((100 * count(actual, actual)) / sum).toFixed(1)} %` : "–" };
  });
  return { classes, rows };
}

export function Confusion({ table, name }: { table: TablePage; name: string }) {
  const { classes, rows } = confusionOf(table);
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={`Confusion matrix of ${name}`}>
      <table class="confusion">
        <caption class="hint">Rows: actual class. Columns: predicted class. Color: share of the row.</caption>
        <thead><tr><td />{classes.map((name) => <th key={name} scope="col">{name}</th>)}<th scope="col">correct</th></tr></thead>
        <tbody>{rows.map(({ actual, cells, right }) => (
          <tr key={actual}><th scope="row">{actual}</th>
            {cells.map(({ text, title, fill, ink }, i) => <td key={classes[i]} style={fill ? { background: fill, color: ink } : {}} title={title}>{text}</td>)}
            <td class="num soft">{right}</td>
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}

export function saveConfusion(name: string, table: TablePage) {
  const { classes, rows } = confusionOf(table);
  saveTablePng(name, ["actual \\ predicted", ...classes, "correct"], rows.map(({ actual, cells, right }) => [{ text: actual }, ...cells.map((cell) => ({ ...cell, number: true })), { text: right, number: true }]));
}

/** Curves of logged points: precision over recall, or the true over the false positive rate. */
export function LoggedCurves({ table, name }: { table: TablePage; name: string }) {
  const { kind, curves } = useMemo(() => loggedCurves(table), [table]);
  return <Curves name={name} kind={kind} curves={curves} version={String(table.at)} />;
}

/** A table with the label and the score of each sample. */
export function Scored({ table, name, view }: { table: TablePage; name: string; view: Exclude<ScoreView, "table"> }) {
  const scores = useMemo(() => {
    try {
      return classScores(table);
    } catch (error) {
      return (error as Error).message;
    }
  }, [table]);
  const curves = useMemo(() => (typeof scores === "string" || view === "confusion" ? [] : scores.map(view === "roc" ? rocCurve : precisionRecallCurve)), [scores, view]);
  if (typeof scores === "string") return <p class="notice warn" role="status">{scores}</p>;
  return (
    <>
      {view !== "confusion" ? <Curves name={name} kind={view} curves={curves} version={String(table.at)} /> : table.columns.includes("score") ? <AtThreshold scores={scores} name={name} /> : <Confusion name={name} table={confusionOfScores(table)} />}
      <UnknownLabels table={table} />
    </>
  );
}

const MAX_NAMED = 5;

/** Labels for which there are no scores. */
function UnknownLabels({ table }: { table: TablePage }) {
  const unknown = useMemo(() => labelsWithoutScores(table), [table]);
  if (unknown.length === 0) return null;
  const more = unknown.length > MAX_NAMED ? ` and ${unknown.length - MAX_NAMED} more` : "";
  return <p class="notice warn" role="status">No column score/CLASS has the name of {unknown.length > 1 ? "the labels" : "the label"} {unknown.slice(0, MAX_NAMED).map((name) => `"${name}"`).join(", ")}{more}. These samples are in no class.</p>;
}

const COLUMNS = { roc: ["class", "false positive rate", "true positive rate"], pr: ["class", "recall", "precision"] } as const;

function Curves({ name, kind, curves, version }: { name: string; kind: "roc" | "pr"; curves: ClassCurve[]; version: string }) {
  const columns = COLUMNS[kind];
  const chance = Array.from({ length: 101 }, (_, i) => i / 100);
  const plot: Plot = {
    name, title: `${columns[2]} vs. ${columns[1]}`, axis: "epoch", columns, version: `${version} ${kind} ${shownTheme.value}`, csv: null, limits: [0, 1],
    load: async (): Promise<Line[]> => [
      ...(kind === "roc" ? [{ key: " chance", label: "chance", color: cssColor("--ink-3"), dash: [3, 4], width: 1, x: chance, y: chance, isReference: true }] : []),
      ...curves.map(({ name: own, x, y }, i) => ({ key: own, label: own || columns[2], color: rankColor(i), dash: rankDash(i), x, y })),
    ],
  };
  return (
    <>
      <ChartCard key={kind} plot={plot} range={null} log={false} height={280} onZoom={() => undefined} />
      <Areas name={name} curves={curves} kind={kind} />
    </>
  );
}

/** The area under each curve, and its mean. */
function Areas({ name: table, curves, kind }: { name: string; curves: ClassCurve[]; kind: "roc" | "pr" }) {
  const known = curves.filter(({ area }) => Number.isFinite(area));
  const samples = curves.some(({ positives }) => Number.isFinite(positives));
  const what = kind === "pr" && samples ? "Average precision" : "Area under the curve";
  const text = (area: number) => (Number.isFinite(area) ? area.toFixed(4) : "–");
  const [first] = curves;
  if (curves.length === 1 && first) return <p class="small soft">{what} <strong>{text(first.area)}</strong>{samples && `, ${first.positives.toLocaleString("en-US")} of ${plural(first.count, "sample")} positive`}.</p>;
  return (
    <div class="scroll-x areas" tabIndex={0} role="region" aria-label={`${what} of ${table}`}>
      <table class="plain tight">
        <thead><tr><th>Class</th><th class="num">{what}</th>{samples && <th class="num">Samples of the class</th>}</tr></thead>
        <tbody>
          {curves.map(({ name, area, positives, count }, i) => <tr key={name}><th scope="row"><span class="row"><Stroke color={rankColor(i)} dash={rankDash(i)} /><span class="ellipsis">{name}</span></span></th><td class="num mono">{text(area)}</td>{samples && <td class="num">{positives.toLocaleString("en-US")} of {count.toLocaleString("en-US")}</td>}</tr>)}
          {known.length > 1 && <tr><th scope="row">{known.length < curves.length ? `mean of ${known.length} of ${curves.length} classes` : "mean"}</th><td class="num mono">{text(known.reduce((sum, { area }) => sum + area, 0) / known.length)}</td>{samples && <td />}</tr>}
        </tbody>
      </table>
    </div>
  );
}

const THRESHOLDS = 200;

/** The confusion matrix of one class against the rest at a threshold of its score. */
function AtThreshold({ scores, name }: { scores: ClassScores[]; name: string }) {
  const [own, setOwn] = useUrlState(`class.${name}`);
  const chosen = scores.find((one) => one.name === own) ?? scores[0]!;
  const { low, high, usual } = useMemo(() => thresholdsOf(chosen), [chosen]);
  // Kept for other steps, whose scores may have another range.
  const [threshold, setThreshold] = useUrlState(`threshold.${name}`);
  const at = Math.max(low, Math.min(high, threshold === "" || Number.isNaN(Number(threshold)) ? usual : Number(threshold)));
  const { truePositives: yes, falsePositives, falseNegatives, trueNegatives } = countsAt(chosen, at);
  const share = (part: number, whole: number) => (whole > 0 ? (part / whole).toFixed(4) : "–");
  const [positive, negative] = [chosen.name || "1", chosen.name ? `not ${chosen.name}` : "0"];
  const rows = [[negative, negative, trueNegatives], [negative, positive, falsePositives], [positive, negative, falseNegatives], [positive, positive, yes]];
  return (
    <>
      <div class="row wrap small soft">
        {scores.length > 1 && <label class="row">Class<select class="field mini" value={chosen.name} onChange={(event) => { setOwn(event.currentTarget.value); setThreshold(""); }}>{scores.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}</select></label>}
        {low < high && <label class="row stepper">Threshold<input type="range" min={low} max={high} step={(high - low) / THRESHOLDS} value={at} aria-label={`Threshold of ${name}`} aria-valuetext={number(at, 3)} onInput={(event) => setThreshold(event.currentTarget.value)} /><output>{number(at, 3)}</output></label>}
      </div>
      <Confusion name={name} table={{ versions: [], at: 0, num_rows: 4, columns: ["actual", "predicted", "count"], rows }} />
      <p class="small soft" role="status">Precision <strong>{share(yes, yes + falsePositives)}</strong>, recall <strong>{share(yes, yes + falseNegatives)}</strong>, false positive rate <strong>{share(falsePositives, falsePositives + trueNegatives)}</strong>, accuracy <strong>{share(yes + trueNegatives, chosen.score.length)}</strong>.</p>
    </>
  );
}
