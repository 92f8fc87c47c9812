// Tables. Those of classifiers are drawn, from all of their rows: confusion matrices, ROC and precision-recall curves.
import { saveRows, saveTablePng } from "../chart/save";
import type { Media, Run, TablePage } from "../data/source";
import { fileSize, number, plain, plural } from "../format";
import { toast } from "../parts/overlay";
import { route, setQuery, useUrlState } from "../router";
import { source, useAsync, useDebounced } from "../store";
import { isCurve, isScored } from "./classifier_curves";
import { Confusion, LoggedCurves, saveConfusion, Scored, SCORE_VIEWS, type ScoreView } from "./classifier_views";
import { SaveButtons, StepSlider } from "./media_parts";
import { areCalls, hasCalls, MAX_CALLS } from "./module_calls";
import { GRAPH_VIEWS, ModuleGraph } from "./module_graph";
import { componentColumns, hasPoints, vectorColumns } from "./projection";
import { PointMap, POINT_VIEWS, type PointView, pointViewTitle, VectorMap } from "./projection_view";
import { UmapMap } from "./umap_view";

const PAGE = 200;
/** A step is loaded when the slider has rested on it. */
const STEP_DELAY_MS = 150;
const MAX_ROWS_PER_REQUEST = 10000;
const MAX_DRAWN_ROWS = 100000;

const has = (table: TablePage, ...names: string[]) => names.every((name) => table.columns.includes(name));
const isConfusion = (table: TablePage) => has(table, "actual", "predicted", "count");
const hasVectors = (table: TablePage) => vectorColumns(table.columns, table.rows).length > 0;
const hasComponents = (table: TablePage) => componentColumns(table.columns, table.rows).length > 0;
/** Whether the rows are calls of modules, all in the order of their numbers. */
const isForwardPass = (table: TablePage) => hasCalls(table.columns) && table.num_rows <= MAX_CALLS && areCalls(table.columns, table.rows);
const isDrawn = (table: TablePage) => isConfusion(table) || isCurve(table);

/** How tables with labels and scores are shown. */
function shownView(): ScoreView {
  const view = route.value.query.get("scores") ?? "";
  return Object.hasOwn(SCORE_VIEWS, view) ? (view as ScoreView) : "roc";
}

/** Whether a view suits a table: UMAP needs vectors that are not coordinates, and a worker, which a report does not have. */
const suits = (view: PointView, ofComponents: boolean) => view !== "umap" || (ofComponents && source().live && typeof Worker !== "undefined");

/** How tables with vectors or points are shown; null: not chosen. */
function chosenPointView(): PointView | null {
  const view = route.value.query.get("points") ?? "";
  return Object.hasOwn(POINT_VIEWS, view) ? (view as PointView) : null;
}

/** Loads all rows of the table, or the first `most`. */
async function loadAllRows(run: string, name: string, page: TablePage, most = Infinity): Promise<TablePage> {
  const rows: unknown[][] = [];
  while (rows.length < Math.min(page.num_rows, most)) {
    const more = (await source().table(run, name, page.at, rows.length, MAX_ROWS_PER_REQUEST)).rows;
    if (more.length === 0) break;
    rows.push(...more);
  }
  return { ...page, rows };
}

/** The rows that are shown. They have labels and scores, or are points, given by their vectors or their coordinates. `isPage`: there are more. `calls`: they are calls of modules. */
interface Shown { table: TablePage; isPage: boolean; scored: boolean; calls: boolean; points: "vectors" | "coordinates" | null; ofComponents: boolean }

export function Tables({ run, media }: { run: Run; media: Media }) {
  // The record of the chosen step, as its place in the log: steps of several ranks can be equal.
  const [atText, setAt] = useUrlState(`at.${media.name}`);
  const at = /^\d+$/.test(atText) ? Number(atText) : null;
  const loadedAt = useDebounced(at, STEP_DELAY_MS);
  const [offsetText, setOffsetText] = useUrlState(`from.${media.name}`);
  const offset = /^\d{1,9}$/.test(offsetText) ? Number(offsetText) : 0;
  const setOffset = (next: number) => setOffsetText(next > 0 ? String(next) : "");
  const chosen = shownView();
  const isTable = chosen === "table";
  const pointView = chosenPointView();
  const graphView = route.value.query.get("graph") === "table" ? "table" : "graph";
  const { value, error } = useAsync<Shown>(async () => {
    const page = await source().table(run.id, media.name, loadedAt, offset, PAGE);
    // The first rows decide, also if later ones do not fit: the views name the mistake.
    const first = offset > 0 ? await source().table(run.id, media.name, page.at, 0, PAGE) : page;
    const scored = isScored(first);
    const points = scored || isDrawn(first) ? null : hasVectors(first) ? "vectors" : hasPoints(first.columns, first.rows) ? "coordinates" : null;
    const asGraph = graphView === "graph" && isForwardPass(first);
    const whole = isDrawn(page) || (scored && !isTable) || (points && pointView !== "table") || asGraph;
    const all = whole && page.rows.length < page.num_rows ? await loadAllRows(run.id, media.name, page, MAX_DRAWN_ROWS) : page;
    const calls = isForwardPass(asGraph ? all : first);
    const table = asGraph && !calls ? page : all;
    return { scored, points, calls, ofComponents: points === "vectors" && hasComponents(first), isPage: !(whole && table === all) && page.rows.length < page.num_rows, table };
  }, [run.id, media.name, media.count, loadedAt, offset, isTable, pointView === "table", graphView]);
  if (!value) return <p class="soft small" role="alert">{error?.message}</p>;
  const { table, isPage, scored, points, calls, ofComponents } = value;
  const usualPoints = points === "vectors" ? "map" : "space";
  const chosenPoints = pointView && suits(pointView, ofComponents) ? pointView : usualPoints;
  const shownPoints = points && (isPage ? "table" : chosenPoints); // until all rows are loaded, the table stays
  const versions = [...table.versions].sort((a, b) => a.step - b.step);
  const view = scored ? chosen : null;
  const isGraph = calls && graphView === "graph" && !isPage;
  const drawn = isDrawn(table) || isGraph || (view !== null && view !== "table") || (shownPoints !== null && shownPoints !== "table");
  const left = (table.left_out ?? 0) + (drawn ? table.num_rows - table.rows.length : 0);
  const png = () => (isConfusion(table) ? saveConfusion(media.name, table) : saveTablePng(media.name, table.columns, table.rows.map((row) => row.map((value, k) => ({ text: formatCell(value, table.columns[k]!), number: typeof value === "number" })))));
  const csv = () => void loadAllRows(run.id, media.name, table).then((all) => saveRows(media.name, all.columns, all.rows.map((row) => row.map(csvValue))), (error: Error) => toast(error.message, true));
  return (
    <>
      <div class="row wrap">
        <StepSlider steps={versions.map((v) => v.step)} at={Math.max(0, versions.findIndex((v) => v.at === (at ?? table.at)))} onChange={(i) => { setAt(i === versions.length - 1 ? "" : String(versions[i]!.at)); setOffset(0); }} name={media.name} />
        {view && <div class="segmented" role="group" aria-label={`${media.name} as`}>{Object.entries(SCORE_VIEWS).map(([key, label]) => <button type="button" key={key} aria-pressed={view === key} onClick={() => { setOffset(0); setQuery({ scores: key === "roc" ? null : key }); }}>{label}</button>)}</div>}
        {points && <div class="segmented" role="group" aria-label={`${media.name} as`}>{(Object.keys(POINT_VIEWS) as PointView[]).filter((key) => suits(key, ofComponents)).map((key) => <button type="button" key={key} aria-pressed={chosenPoints === key} onClick={() => { setOffset(0); setQuery({ points: key }); }}>{pointViewTitle(key, ofComponents)}</button>)}</div>}
        {calls && <div class="segmented" role="group" aria-label={`${media.name} as`}>{Object.entries(GRAPH_VIEWS).map(([key, label]) => <button type="button" key={key} aria-pressed={graphView === key} onClick={() => { setOffset(0); setQuery({ graph: key === "graph" ? null : key }); }}>{label}</button>)}</div>}
        <span class="spread" />
        {isGraph && <SaveButtons name={media.name} csv={csv} />}
        {(isConfusion(table) || !drawn) && <SaveButtons name={media.name} png={png} csv={csv} />}
      </div>
      {isConfusion(table) ? <Confusion name={media.name} table={table} /> : isCurve(table) ? <LoggedCurves table={table} name={media.name} /> : isGraph ? <ModuleGraph table={table} name={media.name} /> : view && view !== "table" ? <Scored table={table} name={media.name} view={view} /> : shownPoints && shownPoints !== "table" ? (shownPoints === "umap" ? <UmapMap key={run.id} name={media.name} table={table} record={`${run.id} ${run.created} ${media.name} ${table.at}`} /> : points === "vectors" ? <VectorMap name={media.name} table={table} view={shownPoints} /> : <PointMap name={media.name} table={table} view={shownPoints} />) : <PlainTable name={media.name} table={table} />}
      {left > 0 && drawn && <p class="notice">Rests on the first {plural(table.rows.length, "row")} of {(table.rows.length + left).toLocaleString("en-US")}.</p>}
      {!drawn && table.num_rows > table.rows.length && (
        <div class="row small"><button type="button" class="button mini" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>Previous</button><span class="dim">{offset + 1} – {offset + table.rows.length} of {table.num_rows.toLocaleString("en-US")}</span><button type="button" class="button mini" disabled={offset + table.rows.length >= table.num_rows} onClick={() => setOffset(offset + PAGE)}>Next</button></div>
      )}
    </>
  );
}

const MAX_SHOWN_NUMBERS = 4;
/** Numbers of a column of bytes have a unit; a long list of numbers is shortened. */
const formatCell = (value: unknown, column: string) => (value === null ? "–" : typeof value === "number" ? (/(^|[ _])bytes$/.test(column) ? fileSize(value) : Number.isSafeInteger(value) ? value.toLocaleString("en-US").replace("-", "−") : number(value, 6))
  : Array.isArray(value) && value.length > MAX_SHOWN_NUMBERS && value.every((member) => typeof member === "number") ? `[${value.slice(0, MAX_SHOWN_NUMBERS).map((member) => number(member, 4)).join(", ")}, … ${plural(value.length, "number")}]`
    : plain(value));
const csvValue = (value: unknown) => (typeof value === "number" ? value : value === null ? "" : plain(value));

const LONG_TEXT = 80;
const cellClass = (value: unknown, isNumbers: boolean) => (typeof value === "number" || (value === null && isNumbers) ? "num" : typeof value === "string" && (value.length > LONG_TEXT || value.includes("\n")) ? "long" : "");

function PlainTable({ name, table }: { name: string; table: TablePage }) {
  const areNumbers = table.columns.map((_, k) => typeof table.rows.find((row) => row[k] !== null)?.[k] === "number");
  return (
    <div class="scroll-x tall" tabIndex={0} role="region" aria-label={`Table ${name}`}>
      <table class="plain">
        <thead><tr>{table.columns.map((c, k) => <th key={c} class={areNumbers[k] ? "num" : ""}>{c}</th>)}</tr></thead>
        <tbody>{table.rows.map((row, i) => <tr key={i}>{row.map((v, k) => <td key={k} class={cellClass(v, areNumbers[k]!)} title={typeof v === "number" ? String(v) : undefined}>{formatCell(v, table.columns[k]!)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}
