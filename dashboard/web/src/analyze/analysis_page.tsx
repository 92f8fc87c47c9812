// What mattered in a set of runs: parallel coordinates, importance, scatter and grouped results. The URL holds the whole state:
// the runs (q or runs; pruned=1: also pruned ones), the result (target), axes, brushes, the scatter (sx, sy, sc) and the key of the
// table (by).
import { useEffect, useMemo, useState } from "preact/hooks";
import { baselineId, BaselineTag, useBaseline, useBaselineInUrl } from "../baseline";
import { both, quoted } from "../data/filter";
import type { Analysis, Importance, RunChoice, ValueColumn } from "../data/source";
import { plural } from "../format";
import { betterDirection } from "../metrics";
import { Icon } from "../parts/icons";
import { Popover } from "../parts/overlay";
import { go, link, route, setQuery } from "../router";
import { shownFilter } from "../runs/archived";
import { isMetric, metricOf } from "../runs/columns";
import { isHyperparameter } from "../runs/differing";
import { source, tick, useAsync, useThrottled } from "../store";
import { MAX_COMPARED } from "../compare/compare_page";
import { GroupTable } from "./group_table";
import { ImportanceList } from "./importance_list";
import { OrderPanel } from "./order_panel";
import { Parallel } from "./parallel";
import { NOT_PRUNED, splitPruned } from "./pruned";
import { ColorLegend } from "./run_colors";
import { ScatterPanel } from "./scatter_panel";
import { type Brushes, brushFilter, brushText, insideOf, parseBrushes, summaryOf, type Values, valuesOf } from "./values";

const MAX_AXES = 10;
const KINDS = ["last", "min", "max"] as const;
type Kind = (typeof KINDS)[number];

const kindOf = (field: string): Kind => (field.startsWith("min(") ? "min" : field.startsWith("max(") ? "max" : "last");
const fieldOf = (metric: string, kind: Kind) => (kind === "last" ? `metric.${metric}` : `${kind}(${metric})`);

/** The metric that is most likely the result. */
function defaultTarget({ metrics }: Analysis): string | null {
  const most = Math.max(0, ...metrics.map((m) => m.runs));
  const priority = (name: string) => (/^(eval|test|val)\/accuracy$/.test(name) ? 0 : /^(eval|test|val)\/loss$/.test(name) ? 1 : /^(eval|test|val)\//.test(name) ? 2 : name === "train/loss" ? 3 : 4);
  const [first] = metrics.filter((m) => 4 * m.runs >= most).sort((a, b) => priority(a.name) - priority(b.name));
  return first ? `metric.${first.name}` : null;
}

/** Columns that tell runs apart without being settings, such as names, are not hyperparameters. */
const isSetting = (column: ValueColumn) => isHyperparameter(column.field) && (!column.labels || column.labels.length <= Math.max(12, column.values.length / 4));

const MAX_PARAMETERS = 64;

/** `choice`: the runs of the data; `standard`: its columns. */
interface Loading { data: Analysis; standard: Map<string, Values>; choice: RunChoice; target: string | null; importance: Promise<Importance | null>; pruned: Pruned }
/** How many of the runs are pruned trials, and whether they are left out. */
interface Pruned { count: number; isOut: boolean }

/** Starts to load the importance; the page meanwhile reads and draws the values. */
function loadImportance(data: Analysis, choice: RunChoice, target: string | null): Promise<Importance | null> {
  const fields = data.columns.filter(isSetting).slice(0, MAX_PARAMETERS).map((column) => column.field);
  const importance = target && fields.length > 0 ? source().importance(choice, target, fields) : Promise.resolve(null);
  importance.catch(() => undefined); // the error is shown by the views that need it
  return importance;
}

/** Also counts the pruned ones of the runs, and leaves them out unless `isAll`. */
async function load(choice: RunChoice, isAll: boolean): Promise<Loading> {
  const split = splitPruned(choice);
  const shown = split && !isAll ? split.others : choice;
  const [data, pruned] = await Promise.all([source().analysis(shown, []), split ? source().analysis(split.pruned, ["id"]) : null]);
  const target = route.value.query.get("target") ?? defaultTarget(data);
  const standard = new Map(data.columns.map((column) => [column.field, valuesOf(column)]));
  return { data, standard, choice: shown, target, importance: loadImportance(data, shown, target), pruned: { count: pruned?.matching ?? 0, isOut: shown !== choice } };
}

function PrunedSwitch({ count, isOut }: Pruned) {
  if (count === 0) return null;
  return <button type="button" class="button quiet mini" aria-pressed={isOut} title="Trials that a sweep stopped early have an early result" onClick={() => setQuery({ pruned: isOut ? "1" : null })}>Without pruned ({count.toLocaleString("en-US")})</button>;
}

export function AnalysisPage() {
  const { query } = route.value;
  const filter = query.get("q") ?? "";
  const ids = query.get("runs");
  const choice: RunChoice = useMemo(() => (ids ? ids.split(",").filter(Boolean) : { filter: shownFilter(filter, query) }), [ids, filter, query.get("archived")]);
  const now = useThrottled(tick.value, 5000);
  useBaselineInUrl();
  const isAll = query.get("pruned") === "1";
  const main = useAsync<Loading>(() => load(choice, isAll), [choice, isAll, now]);
  useEffect(() => void (document.title = `${query.get("title") || "Analysis"} · Lockstep`), [query.get("title")]);
  if (main.error) return <div class="empty"><h1>Cannot analyze these runs</h1><p>{main.error.message}</p><a class="button" href={link([])}>All runs</a></div>;
  if (!main.value) return <p class="waiting">Loading…</p>;
  const { data, pruned } = main.value;
  if (data.ids.length < 2) return <div class="empty"><h1>Analysis</h1><p>{data.ids.length === 0 ? "No runs match." : "One run cannot be analyzed."} Select two or more runs in the table, or a filter that matches more.</p><PrunedSwitch {...pruned} /><a class="button primary" href={link([], { q: filter, archived: query.get("archived") })}>Runs</a></div>;
  return <Loaded loading={main.value} ids={Array.isArray(choice) ? choice : null} filter={filter} />;
}

function Loaded({ loading, ids, filter }: { loading: Loading; ids: string[] | null; filter: string }) {
  const { query } = route.value;
  const { standard, choice } = loading;
  const target = query.get("target") ?? defaultTarget(loading.data);
  // Columns that are not among the standard ones are requested.
  const requested = [target, query.get("sx"), query.get("sy"), query.get("sc"), query.get("by"), ...(query.get("axes") ?? "").split(","), ...Object.keys(parseBrushes(query.get("brush")))].filter((field): field is string => Boolean(field) && !standard.has(field!));
  const wanted = [...new Set(requested)].join("\n");
  const all = useAsync<{ loading: Loading; columns: Map<string, Values> }>(async () => {
    const more = wanted ? (await source().analysis(choice, wanted.split("\n"))).columns : [];
    return { loading, columns: new Map([...standard, ...more.map((column) => [column.field, valuesOf(column)] as const)]) };
  }, [wanted, loading]);
  const importance = useAsync<Importance | null>(() => (target === loading.target ? loading.importance : loadImportance(loading.data, choice, target)), [loading, target]);
  // Until the columns of other runs are there, those of the previous ones are shown.
  const shown = all.value?.loading ?? loading;
  const { data } = shown;
  const settings = useMemo(() => data.columns.filter(isSetting).map((column) => shown.standard.get(column.field)!), [shown]);
  const result = target ? all.value?.columns.get(target) : undefined;
  if (!target) return <div class="empty"><h1>Analysis</h1><p>These runs have not logged any metric yet.</p><a class="button" href={link([], { q: filter, archived: query.get("archived") })}>Show in table</a></div>;
  if (all.error) return <div class="empty"><h1>Cannot analyze these runs</h1><p>{all.error.message}</p><button type="button" class="button" onClick={() => setQuery({ target: null, sx: null, sy: null, sc: null, by: null, axes: null, brush: null })}>Reset</button></div>;
  const isLoading = importance.pending && importance.value === undefined;
  // Only the axes that the URL names do not depend on the importance.
  if (!all.value || !result || (isLoading && !query.get("axes"))) return <p class="waiting">Loading…</p>;
  return <Views data={data} columns={all.value.columns} settings={settings} target={result} importance={importance.value ?? null} isLoading={isLoading} error={importance.error} filter={filter} listed={ids} pruned={shown.pruned} />;
}

interface ViewsProps { data: Analysis; columns: Map<string, Values>; settings: Values[]; target: Values; importance: Importance | null; isLoading: boolean; error: Error | undefined; filter: string; listed: string[] | null; pruned: Pruned }

function Views({ data, columns, settings, target, importance, isLoading, error, filter, listed, pruned }: ViewsProps) {
  const { query } = route.value;
  const { ids, names } = data;
  const baseline = useBaseline();
  const base = ids.indexOf(baselineId());
  const stored = query.get("brush");
  const [dragged, setDragged] = useState<Brushes | null>(null);
  const parsed = useMemo(() => parseBrushes(stored), [stored]);
  const brushes = dragged ?? parsed;
  const inside = useMemo(() => insideOf(brushes, columns, ids.length), [brushes, columns, ids]);
  const settled = useMemo(() => insideOf(parsed, columns, ids.length), [parsed, columns, ids]);
  const better = query.get("better") === "lower" || query.get("better") === "higher" ? (query.get("better") as "lower" | "higher") : betterDirection(metricOf(target.field));
  // The most important axes are next to the result.
  const ranked = useMemo(() => {
    const weight = new Map((importance?.parameters ?? []).map((entry) => [entry.field, entry.importance + 1e-3 * Math.abs(entry.correlation ?? 0)]));
    return [...settings].sort((a, b) => (weight.get(b.field) ?? 0) - (weight.get(a.field) ?? 0));
  }, [settings, importance]);
  const chosenAxes = query.get("axes");
  const axes = useMemo(() => {
    const shown = chosenAxes ? chosenAxes.split(",").flatMap((field) => columns.get(field) ?? []) : ranked.slice(0, MAX_AXES).reverse();
    return [...shown.filter((column) => column.field !== target.field), target];
  }, [chosenAxes, chosenAxes ? null : ranked, target, columns]);
  // Without any, only the result: an empty text would be the most important ones.
  const setAxes = (next: string[]) => setQuery({ axes: next.join(",") || target.field });
  const own = axes.slice(0, -1).map((column) => column.field);
  const chosen = useMemo(() => Array.from(inside.keys()).filter((i) => inside[i]), [inside]);
  const summary = summaryOf(target.values, chosen);
  const best = better === "higher" ? summary.highest : better === "lower" ? summary.lowest : -1;
  const isBrushed = Object.keys(brushes).length > 0;
  const x = columns.get(query.get("sx") ?? "") ?? ranked[0] ?? columns.get("duration") ?? target;
  const by = columns.get(query.get("by") ?? "") ?? ranked[0];
  const names_ = data.metrics.map((m) => m.name);
  const open = (run: number) => go(["run", ids[run]!]);
  const brushed = brushFilter(brushes, columns);
  const chosenFilter = listed ? `id in (${listed.map(quoted).join(", ")})` : filter;
  const whole = pruned.count > 0 && pruned.isOut ? both(chosenFilter, NOT_PRUNED) : chosenFilter;
  const tableFilter = brushed ? both(whole, brushed) : whole;
  // Chosen runs are shown, archived or not.
  const archived = listed ? "1" : query.get("archived");
  const selected = chosen.map((i) => ids[i]!);
  // Elements that do not depend on the brush are made once: brushing must not render them again.
  const options = useMemo(() => (
    <>
      <optgroup label="Hyperparameters">{settings.map((column) => <option key={column.field} value={column.field}>{column.title}</option>)}</optgroup>
      <optgroup label="Results and metrics">
        {!names_.some((name) => fieldOf(name, "last") === target.field) && <option value={target.field}>{target.title}</option>}
        {names_.slice(0, 300).map((name) => <option key={name} value={`metric.${name}`}>{name}</option>)}
      </optgroup>
      <optgroup label="Run"><option value="duration">duration</option><option value="created">created</option></optgroup>
    </>
  ), [settings, data, target]);
  const mattered = useMemo(() => importance && <ImportanceList importance={importance} columns={columns} target={target} better={better} chosen={x.field}
    onChoose={(a, b) => setQuery(b ? { sx: a, sy: b, sc: target.field } : { sx: a, sy: target.field, sc: null })} />, [importance, columns, target, better, x]);
  const grouped = useMemo(() => by && <GroupTable by={by} target={target} ids={ids} names={names} inside={settled} better={better} filter={tableFilter} archived={archived} />, [by, target, ids, settled, better, dragged === null ? tableFilter : null]);
  const groupHead = useMemo(() => by && <div class="row wrap panel-head"><h2>{target.title} by</h2><select class="field mini" aria-label="Group by" value={by.field} onChange={(event) => setQuery({ by: event.currentTarget.value })}>{options}</select></div>, [options, by, target]);
  return (
    <div class="page analysis-page">
      <div class="tools">
        <h1 class="ellipsis">{query.get("title") || "Analysis"}</h1>
        <span class="dim" role="status">{data.matching > ids.length ? `the newest ${ids.length.toLocaleString("en-US")} of ${plural(data.matching, "run")}` : plural(ids.length, "run")}</span>
        <PrunedSwitch {...pruned} />
        <BaselineTag baseline={baseline} />
        <span class="spread" />
        <label class="row small soft">Result<select class="field" aria-label="Result" value={isMetric(target.field) ? metricOf(target.field) : ""} onChange={(event) => setQuery({ target: fieldOf(event.currentTarget.value, kindOf(target.field)), better: null })}>
          {names_.slice(0, 500).map((name) => <option key={name} value={name}>{name}</option>)}
        </select></label>
        <div class="segmented" role="group" aria-label="Which value">{KINDS.map((kind) => <button type="button" key={kind} aria-pressed={kindOf(target.field) === kind} onClick={() => setQuery({ target: fieldOf(metricOf(target.field), kind) })}>{kind}</button>)}</div>
        <div class="segmented" role="group" aria-label="Better values">{(["lower", "higher"] as const).map((which) => <button type="button" key={which} aria-pressed={better === which} title={`${which} values are better`} onClick={() => setQuery({ better: which })}>{which}</button>)}</div>
        <a class="button" href={link(["group"], { q: tableFilter, view: "each", color: ranked[0]?.field, archived })} title="The curves of these runs, colored by a hyperparameter"><Icon name="compare" size={14} />Curves</a>
        <a class="button" href={link([], { q: tableFilter, archived })}><Icon name="search" size={14} />Show in table</a>
      </div>
      <div class="stack">
        <section class="card block" aria-label="Parallel coordinates">
          <div class="row wrap panel-head">
            <h2>Parallel coordinates</h2>
            <ColorLegend column={target} />
            <span class="spread" />
            <Popover name="Axes" align="right" class="button mini" label={<><Icon name="columns" size={13} />Axes</>}>
              {() => <div class="axis-menu tall">{[...settings, ...data.metrics.slice(0, 60).flatMap(({ name }) => columns.get(`metric.${name}`) ?? []), ...["duration"].flatMap((field) => columns.get(field) ?? [])].filter((column) => column !== target).map((column) => (
                <label key={column.field} class="choice"><input type="checkbox" class="check" checked={own.includes(column.field)} onChange={() => setAxes(own.includes(column.field) ? own.filter((field) => field !== column.field) : [...own, column.field])} /><span class="ellipsis">{column.title}</span></label>
              ))}<div class="row"><button type="button" class="button quiet mini" onClick={() => setQuery({ axes: null })}>The most important</button><button type="button" class="button quiet mini" onClick={() => setAxes([...ranked].reverse().map((column) => column.field))}>All hyperparameters</button></div></div>}
            </Popover>
          </div>
          <Parallel columns={axes} target={target} ids={ids} names={names} brushes={brushes} inside={inside} base={base} settled={parsed} onOpen={open}
            onBrush={(next, done) => {
              setDragged(done ? null : next);
              if (done) setQuery({ brush: brushText(next) });
            }}
            onHide={(field) => setAxes(own.filter((other) => other !== field))}
            onMove={(field, by_) => {
              const at = own.indexOf(field);
              const next = own.filter((other) => other !== field);
              next.splice(Math.max(0, Math.min(next.length, at + by_)), 0, field);
              setAxes(next);
            }} />
          <div class="row wrap brush-summary small">
            <span role="status"><strong>{isBrushed ? `${chosen.length.toLocaleString("en-US")} of ${plural(ids.length, "run")}` : "All runs"}</strong>{summary.count > 0 && <span class="soft"> · mean {target.scale.text(summary.mean)}, standard deviation {target.scale.text(summary.deviation)}</span>}</span>
            {best >= 0 && <span class="soft">best <a class="link" href={link(["run", ids[best]!])}>{names[best]}</a> with {target.scale.text(target.values[best]!)}</span>}
            {!chosenAxes && ranked.length > MAX_AXES && <button type="button" class="button quiet mini" onClick={() => setAxes([...ranked].reverse().map((column) => column.field))}>{plural(ranked.length - MAX_AXES, "more axis", "more axes")}</button>}
            {data.keys_left_out > 0 && <span class="dim">{plural(data.keys_left_out, "further key")} not shown</span>}
            <span class="spread" />
            {!isBrushed && <span class="hint">Drag along an axis, or focus its name and press ↑ or ↓, to select runs</span>}
            {isBrushed && <button type="button" class="button mini" onClick={() => setQuery({ brush: null })}>Clear</button>}
            {isBrushed && selected.length > 1 && <button type="button" class="button mini" onClick={() => go(["analyze"], { ...Object.fromEntries(query), q: null, brush: null, runs: selected.join(",") })}>Only these</button>}
            {selected.length > 1 && selected.length <= MAX_COMPARED && <a class="button mini" href={link(["compare"], { runs: selected.join(",") })}><Icon name="compare" size={13} />Compare</a>}
          </div>
        </section>
        {isLoading && <p class="waiting analysis-rest">Loading…</p>}
        {!isLoading && <div class="analysis-pair">
          <section class="card block" aria-label="What mattered">
            <h2>What mattered for {target.title}</h2>
            {error ? <p class="notice bad" role="alert">{error.message}</p> : mattered ?? <p class="notice">These runs do not differ in any hyperparameter.</p>}
          </section>
          <ScatterPanel x={x} columns={columns} ranked={ranked} target={target} options={options} names={names} inside={inside} settled={settled} base={base} better={better} onOpen={open} />
        </div>}
        {!isLoading && columns.has("created") && <OrderPanel target={target} created={columns.get("created")!} color={ranked[0] ?? target} ids={ids} names={names} inside={inside} settled={settled} base={base} better={better} onOpen={open} />}
        {!isLoading && by && (
          <section class="card block" aria-label="Grouped results">
            {groupHead}
            {grouped}
          </section>
        )}
      </div>
    </div>
  );
}
