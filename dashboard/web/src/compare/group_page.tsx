// All runs that match a filter as one band per metric: median, 10th to 90th percentile, minimum and maximum over all ranks.
import { useEffect, useMemo } from "preact/hooks";
import { ChartBoard, type BoardMetric } from "../chart/chart_board";
import { rankColor } from "../colors";
import type { Plot } from "../chart/chart_card";
import type { Line, BandCurve } from "../chart/line";
import type { Axis, Field, Range, RunList } from "../data/source";
import { plural } from "../format";
import { Icon } from "../parts/icons";
import { go, link, route } from "../router";
import { bandLine, sourceLabel } from "../run/plots";
import { source, tick, useAsync, useThrottled } from "../store";

function boardMetrics(fields: Field[]): BoardMetric[] {
  return fields.filter(({ field }) => field.startsWith("metric.")).map(({ field }) => {
    const name = field.slice("metric.".length);
    const cut = name.lastIndexOf("/");
    return { name, section: cut > 0 ? name.slice(0, cut) : "", axis: name.startsWith("system/") ? "time" as const : "step" as const };
  });
}

export function GroupPage() {
  const { query } = route.value;
  const filter = query.get("q") ?? "";
  const now = useThrottled(tick.value, 5000);
  const list = useAsync<RunList>(() => source().runs({ filter, sort: "-created", offset: 0, limit: 1, columns: [] }), [filter, now]);
  const fields = useAsync<Field[]>(() => source().fields(filter), [filter, now]);
  const metrics = useMemo(() => boardMetrics(fields.value ?? []), [fields.value]);
  const title = query.get("title") || (list.value ? plural(list.value.matching, "run") : "Runs");
  useEffect(() => void (document.title = `${title} · Lockstep`), [title]);
  const error = list.error ?? fields.error;
  if (error) return <div class="empty"><h1>Cannot load this group</h1><p>{error.message}</p><a class="button" href={link([])}>All runs</a></div>;
  if (!list.value || !fields.value) return <p class="waiting">Loading…</p>;

  const plot = (of: BoardMetric, axis: Axis, smooth: number): Plot => ({
    name: of.name, title: of.section ? of.name.slice(of.section.length + 1) : of.name, axis, version: `${now}|${smooth}`, csv: null,
    load: async (range: Range | null, points: number): Promise<Line[]> => {
      const band = await source().band({ runs: { filter }, metric: of.name, x: axis, range, points });
      return band ? [bandLine(band, smooth, { key: "band", label: `median of ${band.curves.length} curves`, color: rankColor(0) }, (c) => `${c.run} ${sourceLabel(c.source)}`)] : [];
    },
  });
  const pick = (_: Line, curve: BandCurve | null) => {
    if (curve?.run) go(["run", curve.run], { m: query.get("m"), zoom: query.get("zoom") });
  };
  return (
    <div class="page compare-page">
      <div class="tools">
        <h1 class="ellipsis">{title}</h1>
        {query.get("title") && <span class="dim" role="status">{plural(list.value.matching, "run")}</span>}
        <span class="spread" />
        {source().live && <a class="button" href={link(["analyze"], { q: filter, title: query.get("title") })}><Icon name="chart" size={14} />Analyze</a>}
        <a class="button" href={link([], { q: filter })}><Icon name="search" size={14} />Show in table</a>
      </div>
      <ChartBoard metrics={metrics} plot={plot} onPick={pick} empty={<div class="empty"><h2>No metrics</h2><p>None of these runs logged metrics.</p></div>} />
    </div>
  );
}
