// The rows of a table with vectors as points; similar vectors are near each other.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { ColorLegend } from "../analyze/run_colors";
import { Scatter } from "../analyze/scatter";
import { linearValues, type Values, valuesOf } from "../analyze/values";
import { saveRows } from "../chart/save";
import type { TablePage } from "../data/source";
import { number, plain, plural } from "../format";
import { Icon } from "../parts/icons";
import { source, useAsync } from "../store";
import { SaveButtons } from "./media_parts";
import { type Projection, principalComponents, vectorColumns, type Vectors, vectorsOf } from "./projection";

const HEIGHT = 420;
const MAX_COLORS = 20;
const MAX_TIP_ROWS = 6;

/** In a worker; a report has none, and computes in the page. */
function projectionOf(vectors: Vectors): Promise<Projection> {
  if (!source().live || typeof Worker === "undefined") return Promise.resolve(principalComponents(vectors));
  return new Promise((resolve, reject) => {
    const worker = new Worker("/projection.js");
    const end = (settle: () => void) => {
      worker.terminate();
      settle();
    };
    worker.onmessage = ({ data }: MessageEvent<Projection>) => end(() => resolve(data));
    worker.onerror = () => end(() => reject(new Error("The principal components could not be computed: the script /projection.js failed.")));
    worker.postMessage(vectors);
  });
}

const textOf = (cell: unknown) => (cell === null ? "" : plain(cell));

/** A column of the kept rows as numbers, or as labels. */
function colorValues(table: TablePage, field: string, kept: readonly number[]): Values {
  const column = table.columns.indexOf(field);
  const cells = kept.map((row) => table.rows[row]![column]);
  if (cells.every((cell) => cell === null || typeof cell === "number")) return valuesOf({ field, type: "number", values: cells });
  const labels = [...new Set(cells.map(textOf))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const numbers = new Map(labels.map((label, i) => [label, i]));
  return valuesOf({ field, type: "text", labels, values: cells.map((cell) => numbers.get(textOf(cell))!) });
}

/** The columns that can be colors with their numbers of different values: first those with the fewest, constant ones last. */
function colorColumns({ columns, rows }: TablePage, vectors: readonly string[]): { column: string; size: number }[] {
  const sizeOf = (column: string) => new Set(rows.map((row) => plain(row[columns.indexOf(column)]))).size;
  return columns.filter((column) => !vectors.includes(column)).map((column) => ({ column, size: sizeOf(column) }))
    .sort((a, b) => Number(a.size < 2) - Number(b.size < 2) || a.size - b.size);
}

export function VectorMap({ table, name }: { table: TablePage; name: string }) {
  const names = useMemo(() => vectorColumns(table.columns, table.rows), [table]);
  const [chosen, setChosen] = useState("");
  const column = names.includes(chosen) ? chosen : names[0]!;
  const { vectors, kept } = useMemo(() => vectorsOf(table.rows, table.columns.indexOf(column)), [table, column]);
  const { value: projection, error } = useAsync(() => projectionOf(vectors), [vectors], false);
  const left = table.rows.length - kept.length;
  if (error) return <p class="notice bad" role="alert">{error.message}</p>;
  if (!projection) return <p class="small soft" role="status" style={{ minHeight: `${HEIGHT}px` }}>Computing the principal components of {plural(vectors.rows, "vector")} of {vectors.width.toLocaleString("en-US")} numbers…</p>;
  const choice = names.length > 1 && <Choice label="Vectors" value={column} options={names} onChange={setChosen} />;
  return (
    <>
      <Points table={table} name={name} names={names} kept={kept} projection={projection} isPlain={vectors.width === 2} choice={choice} />
      {left > 0 && <p class="notice warn" role="status">{plural(left, "row")} left out: the vector has another length than the first, or a value that is not finite.</p>}
    </>
  );
}

function Choice({ label, value, options, onChange }: { label: string; value: string; options: readonly (string | readonly [value: string, text: string])[]; onChange: (value: string) => void }) {
  return (
    <label class="row small soft">{label}
      <select class="field mini" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map((option) => (typeof option === "string" ? [option, option] as const : option)).map(([key, text]) => <option key={key} value={key}>{text}</option>)}
      </select>
    </label>
  );
}

/** `names`: the columns with vectors; `isPlain`: the vectors are the coordinates. */
interface PointsProps { table: TablePage; name: string; names: readonly string[]; kept: readonly number[]; projection: Projection; isPlain: boolean; choice: ComponentChildren }

/** The points, their colors, a search, and the row of the point that was clicked. */
function Points({ table, name, names, kept, projection: { scores, shares }, isPlain, choice }: PointsProps) {
  const [[across, up], setAxes] = useState<[number, number]>([0, 1]);
  const [own, setOwn] = useState("");
  const [search, setSearch] = useState("");
  const [opened, setOpened] = useState<number | null>(null);
  const component = (k: number) => (isPlain ? `coordinate ${k + 1}` : `component ${k + 1}`);
  const axis = (k: number) => linearValues(isPlain ? component(k) : `${component(k)}: ${number(100 * shares[k]!, 3)} % of the variance`, scores[k]!);
  const x = useMemo(() => axis(across), [scores, across]);
  const y = useMemo(() => axis(up), [scores, up]);
  const colors = useMemo(() => colorColumns(table, names), [table]);
  const colored = colors.some(({ column }) => column === own) ? own : colors.find(({ size }) => size <= MAX_COLORS)?.column;
  const color = useMemo(() => (colored === undefined ? linearValues("none", new Float64Array(kept.length)) : colorValues(table, colored, kept)), [table, kept, colored]);
  const others = table.columns.map((title, i) => [title, i] as const).filter(([title]) => !names.includes(title));
  const inside = useMemo(() => {
    const word = search.toLowerCase();
    return Uint8Array.from(kept, (row) => Number(word === "" || others.some(([, i]) => plain(table.rows[row]![i]).toLowerCase().includes(word))));
  }, [table, kept, search]);
  const cellsOf = (point: number) => others.map(([title, i]) => [title, typeof table.rows[kept[point]!]![i] === "number" ? number(table.rows[kept[point]!]![i] as number, 6) : textOf(table.rows[kept[point]!]![i])] as const);
  const csv = () => saveRows(name, [...others.map(([title]) => title), ...scores.map((_, k) => component(k))], kept.map((row, point) => [...others.map(([, i]) => textOf(table.rows[row]![i])), ...scores.map((score) => score[point]!)]));
  const components = scores.map((_, k) => [String(k), component(k)] as const);
  return (
    <>
      <div class="row wrap">
        {choice}
        {colors.length > 0 && <Choice label="Color" value={colored ?? ""} options={[...(colored === undefined ? [["", "none"] as const] : []), ...colors.map(({ column }) => column)]} onChange={setOwn} />}
        {components.length > 2 && <Choice label="x" value={String(across)} options={components} onChange={(k) => setAxes([Number(k), up])} />}
        {components.length > 2 && <Choice label="y" value={String(up)} options={components} onChange={(k) => setAxes([across, Number(k)])} />}
        <div class="searchfield"><Icon name="search" /><input class="field mini" type="search" aria-label={`Find rows of ${name}`} placeholder="Find rows" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></div>
        <span class="small soft" role="status">{search && `${inside.reduce((sum, one) => sum + one, 0).toLocaleString("en-US")} of ${plural(kept.length, "row")}`}</span>
        <span class="spread" />
        <SaveButtons name={name} csv={csv} />
      </div>
      <Scatter x={x} y={y} color={color} what="row" names={kept.map((row) => `row ${row + 1}`)} inside={inside} settled={inside} surface="points" better={null} height={HEIGHT} tip={(point) => cellsOf(point).slice(0, MAX_TIP_ROWS)} onOpen={setOpened} />
      {colored !== undefined && <ColorLegend column={color} />}
      {opened !== null && opened < kept.length && (
        <dl class="pairs" aria-label="The row of the chosen point">
          {[["row", String(kept[opened]! + 1)] as const, ...cellsOf(opened)].map(([title, text]) => <div key={title}><dt>{title}</dt><dd>{text}</dd></div>)}
        </dl>
      )}
    </>
  );
}
