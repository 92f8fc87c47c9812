// Saved views: names for URLs, shared by all users of the dashboard.
import { useState } from "preact/hooks";
import type { SavedView } from "./data/source";
import { moment } from "./format";
import { Icon } from "./parts/icons";
import { copyText, Popover, toast } from "./parts/overlay";
import { server, source, useAsync } from "./store";

export function SavedViews() {
  return <Popover name="Saved views" align="right" class="button quiet" label={<><Icon name="pin" size={14} /><span class="wide-only">Views</span></>}>{(close) => <Panel close={close} />}</Popover>;
}

function Panel({ close }: { close: () => void }) {
  const [changed, setChanged] = useState<SavedView[] | null>(null);
  const [name, setName] = useState("");
  const loaded = useAsync<SavedView[]>(() => source().views(), []);
  const views = changed ?? loaded.value;
  const canEdit = server.value?.actions ?? false;
  const change = async (of: string, view: string | null) => {
    try {
      setChanged(await source().saveView(of, view));
      if (view !== null) {
        toast(`Saved "${of}"`);
        setName("");
      }
    } catch (error) {
      toast((error as Error).message, true);
    }
  };
  return (
    <div class="saved-views">
      {canEdit && (
        <form class="row" onSubmit={(event) => { event.preventDefault(); if (name.trim()) void change(name.trim(), location.hash || "#/"); }}>
          <input data-first class="field" aria-label="Name of this view" placeholder="Name of this view" maxLength={80} value={name} onInput={(event) => setName(event.currentTarget.value)} />
          <button type="submit" class="button primary" disabled={!name.trim()}>{views?.some((view) => view.name === name.trim()) ? "Replace" : "Save"}</button>
        </form>
      )}
      {loaded.error ? <p class="notice bad" role="alert">{loaded.error.message}</p> : views && views.length > 0 ? (
        <ul>{[...views].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true })).map(({ name: own, view, saved }) => (
          <li key={own} class="row">
            <a class="item ellipsis spread" href={view.startsWith("#/") ? view : "#/"} title={`Saved ${moment(saved)}`} onClick={close}>{own}</a>
            {canEdit && <button type="button" class="button quiet mini icon" aria-label={`Remove view ${own}`} onClick={() => void change(own, null)}><Icon name="close" size={12} /></button>}
          </li>
        ))}</ul>
      ) : views && <p class="hint">A view is everything that you see: filter, columns, axes, selections, zoom, expressions and pins.</p>}
      <button type="button" class="button quiet mini" onClick={() => void copyText(location.href).then(close)}><Icon name="link" size={13} />Copy link to this view</button>
    </div>
  );
}
