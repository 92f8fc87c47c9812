import type { Run } from "../data/source";
import { ago, fileSize, plural } from "../format";
import { Icon } from "../parts/icons";
import { source, useAsync, useNow } from "../store";
import { ArtifactList, FileTable } from "./artifact_list";

export function ArtifactsTab({ run }: { run: Run }) {
  const artifacts = useAsync(() => source().artifacts(run.id), [run.id, run.version]);
  const files = useAsync(() => source().files(run.id), [run.id, run.version]);
  const now = useNow(10000);
  return (
    <div class="stack">
      {artifacts.value?.problems.map((p) => <p class="notice warn" key={p}><Icon name="warn" />{p}</p>)}
      {artifacts.value && (artifacts.value.artifacts.length > 0 ? <ArtifactList artifacts={artifacts.value.artifacts} run={run.id} /> : (
        <section class="card block"><h2>Artifacts</h2><p class="soft">This run neither created nor used artifacts. Set <code>tracking.checkpoints=last</code> to publish its last checkpoint as <code>{run.name}-model</code>. To publish other files: <code>lockstep artifacts put NAME PATH</code></p></section>
      ))}
      <section class="card block">
        <h2>Checkpoints</h2>
        {run.checkpoints.length === 0 ? <p class="soft">No checkpoints. <code>checkpoint.every</code> sets how often they are saved.</p> : (
          <table class="plain tight">
            <thead><tr><th class="num">Step</th><th class="num">Size</th><th>Saved</th></tr></thead>
            <tbody>{[...run.checkpoints].reverse().map((c) => <tr key={c.name}><td class="num">{c.step.toLocaleString("en-US")}</td><td class="num">{fileSize(c.bytes)}</td><td class="soft">{ago(c.modified, now)}</td></tr>)}</tbody>
          </table>
        )}
        {run.checkpoints.length > 0 && run.state !== "running" && <p class="hint">Resume from the last checkpoint: <code>lockstep launch -n {run.world_size} --resume {run.id} ...</code></p>}
      </section>
      <section class="card block">
        <h2>{files.value ? plural(files.value.length, "file") : "Files"}</h2>
        {files.value && <FileTable files={files.value.map((file) => ({ ...file, url: source().fileUrl(run.id, file.path) }))} />}
        {files.error && <p class="soft" role="alert">{files.error.message}</p>}
      </section>
    </div>
  );
}
