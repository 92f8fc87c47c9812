// The results in the order in which the runs were started, with the best so far: whether further runs still help.
import { useMemo } from "preact/hooks";
import { plural } from "../format";
import { link } from "../router";
import { ColorLegend } from "./run_colors";
import { Scatter } from "./scatter";
import { bestSoFar, countAfter, linearValues, startOrder, type Values } from "./values";

const HEIGHT = 260;

interface Props {
  target: Values;
  /** When the runs were started. */
  created: Values;
  color: Values;
  /** Empty for results without a run. */
  ids: string[];
  names: string[];
  inside: Uint8Array;
  settled: Uint8Array;
  /** The baseline of the runs, or -1. */
  base: number;
  better: "lower" | "higher" | null;
  onOpen: (run: number) => void;
}

export function OrderPanel({ target, created, color, ids, names, settled, better, ...rest }: Props) {
  const order = useMemo(() => startOrder(created.values), [created]);
  const x = useMemo(() => {
    const places = new Float64Array(order.length);
    order.forEach((run, place) => (places[run] = place + 1));
    return linearValues("runs in the order of their start", places, true);
  }, [order]);
  const chosen = useMemo(() => order.filter((run) => settled[run]), [order, settled]);
  const best = useMemo(() => (better ? bestSoFar(chosen, target.values, better) : []), [chosen, target, better]);
  const line = useMemo(() => best.map(({ run, value }) => [x.values[run]!, value] as const), [best, x]);
  const last = best[best.length - 1];
  const later = last ? countAfter(chosen, target.values, last.run) : 0;
  const id = last && ids[last.run];
  const run = last && <>{id ? <a class="link" href={link(["run", id])}>{names[last.run]}</a> : names[last.run]}, {target.scale.text(last.value)}</>;
  return (
    <section class="card block" aria-label="Order of start">
      <h2>{target.title} in the order of start</h2>
      <Scatter {...rest} settled={settled} names={names} x={x} y={target} color={color} surface="points" better={null} height={HEIGHT} line={line} />
      <ColorLegend column={color} />
      <p class="small soft" role="status">
        {!better ? "Choose whether lower or higher results are better to see the best so far." : !last ? `No run has ${target.title}.`
          : best.length === 1 ? (later > 0 ? <>The line is the best so far. {plural(later, "run")} did not improve the first result: {run}.</> : <>Only one run has {target.title}: {run}.</>)
            : <>The line is the best so far. It improved {plural(best.length - 1, "time")}; the last time with {run}{later > 0 && <>, after which {plural(later, "run")} did not improve it</>}.</>}
      </p>
    </section>
  );
}
