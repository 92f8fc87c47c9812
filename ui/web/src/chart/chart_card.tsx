// One chart with its title, its values under the pointer, and what can be done with it.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Axis, Range } from "../data/source";
import { isBytes, metricValue, number } from "../format";
import { Icon } from "../parts/icons";
import { Dialog, Popover } from "../parts/overlay";
import { shownTheme } from "../settings";
import { inSomeFrame } from "./frames";
import type { Line, Who } from "./line";
import { LineChart, xLabel } from "./line_chart";
import { saveCsv, saveDrawnCsv, savePng } from "./save";
import { fillTip, valuesAt } from "./tip";

export interface Plot {
  /** The metric. */
  name: string;
  title: string;
  axis: Axis;
  /** What a line, its x and its y are, where x is no axis of a run. */
  columns?: readonly [string, string, string];
  /** Another value means other data: a version, a choice of ranks, ... */
  version: string;
  load: (range: Range | null, points: number) => Promise<Line[]>;
  csv: string | null;
}

export interface CardProps {
  plot: Plot;
  range: Range | null;
  log: boolean;
  height: number;
  pinned?: boolean;
  onPin?: () => void;
  onZoom: (axis: Axis, range: Range | null) => void;
  onPick?: ((line: Line, who: Who | null) => void) | undefined;
  large?: boolean;
}

export function ChartCard(props: CardProps) {
  const { plot, log } = props;
  const card = useRef<HTMLElement>(null);
  const near = useNearView(card, props.large ?? false);
  const [large, setLarge] = useState(false);
  const [ownLog, setOwnLog] = useState<boolean | null>(null);
  const view = useRef<{ lines: Line[]; chart: LineChart | null }>({ lines: [], chart: null });
  const isLog = ownLog ?? log;
  const png = () => {
    const { chart, lines } = view.current;
    if (chart) savePng(plot.name, chart.canvas, lines);
    else if (lines.length > 0) inSomeFrame(png);
  };
  const csv = () => plot.csv ? saveCsv(plot.name, plot.csv) : saveDrawnCsv(plot.name, plot.columns ?? ["line", plot.axis, "value"], view.current.lines);
  return (
    <figure class={`chart-card ${props.large ? "large" : "card"}`} ref={card} aria-label={plot.name}>
      <figcaption>
        <span class="chart-title ellipsis" title={plot.name}>{plot.title}</span>
        <span class="chart-value" data-value />
        <span class="chart-tools">
          {props.onPin && <button type="button" class="button quiet mini icon" aria-pressed={props.pinned ?? false} aria-label={`${props.pinned ? "Unpin" : "Pin"} ${plot.name}`} title={props.pinned ? "Unpin" : "Pin to the top"} onClick={props.onPin}><Icon name="pin" size={13} /></button>}
          {!props.large && <button type="button" class="button quiet mini icon" aria-label={`Enlarge ${plot.name}`} title="Enlarge" onClick={() => setLarge(true)}><Icon name="expand" size={13} /></button>}
          <Popover menu align="right" class="button quiet mini icon" name={`More about ${plot.name}`} label={<Icon name="more" size={13} />}>
            {(close) => (
              <>
                <button type="button" onClick={() => { setOwnLog(!isLog); close(); }}>{isLog ? <Icon name="check" size={13} /> : <span class="gap" />}Logarithmic</button>
                <button type="button" onClick={() => { props.onZoom(plot.axis, null); close(); }}><Icon name="reset" size={13} />Show everything</button>
                <hr />
                <button type="button" onClick={() => { png(); close(); }}><Icon name="download" size={13} />Save as PNG</button>
                <button type="button" onClick={() => { csv(); close(); }}><Icon name="download" size={13} />Save as CSV</button>
              </>
            )}
          </Popover>
        </span>
      </figcaption>
      <Drawing {...props} log={isLog} near={near} view={view.current} card={card} />
      {large && (
        <Dialog title={plot.name} wide close={() => setLarge(false)} feet={<button type="button" class="button" onClick={() => setLarge(false)}>Close</button>}>
          <ChartCard {...props} onPin={undefined as never} large height={Math.min(560, innerHeight - 260)} />
        </Dialog>
      )}
    </figure>
  );
}

/** Whether the card is in view, or nearly. */
function useNearView(card: { current: HTMLElement | null }, always: boolean): boolean {
  const [near, setNear] = useState(always);
  useEffect(() => {
    if (always) return;
    const observer = new IntersectionObserver((entries) => setNear(entries[entries.length - 1]!.isIntersecting), { rootMargin: "500px 0px" });
    observer.observe(card.current!);
    return () => observer.disconnect();
  }, []);
  return near;
}

interface DrawingProps extends CardProps { near: boolean; view: { lines: Line[]; chart: LineChart | null }; card: { current: HTMLElement | null } }

function Drawing({ plot, range, log, height, near, view, card, onZoom, onPick, large }: DrawingProps) {
  const host = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<"waiting" | "empty" | "drawn" | Error>("waiting");
  const [summary, setSummary] = useState("");
  const format = (value: number, digits?: number) => metricValue(plot.name, value, digits);
  const asked = useRef({ number: 0, what: "", busy: false, again: false });
  const [round, setRound] = useState(0);
  const now = useRef({ plot, range, log, height, near, format, onZoom, onPick });
  now.current = { plot, range, log, height, near, format, onZoom, onPick };

  const readout = (x: number | null) => {
    const shown = card.current?.querySelector<HTMLElement>("[data-value]");
    if (!shown) return;
    const { lines } = view;
    if (lines.length !== 1) {
      shown.textContent = "";
      return;
    }
    const [line] = lines as [Line];
    const at = x === null ? line.y.length - 1 : (valuesAt(lines, x)[0]?.at ?? -1);
    shown.textContent = at < 0 ? "" : format((line.raw ?? line.y)[at]!);
    shown.classList.toggle("pointed", x !== null);
  };

  const hover = (x: number | null, at: { left: number; top: number; here: boolean } | null) => {
    readout(x);
    const box = tip.current;
    const { chart } = view;
    if (!box || !chart) return;
    if (x === null || !at?.here) {
      box.hidden = true;
      if (chart.emphasis !== null) {
        chart.emphasis = null;
        chart.redraw();
      }
      return;
    }
    const closest = chart.lineAt(at.left - chart.plotLeft, at.top)?.key ?? null;
    if (view.lines.length > 1 && closest !== chart.emphasis) {
      chart.emphasis = closest;
      chart.redraw();
    }
    fillTip(box, view.lines, x, (at) => placeOf(now.current.plot, at), now.current.format, closest);
    box.hidden = false;
    const width = box.offsetWidth;
    const space = host.current!.clientWidth;
    const right = at.left + 14 + width > space && at.left > space / 2;
    box.style.left = `${Math.max(0, right ? at.left - width - 14 : Math.min(at.left + 14, Math.max(0, space - width)))}px`;
    box.style.top = `${Math.max(0, at.top - 10)}px`;
  };

  /** Draws what is there. The chart is made with its first lines, so that nothing is drawn in vain. */
  const draw = () => {
    const { plot, range, log, height, near, format } = now.current;
    if (!near || !host.current || view.lines.length === 0) return;
    view.chart ??= new LineChart(host.current, {
      height, xKind: plot.axis, log, format, binary: isBytes(plot.name), sync: `${large ? "large" : "board"}-${plot.axis}`,
      onZoom: (to) => now.current.onZoom(now.current.plot.axis, to),
      onHover: hover,
      ...(onPick ? { onPick: (line: Line, who: Who | null) => now.current.onPick?.(line, who) } : {}),
    });
    view.chart.set(view.lines, range);
    readout(null);
  };

  // The chart exists while it is near the view.
  useEffect(() => {
    if (!near) return;
    const undo = inSomeFrame(draw);
    return () => {
      undo();
      view.chart?.destroy();
      view.chart = null;
      if (tip.current) tip.current.hidden = true;
    };
  }, [near, plot.axis, log, shownTheme.value, plot.name, height]);

  // Its data is what the range asks for. What is there is drawn at once, the detail follows. Of a run that goes on, the next
  // version is asked for when the one before has come: however slow the server is, the chart moves on.
  useEffect(() => {
    if (!near) return;
    const ask = asked.current;
    const what = `${plot.axis}|${plot.name}|${range?.join()}`;
    if (view.chart && view.lines.length > 0) view.chart.set(view.lines, range);
    if (ask.busy && ask.what === what) {
      ask.again = true;
      return;
    }
    const own = ++ask.number;
    Object.assign(ask, { what, busy: true, again: false });
    const points = Math.max(200, Math.ceil((host.current!.clientWidth * Math.min(2, devicePixelRatio)) / 200) * 200);
    const answered = () => {
      if (own !== ask.number) return false;
      ask.busy = false;
      if (ask.again) setRound((n) => n + 1);
      return true;
    };
    plot.load(range, points).then(
      (lines) => {
        if (!answered()) return;
        view.lines = lines;
        setState(lines.some((line) => line.x.length > 0) ? "drawn" : "empty");
        setSummary(describe(lines, format));
        inSomeFrame(draw);
      },
      (error: Error) => answered() && setState(error),
    );
  }, [near, plot.version, plot.axis, plot.name, range?.[0], range?.[1], round]);

  useEffect(() => {
    const observer = new ResizeObserver(() => view.chart?.resize(host.current?.clientWidth ?? 0, height));
    observer.observe(host.current!);
    return () => observer.disconnect();
  }, [height]);

  const onKeyDown = (event: KeyboardEvent) => {
    const { chart } = view;
    if (!chart) return;
    const act: Record<string, () => void> = {
      ArrowLeft: () => chart.nudge(-1), ArrowRight: () => chart.nudge(1),
      "+": () => chart.zoomBy(0.5), "=": () => chart.zoomBy(0.5), "-": () => chart.zoomBy(2), "0": () => onZoom(plot.axis, null),
    };
    const found = act[event.key];
    if (!found) return;
    event.preventDefault();
    event.stopPropagation();
    found();
  };
  return (
    <div class={`drawing ${state === "drawn" ? "" : "blank"}`} ref={host} style={{ height: `${height}px` }} tabIndex={0} role="group" aria-label={`Chart of ${plot.name}. ${summary}`} onKeyDown={onKeyDown}>
      {state === "waiting" && near && <p class="waiting small">loading</p>}
      {state === "empty" && <p class="nodata">no values {range ? "in this range" : "yet"}</p>}
      {state instanceof Error && <p class="nodata bad" role="alert">{state.message}</p>}
      <div class="tip" ref={tip} hidden aria-live="polite" />
    </div>
  );
}

function placeOf({ axis, columns }: Plot, x: number): string {
  return axis === "time" ? `${xLabel(axis, x)} after the start` : `${columns?.[1] ?? axis} ${number(x, 8)}`;
}

function describe(lines: readonly Line[], format: (value: number) => string): string {
  return lines.filter((line) => line.x.length > 0).slice(0, 6).map((line) => `${line.label}: from ${format(line.y[0]!)} to ${format(line.y[line.y.length - 1]!)}`).join(", ");
}
