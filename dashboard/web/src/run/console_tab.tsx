// What the ranks printed: searched, and followed while they print. Only the lines in view exist.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ConsoleStream, Run } from "../data/source";
import { bytes, plural } from "../format";
import { Icon } from "../parts/icons";
import { route, setQuery } from "../router";
import { source, useAnswer, useSettled } from "../store";

const MOST_LINES = 50000;
const plainText = (line: string) => line.replace(/\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07/g, "");

function chosenStream(streams: ConsoleStream[], query: URLSearchParams): ConsoleStream | undefined {
  const named = streams.find((s) => s.stream === query.get("stream"));
  if (named) return named;
  const kind = query.get("kind");
  const rank = query.get("rank");
  const fitting = streams.filter((s) => (kind === null || s.kind === kind) && (rank === null || s.rank === Number(rank)));
  const latest = Math.max(...fitting.map((s) => s.attempt));
  const now = fitting.filter((s) => s.attempt === latest);
  return now.find((s) => s.kind === "stdout" && s.bytes > 0) ?? now.find((s) => s.bytes > 0) ?? now[0] ?? streams[0];
}

export function ConsoleTab({ run }: { run: Run }) {
  const streams = [...run.console].sort((a, b) => b.attempt - a.attempt || a.rank - b.rank || b.kind.localeCompare(a.kind));
  const stream = chosenStream(streams, route.value.query);
  const texts = useAnswer(() => (run.num_texts > 0 ? source().texts(run.id) : Promise.resolve([])), [run.id, run.num_texts]);
  const attempts = new Set(streams.filter((s) => s.path !== null).map((s) => s.attempt)).size;
  if (!stream) {
    return (
      <div class="stack">
        {texts.value && texts.value.length > 0 && <Messages lines={texts.value.map((t) => `${t.level.padEnd(8)}${t.line}`)} />}
        <div class="empty"><h2>No console</h2><p>What ranks print is kept when <code>lockstep launch</code> starts them; a trainer started alone prints to its own terminal.</p></div>
      </div>
    );
  }
  return (
    <div class="stack">
      <Log key={stream.stream} run={run} stream={stream}>
        <label class="row"><span class="sr">Output</span>
          <select class="field" value={stream.stream} onChange={(event) => setQuery({ stream: event.currentTarget.value, rank: null, kind: null })}>
            {streams.map((s) => <option key={s.stream} value={s.stream}>rank {s.rank} · {s.kind}{s.path === null ? ` · node ${s.node}` : attempts > 1 ? ` · attempt ${s.attempt}` : ""} · {bytes(s.bytes)}</option>)}
          </select>
        </label>
      </Log>
      {texts.value && texts.value.length > 0 && <Messages lines={texts.value.map((t) => `${t.level.padEnd(8)}${t.line}`)} />}
    </div>
  );
}

function Messages({ lines }: { lines: string[] }) {
  return <section class="card block"><h2>{plural(lines.length, "message")} of the tracker</h2><pre class="log-plain" tabIndex={0}>{lines.join("\n")}</pre></section>;
}

interface Held { lines: string[]; begin: number; end: number; size: number }

function Log({ run, stream, children }: { run: Run; stream: ConsoleStream; children: preact.ComponentChildren }) {
  const [held, setHeld] = useState<Held>();
  const [error, setError] = useState("");
  const [follow, setFollow] = useState(true);
  const [ends, setEnds] = useState(0); // how often one went to the end
  const [search, setSearch] = useState("");
  const [found, setFound] = useState<{ offset: number; line: string }[]>();
  const settled = useSettled(search, 200);
  const busy = useRef(false);

  const load = async (where: { tail: number } | { from: number } | { to: number }, join: (before: Held | undefined, page: Held) => Held) => {
    if (busy.current) return;
    busy.current = true;
    try {
      const page = await source().console(run.id, stream.stream, where);
      setHeld((before) => join(before, { ...page, lines: page.lines.map(plainText) }));
      setError("");
    } catch (reason) {
      setError((reason as Error).message);
    }
    busy.current = false;
  };
  useEffect(() => {
    void load({ tail: 1000 }, (_, page) => page);
  }, [stream.stream]);
  useEffect(() => {
    if (!held || stream.bytes <= held.end) return;
    void load({ from: held.end }, (before, page) => (before ? { ...page, begin: before.begin, lines: [...before.lines, ...page.lines].slice(-MOST_LINES) } : page));
  }, [stream.bytes, run.version, held?.end]);
  const earlier = () => held && held.begin > 0 && void load({ to: held.begin }, (before, page) => (before ? { ...before, begin: page.begin, lines: [...page.lines, ...before.lines] } : page));

  useEffect(() => {
    if (!settled) return setFound(undefined);
    let current = true;
    void (async () => {
      const all: { offset: number; line: string }[] = [];
      for (let from = 0, size = 1; from < size && all.length < 2000 && current; ) {
        const page = await source().searchConsole(run.id, stream.stream, settled, from).catch((reason: Error) => void setError(reason.message));
        if (!page || page.end <= from) break;
        all.push(...page.matches.map((m) => ({ ...m, line: plainText(m.line) })));
        ({ end: from, size } = page);
      }
      if (current) setFound(all);
    })();
    return () => void (current = false);
  }, [settled, stream.stream, stream.bytes]);

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
        <div class="searchfield"><Icon name="search" /><input class="field" type="search" aria-label="Search the console" placeholder="Search in the whole output" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></div>
        {found && <span class="dim small" role="status">{plural(found.length, "line")}{found.length >= 2000 ? " and more" : ""}</span>}
        <span class="spread" />
        {run.state === "running"
          ? <button type="button" class="button" aria-pressed={follow} title="Keeps the newest lines in view" onClick={() => (follow ? setFollow(false) : toEnd())}>Follow</button>
          : <button type="button" class="button" onClick={toEnd}><Icon name="down" size={14} />Jump to the end</button>}
        {file && <a class="button icon" aria-label="Download this output" title="Download this output" href={file} download><Icon name="download" /></a>}
      </div>
      {error && <p class="notice bad" role="alert">{error}</p>}
      {stream.path === null
        ? <p class="hint console-part">As recorded in the event log of node {stream.node}; the files with the output are on that node.</p>
        : !source().live && <p class="hint console-part">The last lines that were printed. All of them are in the run's directory, as <code>{stream.path}</code>.</p>}
      {held && (found
        ? <Lines lines={found.map((m) => m.line)} mark={settled} follow={false} onPick={(i) => jump(found[i]!.offset)} />
        : held.lines.length > 0 && <Lines lines={held.lines} mark="" follow={follow} ends={ends} onTop={earlier} onLeave={() => setFollow(false)} />)}
      {held && held.lines.length === 0 && !found && <p class="nodata">nothing printed{run.state === "running" ? " yet" : ""}</p>}
    </section>
  );
}

interface LinesProps { lines: string[]; mark: string; follow: boolean; ends?: number; onTop?: () => void; onLeave?: () => void; onPick?: (index: number) => void }

function Lines({ lines, mark, follow, ends, onTop, onLeave, onPick }: LinesProps) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const high = useMemo(() => Math.round(1.5 * parseFloat(getComputedStyle(document.documentElement).fontSize)), []);
  const before = useRef({ count: 0, first: "" });
  const own = useRef(false);
  useLayoutEffect(() => {
    const el = box.current!;
    // Lines that came in front must not move what one reads.
    const added = lines.length - before.current.count;
    if (follow) {
      own.current = true;
      el.scrollTop = el.scrollHeight;
    } else if (added > 0 && before.current.count > 0 && lines[added] === before.current.first && lines[0] !== before.current.first) {
      own.current = true;
      el.scrollTop += added * high;
    }
    before.current = { count: lines.length, first: lines[0] ?? "" };
    setView({ top: el.scrollTop, height: el.clientHeight });
  }, [lines, follow, ends]);
  const onScroll = () => {
    const el = box.current!;
    setView({ top: el.scrollTop, height: el.clientHeight });
    if (own.current) {
      own.current = false;
      return;
    }
    if (el.scrollTop < 40) onTop?.();
    if (follow && el.scrollTop + el.clientHeight < el.scrollHeight - 3 * high) onLeave?.();
  };
  const from = Math.max(0, Math.floor(view.top / high) - 20);
  const to = Math.min(lines.length, Math.ceil((view.top + view.height) / high) + 20);
  return (
    <div class="log" ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-label="Output" aria-live="off">
      <div style={{ height: `${lines.length * high}px`, position: "relative" }}>
        <div style={{ transform: `translateY(${from * high}px)` }}>
          {lines.slice(from, to).map((line, i) => (
            <div key={from + i} class={`log-line ${/\b(error|fatal|exception|traceback)\b/i.test(line) ? "error" : /\bwarn(ing)?\b/i.test(line) ? "warning" : ""} ${onPick ? "pick" : ""}`} style={{ height: `${high}px`, lineHeight: `${high}px` }} onClick={onPick && (() => onPick(from + i))}>
              {mark ? marked(line, mark) : line || " "}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

function marked(line: string, word: string) {
  const parts = [];
  const small = line.toLowerCase();
  const wanted = word.toLowerCase();
  let at = 0;
  for (let next = small.indexOf(wanted); next >= 0 && parts.length < 100; next = small.indexOf(wanted, at)) {
    parts.push(line.slice(at, next), <mark key={next}>{line.slice(next, next + word.length)}</mark>);
    at = next + word.length;
  }
  return [...parts, line.slice(at)];
}
