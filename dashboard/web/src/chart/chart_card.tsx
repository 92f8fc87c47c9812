// A chart with its title, tooltip and menu.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Axis, Range } from "../data/source";
import { effect } from "@preact/signals";
import { cssColor } from "../colors";
import { metricValue, number } from "../format";
import { Icon } from "../parts/icons";
import { handleKey } from "../parts/keyboard";
import { Dialog, Popover, toast } from "../parts/overlay";
import { useNearViewport } from "../parts/size";
import { useUrlState } from "../router";
import { shownTheme } from "../settings";
import { source } from "../store";
import { inSomeFrame } from "./frames";
import { type BandCurve, type Line, valueAt } from "./line";
import { type HoverPlace, LineChart, type Stop, xLabel } from "./line_chart";
import { LineList } from "./line_list";
import { highlighted, hovered } from "./hover";
import { saveCsv, saveDrawnCsv, savePng, saveSvg } from "./save";
import { chartSvg } from "./svg";
import { columnFormat } from "./ticks";
import { renderTooltip, valuesAt } from "./tooltip";

export interface Plot {
  /** The metric. */
  name: string;
  /** The metric whose unit and limits the values have, by default that with this name; "" for none. */
  unit?: string;
  title: string;
  axis: Axis;
  /** Column names of a line, its x and its y, if x is not an axis of a run. */
  columns?: readonly [string, string, string];
  /** Of the values; by default implied by the name of the metric. */
  limits?: readonly [number, number];
  /** Changes when the data must be reloaded: run version, selected ranks, ... */
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
  /** An entry of the menu that removes the card. */
  remove?: { label: string; run: () => void };
  onZoom: (axis: Axis, range: Range | null) => void;
  onPick?: ((line: Line, curve: BandCurve | null) => void) | undefined;
  large?: boolean;
  /** Keys of hidden lines. */
  hidden?: ReadonlySet<string>;
}

const NONE_HIDDEN: ReadonlySet<string> = new Set();

export function ChartCard(props: CardProps) {
  const { plot, log } = props;
  const card = useRef<HTMLElement>(null);
  // A report may be printed, so all of its charts are drawn.
  const near = useNearViewport(card, (props.large ?? false) || !source().live);
  const [large, setLarge] = useState(false);
  const [ownLog, setOwnLog] = useUrlState(`log.${plot.name}`);
  const view = useRef<{ lines: Line[]; chart: LineChart | null }>({ lines: [], chart: null });
  const isLog = ownLog === "" ? log : ownLog === "1";
  const [hidden, setHidden] = useState(props.hidden ?? NONE_HIDDEN);
  const [lines, setLines] = useState<Line[]>([]);
  const off = props.large ? hidden : props.hidden ?? NONE_HIDDEN;
  const svg = () => chartSvg({
    title: plot.name, name: plot.unit ?? plot.name, xName: xName(plot, true), xKind: plot.axis, lines: view.current.lines.filter((line) => !off.has(line.key)), range: props.range, limits: plot.limits, log: isLog, width: 720, height: 320,
    font: getComputedStyle(document.body).fontFamily, colors: { paper: cssColor("--surface"), ink: cssColor("--ink"), soft: cssColor("--ink-2"), grid: cssColor("--grid") },
  });
  const csv = () => plot.csv ? saveCsv(plot.name, plot.csv) : saveDrawnCsv(plot.name, plot.columns ?? ["line", plot.axis, "value"], view.current.lines);
  return (
    <figure class={`chart-card ${props.large ? "large" : "card"}`} ref={card} aria-label={plot.name}>
      <figcaption>
        <span class="chart-title ellipsis" title={plot.name}>{plot.title}</span>
        <span class="chart-value" data-value />
        <span class="chart-tools">
          {props.onPin && <button type="button" class="button quiet mini icon" aria-pressed={props.pinned ?? false} aria-label={`${props.pinned ? "Unpin" : "Pin"} ${plot.name}`} title={props.pinned ? "Unpin" : "Pin to the top"} onClick={props.onPin}><Icon name="pin" size={13} /></button>}
          {!props.large && <button type="button" class="button quiet mini icon" aria-label={`Enlarge ${plot.name}`} title="Enlarge" onClick={() => setLarge(true)}><Icon name="expand" size={13} /></button>}
          <Popover menu align="right" class="button quiet mini icon" name={`More options for ${plot.name}`} label={<Icon name="more" size={13} />}>
            {(close) => (
              <>
                <button type="button" onClick={() => { setOwnLog(!isLog === log ? "" : isLog ? "0" : "1"); close(); }}>{isLog ? <Icon name="check" size={13} /> : <span class="gap" />}Log scale</button>
                <button type="button" onClick={() => { props.onZoom(plot.axis, null); close(); }}><Icon name="reset" size={13} />Reset zoom</button>
                {props.remove && !props.large && <button type="button" onClick={() => { close(); props.remove!.run(); }}><Icon name="close" size={13} />{props.remove.label}</button>}
                <hr />
                <button type="button" onClick={() => { savePng(plot.name, svg()).catch((error: Error) => toast(error.message, true)); close(); }}><Icon name="download" size={13} />Save as PNG</button>
                <button type="button" onClick={() => { saveSvg(plot.name, svg()); close(); }}><Icon name="download" size={13} />Save as SVG</button>
                <button type="button" onClick={() => { csv(); close(); }}><Icon name="download" size={13} />Save as CSV</button>
              </>
            )}
          </Popover>
        </span>
      </figcaption>
      <div class={props.large && lines.length > 1 ? "with-list" : ""}>
        <ChartCanvas {...props} hidden={off} log={isLog} near={near} view={view.current} card={card} onLines={props.large ? setLines : undefined} />
        {props.large && lines.length > 1 && <LineList entries={lines.map((line) => ({ key: line.key, label: line.label, color: line.color, dash: line.dash ?? [] }))} what="line" hidden={hidden} onHide={setHidden} />}
      </div>
      {large && (
        <Dialog title={plot.name} wide close={() => setLarge(false)} footer={<button type="button" class="button" onClick={() => setLarge(false)}>Close</button>}>
          <ChartCard {...props} onPin={undefined as never} large height={Math.min(560, innerHeight - (innerWidth > 700 ? 260 : 450))} />
        </Dialog>
      )}
    </figure>
  );
}

interface ChartCanvasProps extends CardProps { near: boolean; view: { lines: Line[]; chart: LineChart | null }; card: { current: HTMLElement | null }; onLines: ((lines: Line[]) => void) | undefined }

function ChartCanvas({ plot, range, log, height, near, view, card, onZoom, onPick, large, hidden = NONE_HIDDEN, onLines }: ChartCanvasProps) {
  const host = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const said = useRef<HTMLParagraphElement>(null);
  const [state, setState] = useState<"waiting" | "empty" | "drawn" | Error>("waiting");
  const [summary, setSummary] = useState("");
  const format = (value: number, digits?: number) => metricValue(plot.unit ?? plot.name, value, digits);
  const requests = useRef({ latest: 0, key: "", busy: false, again: false });
  const [round, setRound] = useState(0);
  const now = useRef({ plot, range, log, height, near, format, onZoom, onPick, hidden });
  now.current = { plot, range, log, height, near, format, onZoom, onPick, hidden };
  const visible = () => (now.current.hidden.size > 0 ? view.lines.filter((line) => !now.current.hidden.has(line.key)) : view.lines);

  const isHovering = useRef(false);

  const showValue = (x: number | null) => {
    const shown = card.current?.querySelector<HTMLElement>("[data-value]");
    if (!shown) return;
    const lines = visible().filter((line) => !line.isBaseline);
    if (lines.length !== 1) {
      shown.textContent = "";
      return;
    }
    const [line] = lines as [Line];
    const at = x === null ? line.y.length - 1 : (valuesAt(lines, x)[0]?.at ?? -1);
    shown.textContent = at < 0 ? "" : format((line.raw ?? line.y)[at]!);
    shown.classList.toggle("pointed", x !== null);
  };

  /** The place of the keyboard, for screen readers. */
  const stopText = ({ key, end }: Stop, x: number): string => {
    const line = visible().find((other) => other.key === key);
    const place = line && valuesAt([line], x)[0];
    if (!place) return "";
    const name = end === null ? line.label : `${end === "hi" ? "max" : "min"} ${line.extremes?.curveAt(place.at, end)?.label ?? ""}`;
    return `${name}, ${xText(now.current.plot, line.x[place.at]!)}: ${now.current.format(valueAt(line, x, end))}`;
  };

  const hover = (x: number | null, at: HoverPlace | null) => {
    showValue(x);
    if (said.current) said.current.textContent = x !== null && at?.stop ? stopText(at.stop, x) : "";
    const box = tip.current;
    const { chart } = view;
    if (!box || !chart) return;
    if (x === null || !at?.here) {
      box.hidden = true;
      if (isHovering.current) {
        isHovering.current = false;
        highlighted.value = null;
        hovered.value = null;
      }
      return;
    }
    const closest = at.stop?.key ?? chart.lineAt(at.left - chart.plotLeft, at.top)?.key ?? null;
    const lines = visible();
    isHovering.current = true;
    let write = now.current.format;
    if (lines.length > 1) {
      highlighted.value = closest;
      const values = valuesAt(lines, x);
      const formatColumn = columnFormat(plot.unit ?? plot.name, values.map((v) => v.value));
      write = (value) => formatColumn(value) ?? now.current.format(value);
      hovered.value = { name: plot.name, x: values[0] ? xText(plot, values[0].line.x[values[0].at]!) : "", values: new Map(values.map(({ line, at, value }) => [line.key, write(line.raw ? line.raw[at]! : value)])) };
    }
    renderTooltip(box, lines, x, (at) => xText(now.current.plot, at), write, closest);
    box.hidden = false;
    const width = box.offsetWidth;
    const space = host.current!.clientWidth;
    const right = at.left + 14 + width > space && at.left > space / 2;
    box.style.left = `${Math.max(0, right ? at.left - width - 14 : Math.min(at.left + 14, Math.max(0, space - width)))}px`;
    box.style.top = `${Math.max(0, at.top - 10)}px`;
  };

  /** Draws the loaded lines. Creates the chart with its first lines. */
  const draw = () => {
    const { plot, range, log, height, near } = now.current;
    if (!near || !host.current || view.lines.length === 0) return;
    view.chart ??= new LineChart(host.current, {
      height, xKind: plot.axis, log, name: plot.unit ?? plot.name, limits: plot.limits, xName: xName(plot, false), sync: `${large ? "large" : "board"}-${plot.axis}`,
      onZoom: (to) => now.current.onZoom(now.current.plot.axis, to),
      onHover: hover,
      ...(onPick ? { onPick: (line: Line, curve: BandCurve | null) => now.current.onPick?.(line, curve) } : {}),
    });
    view.chart.set(visible(), range);
    showValue(null);
  };

  // The chart exists while it is near the viewport.
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

  // Loads the data of the range. The loaded points are drawn immediately, and the details when they arrive. For a running run, the
  // next version is requested after the previous response, so that the chart makes progress even with a slow server.
  useEffect(() => {
    if (!near) return;
    const request = requests.current;
    const key = `${plot.axis}|${plot.name}|${range?.join()}`;
    if (view.chart && view.lines.length > 0) view.chart.set(visible(), range);
    if (request.busy && request.key === key) {
      request.again = true;
      return;
    }
    const own = ++request.latest;
    Object.assign(request, { key, busy: true, again: false });
    const points = Math.max(200, Math.ceil((host.current!.clientWidth * Math.min(2, devicePixelRatio)) / 200) * 200);
    const finish = () => {
      if (own !== request.latest) return false;
      request.busy = false;
      if (request.again) setRound((n) => n + 1);
      return true;
    };
    plot.load(range, points).then(
      (lines) => {
        if (!finish()) return;
        view.lines = lines;
        onLines?.(lines);
        setState(lines.some((line) => line.x.length > 0) ? "drawn" : "empty");
        setSummary(describe(visible(), format));
        inSomeFrame(draw);
      },
      (error: Error) => finish() && setState(error),
    );
  }, [near, plot.version, plot.axis, plot.name, range?.[0], range?.[1], round]);

  useEffect(() => {
    if (view.chart) inSomeFrame(draw);
    setSummary(describe(visible(), format));
  }, [hidden]);

  // The highlighted line, here, in another chart or in a list.
  useEffect(() => effect(() => {
    const key = highlighted.value; // read even without a chart, to subscribe to the signal
    view.chart?.emphasize(key);
  }), []);

  useEffect(() => {
    const observer = new ResizeObserver(() => view.chart?.resize(host.current?.clientWidth ?? 0, height));
    observer.observe(host.current!);
    return () => observer.disconnect();
  }, [height]);

  const onKeyDown = (event: KeyboardEvent) => {
    const { chart } = view;
    if (!chart) return;
    handleKey(event, {
      ArrowLeft: () => chart.nudge(-1), ArrowRight: () => chart.nudge(1), ArrowUp: () => chart.nudgeLine(-1), ArrowDown: () => chart.nudgeLine(1), Home: () => chart.nudge(1, -Infinity), End: () => chart.nudge(-1, Infinity),
      "+": () => chart.zoomBy(0.5), "=": () => chart.zoomBy(0.5), "-": () => chart.zoomBy(2), "0": () => onZoom(plot.axis, null),
      Enter: chart.isPointed && (() => chart.pickPointed()), Escape: chart.isPointed && (() => chart.leave()),
    });
  };
  return (
    <div class={`drawing ${state === "drawn" ? "" : "blank"}`} ref={host} style={{ height: `${height}px` }} tabIndex={0} role="group" aria-label={`Chart of ${plot.name}. ${summary}`} aria-keyshortcuts="ArrowLeft ArrowRight ArrowUp ArrowDown Enter Escape + - 0" onKeyDown={onKeyDown} onBlur={() => view.chart?.leave(true)}>
      {state === "waiting" && near && <p class="waiting small">Loading…</p>}
      {state === "empty" && <p class="nodata">No data {range ? "in this range" : "yet"}</p>}
      {state instanceof Error && <p class="nodata bad" role="alert">{state.message}</p>}
      <div class="tip" ref={tip} hidden aria-hidden="true" />
      <p class="sr" ref={said} aria-live="polite" />
    </div>
  );
}

/** The name of the x-axis; `full`: the long form. */
function xName({ axis, columns }: Plot, full: boolean): string {
  return columns?.[1] ?? (axis === "time" && full ? "time since start" : axis);
}

function xText({ axis, columns }: Plot, x: number): string {
  return axis === "time" ? `${xLabel(axis, x)} after start` : `${columns?.[1] ?? axis} ${number(x, 8)}`;
}

function describe(lines: readonly Line[], format: (value: number) => string): string {
  return lines.filter((line) => line.x.length > 0).slice(0, 6).map((line) => `${line.label}: from ${format(line.y[0]!)} to ${format(line.y[line.y.length - 1]!)}`).join(", ");
}
