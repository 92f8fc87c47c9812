// The configuration of a run, with defaults marked, its command and its environment.
import type { Run } from "../data/source";
import { plain, plural } from "../format";
import { Icon } from "../parts/icons";
import { copyText } from "../parts/overlay";
import { useUrlState } from "../router";
import { CodeChanges } from "./code_changes";

const PACKAGES = "packages.";

export interface Leaf { path: string; value: unknown }

/** The values of a nested configuration with their paths. Lists are values. */
export function leaves(value: unknown, path = ""): Leaf[] {
  if (value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0)
    return Object.entries(value).flatMap(([key, member]) => leaves(member, path ? `${path}.${key}` : key));
  return path ? [{ path, value }] : [];
}

export function ConfigTab({ run }: { run: Run }) {
  const [search, setSearch] = useUrlState("find");
  const [set, setSet] = useUrlState("set");
  const onlySet = set === "1";
  const defaults = new Set(run.defaults ?? []);
  const isDefault = (path: string) => [...defaults].some((d) => path === d || path.startsWith(`${d}.`));
  const all = leaves(run.config);
  const shown = all.filter((leaf) => (!search || `${leaf.path} ${plain(leaf.value)}`.toLowerCase().includes(search.toLowerCase())) && !(onlySet && isDefault(leaf.path)));
  const sections = grouped(shown);
  const recorded = leaves(run.environment).filter(({ path }) => path !== "host" && path !== "command");
  const environment = recorded.filter(({ path }) => !path.startsWith(PACKAGES));
  const packages = recorded.filter(({ path }) => path.startsWith(PACKAGES));
  return (
    <div class="config">
      <div class="tools">
        <div class="searchfield"><Icon name="search" /><input class="field" type="search" aria-label="Search the configuration" placeholder="Search keys and values" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></div>
        {run.defaults && <label class="row small"><input type="checkbox" class="check" checked={onlySet} onChange={() => setSet(onlySet ? "" : "1")} />Hide defaults</label>}
        <span class="spread" />
        <button type="button" class="button" onClick={() => void copyText(run.command.map(quoteWord).join(" "))}><Icon name="file" size={14} />Copy command</button>
      </div>
      <div class="config-grid">
        {[...sections].map(([name, own]) => (
          <section class="card block" key={name}>
            <h2>{name}</h2>
            <dl class="pairs">
              {own.map(({ path, value }) => {
                const isDefaultValue = isDefault(path);
                const key = path.includes(".") ? path.slice(name.length + 1) : path;
                return <div key={path} class={isDefaultValue ? "usual" : ""}><dt title={path}>{key}</dt><dd class="mono" title={isDefaultValue ? "Default value" : undefined}>{plain(value)}{isDefaultValue && <span class="tag">default</span>}</dd></div>;
              })}
            </dl>
          </section>
        ))}
        <section class="card block">
          <h2>Environment</h2>
          <dl class="pairs">
            <div><dt>directory</dt><dd class="mono">{run.dir}</dd></div>
            <div><dt>command</dt><dd class="mono">{run.command.map(quoteWord).join(" ")}</dd></div>
            <div><dt>host</dt><dd class="mono">{run.host}</dd></div>
            <div><dt>world size</dt><dd class="mono">{run.world_size}</dd></div>
            {environment.map(({ path, value }) => <div key={path}><dt title={path}>{path}</dt><dd class="mono">{plain(value)}</dd></div>)}
          </dl>
          {packages.length > 0 && (
            <details class="packages"><summary>{plural(packages.length, "Python package")}</summary>
              <dl class="pairs">{packages.map(({ path, value }) => <div key={path}><dt class="ellipsis">{path.slice(PACKAGES.length)}</dt><dd class="mono">{plain(value)}</dd></div>)}</dl>
            </details>
          )}
        </section>
      </div>
      <CodeChanges run={run} />
      {shown.length === 0 && <div class="empty"><h2>No matches</h2><p>No key or value contains <code>{search}</code>.</p></div>}
    </div>
  );
}

function grouped(all: Leaf[]): Map<string, Leaf[]> {
  const found = new Map<string, Leaf[]>();
  for (const leaf of all) {
    const name = leaf.path.split(".")[0]!;
    found.set(name, [...(found.get(name) ?? []), leaf]);
  }
  return found;
}

/** Of a command line, for a shell. */
export const quoteWord = (word: string) => (/^[\w./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
