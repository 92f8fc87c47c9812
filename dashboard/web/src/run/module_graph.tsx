// The modules of a model in the order of their calls: a box per call, with the boxes of the calls that it made.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { TablePage } from "../data/source";
import { callTree, type ModuleCall, ownName, sourceText } from "./module_calls";

/** With more calls, only the outermost ones are open at first. */
const MAX_OPEN = 60;

export const GRAPH_VIEWS = { graph: "Graph", table: "Table" } as const;

export function ModuleGraph({ table, name }: { table: TablePage; name: string }) {
  const calls = useMemo(() => callTree(table.columns, table.rows), [table]);
  return (
    <div class="scroll-x tall" tabIndex={0} role="region" aria-label={`Graph ${name}`}>
      <Calls calls={calls} around="" openDepth={table.rows.length <= MAX_OPEN ? Infinity : 1} />
    </div>
  );
}

function Calls({ calls, around, openDepth }: { calls: readonly ModuleCall[]; around: string; openDepth: number }) {
  return (
    <ol class="calls">
      {calls.map((call, i) => {
        const from = sourceText(call, calls[i - 1], calls, around);
        const head = (
          <>
            <strong>{ownName(call.module, around)}</strong> <span class="soft">{call.type}</span>
            {from && <span class="dim small"> from {from}</span>}
            {call.output && <span class="mono small call-output">{call.output}</span>}
          </>
        );
        return (
          <li key={i} class={from === null ? "follows" : ""}>
            {from === null && <span class="sr">its input is the output above: </span>}
            {call.parts.length === 0 ? <div class="call">{head}</div> : <CallWithParts call={call} head={head} openDepth={openDepth} />}
          </li>
        );
      })}
    </ol>
  );
}

/** The calls inside are rendered when it is opened for the first time. */
function CallWithParts({ call, head, openDepth }: { call: ModuleCall; head: ComponentChildren; openDepth: number }) {
  const isOpenAtFirst = openDepth > 0;
  const [wasOpen, setWasOpen] = useState(isOpenAtFirst);
  return (
    <details class="call" open={isOpenAtFirst} onToggle={() => setWasOpen(true)}>
      <summary>{head}</summary>
      {wasOpen && <Calls calls={call.parts} around={call.module} openDepth={openDepth - 1} />}
    </details>
  );
}
