// Everything in the store beside the runs.
import { useEffect, useState } from "preact/hooks";
import { Icon } from "./parts/icons";
import { ArtifactList } from "./run/artifact_list";
import { source, tick, useAnswer, useThrottled } from "./store";

export function ArtifactsPage() {
  const { value, error } = useAnswer(() => source().artifacts(null), [useThrottled(tick.value, 5000)]);
  const [search, setSearch] = useState("");
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
      {value?.artifacts.length === 0 && <div class="empty"><h2>No artifacts yet</h2><p>Checkpoints of a run become versions here with <code>tracking.checkpoints=last</code>. Any other file:</p><pre>lockstep artifacts put my-data data.csv --alias best</pre></div>}
      {shown?.length === 0 && value!.artifacts.length > 0 && <div class="empty"><h2>Nothing found</h2><p>No artifact fits <code>{search}</code>.</p></div>}
      {!value && !error && <p class="waiting">loading</p>}
    </div>
  );
}
