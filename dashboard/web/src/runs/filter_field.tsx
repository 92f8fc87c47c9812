// The input of the filter expression, with field suggestions.
import type { RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Field, ApiError } from "../data/source";
import { Icon } from "../parts/icons";
import { RUN_FIELDS } from "./columns";

const EXAMPLES = ["state = failed", "eval/accuracy > 0.95", "config.optimizer.lr >= 0.1", "created > 7d", "tag = baseline", "max(eval/accuracy) < 0.9 and not has group"];

export function FilterField(props: { field: RefObject<HTMLInputElement | null>; value: string; fields: Field[]; error: ApiError | undefined; onChange: (value: string) => void }) {
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const [text, setText] = useState(props.value);
  // The URL follows the input with a delay; until it has caught up, the input takes precedence.
  const sent = useRef<string | null>(null);
  useEffect(() => {
    if (sent.current === null) setText(props.value);
    else if (sent.current === props.value) sent.current = null;
  }, [props.value]);
  const caret = props.field.current?.selectionStart ?? text.length;
  const word = /[\w./]*$/.exec(text.slice(0, caret))![0];
  const names = useMemo(() => [...RUN_FIELDS, ...props.fields.map((f) => f.field.replace(/^metric\.(?=.*\/)/, ""))], [props.fields]);
  const matching = word.length > 0 ? names.filter((name) => name.toLowerCase().includes(word.toLowerCase()) && name !== word).slice(0, 8) : [];
  const suggestions = text === "" ? EXAMPLES : matching;
  const invalid = props.error?.code === "bad_filter" ? props.error : undefined;

  const change = (next: string) => {
    setText(next);
    setAt(-1);
    sent.current = next === props.value ? null : next;
    props.onChange(next);
  };
  const accept = (suggestion: string) => {
    if (text === "") change(suggestion);
    else {
      const next = text.slice(0, caret - word.length) + suggestion + " " + text.slice(caret);
      change(next);
      const place = caret - word.length + suggestion.length + 1;
      requestAnimationFrame(() => props.field.current?.setSelectionRange(place, place));
    }
    props.field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!open || suggestions.length === 0) return setOpen(true);
      event.preventDefault();
      setAt((at + (event.key === "ArrowDown" ? 1 : suggestions.length)) % suggestions.length);
    } else if ((event.key === "Enter" || event.key === "Tab") && open && at >= 0) {
      event.preventDefault();
      accept(suggestions[at]!);
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
        <input ref={props.field} class="field mono" type="text" role="combobox" aria-expanded={open && suggestions.length > 0} aria-controls="filter-suggestions" aria-autocomplete="list" aria-label="Filter runs"
          aria-activedescendant={open && at >= 0 ? `suggestion-${at}` : undefined} aria-invalid={invalid !== undefined} aria-describedby="filter-error" spellcheck={false} autocomplete="off" placeholder="Filter by text or expression, e.g. state = failed and eval/loss < 0.2"
          value={text} onInput={(event) => { change(event.currentTarget.value); setOpen(true); }} onFocus={() => setOpen(true)} onBlur={() => setTimeout(() => setOpen(false), 120)} onKeyDown={onKeyDown} />
        {text && <button type="button" class="button quiet mini icon clear" aria-label="Clear filter" onClick={() => { change(""); props.field.current?.focus(); }}><Icon name="close" size={12} /></button>}
      </div>
      {open && suggestions.length > 0 && (
        <ul id="filter-suggestions" class="suggestions card" role="listbox" aria-label={text === "" ? "Examples" : "Fields"}>
          {text === "" && <li class="hint" role="presentation">Examples</li>}
          {suggestions.map((suggestion, i) => (
            <li key={suggestion} id={`suggestion-${i}`} role="option" aria-selected={i === at} class="mono" onMouseDown={(event) => { event.preventDefault(); accept(suggestion); }}>{suggestion}</li>
          ))}
        </ul>
      )}
      <p id="filter-error" class={`filter-error ${invalid ? "shown" : ""}`} role="alert">{invalid && invalid.message}</p>
    </div>
  );
}
