// The page of one run.
import { useEffect } from "preact/hooks";
import { baselineId, setBaseline } from "../baseline";
import { deleteRuns, editNote, editTags, stopRun } from "../run_actions";
import { settingsQuery } from "../chart/chart_settings";
import { runColor } from "../colors";
import { type Run, shownState } from "../data/source";
import { ago, clock, duration, fixed, moment, approximateDuration, toNumber } from "../format";
import { useKeys } from "../keys";
import { escapeBidi } from "../bidi";
import { Boundary } from "../parts/boundary";
import { Icon } from "../parts/icons";
import { copyText, Popover, toast } from "../parts/overlay";
import { ProgressBar, useProgress } from "../parts/progress_bar";
import { NoteText } from "../parts/note";
import { PrunedTag, StateMark } from "../parts/state_mark";
import { type Tab, Tabs } from "../parts/tabs";
import { go, link, route } from "../router";
import { removed, server, source, useAsync, useNow, useThrottled, versions } from "../store";
import { quoted } from "../data/filter";
import { withoutArchived } from "../runs/archived";
import { ArtifactsTab } from "./artifacts_tab";
import { ChartsTab } from "./charts_tab";
import { ConfigTab } from "./config_tab";
import { ConsoleTab } from "./console_tab";
import { AlertList } from "./alert_list";
import { MediaTab } from "./media_tab";
import { RanksTab } from "./ranks_tab";

export function RunPage({ id }: { id: string }) {
  const version = useThrottled(versions.value.get(id) ?? 0, 1000);
  const { value: run, error } = useAsync<Run>(() => source().run(id), [id, version]);
  useEffect(() => void (document.title = `${escapeBidi(run?.name ?? id)} · Lockstep`), [run?.name, id]);
  if (removed.value.has(id)) return <Gone title="This run was deleted" text={id} />;
  if (!run) return error ? <Gone title="Cannot load this run" text={error.message} /> : <p class="waiting">Loading…</p>;
  return <Loaded run={run} />;
}

function Gone({ title, text }: { title: string; text: string }) {
  return <div class="empty"><h1>{title}</h1><p class="mono small">{text}</p><a class="button" href={link([])}>All runs</a></div>;
}

function Loaded({ run }: { run: Run }) {
  const tab = route.value.path[2] ?? "charts";
  const isLive = source().live;
  const tabs: Tab[] = [
    { name: "charts", title: "Charts", count: run.metrics.length, show: true },
    { name: "ranks", title: "Ranks & nodes", count: run.sources.filter((s) => s.kind === "rank").length, show: true },
    { name: "config", title: "Configuration", show: true },
    { name: "console", title: "Console", show: isLive || run.console.length > 0 || run.num_texts > 0 },
    { name: "artifacts", title: "Artifacts & files", show: isLive },
    { name: "media", title: "Media & tables", count: run.media.length, show: run.media.length > 0 || isLive },
    { name: "alerts", title: "Alerts", count: run.alerts.length, bad: run.alerts.length > 0, show: true },
  ].filter((t) => t.show).map(({ show, ...t }) => ({ ...t, href: link(["run", run.id, t.name], t.name === "charts" ? { ...settingsQuery(), zoom: route.value.query.get("zoom") } : {}) }));
  useKeys("Run", tabs.map((t, i) => ({ keys: [String(i + 1)], description: t.title, run: () => go(["run", run.id, t.name]) })));
  return (
    <div class="page run-page">
      <Top run={run} tabs={tabs} tab={tab} />
      <Facts run={run} />
      <Boundary key={tab}>
      {tab === "charts" && <ChartsTab run={run} />}
      {tab === "ranks" && <RanksTab run={run} />}
      {tab === "config" && <ConfigTab run={run} />}
      {tab === "console" && <ConsoleTab run={run} />}
      {tab === "artifacts" && <ArtifactsTab run={run} />}
      {tab === "media" && <MediaTab run={run} />}
      {tab === "alerts" && (run.alerts.length > 0 ? <AlertList alerts={run.alerts} names={false} /> : (
        <div class="empty"><h2>No alerts</h2><p>Alerts for NaN, loss spikes, stalls, slow or lost ranks and full disks appear here. To add your own conditions to the run file:</p><pre>{"tracking:\n  alerts:\n    conditions: [\"eval/accuracy < 0.5 after 1000 steps\"]"}</pre></div>
      ))}
      </Boundary>
    </div>
  );
}

/** The sticky header: name, state, progress, tabs and actions. */
function Top({ run, tabs, tab }: { run: Run; tabs: Tab[]; tab: string }) {
  const canEdit = server.value?.actions ?? false;
  const isRunning = run.state === "running";
  const { progress } = useProgress(run, 0);
  const isBaseline = baselineId() === run.id;
  return (
    <header class="run-head">
      <div class="row run-name">
        <i class="dot big" style={{ background: runColor(run.id) }} />
        <h1 class="ellipsis" title={run.id}>{run.name}</h1>
        <StateMark state={shownState(run)} exit={run.exit} signal={run.signal} title={run.reason || undefined} />
        <PrunedTag tags={run.tags} />
        {isBaseline && <span class="tag">baseline</span>}
      </div>
      <Tabs label="Run tabs" tabs={tabs} current={tab} />
      <span class="row run-acts">
        {isRunning && canEdit && <button type="button" class="button" disabled={run.stop_requested !== null} onClick={() => stopRun(run.id, run.name)}><Icon name="stop" size={14} />Stop</button>}
        {source().live && <button type="button" class="button" title="Compare with the baseline or, without one, with the run before" onClick={() => void compareWithOther(run)}><Icon name="compare" size={14} />Compare</button>}
        <button type="button" class="button icon" aria-label="Copy link to this view" title="Copy link to this view" onClick={() => void copyText(location.href)}><Icon name="link" /></button>
        {source().live && (
          <Popover menu align="right" class="button icon" name="More" label={<Icon name="more" />}>
            {(close) => (
              <>
                <a class="item" href={source().reportUrl([run.id])!} download={`${run.id}.html`} onClick={close}><Icon name="download" size={14} />Export as HTML</a>
                <button type="button" onClick={() => { close(); setBaseline(isBaseline ? "" : run.id); }}><Icon name="pin" size={14} />{isBaseline ? "Remove as baseline" : "Use as baseline"}</button>
                <button type="button" onClick={() => { void copyText(run.id); close(); }}><Icon name="file" size={14} />Copy run ID</button>
                {canEdit && <button type="button" onClick={() => { close(); editNote(run.id, run.note); }}><Icon name="note" size={14} />{run.note ? "Edit note" : "Add note"}</button>}
                {canEdit && <><hr /><button type="button" class="danger" disabled={isRunning} onClick={() => { close(); deleteRuns([run.id], run.name, () => go([])); }}><Icon name="trash" size={14} />Delete{isRunning ? " (still running)" : ""}</button></>}
              </>
            )}
          </Popover>
        )}
        </span>
      {isRunning && progress && <ProgressBar progress={progress} label={run.name} />}
    </header>
  );
}

/** Key facts, tags, note, problems and outcome of the run. */
function Facts({ run }: { run: Run }) {
  const now = useNow(1000);
  const canEdit = server.value?.actions ?? false;
  const isRunning = run.state === "running";
  const elapsed = isRunning ? Math.max(toNumber(run.duration), now - toNumber(run.created)) : run.duration;
  const silence = now - toNumber(run.updated);
  const hosts = new Set(run.sources.filter((s) => s.kind === "rank").map((s) => s.host));
  const { progress, remaining } = useProgress(run, now);
  return (
    <section class="run-facts" aria-label="About this run">
      <div class="row wrap facts-line">
      <dl class="facts">
        <div><dt>Started</dt><dd title={ago(run.created, now)}>{moment(run.created)}</dd></div>
        <div><dt>{isRunning ? "Running for" : "Duration"}</dt><dd>{duration(elapsed)}</dd></div>
        <div><dt>Step</dt><dd>{run.step?.toLocaleString("en-US") ?? "–"}</dd>{run.planned?.steps ? <dd class="of">of {run.planned.steps.toLocaleString("en-US")}{progress && progress.fraction < 1 ? ` · ${Math.floor(100 * progress.fraction)} %` : ""}</dd> : null}</div>
        {run.epoch !== null && (run.epoch !== 0 || run.planned?.epochs) && <div><dt>Epoch</dt><dd>{fixed(run.epoch, 2)}</dd>{run.planned?.epochs ? <dd class="of">of {run.planned.epochs.toLocaleString("en-US")}</dd> : null}</div>}
        {remaining !== null && <div><dt>Remaining</dt><dd title={`Estimated completion at ${clock(now + remaining)}`}>about {approximateDuration(remaining)}</dd></div>}
        <div><dt>Ranks</dt><dd>{run.world_size}{run.num_ranks < run.world_size ? <span class="dim"> · {run.num_ranks} logging</span> : ""}</dd></div>
        <div><dt>{hosts.size > 1 ? "Hosts" : "Host"}</dt><dd class="ellipsis">{hosts.size > 1 ? hosts.size : run.host}</dd></div>
        {isRunning && toNumber(run.updated) > 0 && <div><dt>Last record</dt><dd title={clock(run.updated)}>{silence < 3 ? "now" : `${duration(silence)} ago`}</dd></div>}
      </dl>
        <span class="row wrap tags-row">
          {run.stop_requested && isRunning && <span class="tag" title={run.stop_requested.reason}>stop requested</span>}
          {run.group && run.group !== run.id && <a class="tag" href={link([], { q: `group = ${quoted(run.group)}` })} title="Group"><span class="ellipsis">{run.group}</span></a>}
          {run.tags.map((tag) => <a class="tag" key={tag} href={link([], { q: `tag = ${quoted(tag)}` })}><span class="ellipsis">{tag}</span></a>)}
          {canEdit && <button type="button" class="button quiet mini" onClick={() => editTags(run.id, run.tags)}><Icon name="tag" size={13} />{run.tags.length ? "Edit" : "Tag"}</button>}
        </span>
      </div>
      {run.note && <NoteText text={run.note} />}
      {run.problems.map((problem) => <p key={problem} class="notice warn"><Icon name="warn" /><span>Corrupt: {problem}</span></p>)}
      {run.reason && <p class={`notice ${run.state === "failed" || run.state === "killed" ? "bad" : run.state === "finished" ? "" : "warn"}`}><Icon name={run.state === "finished" ? "note" : "warn"} /><span>{run.failed_rank !== null && !/rank/i.test(run.reason) ? `Rank ${run.failed_rank}: ` : ""}{run.reason}{run.failed_rank !== null && source().live && <> <a class="link" href={link(["run", run.id, "console"], { rank: String(run.failed_rank), kind: "stderr" })}>Show its last output</a></>}</span></p>}
    </section>
  );
}

/** The chosen baseline, else the newest other run with the tag "baseline", else the run of the same group (without a group: any run) that was
 * started before. Archived runs are left out. */
async function otherOf(run: Run): Promise<{ id: string; isBaseline: boolean } | null> {
  const chosen = baselineId();
  if (chosen && chosen !== run.id) return { id: chosen, isBaseline: true };
  const newest = async (filter: string) => (await source().runs({ filter: withoutArchived(filter), sort: "-created", offset: 0, limit: 1, columns: [] })).runs[0];
  const tagged = await newest(`tag = baseline and id != ${quoted(run.id)}`);
  if (tagged && !chosen) return { id: tagged.id, isBaseline: true };
  const earlier = `created < ${toNumber(run.created)} and id != ${quoted(run.id)}`;
  const before = await newest(run.group && run.group !== run.id ? `${earlier} and group = ${quoted(run.group)}` : earlier);
  return before ? { id: before.id, isBaseline: false } : null;
}

async function compareWithOther(run: Run) {
  try {
    const other = await otherOf(run);
    if (other) go(["compare"], { runs: `${other.id},${run.id}`, base: other.isBaseline ? other.id : null, tab: "both" });
    else toast("There is no baseline and no earlier run. Select runs in the table to compare them.", true);
  } catch (error) {
    toast((error as Error).message, true);
  }
}
