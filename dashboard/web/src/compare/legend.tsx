// The runs that are compared, at the side of their charts, and what their colors mean.
import { useMemo } from "preact/hooks";
import { LineList, type Entry } from "../chart/line_list";
import { type KeyColors, keyColors, rampColor, type Style } from "../chart/palette";
import { settingFormat } from "../chart/ticks";
import { runStyles } from "../colors";
import { type Comparison, type RunRow, shownState } from "../data/source";
import { plain } from "../format";
import { Icon } from "../parts/icons";
import { StateMark } from "../parts/state_mark";
import { link, setQuery } from "../router";
import { colorKey, shownTheme } from "../settings";

/** Names are often the same: then the end of the id tells them apart. */
export function labels(runs: RunRow[]): Map<string, string> {
  const times = new Map<string, number>();
  for (const run of runs) times.set(run.name, (times.get(run.name) ?? 0) + 1);
  return new Map(runs.map((run) => [run.id, times.get(run.name)! > 1 ? `${run.name} · ${run.id.slice(-6)}` : run.name]));
}

export interface Look {
  styles: Map<string, Style>;
  /** The key that gives the colors, if one does. */
  key: string;
  keys: string[];
  values: unknown[];
  found: KeyColors | null;
}

/** How the runs look: by their places, or by what they have at the chosen key, where they differ in it. */
export function lookOf(comparison: Comparison, chosen: string): Look {
  const { runs, config } = comparison;
  const keys = config.filter((c) => c.differs).map((c) => c.key);
  const key = keys.includes(chosen) ? chosen : "";
  const styles = runStyles(runs.map((run) => run.id));
  const values = config.find((c) => c.key === key)?.values ?? [];
  if (!key) return { styles, key, keys, values, found: null };
  const found = keyColors(values, shownTheme.value);
  runs.forEach((run, i) => styles.set(run.id, { color: found.colors[i]!, dash: [] }));
  return { styles, key, keys, values, found };
}

export function Legend({ runs, look, hidden, onHide }: { runs: RunRow[]; look: Look; hidden: ReadonlySet<string>; onHide: (hidden: ReadonlySet<string>) => void }) {
  const names = useMemo(() => labels(runs), [runs]);
  const written = settingFormat(look.values.filter((value): value is number => typeof value === "number"));
  const valueText = (value: unknown) => (typeof value === "number" ? written(value) : value === null || value === undefined ? "–" : plain(value));
  const without = (id: string) => setQuery({ runs: runs.filter((r) => r.id !== id).map((r) => r.id).join(",") });
  const order = runs.map((_, i) => i);
  if (look.found?.ramp) order.sort((a, b) => Number(look.values[a] ?? Infinity) - Number(look.values[b] ?? Infinity));
  else if (look.key) order.sort((a, b) => valueText(look.values[a]).localeCompare(valueText(look.values[b]), "en", { numeric: true }));
  const entries: Entry[] = order.map((i) => {
    const run = runs[i]!;
    return {
      key: run.id, label: names.get(run.id)!, ...look.styles.get(run.id)!, href: link(["run", run.id]),
      title: look.key ? `${run.id}, ${look.key} ${valueText(look.values[i])}` : run.id,
      more: <>
        {run.state !== "finished" && <span class="line-state"><StateMark state={shownState(run)} exit={run.exit} signal={run.signal} /></span>}
        {runs.length > 2 && <button type="button" class="button quiet mini icon leave-out" aria-label={`Leave out ${run.name}`} title="Leave out" onClick={() => without(run.id)}><Icon name="close" size={11} /></button>}
      </>,
    };
  });
  return (
    <LineList entries={entries} what="run" hidden={hidden} onHide={onHide}>
      {look.keys.length > 0 && (
        <label class="color-by small"><span>Color by</span>
          <select class="field mini" value={look.key} onChange={(event) => {
            colorKey.value = event.currentTarget.value;
            setQuery({ color: event.currentTarget.value });
          }}>
            <option value="">run</option>
            {look.keys.map((key) => <option key={key} value={key}>{key}</option>)}
          </select>
        </label>
      )}
      {look.found?.ramp && (
        <p class="row tiny soft color-ramp" aria-label={`${look.key} from ${valueText(look.found.ramp.low)} to ${valueText(look.found.ramp.high)}`}>
          {valueText(look.found.ramp.low)}
          <span class="ramp">{Array.from({ length: 24 }, (_, i) => <i key={i} style={{ background: rampColor(i / 23, shownTheme.value) }} />)}</span>
          {valueText(look.found.ramp.high)}
          {look.found.ramp.log && <span class="dim">log</span>}
        </p>
      )}
      {look.found && !look.found.ramp && (
        <ul class="row wrap tiny soft" aria-label={look.key}>
          {[...new Set(look.values.map(valueText))].map((text) => <li key={text} class="row"><i class="dot" style={{ background: look.found!.colors[look.values.findIndex((value) => valueText(value) === text)] }} />{text}</li>)}
        </ul>
      )}
    </LineList>
  );
}
