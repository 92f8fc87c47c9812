// What changes runs: tags, notes, stopping, deleting. Nothing is lost without being asked about.
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { plural } from "./format";
import { Dialog, toast } from "./parts/overlay";
import { source, touch } from "./store";

type Task =
  | { kind: "many"; ids: string[]; done: () => void }
  | { kind: "note"; id: string; note: string }
  | { kind: "tags"; id: string; tags: string[] }
  | { kind: "stop"; id: string; name: string }
  | { kind: "delete"; ids: string[]; name: string; done: () => void };

const task = signal<Task | null>(null);

export const actOn = (ids: string[], done: () => void) => void (task.value = { kind: "many", ids, done });
export const editNote = (id: string, note: string) => void (task.value = { kind: "note", id, note });
export const editTags = (id: string, tags: string[]) => void (task.value = { kind: "tags", id, tags });
export const stopRun = (id: string, name: string) => void (task.value = { kind: "stop", id, name });
export const deleteRuns = (ids: string[], name: string, done: () => void) => void (task.value = { kind: "delete", ids, name, done });

async function attempt(work: () => Promise<void>) {
  try {
    await work();
    task.value = null;
  } catch (error) {
    toast((error as Error).message, true);
  }
}

export function Acting() {
  const now = task.value;
  if (!now) return null;
  const close = () => void (task.value = null);
  switch (now.kind) {
    case "note": return <Note key={now.id} {...now} close={close} />;
    case "tags": return <Tags key={now.id} {...now} close={close} />;
    case "stop": return <Stop key={now.id} {...now} close={close} />;
    case "delete": return <Delete key={now.ids.join()} {...now} close={close} />;
    case "many": return <Many key={now.ids.join()} {...now} close={close} />;
  }
}

const Cancel = ({ close }: { close: () => void }) => <button type="button" class="button" onClick={close}>Cancel</button>;

function Note({ id, note, close }: { id: string; note: string; close: () => void }) {
  const [text, setText] = useState(note);
  const save = () => attempt(async () => {
    await source().change(id, { note: text });
    touch(id);
  });
  return (
    <Dialog title="Note" close={close} onSubmit={() => void save()} feet={<><Cancel close={close} /><button type="submit" class="button primary">Save</button></>}>
      <textarea class="field" rows={6} aria-label="Note" autofocus value={text} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && void save()} />
      <p class="hint">Saved with the run, visible to everyone. Ctrl+Enter saves.</p>
    </Dialog>
  );
}

const wordsOf = (text: string) => text.split(/[\s,]+/).filter(Boolean);

function Tags({ id, tags, close }: { id: string; tags: string[]; close: () => void }) {
  const [kept, setKept] = useState(tags);
  const [text, setText] = useState("");
  const add = () => {
    setKept([...new Set([...kept, ...wordsOf(text)])]);
    setText("");
  };
  const save = () => attempt(async () => {
    const wanted = [...new Set([...kept, ...wordsOf(text)])];
    await source().change(id, { add: wanted.filter((t) => !tags.includes(t)), remove: tags.filter((t) => !wanted.includes(t)) });
    touch(id);
  });
  return (
    <Dialog title="Tags" close={close} onSubmit={() => void save()} feet={<><Cancel close={close} /><button type="submit" class="button primary">Save</button></>}>
      <div class="row wrap">
        {kept.map((tag) => <span key={tag} class="tag"><span class="ellipsis">{tag}</span><button type="button" aria-label={`Remove ${tag}`} onClick={() => setKept(kept.filter((t) => t !== tag))}>×</button></span>)}
        {kept.length === 0 && <span class="dim small">no tags yet</span>}
      </div>
      <input class="field" aria-label="New tag" autofocus placeholder="New tag" value={text} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={(event) => {
        if ((event.key === " " || event.key === "," || event.key === "Enter") && text.trim()) {
          event.preventDefault();
          add();
        }
      }} />
      <p class="hint">Letters, digits and . _ : / = -</p>
    </Dialog>
  );
}

function Stop({ id, name, close }: { id: string; name: string; close: () => void }) {
  const [reason, setReason] = useState("");
  const stop = () => attempt(async () => {
    await source().stop(id, reason);
    touch(id);
    toast(`${name} will stop at its next step`);
  });
  return (
    <Dialog title={`Stop ${name}?`} close={close} onSubmit={() => void stop()} feet={<><Cancel close={close} /><button type="submit" class="button danger primary">Stop</button></>}>
      <p class="soft">All ranks agree on a step, save a checkpoint if the run keeps some, and end. It can be resumed later.</p>
      <input class="field" aria-label="Reason" autofocus placeholder="Why (kept with the run)" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
    </Dialog>
  );
}

function Delete({ ids, name, done, close }: { ids: string[]; name: string; done: () => void; close: () => void }) {
  const [typed, setTyped] = useState("");
  const word = ids.length === 1 ? name : String(ids.length);
  const remove = () => attempt(async () => {
    const results = await Promise.allSettled(ids.map((id) => source().remove(id)));
    const refused = results.find((r) => r.status === "rejected");
    touch();
    if (refused) throw refused.reason;
    toast(`${plural(ids.length, "run")} deleted`);
    done();
  });
  return (
    <Dialog title={ids.length === 1 ? `Delete ${name}?` : `Delete ${ids.length} runs?`} close={close} onSubmit={() => typed === word && void remove()} feet={<><Cancel close={close} /><button type="submit" class="button danger primary" disabled={typed !== word}>Delete permanently</button></>}>
      <p class="soft">Deletes logs, checkpoints and console output. Artifacts that {ids.length === 1 ? "it" : "they"} made stay. This cannot be undone.</p>
      <label class="small">Type <code>{word}</code> to confirm<input class="field" style={{ width: "100%", marginTop: "6px" }} autofocus autocomplete="off" spellcheck={false} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></label>
    </Dialog>
  );
}

function Many({ ids, done, close }: { ids: string[]; done: () => void; close: () => void }) {
  const [text, setText] = useState("");
  const change = (what: "add" | "remove") => attempt(async () => {
    const tags = wordsOf(text);
    await Promise.all(ids.map((id) => source().change(id, { [what]: tags })));
    toast(`${what === "add" ? "Tagged" : "Untagged"} ${plural(ids.length, "run")}`);
    done();
  });
  return (
    <Dialog title={plural(ids.length, "selected run")} close={close} onSubmit={() => void (text.trim() && change("add"))} feet={<><Cancel close={close} /><button type="submit" class="button primary" disabled={!text.trim()}>Add tags</button></>}>
      <input class="field" aria-label="Tags" autofocus placeholder="Tags" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <div class="row wrap">
        <button type="button" class="button" disabled={!text.trim()} onClick={() => void change("remove")}>Remove these tags</button>
        <span class="spread" />
        <button type="button" class="button danger" onClick={() => deleteRuns(ids, ids[0]!, done)}>Delete {plural(ids.length, "run")}</button>
      </div>
    </Dialog>
  );
}
