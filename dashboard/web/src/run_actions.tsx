// Dialogs of actions that change runs: tag, note, stop, delete. Deleting requires a confirmation.
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { quoted } from "./data/filter";
import { plural } from "./format";
import { Dialog, toast } from "./parts/overlay";
import { source, invalidate } from "./store";

type Action =
  | { kind: "bulk"; ids: string[]; done: () => void }
  | { kind: "note"; id: string; note: string }
  | { kind: "tags"; id: string; tags: string[] }
  | { kind: "stop"; id: string; name: string }
  | { kind: "delete"; ids: string[]; name: string; done: () => void };

const action = signal<Action | null>(null);

export const editRuns = (ids: string[], done: () => void) => void (action.value = { kind: "bulk", ids, done });
export const editNote = (id: string, note: string) => void (action.value = { kind: "note", id, note });
export const editTags = (id: string, tags: string[]) => void (action.value = { kind: "tags", id, tags });
export const stopRun = (id: string, name: string) => void (action.value = { kind: "stop", id, name });
export const deleteRuns = (ids: string[], name: string, done: () => void) => void (action.value = { kind: "delete", ids, name, done });

const IDS_PER_REQUEST = 40; // a request line is limited to 8 KiB

interface TagChange { add?: string[]; remove?: string[] }
type ChangeOfRun = Required<TagChange> & { id: string };

/** Sends the changes. Returns those that were made, and the error of the first one that failed. */
async function sendTags(changes: readonly ChangeOfRun[]): Promise<{ made: ChangeOfRun[]; error: Error | null }> {
  const results = await Promise.allSettled(changes.map(({ id, ...change }) => source().change(id, change)));
  const made = changes.filter((_, i) => results[i]!.status === "fulfilled");
  invalidate(...made.map(({ id }) => id));
  const failed = results.find((result) => result.status === "rejected");
  return { made, error: failed ? new Error(`${plural(changes.length - made.length, "run")} of ${changes.length.toLocaleString("en-US")} could not be changed: ${(failed.reason as Error).message}`) : null };
}

/** Adds and removes tags, with the offer to undo what has changed. `text`: says what was done to this number of runs. Throws if some runs
 * could not be changed. */
export async function changeTags(ids: string[], { add = [], remove = [] }: TagChange, text: (count: number) => string) {
  const parts = Array.from({ length: Math.ceil(ids.length / IDS_PER_REQUEST) }, (_, i) => ids.slice(i * IDS_PER_REQUEST, (i + 1) * IDS_PER_REQUEST));
  const lists = await Promise.all(parts.map((part) => source().runs({ filter: `id in (${part.map(quoted).join(", ")})`, sort: "-created", offset: 0, limit: part.length, columns: [] })));
  const changes = lists.flatMap(({ runs }) => runs).map(({ id, tags }) => ({ id, add: add.filter((tag) => !tags.includes(tag)), remove: remove.filter((tag) => tags.includes(tag)) })).filter((change) => change.add.length + change.remove.length > 0);
  if (changes.length === 0) return toast("No tags were changed");
  const { made, error } = await sendTags(changes);
  const undo = () => void sendTags(made.map((change) => ({ ...change, add: change.remove, remove: change.add }))).then((undone) => undone.error && toast(undone.error.message, true));
  if (made.length > 0) toast(text(made.length), false, undo);
  if (error) throw error;
}

async function perform(work: () => Promise<void>) {
  try {
    await work();
    action.value = null;
  } catch (error) {
    toast((error as Error).message, true);
  }
}

export function RunActions() {
  const current = action.value;
  if (!current) return null;
  const close = () => void (action.value = null);
  switch (current.kind) {
    case "note": return <Note key={current.id} {...current} close={close} />;
    case "tags": return <Tags key={current.id} {...current} close={close} />;
    case "stop": return <Stop key={current.id} {...current} close={close} />;
    case "delete": return <Delete key={current.ids.join()} {...current} close={close} />;
    case "bulk": return <BulkEdit key={current.ids.join()} {...current} close={close} />;
  }
}

const Cancel = ({ close }: { close: () => void }) => <button type="button" class="button" onClick={close}>Cancel</button>;

function Note({ id, note, close }: { id: string; note: string; close: () => void }) {
  const [text, setText] = useState(note);
  const save = () => perform(async () => {
    await source().change(id, { note: text });
    invalidate(id);
  });
  return (
    <Dialog title="Note" close={close} onSubmit={() => void save()} footer={<><Cancel close={close} /><button type="submit" class="button primary">Save</button></>}>
      <textarea class="field" rows={6} aria-label="Note" autofocus value={text} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && void save()} />
      <p class="hint">Markdown. Stored with the run and visible to everyone. Press Ctrl+Enter to save.</p>
    </Dialog>
  );
}

const splitTags = (text: string) => text.split(/[\s,]+/).filter(Boolean);

function Tags({ id, tags, close }: { id: string; tags: string[]; close: () => void }) {
  const [current, setCurrent] = useState(tags);
  const [text, setText] = useState("");
  const add = () => {
    setCurrent([...new Set([...current, ...splitTags(text)])]);
    setText("");
  };
  const save = () => perform(async () => {
    const next = [...new Set([...current, ...splitTags(text)])];
    await changeTags([id], { add: next.filter((t) => !tags.includes(t)), remove: tags.filter((t) => !next.includes(t)) }, () => "Tags changed");
  });
  return (
    <Dialog title="Tags" close={close} onSubmit={() => void save()} footer={<><Cancel close={close} /><button type="submit" class="button primary">Save</button></>}>
      <div class="row wrap">
        {current.map((tag) => <span key={tag} class="tag"><span class="ellipsis">{tag}</span><button type="button" aria-label={`Remove ${tag}`} onClick={() => setCurrent(current.filter((t) => t !== tag))}>×</button></span>)}
        {current.length === 0 && <span class="dim small">No tags</span>}
      </div>
      <input class="field" aria-label="New tag" autofocus placeholder="New tag" value={text} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={(event) => {
        if ((event.key === " " || event.key === "," || event.key === "Enter") && text.trim()) {
          event.preventDefault();
          add();
        }
      }} />
      <p class="hint">Allowed characters: letters, digits and . _ : / = -</p>
    </Dialog>
  );
}

function Stop({ id, name, close }: { id: string; name: string; close: () => void }) {
  const [reason, setReason] = useState("");
  const stop = () => perform(async () => {
    await source().stop(id, reason);
    invalidate(id);
    toast(`${name} will stop at its next step`);
  });
  return (
    <Dialog title={`Stop ${name}?`} close={close} onSubmit={() => void stop()} footer={<><Cancel close={close} /><button type="submit" class="button danger primary">Stop</button></>}>
      <p class="soft">All ranks stop at the same step and save a checkpoint if checkpoints are enabled. The run can be resumed later.</p>
      <input class="field" aria-label="Reason" autofocus placeholder="Reason (optional, stored with the run)" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
    </Dialog>
  );
}

function Delete({ ids, name, done, close }: { ids: string[]; name: string; done: () => void; close: () => void }) {
  const [typed, setTyped] = useState("");
  const confirmation = ids.length === 1 ? name : String(ids.length);
  const remove = () => perform(async () => {
    const results = await Promise.allSettled(ids.map((id) => source().remove(id)));
    const failed = results.find((r) => r.status === "rejected");
    invalidate();
    if (failed) throw failed.reason;
    toast(`${plural(ids.length, "run")} deleted`);
    done();
  });
  return (
    <Dialog title={ids.length === 1 ? `Delete ${name}?` : `Delete ${ids.length} runs?`} close={close} onSubmit={() => typed === confirmation && void remove()} footer={<><Cancel close={close} /><button type="submit" class="button danger primary" disabled={typed !== confirmation}>Delete permanently</button></>}>
      <p class="soft">This deletes the logs, checkpoints and console output of {ids.length === 1 ? "the run" : "the runs"}. Artifacts are kept. This action cannot be undone.</p>
      <label class="small">Type <code>{confirmation}</code> to confirm<input class="field" style={{ width: "100%", marginTop: "6px" }} autofocus autocomplete="off" spellcheck={false} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></label>
    </Dialog>
  );
}

function BulkEdit({ ids, done, close }: { ids: string[]; done: () => void; close: () => void }) {
  const [text, setText] = useState("");
  const change = (what: "add" | "remove") => perform(async () => {
    const tags = splitTags(text);
    await changeTags(ids, { [what]: tags }, (count) => `${what === "add" ? "Added tags to" : "Removed tags from"} ${plural(count, "run")}`);
    done();
  });
  return (
    <Dialog title={plural(ids.length, "selected run")} close={close} onSubmit={() => void (text.trim() && change("add"))} footer={<><Cancel close={close} /><button type="submit" class="button primary" disabled={!text.trim()}>Add tags</button></>}>
      <input class="field" aria-label="Tags" autofocus placeholder="Tags" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <div class="row wrap">
        <button type="button" class="button" disabled={!text.trim()} onClick={() => void change("remove")}>Remove tags</button>
        <span class="spread" />
        <button type="button" class="button danger" onClick={() => deleteRuns(ids, ids[0]!, done)}>Delete {plural(ids.length, "run")}</button>
      </div>
    </Dialog>
  );
}
