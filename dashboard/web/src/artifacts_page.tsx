// All artifacts in the artifact store.
import { useEffect } from "preact/hooks";
import { Icon } from "./parts/icons";
import { useUrlState } from "./router";
import { ArtifactList } from "./run/artifact_list";
import { source, tick, useAsync, useThrottled } from "./store";

export function ArtifactsPage() {
  const { value, error } = useAsync(() => source().artifacts(null), [useThrottled(tick.value, 5000)]);
  const [search, setSearch] = useUrlState("find");
  useEffect(() => void (document.title = "Artifacts · Lockstep"), []);
  const shown = value?.artifacts.filter((a) => `${a.name} ${a.type} ${a.aliases.join(" ")} ${a.made_by ?? ""}`.toLowerCase().includes(search.toLowerCase()));
  return (
    <div class="page">
      <div class="tools">
        <h1>Artifacts</h1>
        <div class="searchfield"><Icon name="search" /><input class="field" type="search" aria-label="Search artifacts" placeholder="Name, type, alias or run" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></div>
      </div>
      {error && <p class="notice bad" role="alert">{error.message}</p>}
      {value?.problems.map((p) => <p class="notice warn" key={p}><Icon name="warn" />{p}</p>)}
      {shown && shown.length > 0 && <ArtifactList artifacts={shown} />}
      {value?.artifacts.length === 0 && <div class="empty"><h2>No artifacts yet</h2><p>Set <code>tracking.checkpoints=last</code> to publish the checkpoints of a run. To publish any other file:</p><pre>lockstep artifacts put my-data data.csv --alias best</pre></div>}
      {shown?.length === 0 && value!.artifacts.length > 0 && <div class="empty"><h2>No matching artifacts</h2><p>No artifact matches <code>{search}</code>.</p></div>}
      {!value && !error && <p class="waiting">Loading…</p>}
    </div>
  );
}
