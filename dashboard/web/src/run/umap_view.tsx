// A table with vectors as a map of UMAP, computed in a worker.
import type { Ref } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TablePage } from "../data/source";
import { plural } from "../format";
import { Bar } from "../parts/progress_bar";
import { useNearViewport } from "../parts/size";
import { useUrlState } from "../router";
import { componentColumns, vectorColumns, type Vectors, vectorsOf } from "./projection";
import { Choice, HEIGHT, Points } from "./projection_view";
import { DISTANCES, evenly, fractionOf, listed, MAX_POINTS, MIN_POINTS, NEIGHBORS, type UmapChoice, type UmapMessage, type UmapProgress, USUAL, vectorsAt } from "./umap";

/** The places of the last maps, so that a map that was left is not computed again. */
const found = new Map<string, Float64Array[]>();
const MAX_FOUND = 12;

/** The least recently used one is dropped. */
function keep(key: string, scores: Float64Array[]) {
  found.delete(key);
  found.set(key, scores);
  if (found.size > MAX_FOUND) found.delete(found.keys().next().value!);
}

function recall(key: string): Float64Array[] | undefined {
  const scores = found.get(key);
  if (scores) keep(key, scores);
  return scores;
}

/** Starts the worker; the returned function ends it. */
function compute(vectors: Vectors, choice: UmapChoice, onMessage: (message: UmapMessage) => void): () => void {
  const worker = new Worker("/umap.js");
  worker.onmessage = ({ data }: MessageEvent<UmapMessage>) => {
    if (!("progress" in data)) worker.terminate();
    onMessage(data);
  };
  worker.onerror = () => {
    worker.terminate();
    onMessage({ error: "the script /umap.js failed." });
  };
  worker.postMessage({ vectors, ...choice });
  return () => worker.terminate();
}

type Computation = { key: string } & ({ state: "computing"; progress: UmapProgress } | { state: "canceled" } | { state: "failed"; error: string } | { state: "done"; scores: Float64Array[] });

/** The places of the vectors that `key` identifies, with the choice. They are computed once the map is near, until it is gone or canceled. */
function useUmap(key: string, vectors: Vectors, choice: UmapChoice, isNear: boolean) {
  const [latest, setLatest] = useState<Computation | null>(null);
  const [attempt, setAttempt] = useState(0);
  const end = useRef(() => {});
  const kept = useMemo(() => recall(key), [key]);
  const now = latest?.key === key ? latest : null;
  const scores = now?.state === "done" ? now.scores : kept;
  useEffect(() => {
    if (scores || !isNear || vectors.rows < MIN_POINTS) return;
    end.current = compute(vectors, choice, (message) => {
      if ("progress" in message) return setLatest({ key, state: "computing", progress: message.progress });
      if ("error" in message) return setLatest({ key, state: "failed", error: message.error });
      keep(key, message.scores);
      setLatest({ key, state: "done", scores: message.scores });
    });
    return () => end.current();
  }, [key, attempt, isNear]);
  const cancel = () => {
    end.current();
    setLatest({ key, state: "canceled" });
  };
  const start = () => {
    setLatest(null);
    setAttempt(attempt + 1);
  };
  return { scores, now, cancel, start };
}

/** `record`: identifies the run, the table and its record. */
interface Props { table: TablePage; name: string; record: string }

export function UmapMap({ table, name, record }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const near = useNearViewport(host, false);
  const seen = useRef(false);
  seen.current ||= near;
  const names = useMemo(() => vectorColumns(table.columns, table.rows), [table]);
  const offered = useMemo(() => componentColumns(table.columns, table.rows), [table]);
  const [chosen, setChosen] = useUrlState(`vectors.${name}`);
  const column = offered.includes(chosen) ? chosen : offered[0]!;
  const [neighborsText, setNeighbors] = useUrlState(`neighbors.${name}`);
  const [distanceText, setDistance] = useUrlState(`distance.${name}`);
  const neighbors = listed(neighborsText, NEIGHBORS, USUAL.neighbors);
  const distance = listed(distanceText, DISTANCES, USUAL.distance);
  const { all, vectors, kept } = useMemo(() => {
    const { vectors: all, kept } = vectorsOf(table.rows, table.columns.indexOf(column));
    const places = evenly(all.rows, MAX_POINTS);
    return { all, vectors: vectorsAt(all, places), kept: places.map((place) => kept[place]!) };
  }, [table, column]);
  const { scores, now, cancel, start } = useUmap(`${record} ${table.rows.length} ${column} ${neighbors} ${distance}`, vectors, { neighbors, distance }, seen.current);
  const current = useMemo(() => scores && { table, names, kept, projection: { scores, shares: [] } }, [scores, table, column]);
  // Until a map is computed, the one before is shown, with its rows.
  const before = useRef(current);
  if (current) before.current = current;
  const shown = current ?? (now?.state === "canceled" || now?.state === "failed" || vectors.rows < MIN_POINTS ? undefined : before.current);
  const left = table.rows.length - all.rows;
  // The focus of a button that is removed with the map's arrival stays in the group.
  const button = useRef<HTMLButtonElement>(null);
  const losesFocus = scores !== undefined && button.current !== null && button.current === document.activeElement;
  useLayoutEffect(() => {
    if (losesFocus) host.current!.focus({ preventScroll: true });
  });
  return (
    <div class="umap" ref={host} role="group" aria-label={`UMAP of ${name}`} tabIndex={-1}>
      <div class="row wrap">
        {offered.length > 1 && <Choice label="Vectors" value={column} options={offered} onChange={setChosen} />}
        <Choice label="Neighbors" value={String(neighbors)} options={NEIGHBORS.map(String)} onChange={(value) => setNeighbors(value === String(USUAL.neighbors) ? "" : value)} />
        <Choice label="Minimum distance" value={String(distance)} options={DISTANCES.map(String)} onChange={(value) => setDistance(value === String(USUAL.distance) ? "" : value)} />
        {!scores && <Status name={name} vectors={vectors} now={now} button={button} onCancel={cancel} onStart={start} />}
      </div>
      {shown ? <Points {...shown} name={name} axisColumns={shown.names} components={["UMAP 1", "UMAP 2"]} view="map" choice={null} /> : <div style={{ height: `${HEIGHT}px` }} />}
      {all.rows > vectors.rows && <p class="notice" role="status">UMAP of {vectors.rows.toLocaleString("en-US")} of {plural(all.rows, "vector")}, evenly chosen.</p>}
      {left > 0 && <p class="notice warn" role="status">{plural(left, "row")} left out: the vector has another length than the first, or a value that is not finite.</p>}
    </div>
  );
}

interface StatusProps { name: string; vectors: Vectors; now: Computation | null; button: Ref<HTMLButtonElement>; onCancel: () => void; onStart: () => void }

/** Before there is a map: how far it is, or why there is none. */
function Status({ name, vectors, now, button, onCancel, onStart }: StatusProps) {
  if (vectors.rows < MIN_POINTS) return <span class="small soft" role="status">UMAP needs at least {MIN_POINTS} vectors; this table has {vectors.rows}.</span>;
  const failure = now?.state === "failed" ? now.error : null;
  const isOver = failure !== null || now?.state === "canceled";
  const fraction = now?.state === "computing" ? fractionOf(now.progress) : 0;
  const percent = `${Math.round(100 * fraction)} %`;
  return (
    <span class="row small soft umap-status">
      {failure !== null ? <span role="alert">UMAP could not be computed: {failure}</span> : <span role="status">{isOver ? "UMAP was canceled." : `Computing UMAP of ${plural(vectors.rows, "vector")}…`}</span>}
      {!isOver && <><Bar label={`UMAP of ${name}`} fraction={fraction} text={percent} /><span class="mono" aria-hidden="true">{percent}</span></>}
      <button type="button" class="button mini" ref={button} onClick={isOver ? onStart : onCancel}>{isOver ? "Compute" : "Cancel"}</button>
    </span>
  );
}
