// The runs of a report as a list: filtered, ordered, grouped and with columns, as /api/runs, /api/fields and /api/groups do it.
import { toNumber } from "../format";
import { type Contents, filterOf } from "./filter";
import type { Comparison, Field, Group, Run, RunList, RunQuery, Spread } from "./source";

function leaf(config: unknown, path: string): unknown {
  if (path === "") return config;
  if (config === null || typeof config !== "object" || Array.isArray(config)) return undefined;
  // Keys may have dots themselves.
  for (const [key, value] of Object.entries(config)) {
    if (key !== path && !path.startsWith(`${key}.`)) continue;
    const found = leaf(value, path.slice(key.length + 1));
    if (found !== undefined) return found;
  }
  return undefined;
}

function configured(config: unknown, path: string): Contents {
  const value = leaf(config, path);
  if (value === undefined || value === null) return [];
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "string") return [value];
  return Array.isArray(value) || Object.keys(value).length === 0 ? [JSON.stringify(value)] : [];
}

function measured(run: Run, total: string, name: string): Contents {
  if (total === "last" && run.summary[name] !== undefined) return [toNumber(run.summary[name])];
  const metric = run.metrics.find((m) => m.name === name);
  return metric ? [toNumber(metric[total as "last" | "min" | "max" | "mean" | "count" | "step"])] : [];
}

export function contents(run: Run, field: string): Contents {
  if (field.startsWith("config.")) return configured(run.config, field.slice(7));
  const [, total, name] = /^(last|min|max|mean|count|step)\((.+)\)$/.exec(field) ?? [];
  if (total && name) return measured(run, total, name);
  if (field.startsWith("metric.") || field.includes("/")) return measured(run, "last", field.replace(/^metric\./, ""));
  if (field === "tag") return run.tags;
  const value = (run as unknown as Record<string, unknown>)[field];
  if (value === null || value === undefined || value === "") return [];
  return ["created", "updated", "duration", "epoch"].includes(field) ? [toNumber(value)] : [value as string | number];
}

const place = (value: Contents[number] | undefined) => (value === undefined ? 2 : typeof value === "number" && Number.isNaN(value) ? 1 : 0);
const KINDS = ["number", "boolean", "string"];

/** Runs without a value come last, and before them those with NaN, in both directions. */
function order(a: Contents[number] | undefined, b: Contents[number] | undefined): { apart: number; within: number } {
  const apart = place(a) - place(b);
  if (apart !== 0 || place(a) > 0) return { apart, within: 0 };
  const kinds = KINDS.indexOf(typeof a) - KINDS.indexOf(typeof b);
  return { apart: 0, within: kinds !== 0 ? kinds : a! < b! ? -1 : a! > b! ? 1 : 0 };
}

function sorted(runs: Run[], by: string): Run[] {
  const down = by.startsWith("-");
  const field = down ? by.slice(1) : by;
  return runs.map((run) => ({ run, value: contents(run, field)[0] })).sort((a, b) => {
    const { apart, within } = order(a.value, b.value);
    return apart || (down ? -within : within);
  }).map(({ run }) => run);
}

const newestFirst = (runs: readonly Run[]) => sorted([...runs], "-created");

export function chosenRuns(runs: readonly Run[], filter: string, now: number): Run[] {
  return newestFirst(runs).filter(filterOf(filter, contents, now));
}

const sent = (value: Contents[number]) => (typeof value !== "number" || Number.isFinite(value) ? value : Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf");

export function runList(runs: readonly Run[], { filter, sort, offset, limit, columns }: RunQuery, now: number): RunList {
  const chosen = sorted(chosenRuns(runs, filter, now), sort);
  return {
    total: runs.length, matching: chosen.length, offset, seq: 0, indexing: { done: 1, total: 1 },
    runs: chosen.slice(offset, offset + limit).map((run) => ({
      ...run, values: Object.fromEntries(columns.flatMap((column) => contents(run, column).slice(0, 1).map((value) => [column, sent(value)]))),
    })),
  };
}

function paths(config: unknown, path = ""): string[] {
  if (config !== null && typeof config === "object" && !Array.isArray(config) && Object.keys(config).length > 0)
    return Object.entries(config).flatMap(([key, value]) => paths(value, path ? `${path}.${key}` : key));
  return path && config !== null ? [path] : [];
}

export function runFields(runs: readonly Run[]): Field[] {
  const uses = new Map<string, { runs: number; types: Set<string>; values: Set<string> }>();
  for (const run of runs) {
    for (const field of [...paths(run.config).map((path) => `config.${path}`), ...run.metrics.map((m) => `metric.${m.name}`)]) {
      const use = uses.get(field) ?? { runs: 0, types: new Set(), values: new Set() };
      use.runs++;
      use.types.add(field.startsWith("metric.") ? "number" : typeof contents(run, field)[0]);
      if (field.startsWith("config.")) use.values.add(JSON.stringify(contents(run, field)));
      uses.set(field, use);
    }
  }
  const name = (types: Set<string>): Field["type"] => (types.size !== 1 ? "mixed" : types.has("number") ? "number" : types.has("boolean") ? "bool" : "text");
  return [...uses].sort(([a], [b]) => (a < b ? -1 : 1)).map(([field, use]) => ({ field, type: name(use.types), runs: use.runs, ...(field.startsWith("config.") ? { differs: use.values.size > 1 || use.runs < runs.length } : {}) }));
}

function spreadOf(runs: readonly Run[], column: string): Spread | null {
  const numbers = runs.flatMap((run) => contents(run, column).slice(0, 1)).filter((value): value is number => typeof value === "number" && !Number.isNaN(value));
  return numbers.length === 0 ? null : { mean: numbers.reduce((a, b) => a + b, 0) / numbers.length, min: Math.min(...numbers), max: Math.max(...numbers), count: numbers.length };
}

export function runGroups(runs: readonly Run[], by: string, columns: readonly string[]): Group[] {
  const groups = new Map<string, Group>();
  for (const run of runs) {
    const values = contents(run, by);
    for (const value of values.length > 0 ? values.map(sent) : [null]) {
      const key = JSON.stringify(value);
      const group = groups.get(key) ?? { value, runs: 0, states: {}, ids: [] };
      group.runs++;
      group.states[run.state] = (group.states[run.state] ?? 0) + 1;
      group.ids.push(run.id);
      groups.set(key, group);
    }
  }
  return [...groups.values()].map((group) => {
    const own = runs.filter((run) => group.ids.includes(run.id));
    return { ...group, values: Object.fromEntries(columns.flatMap((column) => {
      const spread = spreadOf(own, column);
      return spread ? [[column, spread]] : [];
    })) };
  });
}

/** Only some of the runs of a comparison, in the order asked for. */
export function comparisonOf(whole: Comparison, ids: readonly string[]): Comparison {
  const places = ids.map((id) => whole.runs.findIndex((run) => run.id === id)).filter((i) => i >= 0);
  const pick = <T>(values: readonly T[]) => places.map((i) => values[i]!);
  const entries = (all: Comparison["config"]) => all.map((entry) => {
    const values = pick(entry.values);
    const missing = pick(entry.missing ?? entry.values.map((value) => value === null));
    return { ...entry, values, missing, differs: values.some((value, i) => missing[i] || JSON.stringify(value) !== JSON.stringify(values[0])) };
  }).filter((entry) => !entry.missing.every(Boolean));
  return {
    runs: pick(whole.runs), config: entries(whole.config), environment: entries(whole.environment),
    metrics: whole.metrics.map(({ name, values }) => ({ name, values: pick(values) })).filter(({ values }) => values.some((value) => value !== null)),
  };
}
