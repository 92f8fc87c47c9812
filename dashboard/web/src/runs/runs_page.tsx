// The run list: filtering, sorting, grouping, columns and selection.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Baseline, baselineId, BaselineTag, setBaseline, useBaseline, useBaselineInUrl } from "../baseline";
import { changeTags, editRuns } from "../run_actions";
import { both, quoted } from "../data/filter";
import { type Field, ApiError, type RunRow } from "../data/source";
import { plural } from "../format";
import { useKeys } from "../keys";
import { Icon } from "../parts/icons";
import { Popover, toast } from "../parts/overlay";
import { go, link, route, setQuery } from "../router";
import { tableColumns } from "../settings";
import { indexing, server, source, tick, invalidate, useAsync, useDebounced, useThrottled } from "../store";
import { ARCHIVED, shownFilter, withoutArchived } from "./archived";
import { ColumnPicker } from "./column_picker";
import { column, defaultColumns, firstOrder, isRequested, RUN_FIELDS } from "./columns";
import { FilterField } from "./filter_field";
import { groupFilter, MAX_SELECTED, Rows, type Section } from "./rows";
import { RunsTable } from "./table";

export function RunsPage() {
  const { query } = route.value;
  const filter = query.get("q") ?? "";
  const sort = query.get("sort") ?? "-created";
  const by = query.get("by") ?? "";
  const chosen = query.get("sel");
  const selected = useMemo(() => new Set((chosen ?? "").split(",").filter(Boolean)), [chosen]);
  const archived = useArchived(useDebounced(filter, 40));
  const fields = useAsync<Field[]>(() => source().fields(), [useThrottled(tick.value, 20000), indexing.value.done === indexing.value.total]);
  const inUrl = query.get("cols");
  // Differing keys depend on the listed runs; while the filter is invalid, on those listed before.
  const fieldFilter = useDebounced(archived.count > 0 ? archived.filter : filter, 400);
  const isDefault = inUrl === null && tableColumns.value === null;
  const matchingFields = useAsync<Field[] | null>(() => (isDefault && fieldFilter ? source().fields(fieldFilter) : Promise.resolve(null)), [fields.value, fieldFilter, isDefault]);
  const known = (fieldFilter ? matchingFields.value : null) ?? fields.value;
  const defaultNames = known ? defaultColumns(known).join(",") : "";
  const names = useMemo(
    () => (inUrl ? inUrl.split(",") : tableColumns.value) ?? (defaultNames ? defaultNames.split(",") : null),
    [inUrl, tableColumns.value, defaultNames],
  );
  useEffect(() => void (document.title = "Runs · Lockstep"), []);
  // The stored columns are also in the URL, so that a link shows them to others.
  useEffect(() => {
    if (!inUrl && tableColumns.value) setQuery({ cols: tableColumns.value.join(",") });
  }, [inUrl, tableColumns.value]);
  const state = useRows(archived.filter, sort, by, names);
  const { rows, revision, error, counts } = state;
  useBaselineInUrl();
  const baseline = useBaseline();
  const baselineRow = useBaselineRow(baseline, names);
  const isBadFilter = error instanceof ApiError && error.code === "bad_filter";

  const select = (ids: string[], on: boolean) => {
    const next = new Set(selected);
    for (const id of ids) on ? next.add(id) : next.delete(id);
    setQuery({ sel: [...next].join(",") });
  };
  const selectAll = async (on: boolean) => {
    const { runs, matching } = await source().runs({ filter: archived.filter, sort, offset: 0, limit: MAX_SELECTED, columns: [] });
    select(runs.map((run) => run.id), on);
    if (on && matching > runs.length) toast(`Selected the first ${runs.length.toLocaleString("en-US")} of ${plural(matching, "run")}`);
  };
  const compare = () => go(["compare"], { runs: [...selected].join(",") });
  const field = useRef<HTMLInputElement>(null);
  useKeys("Runs", [
    { keys: ["/"], description: "Focus the filter", run: () => field.current?.focus() },
    { keys: ["c"], description: "Compare the selected runs", run: () => selected.size > 1 && compare() },
    { keys: ["Escape"], description: "Clear the selection", run: () => setQuery({ sel: null }) },
  ]);
  const sortBy = (name: string) => {
    const first = firstOrder(column(name, known ?? []));
    setQuery({ sort: sort !== first ? first : first === name ? `-${name}` : name });
  };
  const columns = (names ?? []).map((name) => column(name, known ?? []));

  if (counts && counts.total === 0 && indexing.value.done >= indexing.value.total) return <NoRuns />;
  return (
    <div class="page runs-page">
      <div class="tools">
        <h1>Runs</h1>
        <span class="dim count" role="status">{counts && (counts.matching === counts.total ? plural(counts.total, "run") : `${counts.matching.toLocaleString("en-US")} of ${plural(counts.total, "run")}`)}</span>
        {archived.count > 0 && <button type="button" class="button quiet mini" aria-pressed={archived.isShown} onClick={() => setQuery({ archived: archived.isShown ? null : "1" })}>{archived.isShown ? "Hide" : "Show"} {archived.count.toLocaleString("en-US")} archived</button>}
        <FilterField field={field} value={filter} fields={fields.value ?? []} error={error instanceof ApiError ? error : undefined} onChange={(q) => setQuery({ q })} />
        <BaselineTag baseline={baseline} />
        {source().live && counts && counts.matching > 1 && <a class="button" href={link(["analyze"], { q: filter, archived: query.get("archived") })} title="What mattered in these runs"><Icon name="chart" /><span class="wide-only">Analyze</span></a>}
        <GroupSelect by={by} fields={fields.value ?? []} />
        <Popover name="Columns" align="right" label={<><Icon name="columns" /><span class="wide-only">Columns</span></>}>
          {() => <ColumnPicker fields={fields.value ?? []} chosen={names ?? []} onChange={(next) => {
            tableColumns.value = next;
            setQuery({ cols: next?.join(",") ?? null });
          }} />}
        </Popover>
      </div>
      {error && !isBadFilter && <div class="notice bad" role="alert"><Icon name="warn" />{error.message}</div>}
      {names && (rows.length > 0 || !counts ? (
        <RunsTable rows={rows} revision={revision} columns={columns} sort={sort} selected={selected} baseline={baselineRow} groupName={by} onSort={sortBy} onSelect={select}
          matching={counts?.matching ?? 0} onSelectAll={(on) => void selectAll(on).catch((reason: Error) => toast(reason.message, true))}
          onBaseline={toggleBaseline} onTag={(tag) => setQuery({ q: both(filter, `tag = ${quoted(tag)}`) })} onToggle={(section) => {
            section.open = !section.open;
            state.changed();
          }} />
      ) : (
        <NoMatch filter={filter} total={counts.total} isBadFilter={isBadFilter} archived={archived.isShown ? 0 : archived.count} />
      ))}
      {selected.size > 0 && (
        <div class="selection card" role="region" aria-label="Selected runs">
          <strong>{selected.size}</strong> selected
          <span class="spread" />
          <button class="button quiet" type="button" onClick={() => setQuery({ sel: null })}>Clear</button>
          {server.value?.actions && <ArchiveButton ids={[...selected]} rows={rows.loaded()} done={() => setQuery({ sel: null })} />}
          {server.value?.actions && <button class="button" type="button" onClick={() => editRuns([...selected], () => { setQuery({ sel: null }); invalidate(); })}>Tag or delete</button>}
          {selected.size === 1 && <button class="button" type="button" onClick={() => toggleBaseline([...selected][0]!)}>{selected.has(baseline.id) ? "Remove as baseline" : "Use as baseline"}</button>}
          {source().live && selected.size > 2 && <a class="button" href={link(["analyze"], { runs: [...selected].join(",") })}><Icon name="chart" />Analyze</a>}
          <a class="button primary" href={selected.size > 1 ? link(["compare"], { runs: [...selected].join(",") }) : link(["run", [...selected][0]!])}><Icon name="compare" />{selected.size > 1 ? "Compare" : "Open"}</a>
        </div>
      )}
    </div>
  );
}

/** The filter of the table, and how many archived runs match it; 0 if the filter names them. */
function useArchived(filter: string): { filter: string; count: number; isShown: boolean } {
  const { query } = route.value;
  const isOpen = withoutArchived(filter) !== filter;
  const { value, error } = useAsync(async () => (isOpen ? (await source().runs({ filter: both(filter, `tag = ${ARCHIVED}`), sort: "-created", offset: 0, limit: 1, columns: [] })).matching : 0), [filter, useThrottled(tick.value, 1000)]);
  return { filter: shownFilter(filter, query), count: error || !isOpen ? 0 : value ?? 0, isShown: query.get("archived") === "1" };
}

interface NoMatchProps { filter: string; total: number; isBadFilter: boolean; archived: number }

/** In place of a table without runs. `archived`: how many runs match but are not shown. */
function NoMatch({ filter, total, isBadFilter, archived }: NoMatchProps) {
  return (
    <div class="empty card">
      <h2>{isBadFilter ? "Invalid filter" : archived > 0 ? "Only archived runs" : "No matching runs"}</h2>
      <p>{isBadFilter ? <code>{filter}</code> : archived === 0 ? <>None of {plural(total, "run")} matches <code>{filter}</code>.</>
        : archived === 1 ? <>The only run{filter && <> that matches <code>{filter}</code></>} is archived.</> : <>All {plural(archived, "run")}{filter && <> that match <code>{filter}</code></>} are archived.</>}</p>
      <span class="row">
        {archived > 0 && filter && <button class="button" type="button" onClick={() => setQuery({ archived: "1" })}>Show archived runs</button>}
        <button class="button" type="button" onClick={() => setQuery({ q: null, archived: "1" })}>Show all runs</button>
      </span>
    </div>
  );
}

/** Archives the runs or, if all of them are archived, restores them. */
function ArchiveButton({ ids, rows, done }: { ids: string[]; rows: RunRow[]; done: () => void }) {
  const known = new Map(rows.map((run) => [run.id, run]));
  const isRestoring = ids.every((id) => known.get(id)?.tags.includes(ARCHIVED));
  const change = () => changeTags(ids, isRestoring ? { remove: [ARCHIVED] } : { add: [ARCHIVED] }, (count) => `${plural(count, "run")} ${isRestoring ? "restored" : "archived"}`).then(done, (error: Error) => toast(error.message, true));
  return <button class="button" type="button" onClick={() => void change()}>{isRestoring ? "Restore" : "Archive"}</button>;
}

const toggleBaseline = (id: string) => setBaseline(baselineId() === id ? "" : id);

/** The baseline with the values of the columns. */
function useBaselineRow({ id, run }: Baseline, columns: string[] | null): RunRow | null {
  const { value } = useAsync<RunRow | null>(async () => {
    if (!run || !columns) return null;
    const { runs } = await source().runs({ filter: `id = ${quoted(run.id)}`, sort: "-created", offset: 0, limit: 1, columns: columns.filter(isRequested) });
    return runs[0] ?? null;
  }, [run, columns?.join("\n")]);
  return value?.id === id ? value : null;
}

/** Loads the rows of the table, and reloads them when runs change. */
function useRows(filter: string, sort: string, by: string, columns: string[] | null) {
  const [rows] = useState(() => new Rows());
  const [revision, setRevision] = useState(0);
  const [error, setError] = useState<Error>();
  const [counts, setCounts] = useState<{ total: number; matching: number }>();
  const changed = () => setRevision((n) => n + 1);
  const now = useThrottled(tick.value, 1000);
  const indexed = useThrottled(indexing.value.done, 1000);
  const latest = useRef(0);
  const shown = useRef(0);
  useEffect(() => {
    if (!columns) return;
    const request = ++latest.current;
    rows.onChange = changed;
    rows.onError = setError;
    const list = source().runs({ filter, sort, offset: 0, limit: 1, columns: [] });
    const groups = by ? source().groups(by, filter, columns.filter(isRequested)) : Promise.resolve(null);
    Promise.all([list, groups]).then(([response, found]) => {
      if (request <= shown.current) return;
      shown.current = request;
      setError(undefined);
      setCounts({ total: response.total, matching: response.matching });
      found?.sort((a, b) => Number(a.value === null) - Number(b.value === null)); // runs without a value come last
      const open = new Map(rows.sections.map((s) => [JSON.stringify(s.group?.value), s.open]));
      const sections: Section[] = found
        ? found.map((group) => ({ group, filter: groupFilter(filter, by, group.value), count: group.runs, open: open.get(JSON.stringify(group.value)) ?? found.length <= 3 }))
        : [{ group: null, filter, count: response.matching, open: true }];
      rows.reset(sections, sort, columns);
    }, (reason: Error) => request > shown.current && setError(reason));
  }, [filter, sort, by, columns?.join("\n"), now, indexed]);
  return { rows, revision, error, counts, changed };
}

function GroupSelect({ by, fields }: { by: string; fields: Field[] }) {
  const names = ["group", "tag", "state", "host", "job_type", ...fields.map((f) => f.field).filter((f) => f.startsWith("config."))];
  return (
    <label class="groupby">
      <Icon name="group" />
      <span class="sr">Group by</span>
      <select class="field" value={by} onChange={(event) => setQuery({ by: event.currentTarget.value })}>
        <option value="">No grouping</option>
        {names.filter((f) => RUN_FIELDS.includes(f) || f.startsWith("config.")).map((f) => <option key={f} value={f}>{f.replace(/^config\./, "")}</option>)}
      </select>
    </label>
  );
}

function NoRuns() {
  return (
    <div class="empty">
      <h1>No runs yet</h1>
      <p>There are no runs in <code>{server.value?.dir}</code>. Start one to see it here while it trains:</p>
      <pre>lockstep launch -n 2 configs/mnist.yaml</pre>
      <p class="small dim">To show runs in another directory: <code>lockstep ui --dir PATH</code></p>
    </div>
  );
}
