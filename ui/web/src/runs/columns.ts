// The columns that the table of runs can have.
import { ago, duration, metricValue, moment, plain, toNumber } from "../format";
import type { Field, RunRow } from "../data/source";

export interface Column {
  /** As in the filter language, e.g. "created", "config.optimizer.lr", "metric.eval/loss" or "max(eval/accuracy)". */
  field: string;
  title: string;
  /** In rem. */
  width: number;
  numeric: boolean;
}

const OWN: Record<string, [title: string, width: number, numeric: boolean]> = {
  state: ["State", 10, false],
  created: ["Started", 7.5, false],
  duration: ["Duration", 7.5, true],
  step: ["Step", 6, true],
  epoch: ["Epoch", 5.5, true],
  world_size: ["Ranks", 4.5, true],
  group: ["Group", 9, false],
  job_type: ["Job type", 7, false],
  host: ["Host", 9, false],
  tag: ["Tags", 10, false],
  note: ["Note", 14, false],
  id: ["Id", 20, false],
  num_alerts: ["Alerts", 5, true],
  reason: ["Reason", 16, false],
  updated: ["Last record", 8, false],
};

export const OWN_FIELDS = Object.keys(OWN);

export const isMetric = (field: string) => field.startsWith("metric.") || /^\w+\(.*\)$/.test(field);
export const metricOf = (field: string) => field.replace(/^metric\.|^\w+\(|\)$/g, "");

export function column(field: string, fields: readonly Field[]): Column {
  const own = OWN[field];
  if (own) return { field, title: own[0], width: own[1], numeric: own[2] };
  const title = field.startsWith("config.") ? field.slice(7) : field.startsWith("metric.") ? field.slice(7) : field;
  return { field, title, width: Math.min(15, Math.max(6.5, title.length * 0.55 + 1.6)), numeric: isMetric(field) || fields.some((f) => f.field === field && f.type === "number") };
}

/** What one sees first: how it went, and the few metrics that runs are judged by. */
export function usualColumns(fields: readonly Field[]): string[] {
  const common = fields.filter((f) => f.field.startsWith("metric.") && f.type === "number");
  const rate = (field: string) => (/metric\.eval\/accuracy$/.test(field) ? 0 : /metric\.eval\//.test(field) ? 1 : field === "metric.train/loss" ? 2 : 9);
  const best = common.filter((f) => rate(f.field) < 9).sort((a, b) => rate(a.field) - rate(b.field) || b.runs - a.runs).slice(0, 3);
  const lr = fields.some((f) => f.field === "config.optimizer.lr") ? ["config.optimizer.lr"] : [];
  return ["state", "created", "duration", "step", ...best.map((f) => f.field), ...lr, "world_size", "tag"];
}

/** What a cell says, and the whole of it for a tip. */
export function cellText(run: RunRow, field: string, now: number): { text: string; tip?: string; value?: unknown } {
  switch (field) {
    case "created": return { text: ago(run.created, now), tip: moment(run.created) };
    case "updated": return { text: ago(run.updated, now), tip: moment(run.updated) };
    case "duration": return { text: duration(run.state === "running" ? Math.max(run.duration, now - run.created) : run.duration) };
    case "step": return { text: run.step === null ? "" : run.step.toLocaleString("en-US") };
    case "epoch": return { text: run.epoch === null ? "" : run.epoch.toFixed(2).replace(/\.?0+$/, "") };
    case "num_alerts": return { text: run.num_alerts ? String(run.num_alerts) : "" };
    case "tag": return { text: run.tags.join(", ") };
  }
  if (field in OWN) {
    const value = (run as unknown as Record<string, unknown>)[field];
    return { text: value === null || value === undefined ? "" : String(value), tip: value ? String(value) : "" };
  }
  const value = run.values?.[field];
  if (value === undefined) return { text: "" };
  if (isMetric(field)) {
    const exact = toNumber(value);
    return { text: metricValue(metricOf(field), exact), tip: String(exact) };
  }
  return { text: plain(value), tip: plain(value) };
}
