// The legend of a comparison: its runs, and the meaning of their colors.
import { useMemo } from "preact/hooks";
import { baselineLabel, baselineStyle } from "../baseline";
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

/** Run names; for equal names, with the end of the id. */
export function labels(runs: RunRow[]): Map<string, string> {
  const times = new Map<string, number>();
  for (const run of runs) times.set(run.name, (times.get(run.name) ?? 0) + 1);
  return new Map(runs.map((run) => [run.id, times.get(run.name)! > 1 ? `${run.name} · ${run.id.slice(-6)}` : run.name]));
}

export interface Coloring {
  styles: Map<string, Style>;
  /** The configuration key that determines the colors, or "". */
  key: string;
  keys: string[];
  values: unknown[];
  found: KeyColors | null;
}

/** Line styles by position, or by the values of the chosen key if the runs differ in it. */
export function coloringOf(comparison: Comparison, chosen: string): Coloring {
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

/** `baseline`: if it is drawn but not one of the runs. */
export function Legend({ runs, baseline, coloring, hidden, onHide }: { runs: RunRow[]; baseline: RunRow | null; coloring: Coloring; hidden: ReadonlySet<string>; onHide: (hidden: ReadonlySet<string>) => void }) {
  const names = useMemo(() => labels(runs), [runs]);
  const format = settingFormat(coloring.values.filter((value): value is number => typeof value === "number"));
  const valueText = (value: unknown) => (typeof value === "number" ? format(value) : value === null || value === undefined ? "–" : plain(value));
  const remove = (id: string) => setQuery({ runs: runs.filter((r) => r.id !== id).map((r) => r.id).join(",") });
  const order = runs.map((_, i) => i);
  if (coloring.found?.ramp) order.sort((a, b) => Number(coloring.values[a] ?? Infinity) - Number(coloring.values[b] ?? Infinity));
  else if (coloring.key) order.sort((a, b) => valueText(coloring.values[a]).localeCompare(valueText(coloring.values[b]), "en", { numeric: true }));
  const entries: Entry[] = order.map((i) => {
    const run = runs[i]!;
    return {
      key: run.id, label: names.get(run.id)!, ...coloring.styles.get(run.id)!, href: link(["run", run.id]),
      title: coloring.key ? `${run.id}, ${coloring.key} ${valueText(coloring.values[i])}` : run.id,
      more: <>
        {run.state !== "finished" && <span class="line-state"><StateMark state={shownState(run)} exit={run.exit} signal={run.signal} /></span>}
        {runs.length > 2 && <button type="button" class="button quiet mini icon leave-out" aria-label={`Remove ${run.name} from the comparison`} title="Remove from the comparison" onClick={() => remove(run.id)}><Icon name="close" size={11} /></button>}
      </>,
    };
  });
  if (baseline) entries.push({ key: baseline.id, label: baselineLabel(baseline), ...baselineStyle(), href: link(["run", baseline.id]), title: baseline.id });
  return (
    <LineList entries={entries} what="run" hidden={hidden} onHide={onHide}>
      {coloring.keys.length > 0 && (
        <label class="color-by small"><span>Color by</span>
          <select class="field mini" value={coloring.key} onChange={(event) => {
            colorKey.value = event.currentTarget.value;
            setQuery({ color: event.currentTarget.value });
          }}>
            <option value="">run</option>
            {coloring.keys.map((key) => <option key={key} value={key}>{key}</option>)}
          </select>
        </label>
      )}
      {coloring.found?.ramp && (
        <p class="row tiny soft color-ramp" aria-label={`${coloring.key} from ${valueText(coloring.found.ramp.low)} to ${valueText(coloring.found.ramp.high)}`}>
          {valueText(coloring.found.ramp.low)}
          <span class="ramp">{Array.from({ length: 24 }, (_, i) => <i key={i} style={{ background: rampColor(i / 23, shownTheme.value) }} />)}</span>
          {valueText(coloring.found.ramp.high)}
          {coloring.found.ramp.log && <span class="dim">log</span>}
        </p>
      )}
      {coloring.found && !coloring.found.ramp && (
        <ul class="row wrap tiny soft" aria-label={coloring.key}>
          {[...new Set(coloring.values.map(valueText))].map((text) => <li key={text} class="row"><i class="dot" style={{ background: coloring.found!.colors[coloring.values.findIndex((value) => valueText(value) === text)] }} />{text}</li>)}
        </ul>
      )}
    </LineList>
  );
}
