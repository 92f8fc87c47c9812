// The table of runs: only the rows in view exist.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { runColor, runStyles } from "../colors";
import { MOST_COMPARED } from "../compare/compare_page";
import { type RunRow, shownState } from "../data/source";
import { metricValue, moment, plain, plural, roughly, toNumber } from "../format";
import { useKeys } from "../keys";
import { Icon } from "../parts/icons";
import { StateMark } from "../parts/state_mark";
import { go, link } from "../router";
import { shownTheme } from "../settings";
import { useNow } from "../store";
import type { Style } from "../chart/palette";
import { bestOf } from "../metrics";
import { ProgressBar, useProgress } from "../parts/progress_bar";
import { cellText, type Column, isMetric, metricOf, type NumberFormat, numberFormats } from "./columns";
import { MOST_SELECTED, type Row, type Rows, type Section } from "./rows";

interface Props {
  rows: Rows;
  revision: number;
  columns: Column[];
  sort: string;
  selected: ReadonlySet<string>;
  onSort: (field: string) => void;
  onSelect: (ids: string[], on: boolean) => void;
  /** Runs that fit the filter, of which not all have been fetched. */
  matching: number;
  onSelectAll: (on: boolean) => void;
  onTag: (tag: string) => void;
  onToggle: (section: Section) => void;
  groupName: string;
}

const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

export function RunsTable(props: Props) {
  const { rows } = props;
  const planned = rows.known().filter((run) => run.planned);
  const isProgressing = planned.some((run) => run.state === "running");
  const stepWidth = planned.reduce((most, run) => Math.max(most, stepText(run).length * 0.5 + 1.9), isProgressing ? 11.5 : 0);
  const columns = useMemo(() => props.columns.map((c) => (c.field === "step" ? { ...c, width: Math.max(c.width, stepWidth) } : c)), [props.columns, stepWidth]);
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800, width: 1000, narrow: false });
  const [cursor, setCursor] = useState(-1);
  const lastPicked = useRef(-1);
  const now = useNow(5000);

  useLayoutEffect(() => {
    const el = box.current!;
    const look = () => setView({ top: el.scrollTop, height: el.clientHeight, width: el.clientWidth, narrow: el.clientWidth < 640 });
    look();
    const observer = new ResizeObserver(look);
    observer.observe(el);
    el.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      el.removeEventListener("scroll", look);
    };
  }, []);

  // What is selected has the color that it is going to have in the comparison.
  const colors = useMemo(() => runStyles([...props.selected]), [props.selected, shownTheme.value]);
  const hasGroups = rows.sections.some((section) => section.group);
  const high = Math.round((view.narrow ? (hasGroups ? 5.4 : 4.4) : hasGroups || isProgressing ? 3.1 : 2.6) * rem());
  const count = rows.length;
  const from = Math.max(0, Math.floor(view.top / high) - 6);
  const to = Math.min(count, Math.ceil((view.top + view.height) / high) + 6);
  const template = view.narrow ? "2.4rem 1fr" : `2.4rem minmax(12rem, 1fr) ${columns.map((c) => `${c.width}rem`).join(" ")}`;
  const width = view.narrow ? "100%" : `max(100%, ${2.4 + 12 + columns.reduce((n, c) => n + c.width, 0)}rem)`;

  const moveTo = (index: number) => {
    const next = Math.max(0, Math.min(count - 1, index));
    setCursor(next);
    const el = box.current!;
    const head = Math.round(2.4 * rem());
    if (next * high < el.scrollTop) el.scrollTop = next * high;
    else if ((next + 1) * high + head > el.scrollTop + el.clientHeight) el.scrollTop = (next + 1) * high + head - el.clientHeight;
  };
  const pick = (index: number, range: boolean) => {
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
    { keys: ["ArrowDown", "j"], does: "next row", run: () => moveTo(cursor + 1) },
    { keys: ["ArrowUp", "k"], does: "previous row", run: () => moveTo(cursor - 1) },
    { keys: ["Enter"], does: "open", run: (event) => event.target instanceof HTMLElement && event.target.matches("a, button") ? event.target.click() : openRow() },
    { keys: ["x", " "], does: "select for comparison", run: (event) => event.target instanceof HTMLElement && event.target.matches("a, button, input") ? event.target.click() : pick(cursor, event.shiftKey) },
  ]);
  useEffect(() => {
    if (cursor >= count) setCursor(count - 1);
  }, [count]);

  const formats = useMemo(() => numberFormats(columns.map((c) => c.field), rows.known(), rows.sections.flatMap((section) => section.group ?? []), props.groupName), [props.revision, columns.map((c) => c.field).join("\n")]);
  const best = useMemo(() => bestGroups(rows.sections, columns), [props.revision, columns.map((c) => c.field).join("\n")]);
  const visible = [];
  for (let i = from; i < to; i++) {
    const row = rows.row(i);
    if (row) visible.push(<TableRow key={i} {...props} columns={columns} row={row} index={i} high={high} template={template} narrow={view.narrow} width={view.width} now={now} at={i === cursor} pick={pick} formats={formats} best={best} colors={colors} />);
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
        <div role="rowgroup" class="runs-body" style={{ height: `${count * high}px` }}>{visible}</div>
      </div>
    </div>
  );
}

function SelectAll({ rows, selected, matching, onSelectAll }: Props) {
  const known = rows.known();
  const some = known.some((run) => selected.has(run.id));
  const all = some && known.every((run) => selected.has(run.id)) && selected.size >= Math.min(matching, MOST_SELECTED);
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

interface RowProps extends Props { row: Row; index: number; high: number; template: string; narrow: boolean; now: number; at: boolean; width: number; pick: (index: number, range: boolean) => void; formats: ReadonlyMap<string, NumberFormat>; best: ReadonlyMap<string, Section>; colors: ReadonlyMap<string, Style> }

function TableRow(props: RowProps) {
  const { row, index, high, template, at } = props;
  const style = { gridTemplateColumns: template, top: `${index * high}px`, height: `${high}px` };
  if (row.kind === "group") return <GroupRow {...props} section={row.section} style={style} />;
  const { run } = row;
  if (!run) return <div role="row" aria-rowindex={index + 2} class="runs-row blank" style={style}><span role="cell" /><span role="cell"><span class="ghost" /></span></div>;
  const picked = props.selected.has(run.id);
  return (
    <div role="row" aria-rowindex={index + 2} aria-selected={picked} class={`runs-row ${picked ? "picked" : ""} ${at ? "at" : ""}`} style={style} onClick={(event) => {
      if (!(event.target as HTMLElement).closest("a, button, input")) go(["run", run.id]);
    }}>
      <span role="cell" class="tick">
        <input type="checkbox" class="check" checked={picked} aria-label={`Select ${run.name}`} onClick={(event) => {
          event.preventDefault();
          props.pick(index, event.shiftKey);
        }} />
      </span>
      {props.narrow ? <NarrowCell run={run} {...props} /> : (
        <>
          <span role="cell" class="name">
            <i class="dot" style={{ background: props.colors.get(run.id)?.color ?? runColor(run.id) }} />
            <a href={link(["run", run.id])} class="ellipsis" title={run.id}>{run.name}</a>
            {run.num_alerts > 0 && <span class="alerted" title={plural(run.num_alerts, "alert")}><Icon name="bell" size={13} /><span class="sr">{plural(run.num_alerts, "alert")}</span></span>}
            {run.note && <span class="noted" title={run.note}><Icon name="note" size={13} /><span class="sr">has a note</span></span>}
          </span>
          {props.columns.map((c) => <Cell key={c.field} run={run} column={c} now={props.now} onTag={props.onTag} formats={props.formats} />)}
        </>
      )}
    </div>
  );
}

function mark(run: RunRow) {
  return <StateMark state={shownState(run)} exit={run.exit} signal={run.signal} title={run.problems[0] ?? (run.reason || undefined)} />;
}

function Cell({ run, column, now, onTag, formats }: { run: RunRow; column: Column; now: number; onTag: (tag: string) => void; formats: ReadonlyMap<string, NumberFormat> }) {
  if (column.field === "state") return <span role="cell" class="statecell">{mark(run)}</span>;
  if (column.field === "tag") {
    return (
      <span role="cell" class="tags">
        {run.tags.map((tag) => <button type="button" key={tag} class="tag" title={`Only runs with ${tag}`} onClick={() => onTag(tag)} style={{ border: 0, cursor: "pointer" }}><span class="ellipsis">{tag}</span></button>)}
      </span>
    );
  }
  if (column.field === "step" && run.planned) return <StepCell run={run} now={now} />;
  const { text, tip } = cellText(run, column.field, now, formats);
  return <span role="cell" class={`${column.numeric ? "num" : ""} ellipsis`} title={tip}>{text || <span class="nothing">–</span>}</span>;
}

const stepText = ({ step, planned }: RunRow) => [step ?? 0, ...(planned?.steps ? [planned.steps] : [])].map((n) => n.toLocaleString("en-US")).join(" / ");

/** How far a run is of what it was to do; of one that goes on, with a bar and the time that is left. */
function StepCell({ run, now }: { run: RunRow; now: number }) {
  const told = useProgress(run, now);
  const [step, steps] = stepText(run).split(" / ");
  const epochs = run.epoch === null ? NaN : toNumber(run.epoch);
  const epoch = Number.isFinite(epochs) ? `epoch ${epochs.toFixed(epochs < 100 ? 1 : 0)}${run.planned?.epochs ? ` of ${run.planned.epochs}` : ""}` : "";
  const tip = [`step ${step}${steps ? ` of ${steps}` : ""}`, epoch, told.left === null ? "" : `about ${roughly(told.left)} left`].filter(Boolean).join(", ");
  return (
    <span role="cell" class="num stepcell" title={tip}>
      <span class="ellipsis">{step}{steps && <span class="dim"> / {steps}</span>}</span>
      {run.state === "running" && told.progress && <><ProgressBar progress={told.progress} label={run.name} /><span class="tiny dim ellipsis">{[told.left === null ? "" : `${roughly(told.left)} left`, epoch.replace("epoch", "ep").replace(" of ", "/")].filter(Boolean).join(" · ")}</span></>}
    </span>
  );
}

function NarrowCell({ run, columns, now, formats, colors }: RowProps & { run: RunRow }) {
  const { progress, left } = useProgress(run, now);
  const told = columns.filter((c) => isMetric(c.field)).map((c) => ({ c, ...cellText(run, c.field, now, formats) })).filter((c) => c.text).slice(0, 2);
  return (
    <span role="cell" class="narrow">
      <span class="row"><i class="dot" style={{ background: colors.get(run.id)?.color ?? runColor(run.id) }} /><a href={link(["run", run.id])} class="ellipsis">{run.name}</a><span class="spread" />{mark(run)}</span>
      <span class="row small soft"><span class="when" title={moment(run.created)}>{left !== null ? `${roughly(left)} left` : cellText(run, "created", now).text}</span><span class="spread" />{told.map(({ c, text }) => <span key={c.field} class="ellipsis"><span class="dim">{c.title.split("/").pop()}</span> {text}</span>)}</span>
      {run.state === "running" && progress && <ProgressBar progress={progress} label={run.name} />}
    </span>
  );
}

/** Those that can be told apart are compared; more are one band. */
function groupLink({ group, filter }: Section, name: string): string {
  const title = group!.value === null ? "" : name;
  return group!.runs <= MOST_COMPARED ? link(["compare"], { runs: group!.ids.join(","), view: "group", title }) : link(["group"], { q: filter, title });
}

const STATES = ["running", "finished", "failed", "killed", "preempted", "lost"] as const;

/** Of each metric the group whose mean is the best. */
function bestGroups(sections: readonly Section[], columns: readonly Column[]): Map<string, Section> {
  const best = new Map<string, Section>();
  for (const { field } of columns) {
    if (!isMetric(field)) continue;
    const at = bestOf(metricOf(field), sections.map((section) => toNumber(section.group?.values?.[field]?.mean)));
    if (at >= 0) best.set(field, sections[at]!);
  }
  return best;
}

/** The mean of a group under its column, with the smallest and the largest below it. */
function GroupCell({ section, column, formats, best }: { section: Section; column: Column; formats: ReadonlyMap<string, NumberFormat>; best: boolean }) {
  const { field } = column;
  const spread = section.group!.values?.[field];
  if (!spread || !(isMetric(field) || field.startsWith("config."))) return <span role="cell" />;
  const text = (value: unknown) => formats.get(field)?.(toNumber(value)) ?? metricValue(metricOf(field), toNumber(value));
  const [low, high] = [toNumber(spread.min), toNumber(spread.max)];
  if (!isMetric(field)) return <span role="cell" class="num soft ellipsis">{low === high ? text(low) : `${text(low)} – ${text(high)}`}</span>;
  const tip = `mean ${toNumber(spread.mean)}, smallest ${low}, largest ${high}, of ${plural(spread.count, "run")}`;
  return (
    <span role="cell" class={`num groupcell ${best ? "best" : ""}`} title={tip}>
      <span class="ellipsis"><span class="sr">mean </span>{text(spread.mean)}{best && <span class="sr"> best</span>}</span>
      {spread.count > 1 && <span class="tiny dim ellipsis">{text(low)} – {text(high)}</span>}
    </span>
  );
}

function GroupRow({ section, style, onToggle, groupName, index, width, narrow, columns, formats, best }: RowProps & { section: Section; style: Record<string, string> }) {
  const group = section.group!;
  const name = group.value === null || group.value === undefined ? `without ${groupName}` : typeof group.value === "number" ? formats.get(groupName)?.(group.value) ?? plain(group.value) : plain(group.value);
  const open = <button type="button" class="button quiet mini icon" aria-expanded={section.open} aria-label={`${section.open ? "Close" : "Open"} ${name}`} onClick={() => onToggle(section)}><Icon name={section.open ? "down" : "right"} size={14} /></button>;
  const states = STATES.filter((s) => group.states[s]).map((s) => <span key={s} class="row" style={{ gap: "4px" }}><StateMark state={s} /><span class="dim">{group.states[s]}</span></span>);
  const charts = group.runs > 1 && <a class="button mini" href={groupLink(section, name)} title={`Charts of the ${plural(group.runs, "run")}`}><Icon name="chart" size={13} />Group charts</a>;
  if (narrow) {
    const told = columns.filter((c) => isMetric(c.field) && group.values?.[c.field]).slice(0, 2);
    return (
      <div role="row" aria-rowindex={index + 2} class="runs-row grouped" style={{ ...style, gridTemplateColumns: "2.4rem 1fr" }}>
        <span role="cell" class="tick">{open}</span>
        <span role="cell" class="narrow">
          <span class="row"><strong class="ellipsis">{name}</strong><span class="dim small">{plural(group.runs, "run")}</span><span class="spread" />{charts}</span>
          <span class="row small soft">{told.map((c) => <span key={c.field} class={`ellipsis ${best.get(c.field) === section ? "best" : ""}`}><span class="dim">{c.title.split("/").pop()}</span> {formats.get(c.field)?.(toNumber(group.values![c.field]!.mean)) ?? metricValue(metricOf(c.field), toNumber(group.values![c.field]!.mean))}</span>)}</span>
        </span>
      </div>
    );
  }
  // The name has the place of what has no mean: up to the first column with one.
  const first = columns.findIndex((c) => group.values?.[c.field] !== undefined || isMetric(c.field) || c.field.startsWith("config."));
  const headed = first < 0 ? columns.length : first;
  return (
    <div role="row" aria-rowindex={index + 2} class="runs-row grouped" style={style}>
      <span role="cell" class="tick">{open}</span>
      <span role="cell" class="row grouphead" aria-colspan={headed + 1} style={{ gridColumn: `2 / span ${headed + 1}`, maxWidth: `${width}px` }}>
        <strong class="ellipsis" title={name}>{name}</strong>
        <span class="dim small">{plural(group.runs, "run")}</span>
        <span class="row small">{states}</span>
        <span class="spread" />
        {charts}
      </span>
      {columns.slice(headed).map((c) => <GroupCell key={c.field} section={section} column={c} formats={formats} best={best.get(c.field) === section} />)}
    </div>
  );
}
