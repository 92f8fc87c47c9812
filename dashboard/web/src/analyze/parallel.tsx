// Parallel coordinates: one axis per column, one line per run. Drag along an axis to select a range. With the keyboard, the drawing is
// one tab stop for its lines, and the names of the axes are one for the ranges.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { PointTip } from "../chart/point_tip";
import { cssColor } from "../colors";
import { Icon } from "../parts/icons";
import { handleKey, stepIn } from "../parts/keyboard";
import { Popover } from "../parts/overlay";
import { useWidth } from "../parts/size";
import { shownTheme } from "../settings";
import { PAD, ParallelPlot } from "./parallel_plot";
import { runColors } from "./run_colors";
import { type Brush, brushBetween, type Brushes, brushSpan, brushWords, differenceOf, isRange, nameOf, steppedBrush, type Values } from "./values";

const HEIGHT = 340;
const MIN_GAP = 84;
const GRAB = 16;

interface Props {
  columns: Values[];
  target: Values;
  ids: string[];
  names: string[];
  brushes: Brushes;
  /** The runs inside of all brushes, also those without an axis here. */
  inside: Uint8Array;
  /** The baseline of the runs, or -1. */
  base: number;
  /** The brushes before the current drag. */
  settled: Brushes;
  /** While an axis is brushed, and when it is done. */
  onBrush: (brushes: Brushes, done: boolean) => void;
  onOpen: (run: number) => void;
  onMove: (field: string, by: number) => void;
  onHide: (field: string) => void;
}

export function Parallel(props: Props) {
  const { columns, target, ids, names, brushes, inside, base, onBrush } = props;
  const host = useRef<HTMLDivElement>(null);
  const canvases = [useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null)] as const;
  const plot = useRef<ParallelPlot | null>(null);
  const available = useWidth(host);
  const width = available === 0 ? 0 : Math.max(available, columns.length * MIN_GAP + 2 * PAD.side - MIN_GAP);
  const [hovered, setHovered] = useState<{ run: number; x: number; y: number } | null>(null);
  /** The axis whose name is the tab stop of all names. */
  const [chosenStop, setStop] = useState(0);
  const stop = Math.min(chosenStop, columns.length - 1);
  /** The axis along which keys move from line to line. */
  const keyAxis = useRef(Infinity);
  const now = useRef({ inside });
  now.current = { inside };
  const isBrushed = Object.keys(brushes).length > 0;

  useLayoutEffect(() => {
    if (width === 0) return;
    plot.current ??= new ParallelPlot(canvases[0].current!, canvases[1].current!, canvases[2].current!);
    const colors = runColors(target);
    plot.current.set(columns, ids.length, width, HEIGHT, { gray: cssColor("--line-strong"), of: (run) => colors[run]!, accent: cssColor("--accent"), ink: cssColor("--ink") });
    plot.current.drawFront(now.current.inside, isBrushed);
    host.current!.dataset["drawn"] = String(ids.length);
  }, [columns, target, ids, width, shownTheme.value]);
  useLayoutEffect(() => plot.current?.drawFront(inside, isBrushed), [inside]);
  useLayoutEffect(() => plot.current?.drawTop(hovered?.run ?? null, base), [hovered?.run, base, columns, target, ids, width, shownTheme.value]);
  useEffect(() => () => plot.current?.destroy(), []);

  /** Follows the pointer from an axis until it is released, at most once per frame. */
  const startBrush = (axis: number, event: PointerEvent) => {
    const column = columns[axis]!;
    const box = canvases[2].current!.getBoundingClientRect();
    const at = (e: PointerEvent) => plot.current!.position(e.clientY - box.top);
    const from = at(event);
    const before = brushes[column.field];
    const span = before ? brushSpan(column, before) : null;
    const moves = span !== null && from >= span[0] && from <= span[1];
    let next: Brushes = brushes;
    let frame = 0;
    const follow = (e: PointerEvent) => {
      const to = at(e);
      const [low, high] = moves ? [Math.max(0, span[0] + to - from), Math.min(1, span[1] + to - from)] : [from, to];
      const brush = brushBetween(column, low, high);
      const { [column.field]: _, ...others } = brushes;
      next = brush ? { ...others, [column.field]: brush } : others;
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => onBrush(next, false));
    };
    const end = (e: PointerEvent) => {
      removeEventListener("pointermove", follow);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
      cancelAnimationFrame(frame);
      if (Math.abs(e.clientY - event.clientY) < 4) {
        const { [column.field]: _, ...others } = brushes;
        next = others;
      }
      onBrush(next, true);
    };
    addEventListener("pointermove", follow);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
    event.preventDefault();
  };
  const axisAt = (event: PointerEvent): number => {
    const x = event.clientX - canvases[2].current!.getBoundingClientRect().left;
    return columns.findIndex((_, axis) => Math.abs(plot.current!.x(axis) - x) < GRAB);
  };
  const hover = (event: PointerEvent) => {
    if (event.buttons > 0 || !plot.current) return;
    const box = canvases[2].current!.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const run = y > PAD.top - 8 ? plot.current.runAt(x, y, now.current.inside) : null;
    canvases[2].current!.style.cursor = axisAt(event) >= 0 ? "ns-resize" : run !== null ? "pointer" : "default";
    point(run, x, y);
  };
  const point = (run: number | null, x = 0, y = 0) => setHovered(run === null ? null : { run, x, y });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget || !plot.current) return;
    const last = columns.length - 1;
    const go = (along: -1 | 0 | 1, by: -1 | 0 | 1, from = hovered?.run ?? null) => {
      const axis = Math.max(0, Math.min(last, Math.min(last, keyAxis.current) + along));
      const run = by === 0 && from !== null ? from : stepIn(plot.current!.inOrder(axis, now.current.inside), from, by || 1);
      keyAxis.current = axis;
      if (run === null) return;
      const [left, top] = plot.current!.placeOf(run, axis);
      host.current!.scrollLeft = left - available / 2;
      point(run, left, top);
    };
    handleKey(event, {
      ArrowLeft: () => go(-1, 0), ArrowRight: () => go(1, 0), ArrowUp: () => go(0, -1), ArrowDown: () => go(0, 1), Home: () => go(0, 1, null), End: () => go(0, -1, null),
      Enter: hovered !== null && (() => props.onOpen(hovered.run)), Escape: hovered !== null && (() => point(null)),
    });
  };
  const x = (axis: number) => (columns.length < 2 ? width / 2 : PAD.side + ((width - 2 * PAD.side) * axis) / (columns.length - 1));
  const y = (position: number) => HEIGHT - PAD.bottom - (HEIGHT - PAD.top - PAD.bottom) * position;
  // Made once: brushing must not render them again.
  const axisLines = useMemo(() => width > 0 && (
    <svg width={width} height={HEIGHT} aria-hidden="true">
      {columns.map((column, axis) => (
        <g key={column.field}>
          <line x1={x(axis)} x2={x(axis)} y1={y(1)} y2={y(0)} class={column === target ? "axis target" : "axis"} />
          {column.scale.ticks(7).map(({ at, label }) => (
            <g key={at}><line x1={x(axis) - 3} x2={x(axis)} y1={y(at)} y2={y(at)} class="axis" /><text x={x(axis) + (axis === columns.length - 1 ? 6 : -6)} y={y(at) + 3.5} text-anchor={axis === columns.length - 1 ? "start" : "end"}>{label.length > 9 ? `${label.slice(0, 8)}…` : label}</text></g>
          ))}
        </g>
      ))}
    </svg>
  ), [columns, target, width]);
  const latest = useRef(props);
  latest.current = props;
  const setBrush = ({ field }: Values, brush: Brush | null) => {
    const { [field]: _, ...others } = latest.current.brushes;
    latest.current.onBrush(brush ? { ...others, [field]: brush } : others, true);
  };
  const axisNames = useMemo(() => width > 0 && columns.map((column, axis) => (
    <AxisName key={column.field} column={column} isStop={axis === stop} left={x(axis)} gap={(width - 2 * PAD.side) / Math.max(1, columns.length - 1)} isTarget={column === target} brush={props.settled[column.field]}
      onBrush={(brush) => setBrush(column, brush)} onMove={column === target ? null : (by) => latest.current.onMove(column.field, by)} onHide={column === target ? null : () => latest.current.onHide(column.field)} />
  )), [columns, target, width, props.settled, stop]);
  const axisButtons = (event: { currentTarget: HTMLElement }) => [...event.currentTarget.querySelectorAll<HTMLElement>("[aria-haspopup]")];
  /** Keys on the name of an axis: to another axis, or its brush. */
  const onAxisKey = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const buttons = axisButtons(event);
    const axis = buttons.indexOf(event.target as HTMLElement);
    const column = columns[axis];
    if (!column) return; // in the menu
    const brush = brushes[column.field];
    const step = (by: -1 | 1) => setBrush(column, steppedBrush(column, brush, by, event.shiftKey));
    handleKey(event, {
      ArrowLeft: () => buttons[axis - 1]?.focus(), ArrowRight: () => buttons[axis + 1]?.focus(), Home: () => buttons[0]!.focus(), End: () => buttons[columns.length - 1]!.focus(),
      ArrowUp: () => step(1), ArrowDown: () => step(-1), Escape: brush !== undefined && (() => setBrush(column, null)),
    });
  };
  return (
    <div class="parallel" ref={host} style={{ minHeight: `${HEIGHT}px` }} role="group" tabIndex={0} aria-label={`Parallel coordinates of ${ids.length} runs with ${columns.length} axes. Each axis has a menu to select a range.${base >= 0 ? ` The dashed line is the baseline ${names[base]}.` : ""}`} aria-keyshortcuts="ArrowLeft ArrowRight ArrowUp ArrowDown Enter Escape" onKeyDown={onKeyDown} onBlur={() => point(null)}>
      {width > 0 && <div class="parallel-inner" style={{ width: `${width}px`, height: `${HEIGHT}px` }}>
        {canvases.map((canvas, i) => (
          <canvas key={i} ref={canvas} aria-hidden="true" {...(i === 2 ? {
            onPointerMove: hover,
            onPointerLeave: () => point(null),
            onPointerDown: (event: PointerEvent) => {
              const axis = axisAt(event);
              if (axis >= 0) startBrush(axis, event);
              else if (hovered) props.onOpen(hovered.run);
            },
          } : {})} />
        ))}
        {axisLines}
        {columns.map((column, axis) => {
          const span = brushes[column.field] ? brushSpan(column, brushes[column.field]!) : null;
          if (!span) return null;
          const above = y(Math.min(1.03, span[1]));
          return <i key={column.field} class="brush" style={{ transform: `translate(${x(axis) - 7}px, ${above}px)`, height: `${Math.max(3, y(Math.max(-0.03, span[0])) - above)}px` }} />;
        })}
        <div role="toolbar" aria-label="Axes" onKeyDown={onAxisKey} aria-keyshortcuts="ArrowLeft ArrowRight ArrowUp ArrowDown Shift+ArrowUp Shift+ArrowDown Escape" onFocusIn={(event) => setStop(Math.max(0, axisButtons(event).findIndex((button) => button.parentElement!.contains(event.target as Node))))}>{axisNames}</div>
        <span class="sr" aria-live="polite">{brushWords(columns[stop]!, props.settled[columns[stop]!.field])}</span>
        <PointTip at={hovered && [hovered.x, hovered.y]} width={width} height={HEIGHT} title={nameOf(names, hovered?.run ?? null, base)} isMarked={false}
          pairs={hovered ? [target, ...columns.filter((column) => column !== target).slice(0, 6)].map((column) => [column.title, column.scale.text(column.values[hovered.run]!), differenceOf(column, hovered.run, base)] as const) : []} />
      </div>}
    </div>
  );
}

interface AxisNameProps { column: Values; isStop: boolean; left: number; gap: number; isTarget: boolean; brush: Brush | undefined; onBrush: (brush: Brush | null) => void; onMove: ((by: number) => void) | null; onHide: (() => void) | null }

/** The name of an axis; its menu has the brush as fields. */
function AxisName({ column, isStop, left, gap, isTarget, brush, onBrush, onMove, onHide }: AxisNameProps) {
  const { title, labels, scale } = column;
  const cut = Math.max(title.lastIndexOf("."), title.lastIndexOf("/"));
  const range = brush && isRange(brush) ? brush : [scale.low, scale.high] as [number, number];
  const end = (which: 0 | 1, text: string) => {
    const value = Number(text);
    if (text === "" || !Number.isFinite(value)) return;
    const next: [number, number] = [...range];
    next[which] = value;
    onBrush(next);
  };
  const width = Math.max(52, Math.min(150, gap - 6));
  return (
    <div class={`axis-name ${isTarget ? "target" : ""}`} style={{ left: `${left - width / 2}px`, width: `${width}px` }}>
      <Popover name={`Axis ${title}`} tabIndex={isStop ? 0 : -1} class={`button quiet mini ${brush ? "on" : ""}`} label={<span class="axis-label"><span class="ellipsis dim">{cut > 0 ? title.slice(0, cut + 1) : " "}</span><span class="ellipsis">{title.slice(cut + 1)}</span></span>}>
        {(close) => (
          <div class="axis-menu">
            <h3>{title}</h3>
            {labels ? (
              <ul>{labels.slice(0, 60).map((label) => {
                const chosen = brush && !isRange(brush) ? brush : labels;
                return (
                  <li key={label}><label class="choice"><input type="checkbox" class="check" checked={chosen.includes(label)} onChange={() => {
                    const next = chosen.includes(label) ? chosen.filter((l) => l !== label) : [...chosen, label];
                    onBrush(next.length === labels.length || next.length === 0 ? null : next);
                  }} /><span class="ellipsis">{label}</span></label></li>
                );
              })}</ul>
            ) : (
              <div class="row">
                <label class="small soft">from <input class="field mini" type="number" step="any" value={range[0]} onChange={(event) => end(0, event.currentTarget.value)} /></label>
                <label class="small soft">to <input class="field mini" type="number" step="any" value={range[1]} onChange={(event) => end(1, event.currentTarget.value)} /></label>
              </div>
            )}
            <div class="row wrap">
              <button type="button" class="button mini" disabled={!brush} onClick={() => { onBrush(null); close(); }}>Clear selection</button>
              {onMove && <button type="button" class="button mini icon" aria-label="Move axis left" title="Move left" onClick={() => onMove(-1)}><Icon name="left" size={12} /></button>}
              {onMove && <button type="button" class="button mini icon" aria-label="Move axis right" title="Move right" onClick={() => onMove(1)}><Icon name="right" size={12} /></button>}
              {onHide && <button type="button" class="button mini" onClick={() => { close(); onHide(); }}>Hide axis</button>}
            </div>
          </div>
        )}
      </Popover>
    </div>
  );
}
