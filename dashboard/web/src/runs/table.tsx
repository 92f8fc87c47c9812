// The run table. Virtualized: only the rows in view are rendered.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { runColor, runStyles } from "../colors";
import { MAX_COMPARED } from "../compare/compare_page";
import { type RunRow, shownState } from "../data/source";
import { metricValue, moment, plain, plural, approximateDuration, toNumber } from "../format";
import { useKeys } from "../keys";
import { Icon } from "../parts/icons";
import { isPruned, PrunedTag, StateMark } from "../parts/state_mark";
import { go, link, route } from "../router";
import { shownTheme } from "../settings";
import { useNow } from "../store";
import type { Style } from "../chart/palette";
import { indexOfBest } from "../metrics";
import { ProgressBar, useProgress } from "../parts/progress_bar";
import { cellDelta, cellText, type Column, isMetric, isRequested, metricOf, type NumberFormat, numberFormats } from "./columns";
import { MAX_SELECTED, type Row, type Rows, type Section } from "./rows";

interface Props {
  rows: Rows;
  revision: number;
  columns: Column[];
  sort: string;
  selected: ReadonlySet<string>;
  onSort: (field: string) => void;
  onSelect: (ids: string[], on: boolean) => void;
  /** Number of runs that match the filter, including those that are not loaded. */
  matching: number;
  onSelectAll: (on: boolean) => void;
  onTag: (tag: string) => void;
  onToggle: (section: Section) => void;
  groupName: string;
  /** What the other runs are compared with. */
  baseline: RunRow | null;
  onBaseline: (id: string) => void;
}

/** Of a column with differences from the baseline, in rem: "−0.0634 · −6.07 %". */
const DELTA_WIDTH = 9.6;

const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

export function RunsTable(props: Props) {
  const { rows } = props;
  const planned = rows.loaded().filter((run) => run.planned);
  const isProgressing = planned.some((run) => run.state === "running");
  const stepWidth = planned.reduce((most, run) => Math.max(most, stepText(run).length * 0.5 + 1.9), isProgressing ? 11.5 : 0);
  const hasBaseline = props.baseline !== null;
  const columns = useMemo(() => props.columns.map((c) => {
    const least = c.field === "step" ? stepWidth : hasBaseline && c.numeric && (isRequested(c.field) || c.field === "duration") ? DELTA_WIDTH : 0;
    return least > c.width ? { ...c, width: least } : c;
  }), [props.columns, stepWidth, hasBaseline]);
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800, width: 1000, narrow: false });
  const [cursor, setCursor] = useState(-1);
  const lastPicked = useRef(-1);
  const now = useNow(5000);

  useLayoutEffect(() => {
    const el = box.current!;
    const update = () => setView({ top: el.scrollTop, height: el.clientHeight, width: el.clientWidth, narrow: el.clientWidth < 640 });
    update();
    const observer = new ResizeObserver(update);
    observer.observe(el);
    el.addEventListener("scroll", update, { passive: true });
    return () => {
      observer.disconnect();
      el.removeEventListener("scroll", update);
    };
  }, []);

  // Selected runs have the color that they will have in the comparison.
  const colors = useMemo(() => runStyles([...props.selected]), [props.selected, shownTheme.value]);
  const hasGroups = rows.sections.some((section) => section.group);
  const rowHeight = Math.round((view.narrow ? (hasGroups ? 5.4 : 4.4) : hasGroups || isProgressing || hasBaseline ? 3.1 : 2.6) * rem());
  const count = rows.length;
  const from = Math.max(0, Math.floor(view.top / rowHeight) - 6);
  const to = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + 6);
  // Names have tags next to them.
  const nameWidth = rows.loaded().some(({ tags }) => isPruned(tags)) ? 15 : 12;
  const template = view.narrow ? "2.4rem 1fr" : `2.4rem minmax(${nameWidth}rem, 1fr) ${columns.map((c) => `${c.width}rem`).join(" ")}`;
  const width = view.narrow ? "100%" : `max(100%, ${2.4 + nameWidth + columns.reduce((n, c) => n + c.width, 0)}rem)`;

  const moveTo = (index: number) => {
    const next = Math.max(0, Math.min(count - 1, index));
    setCursor(next);
    const el = box.current!;
    const head = Math.round(2.4 * rem());
    if (next * rowHeight < el.scrollTop) el.scrollTop = next * rowHeight;
    else if ((next + 1) * rowHeight + head > el.scrollTop + el.clientHeight) el.scrollTop = (next + 1) * rowHeight + head - el.clientHeight;
  };
  const toggle = (index: number, range: boolean) => {
    const row = rows.row(index);
    if (row?.kind !== "run" || !row.run) return;
    const on = !props.selected.has(row.run.id);
    const ids = [row.run.id];
    if (range && lastPicked.current >= 0) {
      for (let i = Math.min(index, lastPicked.current); i <= Math.max(index, lastPicked.current); i++) {
        const other = rows.row(i);
        if (other?.kind === "run" && other.run) ids.push(other.run.id);
      }
    }
    lastPicked.current = index;
    props.onSelect(ids, on);
  };
  const openRow = () => {
    const row = rows.row(cursor);
    if (row?.kind === "group") props.onToggle(row.section);
    else if (row?.run) go(["run", row.run.id]);
  };
  useKeys("Runs", [
    { keys: ["ArrowDown", "j"], description: "Next row", run: () => moveTo(cursor + 1) },
    { keys: ["ArrowUp", "k"], description: "Previous row", run: () => moveTo(cursor - 1) },
    { keys: ["Enter"], description: "Open the run", run: (event) => event.target instanceof HTMLElement && event.target.matches("a, button") ? event.target.click() : openRow() },
    { keys: ["b"], description: "Use the run as baseline", run: () => {
      const row = rows.row(cursor);
      if (row?.kind === "run" && row.run) props.onBaseline(row.run.id);
    } },
    { keys: ["x", " "], description: "Select the run", run: (event) => event.target instanceof HTMLElement && event.target.matches("a, button, input") ? event.target.click() : toggle(cursor, event.shiftKey) },
  ]);
  useEffect(() => {
    if (cursor >= count) setCursor(count - 1);
  }, [count]);

  const formats = useMemo(() => numberFormats(columns.map((c) => c.field), rows.loaded(), rows.sections.flatMap((section) => section.group ?? []), props.groupName), [props.revision, columns.map((c) => c.field).join("\n")]);
  const best = useMemo(() => bestGroups(rows.sections, columns), [props.revision, columns.map((c) => c.field).join("\n")]);
  const visible = [];
  for (let i = from; i < to; i++) {
    const row = rows.row(i);
    if (row) visible.push(<TableRow key={i} {...props} columns={columns} row={row} index={i} rowHeight={rowHeight} template={template} narrow={view.narrow} width={view.width} now={now} isCurrent={i === cursor} toggle={toggle} formats={formats} best={best} colors={colors} />);
  }
  return (
    <div class="runs-table card" ref={box} role="table" aria-label="Runs" aria-rowcount={count + 1} aria-colcount={columns.length + 2} tabIndex={0}>
      <div class="runs-inner" style={{ width }}>
        {!view.narrow && (
          <div class="runs-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
            <span role="columnheader" class="tick"><SelectAll {...props} /></span>
            <Head title="Run" field="name" {...props} />
            {columns.map((c) => <Head key={c.field} title={c.title} field={c.field} numeric={c.numeric} {...props} />)}
          </div>
        )}
        <div role="rowgroup" class="runs-body" style={{ height: `${count * rowHeight}px` }}>{visible}</div>
      </div>
    </div>
  );
}

function SelectAll({ rows, selected, matching, onSelectAll }: Props) {
  const loaded = rows.loaded();
  const some = loaded.some((run) => selected.has(run.id));
  const all = some && loaded.every((run) => selected.has(run.id)) && selected.size >= Math.min(matching, MAX_SELECTED);
  return <input type="checkbox" class="check" checked={all} indeterminate={some && !all} disabled={matching === 0} aria-label="Select all runs" title="Select all runs that match the filter" onChange={() => onSelectAll(!all)} />;
}

function Head({ title, field, numeric, sort, onSort }: { title: string; field: string; numeric?: boolean } & Pick<Props, "sort" | "onSort">) {
  const down = sort === `-${field}`;
  const on = down || sort === field;
  return (
    <span role="columnheader" class={numeric ? "num" : ""} aria-sort={on ? (down ? "descending" : "ascending") : "none"}>
      <button type="button" class={on ? "on" : ""} onClick={() => onSort(field)} title={`Sort by ${title}`}>
        <span class="ellipsis">{title}</span>
        {on && <Icon name={down ? "down" : "up"} size={12} />}
      </button>
    </span>
  );
}

interface RowProps extends Props { row: Row; index: number; rowHeight: number; template: string; narrow: boolean; now: number; isCurrent: boolean; width: number; toggle: (index: number, range: boolean) => void; formats: ReadonlyMap<string, NumberFormat>; best: ReadonlyMap<string, Section>; colors: ReadonlyMap<string, Style> }

function TableRow(props: RowProps) {
  const { row, index, rowHeight, template, isCurrent } = props;
  const style = { gridTemplateColumns: template, top: `${index * rowHeight}px`, height: `${rowHeight}px` };
  if (row.kind === "group") return <GroupRow {...props} section={row.section} style={style} />;
  const { run } = row;
  if (!run) return <div role="row" aria-rowindex={index + 2} class="runs-row blank" style={style}><span role="cell" /><span role="cell"><span class="ghost" /></span></div>;
  const picked = props.selected.has(run.id);
  return (
    <div role="row" aria-rowindex={index + 2} aria-selected={picked} class={`runs-row ${picked ? "picked" : ""} ${isCurrent ? "at" : ""}`} style={style} onClick={(event) => {
      if (!(event.target as HTMLElement).closest("a, button, input")) go(["run", run.id]);
    }}>
      <span role="cell" class="tick">
        <input type="checkbox" class="check" checked={picked} aria-label={`Select ${run.name}`} onClick={(event) => {
          event.preventDefault();
          props.toggle(index, event.shiftKey);
        }} />
      </span>
      {props.narrow ? <NarrowCell run={run} {...props} /> : (
        <>
          <span role="cell" class="name">
            <i class="dot" style={{ background: props.colors.get(run.id)?.color ?? runColor(run.id) }} />
            <a href={link(["run", run.id])} class="ellipsis" title={run.id}>{run.name}</a>
            {props.baseline?.id === run.id && <span class="tag">baseline</span>}
            <PrunedTag tags={run.tags} />
            {run.num_alerts > 0 && <span class="alerted" title={plural(run.num_alerts, "alert")}><Icon name="bell" size={13} /><span class="sr">{plural(run.num_alerts, "alert")}</span></span>}
            {run.note && <span class="noted" title={run.note}><Icon name="note" size={13} /><span class="sr">has a note</span></span>}
          </span>
          {props.columns.map((c) => <Cell key={c.field} run={run} column={c} baseline={props.baseline} now={props.now} onTag={props.onTag} formats={props.formats} />)}
        </>
      )}
    </div>
  );
}

function mark(run: RunRow) {
  return <StateMark state={shownState(run)} exit={run.exit} signal={run.signal} title={run.problems[0] ?? (run.reason || undefined)} />;
}

function Cell({ run, column, baseline, now, onTag, formats }: { run: RunRow; column: Column; baseline: RunRow | null; now: number; onTag: (tag: string) => void; formats: ReadonlyMap<string, NumberFormat> }) {
  if (column.field === "state") return <span role="cell" class="statecell">{mark(run)}</span>;
  if (column.field === "tag") {
    return (
      <span role="cell" class="tags">
        {run.tags.map((tag) => <button type="button" key={tag} class="tag" title={`Filter by tag ${tag}`} onClick={() => onTag(tag)} style={{ border: 0, cursor: "pointer" }}><span class="ellipsis">{tag}</span></button>)}
      </span>
    );
  }
  if (column.field === "step" && run.planned) return <StepCell run={run} now={now} />;
  const { text, tip } = cellText(run, column.field, now, formats);
  const delta = baseline && baseline.id !== run.id ? cellDelta(run, baseline, column.field) : null;
  if (delta) return (
    <span role="cell" class="num deltacell" title={`${tip ?? text}; baseline ${cellText(baseline!, column.field, now).text}`}>
      <span class="ellipsis">{text}</span>
      <span class={`tiny ellipsis delta ${delta.tone}`}>{delta.absolute}{delta.percent && <> · {delta.percent}</>}</span>
    </span>
  );
  return <span role="cell" class={`${column.numeric ? "num" : ""} ellipsis`} title={tip}>{text || <span class="nothing">–</span>}</span>;
}

const stepText = ({ step, planned }: RunRow) => [step ?? 0, ...(planned?.steps ? [planned.steps] : [])].map((n) => n.toLocaleString("en-US")).join(" / ");

/** The step out of the planned steps; for a running run, with a progress bar and the remaining time. */
function StepCell({ run, now }: { run: RunRow; now: number }) {
  const estimate = useProgress(run, now);
  const [step, steps] = stepText(run).split(" / ");
  const epochs = run.epoch === null ? NaN : toNumber(run.epoch);
  const epoch = Number.isFinite(epochs) ? `epoch ${epochs.toFixed(epochs < 100 ? 1 : 0)}${run.planned?.epochs ? ` of ${run.planned.epochs}` : ""}` : "";
  const tip = [`step ${step}${steps ? ` of ${steps}` : ""}`, epoch, estimate.remaining === null ? "" : `about ${approximateDuration(estimate.remaining)} left`].filter(Boolean).join(", ");
  return (
    <span role="cell" class="num stepcell" title={tip}>
      <span class="ellipsis">{step}{steps && <span class="dim"> / {steps}</span>}</span>
      {run.state === "running" && estimate.progress && <><ProgressBar progress={estimate.progress} label={run.name} /><span class="tiny dim ellipsis">{[estimate.remaining === null ? "" : `${approximateDuration(estimate.remaining)} left`, epoch.replace(" of ", "/")].filter(Boolean).join(" · ")}</span></>}
    </span>
  );
}

function NarrowCell({ run, columns, now, formats, colors }: RowProps & { run: RunRow }) {
  const { progress, remaining } = useProgress(run, now);
  const metrics = columns.filter((c) => isMetric(c.field)).map((c) => ({ c, ...cellText(run, c.field, now, formats) })).filter((c) => c.text).slice(0, 2);
  return (
    <span role="cell" class="narrow">
      <span class="row"><i class="dot" style={{ background: colors.get(run.id)?.color ?? runColor(run.id) }} /><a href={link(["run", run.id])} class="ellipsis">{run.name}</a><span class="spread" />{mark(run)}</span>
      <span class="row small soft"><span class="when" title={moment(run.created)}>{remaining !== null ? `${approximateDuration(remaining)} left` : cellText(run, "created", now).text}</span><span class="spread" />{metrics.map(({ c, text }) => <span key={c.field} class="ellipsis"><span class="dim">{c.title.split("/").pop()}</span> {text}</span>)}</span>
      {run.state === "running" && progress && <ProgressBar progress={progress} label={run.name} />}
    </span>
  );
}

/** A comparison if the group is small enough, otherwise a band over all of its runs. */
function groupLink({ group, filter }: Section, name: string): string {
  const title = group!.value === null ? "" : name;
  return group!.runs <= MAX_COMPARED ? link(["compare"], { runs: group!.ids.join(","), view: "group", title }) : link(["group"], { q: filter, title, archived: route.value.query.get("archived") });
}

const STATES = ["running", "finished", "failed", "killed", "preempted", "lost"] as const;

/** For each metric, the group with the best mean. */
function bestGroups(sections: readonly Section[], columns: readonly Column[]): Map<string, Section> {
  const best = new Map<string, Section>();
  for (const { field } of columns) {
    if (!isMetric(field)) continue;
    const at = indexOfBest(metricOf(field), sections.map((section) => toNumber(section.group?.values?.[field]?.mean)));
    if (at >= 0) best.set(field, sections[at]!);
  }
  return best;
}

/** The mean of a group, with the minimum and maximum below it. */
function GroupCell({ section, column, formats, best }: { section: Section; column: Column; formats: ReadonlyMap<string, NumberFormat>; best: boolean }) {
  const { field } = column;
  const spread = section.group!.values?.[field];
  if (!spread || !(isMetric(field) || field.startsWith("config."))) return <span role="cell" />;
  const text = (value: unknown) => formats.get(field)?.(toNumber(value)) ?? metricValue(metricOf(field), toNumber(value));
  const [low, high] = [toNumber(spread.min), toNumber(spread.max)];
  if (!isMetric(field)) return <span role="cell" class="num soft ellipsis">{low === high ? text(low) : `${text(low)} – ${text(high)}`}</span>;
  const tip = `mean ${toNumber(spread.mean)}, min ${low}, max ${high} of ${plural(spread.count, "run")}`;
  return (
    <span role="cell" class={`num groupcell ${best ? "best" : ""}`} title={tip}>
      <span class="ellipsis"><span class="sr">mean </span>{text(spread.mean)}{best && <span class="sr"> best</span>}</span>
      {spread.count > 1 && <span class="tiny dim ellipsis">{text(low)} – {text(high)}</span>}
    </span>
  );
}

function GroupRow({ section, style, onToggle, groupName, index, width, narrow, columns, formats, best }: RowProps & { section: Section; style: Record<string, string> }) {
  const group = section.group!;
  const name = group.value === null || group.value === undefined ? `No ${groupName}` : typeof group.value === "number" ? formats.get(groupName)?.(group.value) ?? plain(group.value) : plain(group.value);
  const open = <button type="button" class="button quiet mini icon" aria-expanded={section.open} aria-label={`${section.open ? "Collapse" : "Expand"} ${name}`} onClick={() => onToggle(section)}><Icon name={section.open ? "down" : "right"} size={14} /></button>;
  const states = STATES.filter((s) => group.states[s]).map((s) => <span key={s} class="row" style={{ gap: "4px" }}><StateMark state={s} /><span class="dim">{group.states[s]}</span></span>);
  const charts = group.runs > 1 && <a class="button mini" href={groupLink(section, name)} title={`Charts of the ${plural(group.runs, "run")}`}><Icon name="chart" size={13} />Group charts</a>;
  if (narrow) {
    const metrics = columns.filter((c) => isMetric(c.field) && group.values?.[c.field]).slice(0, 2);
    return (
      <div role="row" aria-rowindex={index + 2} class="runs-row grouped" style={{ ...style, gridTemplateColumns: "2.4rem 1fr" }}>
        <span role="cell" class="tick">{open}</span>
        <span role="cell" class="narrow">
          <span class="row"><strong class="ellipsis">{name}</strong><span class="dim small">{plural(group.runs, "run")}</span><span class="spread" />{charts}</span>
          <span class="row small soft">{metrics.map((c) => <span key={c.field} class={`ellipsis ${best.get(c.field) === section ? "best" : ""}`}><span class="dim">{c.title.split("/").pop()}</span> {formats.get(c.field)?.(toNumber(group.values![c.field]!.mean)) ?? metricValue(metricOf(c.field), toNumber(group.values![c.field]!.mean))}</span>)}</span>
        </span>
      </div>
    );
  }
  // The name spans the columns up to the first one with a mean.
  const first = columns.findIndex((c) => group.values?.[c.field] !== undefined || isMetric(c.field) || c.field.startsWith("config."));
  const headSpan = first < 0 ? columns.length : first;
  return (
    <div role="row" aria-rowindex={index + 2} class="runs-row grouped" style={style}>
      <span role="cell" class="tick">{open}</span>
      <span role="cell" class="row grouphead" aria-colspan={headSpan + 1} style={{ gridColumn: `2 / span ${headSpan + 1}`, maxWidth: `${width}px` }}>
        <strong class="ellipsis" title={name}>{name}</strong>
        <span class="dim small">{plural(group.runs, "run")}</span>
        <span class="row small">{states}</span>
        <span class="spread" />
        {charts}
      </span>
      {columns.slice(headSpan).map((c) => <GroupCell key={c.field} section={section} column={c} formats={formats} best={best.get(c.field) === section} />)}
    </div>
  );
}
