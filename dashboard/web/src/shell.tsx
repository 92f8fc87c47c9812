// The frame around every view: navigation, connection status and theme.
import { useEffect, useRef } from "preact/hooks";
import { RunActions } from "./run_actions";
import { AnalysisPage } from "./analyze/analysis_page";
import { ArtifactsPage } from "./artifacts_page";
import { AlertsPage } from "./alerts_page";
import { ComparePage } from "./compare/compare_page";
import { GroupPage } from "./compare/group_page";
import { Keys } from "./keys";
import { Boundary } from "./parts/boundary";
import { Icon, type IconName, Wordmark } from "./parts/icons";
import { Toasts } from "./parts/overlay";
import { link, route } from "./router";
import { RunPage } from "./run/run_page";
import { RunsPage } from "./runs/runs_page";
import { SavedViews } from "./saved_views";
import { SweepPage } from "./sweep/sweep_page";
import { SweepsPage } from "./sweep/sweeps_page";
import { type Theme, theme } from "./settings";
import { connection, indexing, source } from "./store";

export function Shell() {
  const [view = "", id = ""] = route.value.path;
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [view, id]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to content</a>
      <header class="bar">
        <a href={link([])} class="home" aria-label="Lockstep, all runs"><Wordmark /></a>
        <nav aria-label="Main">
          <Place to={[]} now={view === "" || view === "run" || view === "compare" || view === "group" || view === "analyze"}>Runs</Place>
          {source().live && <Place to={["sweeps"]} now={view === "sweeps"}>Sweeps</Place>}
          {source().live && <Place to={["artifacts"]} now={view === "artifacts"}>Artifacts</Place>}
          <Place to={["alerts"]} now={view === "alerts"}>Alerts</Place>
        </nav>
        <span class="spread" />
        {source().live && <SavedViews />}
        <Live />
        <ThemeSwitch />
        <Keys />
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <Boundary key={`${view}/${id}`}><View /></Boundary>
      </main>
      <RunActions />
      <Toasts />
    </>
  );
}

function View() {
  const [view = "", id = ""] = route.value.path;
  if (view === "") return <RunsPage />;
  if (view === "run" && id) return <RunPage key={id} id={id} />;
  if (view === "compare") return <ComparePage />;
  if (view === "group") return <GroupPage />;
  if (view === "analyze") return <AnalysisPage />;
  if (view === "sweeps") return id ? <SweepPage key={id} name={id} /> : <SweepsPage />;
  if (view === "artifacts") return <ArtifactsPage />;
  if (view === "alerts") return <AlertsPage />;
  return (
    <div class="empty">
      <h1>Page not found</h1>
      <p>There is no page at this address.</p>
      <a class="button" href={link([])}>All runs</a>
    </div>
  );
}

function Place({ to, now, children }: { to: string[]; now: boolean; children: string }) {
  return <a href={link(to)} aria-current={now ? "page" : undefined}>{children}</a>;
}

function Live() {
  const { done, total } = indexing.value;
  if (!source().live) return <span class="live" title="A report has no live updates">report</span>;
  if (connection.value === "lost") return <span class="live lost" role="status"><i />disconnected</span>;
  if (done < total) return <span class="live" role="status">indexing runs {done.toLocaleString("en-US")} / {total.toLocaleString("en-US")}</span>;
  return <span class="live on" title={connection.value === "live" ? "Receiving live updates" : "Polling for updates every 2 seconds"}><i />live</span>;
}

const THEMES: [Theme, IconName, string][] = [["light", "sun", "Light"], ["auto", "auto", "System"], ["dark", "moon", "Dark"]];

function ThemeSwitch() {
  return (
    <div class="segmented themes" role="group" aria-label="Theme">
      {THEMES.map(([value, icon, name]) => (
        <button type="button" key={value} aria-pressed={theme.value === value} aria-label={name} title={name} onClick={() => (theme.value = value)}>
          <Icon name={icon} size={14} />
        </button>
      ))}
    </div>
  );
}
