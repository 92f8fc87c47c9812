// The code with which a run was started: its commit and the uncommitted changes.
import { useMemo, useState } from "preact/hooks";
import type { Code, Run } from "../data/source";
import { plural } from "../format";
import { Icon } from "../parts/icons";
import { saveText } from "../chart/save";
import { source, useAsync } from "../store";
import { type FileDiff, parseDiff } from "./diff_lines";

/** Files with more changed lines are closed at first. */
const MAX_OPEN_LINES = 400;
/** Lines of a file that are drawn until the user requests all. */
const MAX_LINES = 2000;

export function CodeChanges({ run }: { run: Run }) {
  const recorded = typeof run.environment["uncommitted_changes"] === "string" ? run.environment["uncommitted_changes"] : "";
  const { value: code, error } = useAsync<Code | null>(() => (recorded && source().live ? source().code(run.id) : Promise.resolve(null)), [run.id, recorded]);
  const files = useMemo(() => parseDiff(code?.diff ?? ""), [code]);
  if (!recorded) return null;
  return (
    <section class="card block code-changes" aria-label="Uncommitted changes">
      <div class="row wrap">
        <h2>Uncommitted changes</h2>
        <span class="spread" />
        {code?.diff && <button type="button" class="button mini" onClick={() => saveText(`${run.id}.patch`, code.diff, "text/x-diff")}><Icon name="download" size={13} />Save as patch</button>}
      </div>
      {error ? <p class="notice bad" role="alert">{error.message}</p>
        : !code ? <p class="soft">{source().live ? "Loading…" : `${recorded}. The changes are not part of a report.`}</p>
        : code.problem ? <p class="soft">Not recorded: {code.problem}.</p>
        : code.diff === "" ? <p class="soft">None: the tracked files were those of the commit.</p>
        : <><p class="soft small">{plural(files.length, "file")} changed: <Counts added={code.added ?? 0} removed={code.removed ?? 0} />. Untracked files are not recorded.{code.note && ` Note: ${code.note}.`}</p>{files.map((file) => <FileChanges key={file.name} file={file} />)}</>}
    </section>
  );
}

const Counts = ({ added, removed }: { added: number; removed: number }) => <span class="diff-counts"><span class="delta good">+{added.toLocaleString("en-US")}</span> <span class="delta bad">−{removed.toLocaleString("en-US")}</span><span class="sr"> lines added and removed</span></span>;

function FileChanges({ file }: { file: FileDiff }) {
  const [isWhole, setWhole] = useState(false);
  const lines = isWhole ? file.lines : file.lines.slice(0, MAX_LINES);
  const left = file.lines.length - lines.length;
  return (
    <details class="diff-file" open={file.added + file.removed <= MAX_OPEN_LINES}>
      <summary><span class="mono">{file.name}</span> <Counts added={file.added} removed={file.removed} /></summary>
      {file.notes.map((note) => <p key={note} class="small soft diff-note">{note}</p>)}
      {lines.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={`Changes of ${file.name}`}>
          <pre class="diff">{lines.map((line, i) => <span key={i} class={`diff-line ${line.kind}`}>{SIGNS[line.kind]}{line.text}{"\n"}</span>)}</pre>
        </div>
      )}
      {left > 0 && <button type="button" class="button mini" onClick={() => setWhole(true)}>Show {plural(left, "more line")}</button>}
    </details>
  );
}

const SIGNS = { added: "+", removed: "−", same: " ", place: "" } as const;
