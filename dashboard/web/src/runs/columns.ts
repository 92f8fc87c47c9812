// The columns of the run table.
import { columnFormat, settingFormat } from "../chart/ticks";
import { ago, duration, fixed, metricValue, moment, number, plain, toNumber } from "../format";
import type { Field, Group, RunRow } from "../data/source";
import { betterDirection, type Delta, deltaOf, resultOrder } from "../metrics";
import { differingKeys } from "./differing";

export interface Column {
  /** A field of the filter language, e.g. "created", "config.optimizer.lr", "metric.eval/loss" or "max(eval/accuracy)". */
  field: string;
  title: string;
  /** In rem. */
  width: number;
  numeric: boolean;
}

const RUN_COLUMNS: Record<string, [title: string, width: number, numeric: boolean]> = {
  state: ["State", 8.8, false],
  created: ["Started", 7.4, false],
  duration: ["Duration", 7.4, true],
  step: ["Step", 6.4, true],
  epoch: ["Epoch", 5.5, true],
  world_size: ["Ranks", 4.2, true],
  group: ["Group", 9, false],
  job_type: ["Job type", 7, false],
  host: ["Host", 9, false],
  tag: ["Tags", 6, false],
  note: ["Note", 14, false],
  id: ["ID", 20, false],
  num_alerts: ["Alerts", 5, true],
  reason: ["Reason", 16, false],
  updated: ["Last record", 8, false],
};

export const RUN_FIELDS = Object.keys(RUN_COLUMNS);

export const isMetric = (field: string) => field.startsWith("metric.") || /^\w+\(.*\)$/.test(field) || (field.includes("/") && !field.startsWith("config."));
/** Whether the field is not part of a row and must be requested from the server. */
export const isRequested = (field: string) => isMetric(field) || field.startsWith("config.");
export const metricOf = (field: string) => (field.startsWith("metric.") ? field.slice(7) : /^\w+\((.*)\)$/.exec(field)?.[1] ?? field);

/** The order after the first click on a column header: the best, newest or largest first, and texts from A to Z. */
export function firstOrder({ field, numeric }: Column): string {
  const isAscending = isMetric(field) ? betterDirection(metricOf(field)) === "lower" : !numeric && field !== "created" && field !== "updated";
  return isAscending ? field : `-${field}`;
}

export function column(field: string, fields: readonly Field[]): Column {
  const known = RUN_COLUMNS[field];
  if (known) return { field, title: known[0], width: known[1], numeric: known[2] };
  const title = field.startsWith("config.") ? field.slice(7) : field.startsWith("metric.") ? field.slice(7) : field;
  return { field, title, width: Math.min(13, Math.max(isMetric(field) ? 8.4 : 5, title.length * 0.52 + 1.6)), numeric: isMetric(field) || fields.some((f) => f.field === field && f.type === "number") };
}

/** The default columns: outcome, key metrics, and the configuration keys in which the runs differ. */
export function defaultColumns(fields: readonly Field[]): string[] {
  const common = fields.filter((f) => f.field.startsWith("metric.") && f.type === "number");
  const priority = (field: string) => resultOrder(metricOf(field));
  const keyMetrics = common.filter((f) => f.field.startsWith("metric.eval/") || f.field === "metric.train/loss");
  const maxRuns = Math.max(0, ...keyMetrics.map((f) => f.runs));
  const best = keyMetrics.filter((f) => 4 * f.runs >= maxRuns).sort((a, b) => priority(a.field) - priority(b.field) || b.runs - a.runs).slice(0, 3);
  return ["state", "created", "duration", "step", ...best.map((f) => f.field), ...differingKeys(fields), "world_size", "tag"];
}

/** The difference of a numeric cell from that of the baseline; null if there is none. */
export function cellDelta(run: RunRow, baseline: RunRow, field: string): Delta | null {
  if (field === "duration") {
    const [own, base] = [toNumber(run.duration), toNumber(baseline.duration)];
    const delta = deltaOf("", own, base);
    return delta && { ...delta, absolute: `${own > base ? "+" : "−"}${Math.abs(own - base) < 10 ? metricValue("duration_s", Math.abs(own - base), 2) : duration(Math.abs(own - base))}` };
  }
  if (!isRequested(field)) return null;
  return deltaOf(isMetric(field) ? metricOf(field) : "", toNumber(run.values?.[field]), toNumber(baseline.values?.[field]));
}

/** Formats the numbers of a column consistently; null for a number that needs its own format. */
export type NumberFormat = (value: number) => string | null;

/** For the columns of `runs` and `groups`, by field. */
export function numberFormats(fields: readonly string[], runs: readonly RunRow[], groups: readonly Group[], groupField: string): Map<string, NumberFormat> {
  const formats = new Map<string, NumberFormat>();
  for (const field of new Set([...fields, groupField])) {
    const all = [
      ...runs.map((run) => run.values?.[field]),
      ...groups.flatMap(({ values, value }) => [...(values?.[field] ? [values[field].min, values[field].max] : []), ...(field === groupField ? [value] : [])]),
    ];
    const numbers = all.filter((value): value is number => typeof value === "number");
    if (isMetric(field)) formats.set(field, columnFormat(metricOf(field), numbers));
    else if (field.startsWith("config.")) formats.set(field, settingFormat(numbers));
  }
  return formats;
}

/** The text of a cell, and the full value for its tooltip. */
export function cellText(run: RunRow, field: string, now: number, formats?: ReadonlyMap<string, NumberFormat>): { text: string; tip?: string; value?: unknown } {
  switch (field) {
    case "created": return { text: ago(run.created, now), tip: moment(run.created) };
    case "updated": return { text: ago(run.updated, now), tip: moment(run.updated) };
    case "duration": return { text: duration(run.state === "running" ? Math.max(toNumber(run.duration), now - toNumber(run.created)) : run.duration) };
    case "step": return { text: run.step === null ? "" : run.step.toLocaleString("en-US") };
    case "epoch": return { text: run.epoch === null ? "" : fixed(run.epoch, 2).replace(/\.?0+$/, "") };
    case "num_alerts": return { text: run.num_alerts ? String(run.num_alerts) : "" };
    case "tag": return { text: run.tags.join(", ") };
  }
  if (field in RUN_COLUMNS) {
    const value = (run as unknown as Record<string, unknown>)[field];
    return { text: value === null || value === undefined ? "" : String(value), tip: value ? String(value) : "" };
  }
  const value = run.values?.[field];
  if (value === undefined) return { text: "" };
  if (isMetric(field)) {
    const exact = toNumber(value);
    return { text: formats?.get(field)?.(exact) ?? metricValue(metricOf(field), exact), tip: String(exact) };
  }
  if (typeof value !== "number") return { text: plain(value), tip: plain(value) };
  return { text: formats?.get(field)?.(value) ?? (Number.isInteger(value) ? plain(value) : number(value)), tip: plain(value) };
}
