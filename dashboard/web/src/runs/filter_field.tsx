// The filter expression, with the fields that occur as suggestions.
import type { RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Field, Refusal } from "../data/source";
import { Icon } from "../parts/icons";
import { OWN_FIELDS } from "./columns";

const EXAMPLES = ["state = failed", "eval/accuracy > 0.95", "config.optimizer.lr >= 0.1", "created > 7d", "tag = baseline", "max(eval/accuracy) < 0.9 and not has group"];

export function FilterField(props: { field: RefObject<HTMLInputElement | null>; value: string; fields: Field[]; error: Refusal | undefined; onChange: (value: string) => void }) {
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const [text, setText] = useState(props.value);
  // The address follows what is typed with a delay: until it has caught up, the field is right.
  const sent = useRef<string | null>(null);
  useEffect(() => {
    if (sent.current === null) setText(props.value);
    else if (sent.current === props.value) sent.current = null;
  }, [props.value]);
  const caret = props.field.current?.selectionStart ?? text.length;
  const word = /[\w./]*$/.exec(text.slice(0, caret))![0];
  const names = useMemo(() => [...OWN_FIELDS, ...props.fields.map((f) => f.field.replace(/^metric\.(?=.*\/)/, ""))], [props.fields]);
  const fitting = word.length > 0 ? names.filter((name) => name.toLowerCase().includes(word.toLowerCase()) && name !== word).slice(0, 8) : [];
  const offered = text === "" ? EXAMPLES : fitting;
  const wrong = props.error?.code === "bad_filter" ? props.error : undefined;

  const change = (next: string) => {
    setText(next);
    setAt(-1);
    sent.current = next === props.value ? null : next;
    props.onChange(next);
  };
  const take = (offer: string) => {
    if (text === "") change(offer);
    else {
      const next = text.slice(0, caret - word.length) + offer + " " + text.slice(caret);
      change(next);
      const place = caret - word.length + offer.length + 1;
      requestAnimationFrame(() => props.field.current?.setSelectionRange(place, place));
    }
    props.field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!open || offered.length === 0) return setOpen(true);
      event.preventDefault();
      setAt((at + (event.key === "ArrowDown" ? 1 : offered.length)) % offered.length);
    } else if ((event.key === "Enter" || event.key === "Tab") && open && at >= 0) {
      event.preventDefault();
      take(offered[at]!);
    } else if (event.key === "Enter") setOpen(false);
    else if (event.key === "Escape") {
      if (open) setOpen(false);
      else props.field.current?.blur();
    }
  };
  return (
    <div class="filter">
      <div class="searchfield">
        <Icon name="search" />
        <input ref={props.field} class="field mono" type="text" role="combobox" aria-expanded={open && offered.length > 0} aria-controls="filter-offers" aria-autocomplete="list" aria-label="Filter runs"
          aria-activedescendant={open && at >= 0 ? `offer-${at}` : undefined} aria-invalid={wrong !== undefined} aria-describedby="filter-error" spellcheck={false} autocomplete="off" placeholder="Filter: a word, or state = failed and eval/loss < 0.2"
          value={text} onInput={(event) => { change(event.currentTarget.value); setOpen(true); }} onFocus={() => setOpen(true)} onBlur={() => setTimeout(() => setOpen(false), 120)} onKeyDown={onKeyDown} />
        {text && <button type="button" class="button quiet mini icon clear" aria-label="Clear the filter" onClick={() => { change(""); props.field.current?.focus(); }}><Icon name="close" size={12} /></button>}
      </div>
      {open && offered.length > 0 && (
        <ul id="filter-offers" class="offers card" role="listbox" aria-label={text === "" ? "Examples" : "Fields"}>
          {text === "" && <li class="hint" role="presentation">Examples</li>}
          {offered.map((offer, i) => (
            <li key={offer} id={`offer-${i}`} role="option" aria-selected={i === at} class="mono" onMouseDown={(event) => { event.preventDefault(); take(offer); }}>{offer}</li>
          ))}
        </ul>
      )}
      <p id="filter-error" class={`filter-error ${wrong && !open ? "shown" : wrong ? "shown" : ""}`} role="alert">{wrong && wrong.message}</p>
    </div>
  );
}
