// Artifacts: versions, aliases, the runs that created and used them, and their files.
import { useState } from "preact/hooks";
import type { Artifact } from "../data/source";
import { ago, fileSize, moment, plain, plural } from "../format";
import { Icon } from "../parts/icons";
import { link } from "../router";
import { useNow } from "../store";

/** The run id of an entry, which has a suffix for its rank if several ranks log. */
const runOf = (entry: string) => entry.replace(/-rank-\d+$/, "");

export function ArtifactList({ artifacts, run }: { artifacts: Artifact[]; run?: string }) {
  const byName = new Map<string, Artifact[]>();
  for (const artifact of artifacts) byName.set(artifact.name, [...(byName.get(artifact.name) ?? []), artifact]);
  return (
    <div class="artifacts">
      {[...byName].map(([name, versions]) => (
        <section class="card block" key={name}>
          <h2 class="row"><span class="ellipsis">{name}</span><span class="tag">{versions[0]!.type}</span><span class="dim small">{plural(versions.length, "version")}</span></h2>
          <ul>{versions.sort((a, b) => b.version - a.version).map((artifact) => <Version key={artifact.version} artifact={artifact} run={run} />)}</ul>
        </section>
      ))}
    </div>
  );
}

function Version({ artifact, run }: { artifact: Artifact; run: string | undefined }) {
  const [open, setOpen] = useState(false);
  const now = useNow(30000);
  const maker = artifact.made_by ? runOf(artifact.made_by) : null;
  const role = run === undefined ? "" : maker === run ? "created by this run" : "used by this run";
  return (
    <li class="version">
      <div class="row wrap">
        <button type="button" class="button quiet mini icon" aria-expanded={open} aria-label={`Files of ${artifact.name} version ${artifact.version}`} onClick={() => setOpen(!open)}><Icon name={open ? "down" : "right"} size={14} /></button>
        <strong>v{artifact.version}</strong>
        {artifact.aliases.map((alias) => <span class="tag alias" key={alias}>{alias}</span>)}
        {role && <span class="dim small">{role}</span>}
        <span class="spread" />
        <span class="row lineage small">
          {maker ? <a class="link ellipsis" href={link(["run", maker])} title={`Created by ${maker}`}>{maker}</a> : <span class="dim">not created by a run</span>}
          <Icon name="right" size={12} />
          <span>{artifact.used_by.length === 0 ? <span class="dim">not used by a run</span> : artifact.used_by.slice(0, 3).map((user) => <a class="link" key={user} href={link(["run", runOf(user)])}>{runOf(user)}</a>)}{artifact.used_by.length > 3 && ` and ${artifact.used_by.length - 3} more`}</span>
        </span>
        <span class="version-size dim small num">{fileSize(artifact.bytes)}</span>
        <span class="version-age dim small" title={moment(artifact.created)}>{ago(artifact.created, now)}</span>
      </div>
      {open && (
        <div class="version-more">
          <dl class="pairs"><div><dt>digest</dt><dd class="mono">{artifact.digest}</dd></div>{Object.entries(artifact.metadata).map(([key, value]) => <div key={key}><dt class="ellipsis">{key}</dt><dd class="mono">{plain(value)}</dd></div>)}</dl>
          <FileTable files={artifact.files} />
          <p class="hint">Download in a terminal: <code>lockstep artifacts get {artifact.name}:v{artifact.version}</code></p>
        </div>
      )}
    </li>
  );
}

export function FileTable({ files }: { files: { path: string; bytes: number; url: string | null; modified?: number }[] }) {
  const now = useNow(30000);
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Files">
      <table class="plain">
        <thead><tr><th>File</th><th class="num">Size</th>{files[0]?.modified !== undefined && <th>Modified</th>}</tr></thead>
        <tbody>{files.map((file) => (
          <tr key={file.path}>
            <td class="mono">{file.url ? <a class="link" href={file.url} download={file.path.split("/").pop()}>{file.path}</a> : file.path}</td>
            <td class="num">{fileSize(file.bytes)}</td>
            {file.modified !== undefined && <td class="soft">{ago(file.modified, now)}</td>}
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}
