// The run list of a report: filtering, sorting, grouping and columns as in /api/runs, /api/fields and /api/groups.
import { toNumber } from "../format";
import { type FieldValues, parseFilter } from "./filter";
import type { Comparison, Field, Group, Run, RunList, RunQuery, Spread } from "./source";

function leaf(config: unknown, path: string): unknown {
  if (path === "") return config;
  if (config === null || typeof config !== "object" || Array.isArray(config)) return undefined;
  // Keys may contain dots.
  for (const [key, value] of Object.entries(config)) {
    if (key !== path && !path.startsWith(`${key}.`)) continue;
    const found = leaf(value, path.slice(key.length + 1));
    if (found !== undefined) return found;
  }
  return undefined;
}

function configValues(config: unknown, path: string): FieldValues {
  const value = leaf(config, path);
  if (value === undefined || value === null) return [];
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "string") return [value];
  return Array.isArray(value) || Object.keys(value).length === 0 ? [JSON.stringify(value)] : [];
}

function metricValues(run: Run, total: string, name: string): FieldValues {
  if (total === "last" && run.summary[name] !== undefined) return [toNumber(run.summary[name])];
  const metric = run.metrics.find((m) => m.name === name);
  return metric ? [toNumber(metric[total as "last" | "min" | "max" | "mean" | "count" | "step"])] : [];
}

export function fieldValues(run: Run, field: string): FieldValues {
  if (field.startsWith("config.")) return configValues(run.config, field.slice(7));
  const [, total, name] = /^(last|min|max|mean|count|step)\((.+)\)$/.exec(field) ?? [];
  if (total && name) return metricValues(run, total, name);
  if (field.startsWith("metric.") || field.includes("/")) return metricValues(run, "last", field.replace(/^metric\./, ""));
  if (field === "tag") return run.tags;
  const value = (run as unknown as Record<string, unknown>)[field];
  if (value === null || value === undefined || value === "") return [];
  return ["created", "updated", "duration", "epoch"].includes(field) ? [toNumber(value)] : [value as string | number];
}

const sortClass = (value: FieldValues[number] | undefined) => (value === undefined ? 2 : typeof value === "number" && Number.isNaN(value) ? 1 : 0);
const KINDS = ["number", "boolean", "string"];

/** In both directions: runs with a value, then those with NaN, then those without a value. */
function order(a: FieldValues[number] | undefined, b: FieldValues[number] | undefined): { apart: number; within: number } {
  const apart = sortClass(a) - sortClass(b);
  if (apart !== 0 || sortClass(a) > 0) return { apart, within: 0 };
  const kinds = KINDS.indexOf(typeof a) - KINDS.indexOf(typeof b);
  return { apart: 0, within: kinds !== 0 ? kinds : a! < b! ? -1 : a! > b! ? 1 : 0 };
}

function sorted(runs: Run[], by: string): Run[] {
  const down = by.startsWith("-");
  const field = down ? by.slice(1) : by;
  return runs.map((run) => ({ run, value: fieldValues(run, field)[0] })).sort((a, b) => {
    const { apart, within } = order(a.value, b.value);
    return apart || (down ? -within : within);
  }).map(({ run }) => run);
}

const newestFirst = (runs: readonly Run[]) => sorted([...runs], "-created");

export function filterRuns(runs: readonly Run[], filter: string, now: number): Run[] {
  return newestFirst(runs).filter(parseFilter(filter, fieldValues, now));
}

const toWire = (value: FieldValues[number]) => (typeof value !== "number" || Number.isFinite(value) ? value : Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf");

export function runList(runs: readonly Run[], { filter, sort, offset, limit, columns }: RunQuery, now: number): RunList {
  const chosen = sorted(filterRuns(runs, filter, now), sort);
  return {
    total: runs.length, matching: chosen.length, offset, seq: 0, indexing: { done: 1, total: 1 },
    runs: chosen.slice(offset, offset + limit).map((run) => ({
      ...run, values: Object.fromEntries(columns.flatMap((column) => fieldValues(run, column).slice(0, 1).map((value) => [column, toWire(value)]))),
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
      use.types.add(field.startsWith("metric.") ? "number" : typeof fieldValues(run, field)[0]);
      if (field.startsWith("config.")) use.values.add(JSON.stringify(fieldValues(run, field)));
      uses.set(field, use);
    }
  }
  const name = (types: Set<string>): Field["type"] => (types.size !== 1 ? "mixed" : types.has("number") ? "number" : types.has("boolean") ? "bool" : "text");
  return [...uses].sort(([a], [b]) => (a < b ? -1 : 1)).map(([field, use]) => ({ field, type: name(use.types), runs: use.runs, ...(field.startsWith("config.") ? { differs: use.values.size > 1 || use.runs < runs.length } : {}) }));
}

function spreadOf(runs: readonly Run[], column: string): Spread | null {
  const numbers = runs.flatMap((run) => fieldValues(run, column).slice(0, 1)).filter((value): value is number => typeof value === "number" && !Number.isNaN(value));
  return numbers.length === 0 ? null : { mean: numbers.reduce((a, b) => a + b, 0) / numbers.length, min: Math.min(...numbers), max: Math.max(...numbers), count: numbers.length };
}

export function runGroups(runs: readonly Run[], by: string, columns: readonly string[]): Group[] {
  const groups = new Map<string, Group>();
  for (const run of runs) {
    const values = fieldValues(run, by);
    for (const value of values.length > 0 ? values.map(toWire) : [null]) {
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

/** A comparison reduced to the runs `ids`, in that order. */
export function comparisonOf(whole: Comparison, ids: readonly string[]): Comparison {
  const indices = ids.map((id) => whole.runs.findIndex((run) => run.id === id)).filter((i) => i >= 0);
  const pick = <T>(values: readonly T[]) => indices.map((i) => values[i]!);
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
