// The rows of a table with vectors or with points as a map or in three dimensions; similar vectors are near each other.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { ColorLegend, legendOf, runColors } from "../analyze/run_colors";
import { Scatter } from "../analyze/scatter";
import { linearValues, type Values, valuesOf } from "../analyze/values";
import { type PointPainter, savePointsPng, saveRows } from "../chart/save";
import type { TablePage } from "../data/source";
import { number, plain, plural } from "../format";
import { Icon } from "../parts/icons";
import { toast } from "../parts/overlay";
import { useUrlState } from "../router";
import { shownTheme } from "../settings";
import { source, useAsync } from "../store";
import { Cloud } from "./cloud";
import { SaveButtons } from "./media_parts";
import { isNumeric, pointsOf, type Projection, principalComponents, vectorColumns, type Vectors, vectorsOf } from "./projection";

export const HEIGHT = 420;
const MAX_COLORS = 20;
const MAX_TIP_ROWS = 6;

/** Computes projections one at a time, in a worker: a later one, and the end of the component, end the one before, which is never returned.
 * A report has no worker, and computes in the page. */
function useProjection(): (vectors: Vectors) => Promise<Projection> {
  const worker = useRef<Worker | null>(null);
  const end = () => worker.current?.terminate();
  useEffect(() => end, []);
  return (vectors) => {
    end();
    if (!source().live || typeof Worker === "undefined") return Promise.resolve(principalComponents(vectors));
    return new Promise((resolve, reject) => {
      const own = (worker.current = new Worker("/projection.js"));
      const settle = (then: () => void) => {
        own.terminate();
        then();
      };
      own.onmessage = ({ data }: MessageEvent<Projection>) => settle(() => resolve(data));
      own.onerror = () => settle(() => reject(new Error("The principal components could not be computed: the script /projection.js failed.")));
      own.postMessage(vectors);
    });
  };
}

const textOf = (cell: unknown) => (cell === null ? "" : plain(cell));

/** A column of the kept rows as numbers, or as labels. */
function colorValues(table: TablePage, field: string, kept: readonly number[]): Values {
  const column = table.columns.indexOf(field);
  const cells = kept.map((row) => table.rows[row]![column]);
  if (isNumeric(cells)) return valuesOf({ field: `metric.${field}`, type: "number", values: cells });
  const labels = [...new Set(cells.map(textOf))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const numbers = new Map(labels.map((label, i) => [label, i]));
  return valuesOf({ field, type: "text", labels, values: cells.map((cell) => numbers.get(textOf(cell))!) });
}

/** The columns that can be colors: first those with the fewest different values, constant ones last. `isUsual`: few values, or numbers. */
function colorColumns({ columns, rows }: TablePage, axes: readonly string[]): { column: string; size: number; isUsual: boolean }[] {
  const describe = (column: string) => {
    const cells = rows.map((row) => row[columns.indexOf(column)]);
    const size = new Set(cells.map(plain)).size;
    return { column, size, isUsual: size <= MAX_COLORS || isNumeric(cells) };
  };
  return columns.filter((column) => !axes.includes(column)).map(describe)
    .sort((a, b) => Number(a.size < 2) - Number(b.size < 2) || a.size - b.size);
}

/** How tables with vectors or points are shown. A map of vectors is of their principal components (PCA); UMAP is for vectors only. */
export const POINT_VIEWS = { map: "Map", umap: "UMAP", space: "3-D", table: "Table" } as const;
export type PointView = keyof typeof POINT_VIEWS;
export const pointViewTitle = (view: PointView, isOfComponents: boolean) => (view === "map" && isOfComponents ? "PCA map" : POINT_VIEWS[view]);

interface MapProps { table: TablePage; name: string; view: "map" | "space" }

/** A table with points: their coordinates are the axes. */
export function PointMap({ table, name, view }: MapProps) {
  const { projection, kept } = useMemo(() => pointsOf(table.rows, table.columns), [table]);
  const left = table.rows.length - kept.length;
  return (
    <>
      <Points table={table} name={name} axisColumns={[]} kept={kept} projection={projection} components={["x", "y", "z"]} view={view} choice={null} />
      {left > 0 && <p class="notice warn" role="status">{plural(left, "row")} left out: a coordinate is not finite.</p>}
    </>
  );
}

/** A table with vectors: the axes are their principal components. */
export function VectorMap({ table, name, view }: MapProps) {
  const names = useMemo(() => vectorColumns(table.columns, table.rows), [table]);
  const [chosen, setChosen] = useUrlState(`vectors.${name}`);
  const column = names.includes(chosen) ? chosen : names[0]!;
  const { vectors, kept } = useMemo(() => vectorsOf(table.rows, table.columns.indexOf(column)), [table, column]);
  const project = useProjection();
  // The rows and their coordinates change together: until then, those before are shown.
  const { value: shown, error, pending } = useAsync(async () => ({ table, names, width: vectors.width, kept, projection: await project(vectors) }), [vectors]);
  if (error) return <p class="notice bad" role="alert">{error.message}</p>;
  if (!shown) return <p class="small soft" role="status" style={{ minHeight: `${HEIGHT}px` }}>Computing the principal components of {plural(vectors.rows, "vector")} of {vectors.width.toLocaleString("en-US")} numbers…</p>;
  const { projection } = shown;
  const left = shown.table.rows.length - shown.kept.length;
  const choice = <>{names.length > 1 && <Choice label="Vectors" value={column} options={names} onChange={setChosen} />}{pending && <span class="small soft" role="status">Computing…</span>}</>;
  const components = projection.scores.map((_, k) => `${shown.width === 2 ? "coordinate" : "component"} ${k + 1}`);
  return (
    <>
      <Points table={shown.table} name={name} axisColumns={shown.names} kept={shown.kept} projection={shown.width === 2 ? { ...projection, shares: [] } : projection} components={components} view={projection.scores.length > 2 ? view : "map"} choice={choice} />
      {left > 0 && <p class="notice warn" role="status">{plural(left, "row")} left out: the vector has another length than the first, or a value that is not finite.</p>}
    </>
  );
}

export function Choice({ label, value, options, onChange }: { label: string; value: string; options: readonly (string | readonly [value: string, text: string])[]; onChange: (value: string) => void }) {
  return (
    <label class="row small soft">{label}
      <select class="field mini" aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map((option) => (typeof option === "string" ? [option, option] as const : option)).map(([key, text]) => <option key={key} value={key}>{text}</option>)}
      </select>
    </label>
  );
}

/** `axisColumns`: the columns with vectors; `components`: the names of the axes. */
interface PointsProps { table: TablePage; name: string; axisColumns: readonly string[]; kept: readonly number[]; projection: Projection; components: readonly string[]; view: MapProps["view"]; choice: ComponentChildren }

/** The points, their colors, a search, and the row of the point that was clicked. */
export function Points({ table, name, axisColumns, kept, projection: { scores, shares }, components, view, choice }: PointsProps) {
  const [axesText, setAxesText] = useUrlState(`axes.${name}`);
  const chosenAxes = /^\d-\d$/.test(axesText) ? axesText.split("-").map((k) => Number(k) - 1) as [number, number] : [0, 1] as const;
  const [across, up] = Math.max(...chosenAxes) < components.length && Math.min(...chosenAxes) >= 0 ? chosenAxes : [0, 1];
  const setAxes = (x: number, y: number) => setAxesText(x === 0 && y === 1 ? "" : `${x + 1}-${y + 1}`);
  const [own, setOwn] = useUrlState(`color.${name}`);
  const [search, setSearch] = useUrlState(`find.${name}`);
  const [openedText, setOpened] = useUrlState(`row.${name}`);
  const opened = kept.indexOf(Number(openedText) - 1);
  const titleOf = (k: number) => (shares[k] === undefined ? components[k]! : `${components[k]}: ${number(100 * shares[k]!, 3)} % of the variance`);
  const x = useMemo(() => linearValues(titleOf(across), scores[across]!), [scores, across]);
  const y = useMemo(() => linearValues(titleOf(up), scores[up]!), [scores, up]);
  const colors = useMemo(() => {
    const own = colorColumns(table, axisColumns.length > 0 ? axisColumns : ["x", "y", "z"]);
    return own.length > 0 || axisColumns.length > 0 ? own : colorColumns(table, ["x", "y"]);
  }, [table]);
  const colored = colors.some(({ column }) => column === own) ? own : colors.find(({ isUsual }) => isUsual)?.column;
  const color = useMemo(() => (colored === undefined ? linearValues("none", new Float64Array(kept.length)) : colorValues(table, colored, kept)), [table, kept, colored]);
  const others = table.columns.map((title, i) => [title, i] as const).filter(([title]) => !axisColumns.includes(title));
  const inside = useMemo(() => {
    const word = search.toLowerCase();
    return Uint8Array.from(kept, (row) => Number(word === "" || others.some(([, i]) => plain(table.rows[row]![i]).toLowerCase().includes(word))));
  }, [table, kept, search]);
  const cellsOf = (point: number) => others.map(([title, i]) => [title, typeof table.rows[kept[point]!]![i] === "number" ? number(table.rows[kept[point]!]![i] as number, 6) : textOf(table.rows[kept[point]!]![i])] as const);
  const csv = () => saveRows(name, [...others.map(([title]) => title), ...(axisColumns.length > 0 ? components : [])], kept.map((row, point) => [...others.map(([, i]) => textOf(table.rows[row]![i])), ...(axisColumns.length > 0 ? scores.map((score) => score[point]!) : [])]));
  const painter = useRef<PointPainter | null>(null);
  const png = () => void (painter.current && savePointsPng(name, painter.current, colored === undefined ? null : legendOf(color)).catch((error: Error) => toast(error.message, true)));
  const options = components.map((title, k) => [String(k), title] as const);
  const look = { painter, inside, names: kept.map((row) => `row ${row + 1}`), tip: (point: number) => cellsOf(point).slice(0, MAX_TIP_ROWS), height: HEIGHT, onOpen: (point: number) => setOpened(String(kept[point]! + 1)) };
  const space = useMemo(() => ({ axes: [scores[0]!, scores[1]!, scores[2]!] as const, titles: [components[0]!, components[1]!, components[2]!] as const }), [scores]);
  const pointColors = useMemo(() => runColors(color), [color, shownTheme.value]);
  return (
    <>
      <div class="row wrap">
        {choice}
        {colors.length > 0 && <Choice label="Color" value={colored ?? ""} options={[...(colored === undefined ? [["", "none"] as const] : []), ...colors.map(({ column }) => column)]} onChange={setOwn} />}
        {view === "map" && options.length > 2 && <Choice label="x" value={String(across)} options={options} onChange={(k) => setAxes(Number(k), up)} />}
        {view === "map" && options.length > 2 && <Choice label="y" value={String(up)} options={options} onChange={(k) => setAxes(across, Number(k))} />}
        <div class="searchfield"><Icon name="search" /><input class="field mini" type="search" aria-label={`Find rows of ${name}`} placeholder="Find rows" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></div>
        <span class="small soft" role="status">{search && `${inside.reduce((sum, one) => sum + one, 0).toLocaleString("en-US")} of ${plural(kept.length, "row")}`}</span>
        <span class="spread" />
        <SaveButtons name={name} png={png} csv={csv} />
      </div>
      {view === "space"
        ? <Cloud name={name} {...look} {...space} colors={pointColors} label={`${plural(kept.length, "point")} of ${name} in three dimensions: ${components.slice(0, 3).join(", ")}${colored === undefined ? "" : `; colored by ${colored}`}`} />
        : <Scatter {...look} x={x} y={y} color={color} what="row" settled={inside} surface="points" better={null} />}
      {colored !== undefined && <ColorLegend column={color} />}
      {opened >= 0 && (
        <dl class="pairs" aria-label="The row of the chosen point">
          {[["row", String(kept[opened]! + 1)] as const, ...cellsOf(opened)].map(([title, text]) => <div key={title}><dt>{title}</dt><dd>{text}</dd></div>)}
        </dl>
      )}
    </>
  );
}
