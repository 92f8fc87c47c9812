// The column picker of the run table: run fields, configuration keys and metrics.
import { useState } from "preact/hooks";
import type { Field } from "../data/source";
import { Icon } from "../parts/icons";
import { column, RUN_FIELDS } from "./columns";

const KINDS = [["last", "metric."], ["min", "min("], ["max", "max("]] as const;

export function ColumnPicker({ fields, chosen, onChange }: { fields: Field[]; chosen: string[]; onChange: (next: string[] | null) => void }) {
  const [search, setSearch] = useState("");
  const titleOf = (field: string) => column(field, fields).title;
  const matches = (field: string) => `${field} ${titleOf(field)}`.toLowerCase().includes(search.toLowerCase());
  const toggle = (field: string) => onChange(chosen.includes(field) ? chosen.filter((f) => f !== field) : [...chosen, field]);
  const move = (at: number, by: number) => {
    const next = [...chosen];
    const [taken] = next.splice(at, 1);
    next.splice(at + by, 0, taken!);
    onChange(next);
  };
  const others = (names: string[]) => names.filter((f) => matches(f) && (search !== "" || !chosen.includes(f)));
  const metrics = fields.map((f) => f.field).filter((f) => f.startsWith("metric.") && matches(f));
  const entry = (field: string, name: string) => (
    <label key={field} class="choice"><input type="checkbox" class="check" checked={chosen.includes(field)} onChange={() => toggle(field)} /><span class="ellipsis" title={field}>{name}</span></label>
  );
  return (
    <div class="column-choice">
      <div class="searchfield"><Icon name="search" /><input data-first class="field" aria-label="Search columns" placeholder="Search columns" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></div>
      {!search && (
        <section>
          <h2>Visible</h2>
          {chosen.map((field, i) => (
            <div key={field} class="choice">
              <label class="row ellipsis spread"><input type="checkbox" class="check" checked onChange={() => toggle(field)} /><span class="ellipsis" title={field}>{titleOf(field)}</span></label>
              <button type="button" class="button quiet mini icon" aria-label={`Move ${titleOf(field)} left`} disabled={i === 0} onClick={() => move(i, -1)}><Icon name="up" size={12} /></button>
              <button type="button" class="button quiet mini icon" aria-label={`Move ${titleOf(field)} right`} disabled={i === chosen.length - 1} onClick={() => move(i, 1)}><Icon name="down" size={12} /></button>
            </div>
          ))}
        </section>
      )}
      <section>
        <h2>Run</h2>
        {others(RUN_FIELDS).map((f) => entry(f, titleOf(f)))}
      </section>
      {metrics.length > 0 && (
        <section>
          <h2>Metrics</h2>
          {metrics.slice(0, 120).map((field) => {
            const name = field.slice(7);
            return (
              <div key={field} class="choice metric">
                <span class="ellipsis spread" title={name}>{name}</span>
                {KINDS.map(([kind, prefix]) => {
                  const full = kind === "last" ? field : `${prefix}${name})`;
                  return <button type="button" key={kind} class="button mini" aria-pressed={chosen.includes(full)} aria-label={`${kind} of ${name}`} onClick={() => toggle(full)}>{kind}</button>;
                })}
              </div>
            );
          })}
        </section>
      )}
      <section>
        <h2>Configuration</h2>
        {others(fields.map((f) => f.field).filter((f) => f.startsWith("config."))).slice(0, 200).map((f) => entry(f, f.slice(7)))}
      </section>
      <button type="button" class="button quiet mini" onClick={() => onChange(null)}>Reset to default</button>
    </div>
  );
}
