// Tables. Confusion matrices and precision-recall curves are drawn, from all of their rows.
import { useState } from "preact/hooks";
import { ChartCard, type Plot } from "../chart/chart_card";
import { heatColor } from "../chart/heat";
import { Stroke } from "../chart/line_list";
import { type Cell, saveRows, saveTablePng } from "../chart/save";
import { rankColor } from "../colors";
import type { Media, Run, TablePage } from "../data/source";
import { number, plain, toNumber } from "../format";
import { toast } from "../parts/overlay";
import { source, useAsync } from "../store";
import { SaveButtons, StepSlider } from "./media_parts";

const PAGE = 200;
const MAX_ROWS_PER_REQUEST = 10000;

const has = (table: TablePage, ...names: string[]) => names.every((name) => table.columns.includes(name));
const isConfusion = (table: TablePage) => has(table, "actual", "predicted", "count");
// A table with one row per class and its F1 score is a summary, not a curve.
const isCurve = (table: TablePage) => has(table, "precision", "recall") && !has(table, "f1");
const isDrawn = (table: TablePage) => isConfusion(table) || isCurve(table);

/** Loads all rows of the table. */
async function loadAllRows(run: string, name: string, page: TablePage): Promise<TablePage> {
  const rows: unknown[][] = [];
  while (rows.length < page.num_rows) {
    const more = (await source().table(run, name, page.at, rows.length, MAX_ROWS_PER_REQUEST)).rows;
    if (more.length === 0) break;
    rows.push(...more);
  }
  return { ...page, rows };
}

export function Tables({ run, media }: { run: Run; media: Media }) {
  const [at, setAt] = useState<number | null>(null);
  const [offset, setOffset] = useState(0);
  const { value: table, error } = useAsync<TablePage>(async () => {
    const page = await source().table(run.id, media.name, at, offset, PAGE);
    return isDrawn(page) && page.rows.length < page.num_rows ? loadAllRows(run.id, media.name, page) : page;
  }, [run.id, media.name, media.count, at, offset]);
  if (!table) return <p class="soft small" role="alert">{error?.message}</p>;
  const versions = [...table.versions].sort((a, b) => a.step - b.step);
  const png = () => (isConfusion(table) ? saveConfusion(media.name, table) : saveTablePng(media.name, table.columns, table.rows.map((row) => row.map((value) => ({ text: formatCell(value), number: typeof value === "number" })))));
  const csv = () => void loadAllRows(run.id, media.name, table).then((all) => saveRows(media.name, all.columns, all.rows.map((row) => row.map(csvValue))), (error: Error) => toast(error.message, true));
  return (
    <>
      <div class="row wrap">
        <StepSlider steps={versions.map((v) => v.step)} at={Math.max(0, versions.findIndex((v) => v.at === table.at))} onChange={(i) => { setAt(versions[i]!.at); setOffset(0); }} name={media.name} />
        <span class="spread" />
        {(isConfusion(table) || !isDrawn(table)) && <SaveButtons name={media.name} png={png} csv={csv} />}
      </div>
      {isConfusion(table) ? <Confusion table={table} /> : isDrawn(table) ? <PrecisionRecall table={table} name={media.name} /> : <PlainTable table={table} />}
      {table.num_rows > table.rows.length && (
        <div class="row small"><button type="button" class="button mini" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>Previous</button><span class="dim">{offset + 1} – {offset + table.rows.length} of {table.num_rows.toLocaleString("en-US")}</span><button type="button" class="button mini" disabled={offset + table.rows.length >= table.num_rows} onClick={() => setOffset(offset + PAGE)}>Next</button></div>
      )}
    </>
  );
}

const formatCell = (value: unknown) => (typeof value === "number" ? number(value, 6) : plain(value));
const csvValue = (value: unknown) => (typeof value === "number" ? value : value === null ? "" : plain(value));

const LONG_TEXT = 80;
const cellClass = (value: unknown) => (typeof value === "number" ? "num" : typeof value === "string" && (value.length > LONG_TEXT || value.includes("\n")) ? "long" : "");

function PlainTable({ table }: { table: TablePage }) {
  return (
    <div class="scroll-x tall" tabIndex={0} role="region" aria-label="Table">
      <table class="plain">
        <thead><tr>{table.columns.map((c, k) => <th key={c} class={typeof table.rows[0]?.[k] === "number" ? "num" : ""}>{c}</th>)}</tr></thead>
        <tbody>{table.rows.map((row, i) => <tr key={i}>{row.map((v, k) => <td key={k} class={cellClass(v)}>{formatCell(v)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

interface ConfusionRow { actual: string; right: string; cells: (Cell & { title: string })[] }

/** A confusion matrix; the color is the share of the row. */
function confusionOf(table: TablePage): { classes: string[]; rows: ConfusionRow[] } {
  const [a, p, c] = ["actual", "predicted", "count"].map((n) => table.columns.indexOf(n)) as [number, number, number];
  const classes = [...new Set(table.rows.flatMap((row) => [plain(row[a]), plain(row[p])]))].sort((x, y) => x.localeCompare(y, "en", { numeric: true }));
  const counts = new Map(table.rows.map((row) => [`${plain(row[a])}\n${plain(row[p])}`, toNumber(row[c])]));
  const count = (actual: string, predicted: string) => counts.get(`${actual}\n${predicted}`) ?? 0;
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

function Confusion({ table }: { table: TablePage }) {
  const { classes, rows } = confusionOf(table);
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Confusion matrix">
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

function saveConfusion(name: string, table: TablePage) {
  const { classes, rows } = confusionOf(table);
  saveTablePng(name, ["actual \\ predicted", ...classes, "correct"], rows.map(({ actual, cells, right }) => [{ text: actual }, ...cells.map((cell) => ({ ...cell, number: true })), { text: right, number: true }]));
}

function PrecisionRecall({ table, name }: { table: TablePage; name: string }) {
  const [r, p, k] = ["recall", "precision", "class"].map((n) => table.columns.indexOf(n)) as [number, number, number];
  const classes = [...new Set(table.rows.map((row) => (k >= 0 ? plain(row[k]) : "")))];
  const plot: Plot = {
    name, title: "precision vs. recall", axis: "epoch", columns: ["class", "recall", "precision"], version: String(table.at), csv: null,
    load: async () => classes.map((own, i) => {
      const rows = table.rows.filter((row) => k < 0 || plain(row[k]) === own).map((row) => [toNumber(row[r]), toNumber(row[p])] as const).sort((x, y) => x[0] - y[0]);
      return { key: own, label: own || "precision", color: rankColor(i), x: rows.map((row) => row[0]), y: rows.map((row) => row[1]) };
    }),
  };
  return (
    <>
      {classes.length > 1 && <ul class="row wrap small" aria-label="Classes">{classes.map((own, i) => <li key={own} class="row"><Stroke color={rankColor(i)} dash={[]} />{own}</li>)}</ul>}
      <ChartCard plot={plot} range={null} log={false} height={280} onZoom={() => undefined} />
    </>
  );
}
