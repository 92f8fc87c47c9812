// The scatter plot with the choice of its columns, and of a surface below its points.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { route, setQuery } from "../router";
import { ColorLegend } from "./run_colors";
import { canDraw, Scatter, SURFACES, type SurfaceKind } from "./scatter";
import type { Values } from "./values";

const HEIGHT = 330;

interface Props {
  x: Values;
  columns: ReadonlyMap<string, Values>;
  /** The hyperparameters, the most important first. */
  ranked: readonly Values[];
  target: Values;
  options: ComponentChildren;
  names: string[];
  inside: Uint8Array;
  settled: Uint8Array;
  /** The baseline of the runs, or -1. */
  base: number;
  better: "lower" | "higher" | null;
  onOpen: (run: number) => void;
}

export function ScatterPanel({ x, columns, ranked, target, options, better, ...rest }: Props) {
  const { query } = route.value;
  const y = columns.get(query.get("sy") ?? "") ?? target;
  const color = columns.get(query.get("sc") ?? "") ?? (y === target ? ranked.find((column) => column !== x) ?? target : target);
  const stored = query.get("surface") ?? "";
  const surface: SurfaceKind = Object.hasOwn(SURFACES, stored) ? (stored as SurfaceKind) : "points";
  // A surface of the result needs two other axes.
  const isOverTwo = y !== target && x !== target;
  const second = ranked.find((column) => column !== x);
  const show = (kind: SurfaceKind) => setQuery({ surface: kind === "points" ? null : kind, ...(kind !== "points" && !isOverTwo && second ? { sx: x === target ? ranked[1]!.field : x.field, sy: x === target ? ranked[0]!.field : second.field, sc: target.field } : {}) });
  // Made once: brushing must not render it again.
  const head = useMemo(() => {
    const pick = (label: string, value: Values, key: string) => <label class="row small soft">{label}<select class="field mini" aria-label={label} value={value.field} onChange={(event) => setQuery({ [key]: event.currentTarget.value })}>{options}</select></label>;
    return (
      <div class="row wrap panel-head">
        <h2>Scatter</h2>
        <div class="segmented" role="group" aria-label="Scatter as">{(Object.keys(SURFACES) as SurfaceKind[]).map((kind) => (
          <button type="button" key={kind} aria-pressed={surface === kind} disabled={isOverTwo ? !canDraw(kind, x, y, color) : kind !== "points" && ranked.length < 2} onClick={() => show(kind)}>{SURFACES[kind]}</button>
        ))}</div>
        <span class="spread" />
        <span class="row wrap">{pick("x", x, "sx")}{pick("y", y, "sy")}{pick("color", color, "sc")}</span>
      </div>
    );
  }, [options, x, y, color, surface]);
  return (
    <section class="card block" aria-label="Scatter">
      {head}
      <Scatter {...rest} x={x} y={y} color={color} surface={surface} better={color === target ? better : null} height={HEIGHT} />
      <ColorLegend column={color} />
    </section>
  );
}
