// The calls of modules in a forward pass, as a tree. No DOM.

/** `parts`: the calls that it made, in order. `sources`: where its inputs come from: numbers of calls, "input" (of the module around it), or "?". */
export interface ModuleCall { call: number; module: string; type: string; output: string; sources: string[]; parts: ModuleCall[] }

const COLUMNS = ["call", "module", "type", "output", "inside", "inputs"] as const;

/** Whether a table is one that watch(log_graph=True) of the Python client records. */
export const hasCalls = (columns: readonly string[]) => COLUMNS.every((name) => columns.includes(name));

/** What watch() records at most. */
export const MAX_CALLS = 5000;
const MAX_DEPTH = 100;

/** Whether rows can be drawn: calls are numbered from 1 in order, each after the one around it, and not too deep. */
export function areCalls(columns: readonly string[], rows: readonly unknown[][]): boolean {
  const [call, inside] = [columns.indexOf("call"), columns.indexOf("inside")];
  const depths = [0]; // by call; 0: not inside another one
  return rows.every((row, i) => {
    const around = row[inside] ?? 0;
    const depth = typeof around === "number" ? depths[around] : undefined;
    if (row[call] !== i + 1 || depth === undefined || depth >= MAX_DEPTH) return false;
    depths.push(depth + 1);
    return true;
  });
}

/** The calls that no other one made. A call whose row of the call around it is missing or comes later is among them. */
export function callTree(columns: readonly string[], rows: readonly unknown[][]): ModuleCall[] {
  const at = (row: readonly unknown[], name: (typeof COLUMNS)[number]) => row[columns.indexOf(name)];
  const text = (cell: unknown) => (typeof cell === "string" ? cell : "");
  const known = new Map<number, ModuleCall>();
  const top: ModuleCall[] = [];
  for (const row of rows) {
    const sources = text(at(row, "inputs")).split(", ").filter(Boolean);
    const own: ModuleCall = { call: Number(at(row, "call")), module: text(at(row, "module")), type: text(at(row, "type")), output: text(at(row, "output")), sources, parts: [] };
    (known.get(Number(at(row, "inside") ?? NaN))?.parts ?? top).push(own);
    known.set(own.call, own);
  }
  return top;
}

/** The name of a module without that of the module around it. */
export const ownName = (module: string, around: string) => (module.startsWith(`${around}.`) ? module.slice(around.length + 1) : module);

/** Where the inputs of a call come from, in words; null if they are the output of the call before it only, which a drawing shows as an arrow. */
export function sourceText({ sources }: ModuleCall, before: ModuleCall | undefined, siblings: readonly ModuleCall[], around: string): string | null {
  if (before && sources.join() === String(before.call)) return null;
  const name = (source: string) => {
    if (source === "input") return "the input";
    if (source === "?") return "other operations";
    const found = siblings.find(({ call }) => String(call) === source);
    return found ? ownName(found.module, around) : `call ${source}`;
  };
  return sources.map(name).join(", ");
}
