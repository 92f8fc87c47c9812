// All runs that match a filter: one band per metric (median, 10th to 90th percentile, minimum and maximum over all ranks), or one curve
// per run, colored by a hyperparameter or a result.
import { useEffect, useMemo } from "preact/hooks";
import { runColors, ColorLegend } from "../analyze/run_colors";
import { type Values, valuesOf } from "../analyze/values";
import { ChartBoard, type BoardMetric } from "../chart/chart_board";
import { shownColorKey } from "../chart/chart_settings";
import { rankColor } from "../colors";
import type { Plot } from "../chart/chart_card";
import type { Line, BandCurve } from "../chart/line";
import type { Analysis, Axis, Field, Range, RunList } from "../data/source";
import { plural, toNumber } from "../format";
import { Icon } from "../parts/icons";
import { go, link, route, setQuery } from "../router";
import { bandLine, sourceLabel } from "../run/plots";
import { shownFilter } from "../runs/archived";
import { differingKeys, isHyperparameter } from "../runs/differing";
import { colorKey } from "../settings";
import { source, tick, useAsync, useThrottled } from "../store";

/** The server returns at most 512 curves. */
const MAX_RUNS = 500;

function boardMetrics(fields: Field[]): BoardMetric[] {
  return fields.filter(({ field }) => field.startsWith("metric.")).map(({ field }) => {
    const name = field.slice("metric.".length);
    const cut = name.lastIndexOf("/");
    return { name, section: cut > 0 ? name.slice(0, cut) : "", axis: name.startsWith("system/") ? "time" as const : "step" as const };
  });
}

/** What colors the curves: hyperparameters, then metrics. */
interface Coloring { columns: Values[]; column: Values | null; colors: string[]; ids: string[]; names: Map<string, string>; created: Map<string, number> }

function coloringOf(analysis: Analysis, fields: Field[], chosen: string): Coloring {
  const columns = analysis.columns.map(valuesOf);
  const settings = columns.filter((column) => isHyperparameter(column.field) && (!column.labels || column.labels.length <= Math.max(12, column.values.length / 4)));
  const usable = [...settings, ...columns.filter((column) => column.field.startsWith("metric."))];
  const [first] = differingKeys(fields, 1);
  const find = (field: string | undefined) => usable.find((column) => column.field === field || column.title === field);
  const column = find(chosen) ?? find(first) ?? usable[0] ?? null;
  const created = analysis.columns.find((c) => c.field === "created")?.values ?? [];
  return {
    columns: usable, column, ids: analysis.ids, names: new Map(analysis.ids.map((id, i) => [id, analysis.names[i]!])),
    colors: column ? runColors(column) : analysis.ids.map((_, i) => rankColor(i)), created: new Map(analysis.ids.map((id, i) => [id, toNumber(created[i])])),
  };
}

export function GroupPage() {
  const { query } = route.value;
  const filter = shownFilter(query.get("q") ?? "", query);
  const now = useThrottled(tick.value, 5000);
  const isEach = query.get("view") === "each" && source().live;
  const list = useAsync<RunList>(() => source().runs({ filter, sort: "-created", offset: 0, limit: 1, columns: [] }), [filter, now]);
  const fields = useAsync<Field[]>(() => source().fields(filter), [filter, now]);
  const analysis = useAsync<Analysis | null>(() => (isEach ? source().analysis({ filter }, []) : Promise.resolve(null)), [filter, now, isEach]);
  const metrics = useMemo(() => boardMetrics(fields.value ?? []), [fields.value]);
  const chosen = shownColorKey();
  const coloring = useMemo(() => (analysis.value && fields.value ? coloringOf(analysis.value, fields.value, chosen) : null), [analysis.value, fields.value, chosen]);
  const title = query.get("title") || (list.value ? plural(list.value.matching, "run") : "Runs");
  useEffect(() => void (document.title = `${title} · Lockstep`), [title]);
  const error = list.error ?? fields.error ?? analysis.error;
  if (error) return <div class="empty"><h1>Cannot load this group</h1><p>{error.message}</p><a class="button" href={link([])}>All runs</a></div>;
  if (!list.value || !fields.value || (isEach && !coloring)) return <p class="waiting">Loading…</p>;
  const tooMany = list.value.matching > MAX_RUNS;
  const each = isEach && !tooMany ? coloring : null;

  const plot = (of: BoardMetric, axis: Axis, smooth: number): Plot => ({
    name: of.name, title: of.section ? of.name.slice(of.section.length + 1) : of.name, axis, version: `${now}|${smooth}|${each?.column?.field ?? ""}|${each !== null}`, csv: null,
    load: async (range: Range | null, points: number): Promise<Line[]> => {
      if (each) {
        const curves = await source().curves({ runs: { filter, created: each.created }, metric: of.name, sources: null, x: axis, range, smooth, points: Math.min(points, Math.max(60, Math.round(30000 / each.ids.length))) });
        const color = new Map(each.ids.map((id, i) => [id, each.colors[i]!]));
        return curves.map((c) => ({ key: c.run, label: each.names.get(c.run) ?? c.run, color: color.get(c.run) ?? rankColor(0), x: c.x, y: c.smooth ?? c.y, ...(curves.length > 40 ? { width: 1 } : {}) }));
      }
      const band = await source().band({ runs: { filter }, metric: of.name, x: axis, range, points });
      return band ? [bandLine(band, smooth, { key: "band", label: `median of ${band.curves.length} curves`, color: rankColor(0) }, (c) => `${c.run} ${sourceLabel(c.source)}`)] : [];
    },
  });
  const pick = (line: Line, curve: BandCurve | null) => {
    const run = curve?.run ?? (each ? line.key : null);
    if (run) go(["run", run], { m: query.get("m"), zoom: query.get("zoom") });
  };
  return (
    <div class="page compare-page">
      <div class="tools">
        <h1 class="ellipsis">{title}</h1>
        {query.get("title") && <span class="dim" role="status">{plural(list.value.matching, "run")}</span>}
        {each && each.columns.length > 0 && (
          <label class="row small soft">Color by<select class="field mini" value={each.column?.field} onChange={(event) => {
            colorKey.value = event.currentTarget.value.replace(/^config\./, "");
            setQuery({ color: event.currentTarget.value });
          }}>{each.columns.map((column) => <option key={column.field} value={column.field}>{column.title}</option>)}</select></label>
        )}
        {each?.column && <div class="row panel-head"><ColorLegend column={each.column} /></div>}
        <span class="spread" />
        {source().live && <a class="button" href={link(["analyze"], { q: query.get("q"), title: query.get("title"), archived: query.get("archived") })}><Icon name="chart" size={14} />Analyze</a>}
        <a class="button" href={link([], { q: query.get("q"), archived: query.get("archived") })}><Icon name="search" size={14} />Show in table</a>
      </div>
      <ChartBoard metrics={metrics} plot={plot} onPick={pick} empty={<div class="empty"><h2>No metrics</h2><p>None of these runs logged metrics.</p></div>}>
        {source().live && (
          <div class="segmented" role="group" aria-label="Curves">
            <button type="button" aria-pressed={each !== null} disabled={tooMany} title={tooMany ? `At most ${MAX_RUNS} runs` : "One curve per run, colored by a value"} onClick={() => setQuery({ view: "each" })}>Each run</button>
            <button type="button" aria-pressed={each === null} onClick={() => setQuery({ view: null })} title="Median, 10th to 90th percentile, minimum and maximum over all ranks of all runs">Median & range</button>
          </div>
        )}
      </ChartBoard>
    </div>
  );
}
