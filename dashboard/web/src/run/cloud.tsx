// Points in three dimensions, with equal scales: drag or use the arrow keys to rotate them.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { PointTip } from "../chart/point_tip";
import type { PointPainter } from "../chart/save";
import { cssColor } from "../colors";
import { handleKey } from "../parts/keyboard";
import { useWidth } from "../parts/size";
import { useUrlState } from "../router";
import { shownTheme } from "../settings";

const START = { yaw: -0.6, pitch: 0.45, zoom: 1 };
const KEY_STEP = Math.PI / 18;
const ZOOM_STEP = 1.25;
const [MIN_ZOOM, MAX_ZOOM] = [0.5, 20];
const HOVER_DISTANCE = 12;
/** A press whose pointer moves by more pixels is a drag. */
const CLICK_DISTANCE = 4;
const RADIANS_PER_PIXEL = 1 / 150;
/** More points are not drawn from back to front. */
const MAX_SORTED = 20000;
const FILL = 0.72; // of the smaller side, by the longest axis

type View = typeof START;

/** "-0.6,0.45,1"; "" for the view at the start. */
const textOf = ({ yaw, pitch, zoom }: View) => (yaw === START.yaw && pitch === START.pitch && zoom === START.zoom ? "" : [yaw, pitch, zoom].map((value) => Number(value.toFixed(4))).join());

function viewOf(text: string): View {
  const [yaw = NaN, pitch = NaN, zoom = NaN] = text.split(",").map(Number);
  return Math.abs(pitch) <= Math.PI / 2 + 0.01 && zoom >= MIN_ZOOM && zoom <= MAX_ZOOM && Number.isFinite(yaw) ? { yaw, pitch, zoom } : START;
}

/** A press: where it began, at which point, and where the pointer was before. */
interface Press { startX: number; startY: number; point: number | null; x: number; y: number; isDrag: boolean }
type Point = readonly [x: number, y: number, z: number];

interface Props {
  /** Of the table. */
  name: string;
  label: string;
  /** The coordinates of all points. */
  axes: readonly [Float64Array, Float64Array, Float64Array];
  titles: readonly [string, string, string];
  colors: readonly string[];
  inside: Uint8Array;
  names: readonly string[];
  tip: (point: number) => readonly (readonly [name: string, text: string])[];
  height: number;
  onOpen: (point: number) => void;
  /** Set to what draws the points again, for an image. */
  painter: { current: PointPainter | null };
}

/** The points around the center of their ranges, with the longest range from -0.5 to 0.5; and half of each range. */
export function centeredPoints(axes: Props["axes"]): { points: Point[]; half: Point } {
  const ranges = axes.map((values) => ({ low: values.reduce((least, value) => Math.min(least, value), Infinity), high: values.reduce((most, value) => Math.max(most, value), -Infinity) }));
  const longest = Math.max(...ranges.map(({ low, high }) => high - low)) || 1;
  const place = (axis: number, value: number) => (value - (ranges[axis]!.low + ranges[axis]!.high) / 2) / longest;
  const half = ranges.map(({ low, high }) => (high - low) / longest / 2);
  return { points: Array.from(axes[0], (_, i) => [place(0, axes[0][i]!), place(1, axes[1][i]!), place(2, axes[2][i]!)] as const), half: [half[0]!, half[1]!, half[2]!] };
}

/** Right, up and away from the viewer. The third axis is up if the pitch is 0. */
export function rotated([x, y, z]: Point, { yaw, pitch }: Pick<View, "yaw" | "pitch">): Point {
  const [right, ahead] = [Math.cos(yaw) * x - Math.sin(yaw) * y, Math.sin(yaw) * x + Math.cos(yaw) * y];
  return [right, Math.sin(pitch) * ahead + Math.cos(pitch) * z, Math.cos(pitch) * ahead - Math.sin(pitch) * z];
}

export function Cloud({ name, label, axes, titles, colors, inside, names, tip, height, onOpen, painter }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(host);
  const [viewText, setViewText] = useUrlState(`turn.${name}`);
  const view = useMemo(() => viewOf(viewText), [viewText]);
  const latest = useRef(view); // several changes can precede the next drawing
  latest.current = view;
  const setView = (change: (now: View) => View) => setViewText(textOf((latest.current = change(latest.current))));
  const [hovered, setHovered] = useState<number | null>(null);
  const press = useRef<Press | null>(null);
  const { points, half } = useMemo(() => centeredPoints(axes), [axes]);
  const scale = Math.min(width, height) * FILL * view.zoom;
  const screen = (point: Point) => {
    const [right, up, away] = rotated(point, view);
    return [width / 2 + scale * right, height / 2 - scale * up, away] as const;
  };
  const places = useMemo(() => (width > 0 ? points.map(screen) : []), [points, view, width, height]);
  useLayoutEffect(() => {
    if (width === 0) return;
    const drawing: Drawing = { width, height, places, colors, inside, frame: frameOf(half).map(([a, b]) => [screen(a), screen(b)]), names: namesOf(half).map((at, i) => [screen(at), titles[i]!]) };
    draw(canvas.current!, drawing, Math.min(2, devicePixelRatio || 1));
    painter.current = { host: host.current!, paint: (other, ratio) => draw(other, drawing, ratio) };
  }, [places, colors, inside, titles, shownTheme.value]);
  const turn = useFrameSum(([yaw, pitch]) => setView((now) => ({ ...now, yaw: now.yaw + yaw, pitch: Math.max(-Math.PI / 2, Math.min(Math.PI / 2, now.pitch + pitch)) })));
  const zoom = (factor: number) => setView((now) => ({ ...now, zoom: Math.max(MIN_ZOOM, Math.min(MAX_ZOOM, now.zoom * factor)) }));
  const keys: Record<string, () => void> = {
    ArrowLeft: () => turn(-KEY_STEP, 0), ArrowRight: () => turn(KEY_STEP, 0), ArrowUp: () => turn(0, KEY_STEP), ArrowDown: () => turn(0, -KEY_STEP),
    "+": () => zoom(ZOOM_STEP), "-": () => zoom(1 / ZOOM_STEP), 0: () => setView(() => START),
  };
  const pointAt = (event: PointerEvent): number | null => {
    const box = canvas.current!.getBoundingClientRect();
    let [best, distance]: [number | null, number] = [null, HOVER_DISTANCE];
    places.forEach(([px, py], i) => {
      const off = Math.hypot(px - event.clientX + box.left, py - event.clientY + box.top);
      if (inside[i] && off < distance) [best, distance] = [i, off];
    });
    return best;
  };
  const move = (event: PointerEvent) => {
    const { clientX: x, clientY: y } = event;
    const now = press.current;
    if (!now) return setHovered(pointAt(event));
    if (!now.isDrag && Math.hypot(x - now.startX, y - now.startY) <= CLICK_DISTANCE) return;
    turn((x - now.x) * RADIANS_PER_PIXEL, (y - now.y) * RADIANS_PER_PIXEL);
    press.current = { ...now, x, y, isDrag: true };
    setHovered(null);
  };
  const at = hovered === null ? undefined : places[hovered];
  return (
    <>
      <div class="scatter cloud" ref={host} style={{ height: `${height}px` }} role="group" tabIndex={0} aria-label={label} aria-keyshortcuts="ArrowLeft ArrowRight ArrowUp ArrowDown + - 0" data-drawn={width > 0 ? points.length : undefined}
        onKeyDown={(event) => handleKey(event, keys)}>
        <canvas ref={canvas} aria-hidden="true" style={{ width: `${width}px`, height: `${height}px`, cursor: hovered === null ? "grab" : "pointer" }}
          onPointerDown={(event) => {
            const { clientX: x, clientY: y } = event;
            press.current = { startX: x, startY: y, point: pointAt(event), x, y, isDrag: false };
            canvas.current!.setPointerCapture(event.pointerId);
          }}
          onPointerMove={move}
          onPointerUp={() => {
            const { isDrag, point } = press.current ?? { isDrag: true, point: null };
            press.current = null;
            if (!isDrag && point !== null) onOpen(point);
          }}
          onPointerCancel={() => (press.current = null)} onPointerLeave={() => setHovered(null)} />
        <PointTip at={at && [at[0], at[1]]} width={width} height={height} title={names[hovered ?? -1]} pairs={at ? tip(hovered!) : []} isMarked />
      </div>
      <div class="row small dim"><span>Drag or use the arrow keys to rotate</span><span class="spread" />
        <button type="button" class="button quiet mini" aria-label="Zoom out" onClick={() => zoom(1 / ZOOM_STEP)}>−</button>
        <button type="button" class="button quiet mini" aria-label="Zoom in" onClick={() => zoom(ZOOM_STEP)}>+</button>
        <button type="button" class="button quiet mini" onClick={() => setView(() => START)}>Reset</button>
      </div>
    </>
  );
}

/** A function that adds up what it is called with, and passes the sums to `apply` once per frame: a pointer has more events than that. */
function useFrameSum(apply: (sums: readonly [number, number]) => void): (a: number, b: number) => void {
  const waiting = useRef<{ sums: [number, number]; frame: number } | null>(null);
  useEffect(() => () => cancelAnimationFrame(waiting.current?.frame ?? 0), []);
  return (a, b) => {
    if (waiting.current) {
      waiting.current.sums[0] += a;
      waiting.current.sums[1] += b;
      return;
    }
    const frame = requestAnimationFrame(() => {
      const { sums } = waiting.current!;
      waiting.current = null;
      apply(sums);
    });
    waiting.current = { sums: [a, b], frame };
  };
}

/** The edges of the box around the points. */
function frameOf([x, y, z]: Point): [Point, Point][] {
  const edges: [Point, Point][] = [];
  for (const a of [-1, 1] as const)
    for (const b of [-1, 1] as const) edges.push([[-x, a * y, b * z], [x, a * y, b * z]], [[a * x, -y, b * z], [a * x, y, b * z]], [[a * x, b * y, -z], [a * x, b * y, z]]);
  return edges;
}

/** The places of the names of the axes: in the middle of three edges that meet. */
const namesOf = ([x, y, z]: Point): Point[] => [[0, -y - 0.06, -z - 0.06], [x + 0.06, 0, -z - 0.06], [-x - 0.06, -y - 0.06, 0]];

interface Drawing {
  width: number;
  height: number;
  places: readonly Point[];
  colors: readonly string[];
  inside: Uint8Array;
  frame: readonly (readonly [Point, Point])[];
  names: readonly (readonly [Point, string])[];
}

/** `ratio`: canvas pixels per pixel of the page. */
function draw(canvas: HTMLCanvasElement, { width, height, places, colors, inside, frame, names }: Drawing, ratio: number) {
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.strokeStyle = cssColor("--line-strong");
  ctx.beginPath();
  for (const [from, to] of frame) {
    ctx.moveTo(from[0], from[1]);
    ctx.lineTo(to[0], to[1]);
  }
  ctx.stroke();
  const order = Array.from(places.keys());
  if (order.length <= MAX_SORTED) order.sort((a, b) => places[b]![2] - places[a]![2]);
  const others = cssColor("--line-strong");
  const radius = places.length > 2000 ? 1.6 : 3;
  for (const isInside of [false, true])
    for (const i of order) {
      if (Boolean(inside[i]) !== isInside) continue;
      const [px, py, away] = places[i]!;
      // Points in front are larger.
      ctx.fillStyle = isInside ? colors[i]! : others;
      ctx.globalAlpha = isInside ? 0.85 : 0.5;
      ctx.beginPath();
      ctx.arc(px, py, radius * (1 - 0.35 * away), 0, 7);
      ctx.fill();
    }
  ctx.globalAlpha = 1;
  ctx.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  ctx.fillStyle = cssColor("--ink-2");
  ctx.textAlign = "center";
  for (const [[px, py], name] of names) ctx.fillText(name, px, py);
}
