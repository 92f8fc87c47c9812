// Comparison of runs: overlaid curves or a band, and differences in configuration, environment and results.
import { useEffect, useMemo } from "preact/hooks";
import { baselineId, setBaseline, useBaseline } from "../baseline";
import type { Plot } from "../chart/chart_card";
import { ChartBoard, type BoardMetric } from "../chart/chart_board";
import { shownColorKey } from "../chart/chart_settings";
import type { Line, BandCurve } from "../chart/line";
import { cssColor } from "../colors";
import { type Axis, type Comparison, type Range } from "../data/source";
import { plural } from "../format";
import { Icon } from "../parts/icons";
import { toast, useNarrow } from "../parts/overlay";
import { Tabs } from "../parts/tabs";
import { go, link, route, setQuery } from "../router";
import { source, tick, useAsync, useThrottled, versions } from "../store";
import { constantValue } from "../metrics";
import { bandLine, sourceLabel } from "../run/plots";
import { Difference } from "./difference";
import { labels, Legend, coloringOf } from "./legend";
import { Differences, Results } from "./tables";

export const MAX_COMPARED = 50;

export function ComparePage() {
  const { query } = route.value;
  const text = query.get("runs") ?? "";
  const ids = useMemo(() => [...new Set(text.split(",").filter(Boolean))].slice(0, MAX_COMPARED), [text]);
  const isGroup = query.get("view") === "group";
  const tab = query.get("tab") ?? "charts";
  const changed = useThrottled(ids.reduce((n, id) => n + (versions.value.get(id) ?? 0), 0), 2000);
  const { value, error } = useAsync<Comparison | null>(() => (ids.length > 1 ? source().compare(ids) : Promise.resolve(null)), [text, changed]);
  useEffect(() => void (document.title = `${query.get("title") || "Compare"} · Lockstep`), [query.get("title")]);
  if (ids.length < 2) {
    return <div class="empty"><h1>Compare runs</h1><p>Select two or more runs in the table, then click Compare. At most {MAX_COMPARED} runs can be compared.</p><a class="button primary" href={link([])}>Select runs</a></div>;
  }
  if (!value) return error ? <div class="empty"><h1>Cannot compare these runs</h1><p>{error.message}</p><a class="button" href={link([])}>All runs</a></div> : <p class="waiting">Loading…</p>;
  const differing = value.config.filter((c) => c.differs).length + value.environment.filter((c) => c.differs).length;
  const base = baselineId() || null;
  const tabs = ([...(ids.length === 2 ? [["both", "Overview", 0] as const] : []), ["charts", "Charts", value.metrics.length], ["config", "Differences", differing], ["results", "Results", 0]] as const).map(([name, title, count]) =>
    ({ name, title, count, href: link(["compare"], { ...Object.fromEntries(query), tab: name === "charts" ? null : name }) }));
  return (
    <div class="page run-page compare-page">
      <header class="run-head">
      <div class="row run-name">
        <h1 class="ellipsis">{query.get("title") || plural(value.runs.length, "run")}</h1>
        {query.get("title") && <span class="dim">{plural(value.runs.length, "run")}</span>}
      </div>
      <Tabs label="Comparison tabs" tabs={tabs} current={tab} />
        {source().reportUrl(ids) && <span class="row run-acts"><a class="button" href={link(["analyze"], { runs: ids.join(",") })}><Icon name="chart" size={14} />Analyze</a><a class="button" href={source().reportUrl(ids)!} download="comparison.html"><Icon name="download" size={14} />Export HTML</a></span>}
      </header>
      {tab === "charts" && <Curves comparison={value} isGroup={isGroup} />}
      {tab === "config" && <Differences comparison={value} />}
      {tab === "results" && <ResultsTab comparison={value} base={base} />}
      {tab === "both" && ids.length === 2 && <Difference comparison={value} base={base && ids.includes(base) ? base : ids[0]!} isOther={base !== null && !ids.includes(base)} curves={<Curves comparison={value} isGroup={false} brief />} />}
    </div>
  );
}

/** Results relative to the baseline, which may be another run: the last one, so that the others keep their colors. */
function ResultsTab({ comparison, base }: { comparison: Comparison; base: string | null }) {
  const ids = comparison.runs.map((run) => run.id);
  const isOther = base !== null && !ids.includes(base) && ids.length < MAX_COMPARED;
  // Without it, if the baseline cannot be loaded.
  const { value } = useAsync<Comparison | null>(() => (isOther ? source().compare([...ids, base]).catch(() => null) : Promise.resolve(null)), [comparison, base, isOther]);
  const shown = (isOther && value) || comparison;
  return <Results comparison={shown} base={base} tools={<BaselineSelect comparison={shown} base={base} />} />;
}

/** The run that the others are compared with. */
function BaselineSelect({ comparison, base }: { comparison: Comparison; base: string | null }) {
  const names = labels(comparison.runs);
  return (
    <label class="row small soft">Baseline
      <select class="field" value={base ?? ""} onChange={(event) => setBaseline(event.currentTarget.value)}>
        <option value="">none</option>
        {comparison.runs.map((run) => <option key={run.id} value={run.id}>{names.get(run.id)}</option>)}
      </select>
    </label>
  );
}

function Curves({ comparison, isGroup, brief }: { comparison: Comparison; isGroup: boolean; brief?: boolean }) {
  const { runs } = comparison;
  const names = labels(runs);
  const { query } = route.value;
  const coloring = coloringOf(comparison, shownColorKey());
  const { styles } = coloring;
  const off = query.get("off") ?? "";
  const hidden = useMemo(() => new Set(off.split(",").filter(Boolean)), [off]);
  const setHidden = (ids: ReadonlySet<string>) => setQuery({ off: [...ids].join(",") });
  const base = baselineId();
  const { run: baseRun } = useBaseline();
  const chosen = (route.value.query.get("over") ?? "").split(",").filter(Boolean);
  const changed = useThrottled(tick.value, 2000);
  const now = runs.map((run) => versions.value.get(run.id) ?? run.version).join() + changed;
  const metrics: BoardMetric[] = useMemo(() => comparison.metrics.map(({ name, values }) => {
    const cut = name.lastIndexOf("/");
    return { name, section: cut > 0 ? name.slice(0, cut) : "", axis: name.startsWith("system/") ? "time" as const : "step" as const, constant: constantValue(values) };
  }), [comparison]);
  const plot = (of: BoardMetric, axis: Axis, smooth: number): Plot => ({
    name: of.name, title: of.section ? of.name.slice(of.section.length + 1) : of.name, axis, version: `${now}|${isGroup}|${chosen.join()}|${smooth}|${coloring.key}|${base}`,
    csv: source().csvUrl({ runs, metric: of.name, sources: null }),
    load: async (range: Range | null, points: number): Promise<Line[]> => {
      const over = isGroup ? runs.filter((r) => chosen.includes(r.id)) : runs;
      const [band, curves] = await Promise.all([
        isGroup ? source().band({ runs: runs.map((r) => r.id), metric: of.name, x: axis, range, points }) : null,
        over.length > 0 ? source().curves({ runs: over, metric: of.name, sources: null, x: axis, range, points, smooth }) : [],
      ]);
      const lines: Line[] = curves.map((c) => ({ key: c.run, label: names.get(c.run) ?? c.run, x: c.x, y: c.smooth ?? c.y, ...(c.smooth ? { raw: c.y } : {}), ...styles.get(c.run)!, ...(c.run === base ? { width: 2.6 } : {}) }));
      if (band) lines.unshift(bandLine(band, smooth, { key: "band", label: `median of ${band.curves.length} curves`, color: cssColor("--ink-2") }, (c) => `${names.get(c.run) ?? c.run}${band.curves.some((o) => o.run === c.run && o.source !== c.source) ? ` ${sourceLabel(c.source)}` : ""}`));
      return lines;
    },
  });
  const pick = (line: Line, curve: BandCurve | null) => {
    const id = curve?.run ?? line.key;
    if (isGroup && curve) setQuery({ over: (chosen.includes(id) ? chosen.filter((c) => c !== id) : [...chosen, id]).join(",") });
    else if (styles.has(id)) {
      toast(`Opened ${names.get(id) ?? id}`);
      go(["run", id], { m: route.value.query.get("m"), zoom: route.value.query.get("zoom") });
    }
  };
  return (
    <div class={isGroup || brief ? "" : "with-legend"}>
    {!isGroup && !brief && <RunLegend runs={runs} baseline={runs.some((run) => run.id === base) ? null : baseRun} coloring={coloring} hidden={hidden} onHide={setHidden} />}
    <ChartBoard metrics={metrics} plot={plot} onPick={pick} hidden={hidden} drawn={isGroup ? chosen : runs.map((run) => run.id)} empty={<div class="empty"><h2>No metrics</h2><p>None of these runs logged metrics.</p></div>}>
      {!brief && <div class="segmented" role="group" aria-label="Curves">
        <button type="button" aria-pressed={!isGroup} onClick={() => setQuery({ view: null })}>Each run</button>
        <button type="button" aria-pressed={isGroup} onClick={() => setQuery({ view: "group" })} title="Median, 10th to 90th percentile, minimum and maximum over all ranks of all runs">Median & range</button>
      </div>}
      {isGroup && chosen.length > 0 && <button type="button" class="button mini" onClick={() => setQuery({ over: null })}>{plural(chosen.length, "run")} overlaid <Icon name="close" size={11} /></button>}
    </ChartBoard>
    </div>
  );
}

/** The list of runs next to the charts, or collapsed above them in a narrow window. */
function RunLegend(props: Parameters<typeof Legend>[0]) {
  return useNarrow(1000)
    ? <details class="legend-fold card"><summary>{plural(props.runs.length, "run")} and their colors</summary><Legend {...props} /></details>
    : <aside class="legend-side card" aria-label="Compared runs"><Legend {...props} /></aside>;
}
