// The console output of ranks, with search and follow mode. Virtualized: only the lines in view are rendered.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ConsoleStream, Run } from "../data/source";
import { bytes, plural } from "../format";
import { Icon } from "../parts/icons";
import { route, setQuery, useUrlState } from "../router";
import { source, useAsync, useDebounced } from "../store";

const MAX_LINES = 50000;
const plainText = (line: string) => line.replace(/\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07/g, "");

function selectStream(streams: ConsoleStream[], query: URLSearchParams): ConsoleStream | undefined {
  const named = streams.find((s) => s.stream === query.get("stream"));
  if (named) return named;
  const kind = query.get("kind");
  const rank = query.get("rank");
  const matching = streams.filter((s) => (kind === null || s.kind === kind) && (rank === null || s.rank === Number(rank)));
  const latest = Math.max(...matching.map((s) => s.attempt));
  const latestStreams = matching.filter((s) => s.attempt === latest);
  return latestStreams.find((s) => s.kind === "stdout" && s.bytes > 0) ?? latestStreams.find((s) => s.bytes > 0) ?? latestStreams[0] ?? streams[0];
}

export function ConsoleTab({ run }: { run: Run }) {
  const streams = [...run.console].sort((a, b) => b.attempt - a.attempt || a.rank - b.rank || b.kind.localeCompare(a.kind));
  const stream = selectStream(streams, route.value.query);
  const texts = useAsync(() => (run.num_texts > 0 ? source().texts(run.id) : Promise.resolve([])), [run.id, run.num_texts]);
  const attempts = new Set(streams.filter((s) => s.path !== null).map((s) => s.attempt)).size;
  if (!stream) {
    return (
      <div class="stack">
        {texts.value && texts.value.length > 0 && <Messages lines={texts.value.map((t) => `${t.level.padEnd(8)}${t.line}`)} />}
        <div class="empty"><h2>No console output</h2><p>Output is recorded for ranks that <code>lockstep launch</code> starts. A trainer that is started directly prints to its terminal.</p></div>
      </div>
    );
  }
  return (
    <div class="stack">
      <Log key={stream.stream} run={run} stream={stream}>
        <label class="row"><span class="sr">Output</span>
          <select class="field" value={stream.stream} onChange={(event) => setQuery({ stream: event.currentTarget.value, rank: null, kind: null })}>
            {streams.map((s) => <option key={s.stream} value={s.stream}>rank {s.rank} · {s.kind}{s.path === null ? ` · node ${s.node}` : attempts > 1 ? ` · attempt ${s.attempt}` : ""}{s.start > 0 ? ` · start ${s.start + 1}` : ""} · {bytes(s.bytes)}</option>)}
          </select>
        </label>
      </Log>
      {texts.value && texts.value.length > 0 && <Messages lines={texts.value.map((t) => `${t.level.padEnd(8)}${t.line}`)} />}
    </div>
  );
}

function Messages({ lines }: { lines: string[] }) {
  return <section class="card block"><h2>{plural(lines.length, "tracker message")}</h2><pre class="log-plain" tabIndex={0}>{lines.join("\n")}</pre></section>;
}

interface LoadedLines { lines: string[]; begin: number; end: number; size: number }

/** `begin` stays that of the first line: if there are too many lines, only the new ones are kept. */
function withLater(before: LoadedLines | undefined, page: LoadedLines): LoadedLines {
  if (!before || before.lines.length + page.lines.length > MAX_LINES) return page;
  return { ...page, begin: before.begin, lines: [...before.lines, ...page.lines] };
}

function Log({ run, stream, children }: { run: Run; stream: ConsoleStream; children: preact.ComponentChildren }) {
  const [loaded, setLoaded] = useState<LoadedLines>();
  const [error, setError] = useState("");
  const [follow, setFollow] = useState(true);
  const [ends, setEnds] = useState(0); // incremented to scroll to the end
  const [search, setSearch] = useUrlState("find");
  const [found, setFound] = useState<{ offset: number; line: string }[]>();
  const query = useDebounced(search, 200);
  const busy = useRef(false);

  const load = async (where: { tail: number } | { from: number } | { to: number }, join: (before: LoadedLines | undefined, page: LoadedLines) => LoadedLines) => {
    if (busy.current) return;
    busy.current = true;
    try {
      const page = await source().console(run.id, stream.stream, where);
      setLoaded((before) => join(before, { ...page, lines: page.lines.map(plainText) }));
      setError("");
    } catch (reason) {
      setError((reason as Error).message);
    }
    busy.current = false;
  };
  useEffect(() => {
    void load({ tail: 1000 }, (_, page) => page);
  }, [stream.stream]);
  const later = () => loaded && loaded.end < stream.bytes && void load({ from: loaded.end }, withLater);
  const known = useRef(0); // bytes, at the last look
  useEffect(() => {
    const hadAll = loaded !== undefined && loaded.end >= known.current && loaded.lines.length < MAX_LINES;
    known.current = stream.bytes;
    if (follow || hadAll) later();
  }, [stream.bytes, run.version, loaded?.end, follow]);
  const earlier = () => loaded && loaded.begin > 0 && void load({ to: loaded.begin }, (before, page) => (before ? { ...before, begin: page.begin, lines: [...page.lines, ...before.lines] } : page));

  useEffect(() => {
    if (!query) return setFound(undefined);
    let current = true;
    void (async () => {
      const all: { offset: number; line: string }[] = [];
      for (let from = 0, size = 1; from < size && all.length < 2000 && current; ) {
        const page = await source().searchConsole(run.id, stream.stream, query, from).catch((reason: Error) => void setError(reason.message));
        if (!page || page.end <= from) break;
        all.push(...page.matches.map((m) => ({ ...m, line: plainText(m.line) })));
        ({ end: from, size } = page);
      }
      if (current) setFound(all);
    })();
    return () => void (current = false);
  }, [query, stream.stream, stream.bytes]);

  const jump = (offset: number) => {
    setFollow(false);
    setSearch("");
    setFound(undefined);
    void load({ from: Math.max(0, offset) }, (_, page) => page);
  };
  const toEnd = () => {
    setSearch("");
    setFound(undefined);
    setEnds((n) => n + 1);
    setFollow(true);
    void load({ tail: 1000 }, (_, page) => page);
  };
  const file = stream.path === null ? null : source().fileUrl(run.id, stream.path);
  return (
    <section class="card console">
      <div class="tools">
        {children}
        <div class="searchfield"><Icon name="search" /><input class="field" type="search" aria-label="Search the console" placeholder="Search the entire output" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></div>
        {found && <span class="dim small" role="status">{plural(found.length, "line")}{found.length >= 2000 ? " and more" : ""}</span>}
        <span class="spread" />
        {run.state === "running"
          ? <button type="button" class="button" aria-pressed={follow} title="Scroll to new lines as they arrive" onClick={() => (follow ? setFollow(false) : toEnd())}>Follow</button>
          : <button type="button" class="button" onClick={toEnd}><Icon name="down" size={14} />Jump to the end</button>}
        {file && <a class="button icon" aria-label="Download output" title="Download output" href={file} download><Icon name="download" /></a>}
      </div>
      {error && <p class="notice bad" role="alert">{error}</p>}
      {stream.path === null
        ? <p class="hint console-part">Recorded in the event log of node {stream.node}; the output files are on that node.</p>
        : !source().live && <p class="hint console-part">Only the last lines are included. The complete output is in the run directory: <code>{stream.path}</code></p>}
      {loaded && (found
        ? <Lines lines={found.map((m) => m.line)} mark={query} follow={false} onPick={(i) => jump(found[i]!.offset)} />
        : loaded.lines.length > 0 && <Lines lines={loaded.lines} mark="" follow={follow} ends={ends} onTop={earlier} onBottom={later} onLeave={() => setFollow(false)} />)}
      {loaded && loaded.lines.length === 0 && !found && <p class="nodata">No output{run.state === "running" ? " yet" : ""}</p>}
    </section>
  );
}

interface LinesProps { lines: string[]; mark: string; follow: boolean; ends?: number; onTop?: () => void; onBottom?: () => void; onLeave?: () => void; onPick?: (index: number) => void }

function Lines({ lines, mark, follow, ends, onTop, onBottom, onLeave, onPick }: LinesProps) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const lineHeight = useMemo(() => Math.round(1.5 * parseFloat(getComputedStyle(document.documentElement).fontSize)), []);
  const before = useRef({ count: 0, first: "" });
  const isOwnScroll = useRef(false);
  useLayoutEffect(() => {
    const el = box.current!;
    // Keep the visible lines in place when earlier lines are added above them.
    const added = lines.length - before.current.count;
    if (follow) {
      isOwnScroll.current = true;
      el.scrollTop = el.scrollHeight;
    } else if (added > 0 && before.current.count > 0 && lines[added] === before.current.first && lines[0] !== before.current.first) {
      isOwnScroll.current = true;
      el.scrollTop += added * lineHeight;
    }
    before.current = { count: lines.length, first: lines[0] ?? "" };
    setView({ top: el.scrollTop, height: el.clientHeight });
  }, [lines, follow, ends]);
  const onScroll = () => {
    const el = box.current!;
    setView({ top: el.scrollTop, height: el.clientHeight });
    if (isOwnScroll.current) {
      isOwnScroll.current = false;
      return;
    }
    if (el.scrollTop < 40) onTop?.();
    if (el.scrollTop + el.clientHeight > el.scrollHeight - 40) onBottom?.();
    if (follow && el.scrollTop + el.clientHeight < el.scrollHeight - 3 * lineHeight) onLeave?.();
  };
  const from = Math.max(0, Math.floor(view.top / lineHeight) - 20);
  const to = Math.min(lines.length, Math.ceil((view.top + view.height) / lineHeight) + 20);
  return (
    <div class="log" ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-label="Output" aria-live="off">
      <div style={{ height: `${lines.length * lineHeight}px`, position: "relative" }}>
        <div style={{ transform: `translateY(${from * lineHeight}px)` }}>
          {lines.slice(from, to).map((line, i) => (
            <div key={from + i} class={`log-line ${/\b(error|fatal|exception|traceback)\b/i.test(line) ? "error" : /\bwarn(ing)?\b/i.test(line) ? "warning" : ""} ${onPick ? "pick" : ""}`} style={{ height: `${lineHeight}px`, lineHeight: `${lineHeight}px` }} onClick={onPick && (() => onPick(from + i))}>
              {mark ? highlightMatches(line, mark) : line || " "}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

function highlightMatches(line: string, word: string) {
  const parts = [];
  const lower = line.toLowerCase();
  const pattern = word.toLowerCase();
  let at = 0;
  for (let next = lower.indexOf(pattern); next >= 0 && parts.length < 100; next = lower.indexOf(pattern, at)) {
    parts.push(line.slice(at, next), <mark key={next}>{line.slice(next, next + word.length)}</mark>);
    at = next + word.length;
  }
  return [...parts, line.slice(at)];
}
