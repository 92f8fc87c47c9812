// A line chart. uPlot handles axes, scales and the pointer. The lines are drawn here, because each has its own x values and may
// have a band.
import uPlot from "uplot";
import { cssColor } from "../colors";
import { duration, number } from "../format";
import { stepIn } from "../parts/keyboard";
import { extentX, flatValue, type Line, nearest, neighbor, rangeY, spanY, type BandCurve, valueAt } from "./line";
import { fillBetween, inside, isArea, pixel, scale, stroke } from "./strokes";
import { limitsOf, logValueTicks, positionTicks, type Ticks, timeTicks, valueTicks } from "./ticks";

export type XKind = "step" | "epoch" | "time";

export interface ChartOptions {
  height: number;
  xKind: XKind;
  log: boolean;
  sync: string;
  /** The metric; its name implies the unit and the limits of its values. */
  name: string;
  limits?: readonly [number, number] | undefined;
  /** The name of the x-axis. */
  xName: string;
  /** Null: reset. */
  onZoom: (range: [number, number] | null) => void;
  /** The pointer (or that of another chart) is at x; null: it left. */
  onHover: (x: number | null, at: HoverPlace | null) => void;
  /** A click on a line; on a band, with the curve of the nearest extreme. */
  onPick?: (line: Line, curve: BandCurve | null) => void;
}

/** A line or, of a band, one of its ends. */
export interface Stop { key: string; end: "lo" | "hi" | null }

/** `here`: the pointer is on this chart; `stop`: where the keyboard moved it. */
export interface HoverPlace { left: number; top: number; here: boolean; stop: Stop | null }

export class LineChart {
  private plot: uPlot;
  private lines: Line[] = [];
  private range: [number, number] | null = null;
  private frame = 0;
  /** The x and the line to which the keyboard moved the pointer. */
  private keyX: number | null = null;
  private stop: Stop | null = null;
  private movesByKey = false;
  private emphasis: string | null = null;

  constructor(readonly host: HTMLElement, private options: ChartOptions) {
    this.plot = this.make();
  }

  private make(): uPlot {
    const { options } = this;
    const font = `${Math.round(11 * rem())}px ${fontFamily()}`;
    const axisColors = { stroke: () => cssColor("--ink-3"), font, ticks: { show: false }, grid: { stroke: () => cssColor("--grid"), width: 1 } };
    const plot = new uPlot(
      {
        width: Math.max(80, this.host.clientWidth),
        height: options.height,
        padding: [Math.round(8 * rem()), Math.round(14 * rem()), 0, 0],
        legend: { show: false },
        cursor: {
          points: { show: false },
          drag: { x: true, y: false, setScale: false, dist: 5 },
          sync: { key: options.sync, setSeries: false, scales: ["x", null], filters: { pub: (type: string) => type === "mousemove" || type === "mouseleave" } },
          y: false,
        },
        scales: {
          x: { time: false, range: () => this.shownX() },
          y: { distr: options.log ? 3 : 1, range: () => this.shownY() },
        },
        axes: [
          { ...axisColors, scale: "x", size: Math.round(25 * rem()), gap: 6, ...this.axisOf((low, high) => this.xTicks(low, high)) },
          { ...axisColors, scale: "y", size: axisWidth, gap: 6, ...this.axisOf((low, high) => this.yTicks(low, high)) },
        ],
        series: [{}, { show: true, paths: () => null, points: { show: false } }],
        hooks: {
          drawClear: [],
          draw: [(u) => this.draw(u)],
          setCursor: [(u) => this.pointerMoved(u)],
          setSelect: [(u) => this.selected(u)],
        },
      },
      [[0, 1], [null, null]],
      this.host,
    );
    plot.over.addEventListener("dblclick", () => options.onZoom(null));
    if (options.onPick) plot.over.addEventListener("click", (event) => this.clicked(event));
    plot.root.querySelector("canvas")?.setAttribute("aria-hidden", "true");
    return plot;
  }

  /** Custom ticks: those of uPlot are not round for bytes and times, and do not terminate on some logarithmic scales. */
  private axisOf(ticksOf: (low: number, high: number) => Ticks) {
    let now: Ticks = { at: [], labels: [] };
    return {
      splits: (_: uPlot, __: number, low: number, high: number) => (now = ticksOf(low, high)).at,
      values: (_: uPlot, at: number[]) => at.map((tick) => now.labels[now.at.indexOf(tick)] ?? ""),
      filter: (_: uPlot, at: number[]) => at,
      // Otherwise uPlot draws no axis if the range exceeds its largest increment, 5e31: of a loss that diverges.
      incrs: (_: uPlot, __: number, low: number, high: number) => [Math.max(10, high - low)],
    };
  }

  private xTicks(low: number, high: number): Ticks {
    const kind = this.options.xKind;
    const most = Math.max(2, Math.floor(this.host.clientWidth / ((kind === "time" ? 84 : 72) * rem())));
    const ticks = kind === "time" ? timeTicks(low, high, most) : positionTicks(low, high, most, kind === "step");
    // Hides a label at the left edge, which would overlap the name of the axis.
    const edge = low + (0.03 * (high - low) * 500) / Math.max(200, this.host.clientWidth);
    return { at: ticks.at, labels: ticks.labels.map((label, i) => (label.length > 1 && ticks.at[i]! < edge ? "" : label)) };
  }

  private yTicks(low: number, high: number): Ticks {
    const { log, name, height } = this.options;
    const most = Math.max(2, Math.floor(height / (Math.min(52, 28 + height / 22) * rem())));
    const span = this.spanY();
    if (!span) return { at: [], labels: [] }; // all values are NaN
    return (log ? logValueTicks : valueTicks)(name, low, high, most, flatValue(span));
  }

  private shownX(): [number, number] {
    const all = this.range ?? extentX(this.lines) ?? [0, 1];
    return all[0] === all[1] ? [all[0] - 0.5, all[1] + 0.5] : all;
  }

  private spanY(): [number, number] | null {
    const [x0, x1] = this.shownX();
    return spanY(this.lines, x0, x1, this.options.log);
  }

  private shownY(): [number, number] {
    return rangeY(this.spanY(), this.options.log, this.options.limits ?? limitsOf(this.options.name));
  }

  set(lines: Line[], range: [number, number] | null) {
    this.lines = lines;
    this.range = range;
    const [x0, x1] = this.shownX();
    this.plot.setData([[x0, x1], [null, null]], true);
  }

  /** Emphasizes a line; none if this chart does not have it. */
  emphasize(key: string | null) {
    const next = this.lines.length > 1 && this.lines.some((line) => line.key === key) ? key : null;
    if (next === this.emphasis) return;
    this.emphasis = next;
    this.redraw();
  }

  private redraw() {
    if (!this.frame) this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.plot.redraw(false, true);
    });
  }

  resize(width: number, height = this.options.height) {
    this.options.height = height;
    if (width > 0 && (width !== this.plot.width || height !== this.plot.height)) this.plot.setSize({ width, height });
  }

  /** Whether the pointer, also one that keys moved, is on the chart. */
  get isPointed(): boolean {
    return (this.plot.cursor.left ?? -1) >= 0;
  }

  private get pointedX(): number | null {
    return this.isPointed ? (this.keyX ?? this.plot.posToVal(this.plot.cursor.left!, "x")) : null;
  }

  /** Moves the pointer to the previous or next point from `at`; initially to the last or first one in view. */
  nudge(by: -1 | 1, at = this.pointedX ?? (by > 0 ? -Infinity : Infinity)) {
    const [x0, x1] = this.shownX();
    const to = neighbor(this.lines, by, at, x0, x1);
    const first = this.lines.find((line) => !line.isReference && !line.isBaseline) ?? this.lines[0];
    if (to !== null && first) this.pointAt(to, this.stop ?? { key: first.key, end: null });
  }

  /** Moves the pointer to the line above (-1) or below (1) at the same x. */
  nudgeLine(by: -1 | 1) {
    if (!this.isPointed) return this.nudge(-1);
    const x = this.pointedX!;
    const stops = this.stopsAt(x);
    const now = stops.find(({ key, end }) => key === this.stop?.key && end === this.stop.end) ?? null;
    const next = stepIn(stops, now, by);
    if (next) this.pointAt(x, { key: next.key, end: next.end });
  }

  /** What the keyboard can point at, from top to bottom. */
  private stopsAt(x: number): (Stop & { value: number })[] {
    const ends = [null, "hi", "lo"] as const;
    return this.lines.flatMap((line) => ends.map((end) => ({ key: line.key, end, value: valueAt(line, x, end) })))
      .filter(({ value }) => Number.isFinite(value) && !(this.options.log && value <= 0))
      .sort((a, b) => b.value - a.value);
  }

  private pointAt(x: number, stop: Stop) {
    const height = this.plot.over.clientHeight;
    const { value } = this.stopsAt(x).find(({ key, end }) => key === stop.key && end === stop.end) ?? { value: NaN };
    this.keyX = x;
    this.stop = stop;
    this.movesByKey = true;
    this.plot.setCursor({ left: this.plot.valToPos(x, "x"), top: Number.isNaN(value) ? height / 2 : Math.max(0, Math.min(height, this.plot.valToPos(value, "y"))) }, true);
    this.movesByKey = false;
  }

  /** As a click where the pointer is. */
  pickPointed() {
    const { left, top } = this.plot.cursor;
    this.pick(left!, top!, this.lines.find(({ key }) => key === this.stop?.key) ?? null);
  }

  /** Takes the pointer away; `isOwn`: only if keys moved it. */
  leave(isOwn = false) {
    if (this.isPointed && (!isOwn || this.keyX !== null)) this.plot.setCursor({ left: -10, top: -10 }, true);
  }

  /** Scales the range around the pointer. */
  zoomBy(factor: number) {
    const [x0, x1] = this.shownX();
    const left = this.plot.cursor.left ?? -1;
    const center = left >= 0 ? this.plot.posToVal(left, "x") : (x0 + x1) / 2;
    this.options.onZoom([center - (center - x0) * factor, center + (x1 - center) * factor]);
  }

  get plotLeft(): number {
    return this.plot.over.offsetLeft;
  }

  destroy() {
    cancelAnimationFrame(this.frame);
    this.plot.destroy();
  }

  private selected(u: uPlot) {
    const { left, width } = u.select;
    if (width < 5) return;
    const from = u.posToVal(left, "x");
    const to = u.posToVal(left + width, "x");
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.options.onZoom([from, to]);
  }

  private pointerMoved(u: uPlot) {
    const { left, top } = u.cursor;
    if (!this.movesByKey) this.keyX = this.stop = null;
    if (left === undefined || left < 0) {
      this.options.onHover(null, null);
      return;
    }
    const event = u.cursor.event;
    const here = this.movesByKey || (event ? u.root.contains(event.target as Node) : false);
    this.options.onHover(this.keyX ?? u.posToVal(left, "x"), { left: left + u.over.offsetLeft, top: (top ?? 0) + u.over.offsetTop, here, stop: this.stop });
  }

  private clicked(event: MouseEvent) {
    const box = this.plot.over.getBoundingClientRect();
    this.pick(event.clientX - box.left, event.clientY - box.top, null);
  }

  private pick(left: number, top: number, chosen: Line | null) {
    const line = chosen ?? this.lineAt(left, top) ?? this.lines.find((l) => l.extremes) ?? null;
    if (line) this.options.onPick?.(line, line.extremes ? this.extremeAt(line, left, top) : null);
  }

  private extremeAt(line: Line, left: number, top: number): BandCurve | null {
    const i = nearest(line.x, this.plot.posToVal(left, "x"));
    const { lo, hi, curveAt } = line.extremes!;
    if (i < 0) return null;
    const distance = (value: number) => Math.abs(this.plot.valToPos(value, "y") - top);
    return curveAt(i, distance(lo[i]!) < distance(hi[i]!) ? "lo" : "hi");
  }

  /** The line nearest to a position in the plot, within 24 pixels. */
  lineAt(left: number, top: number): Line | null {
    let best: Line | null = null;
    let distance = 24;
    const x = this.plot.posToVal(left, "x");
    for (const line of this.lines) {
      const i = nearest(line.x, x);
      if (i < 0 || !Number.isFinite(line.y[i]!)) continue;
      const away = Math.abs(this.plot.valToPos(line.y[i]!, "y") - top);
      if (away < distance) {
        distance = away;
        best = line;
      }
    }
    return best;
  }

  private draw(u: uPlot) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    const toX = scale(u.scales["x"]!.min!, u.scales["x"]!.max!, left, width, false);
    const toY = scale(u.scales["y"]!.min!, u.scales["y"]!.max!, top + height, -height, this.options.log);
    ctx.save();
    ctx.beginPath();
    ctx.rect(left - 4 * pixel(), top - 2, width + 8 * pixel(), height + 4);
    ctx.clip();
    const thick = rem();
    const [x0, x1] = this.shownX();
    const lines = this.emphasis === null ? this.lines : [...this.lines].sort((a, b) => Number(a.key === this.emphasis) - Number(b.key === this.emphasis));
    for (const line of lines) {
      const span = inside(line.x, x0, x1);
      // With a point every other pixel, round joins are invisible but dominate the cost of drawing.
      ctx.lineJoin = span[1] - span[0] > width / (2 * pixel()) ? "bevel" : "round";
      const dense = !line.raw && isArea(line, span, toY, width);
      const faint = this.emphasis !== null && this.emphasis !== line.key;
      const strength = faint ? 0.22 : 1;
      if (line.band) fillBetween(ctx, line, line.band.lo, line.band.hi, span, { toX, toY, alpha: 0.2 * strength });
      if (line.extremes) for (const edge of [line.extremes.lo, line.extremes.hi]) stroke(ctx, line, edge, span, { toX, toY, alpha: 0.45 * strength, width: 0.7 * thick });
      if (line.raw) {
        if (line.lo && line.hi) fillBetween(ctx, line, line.lo, line.hi, span, { toX, toY, alpha: 0.13 * strength });
        stroke(ctx, line, line.raw, span, { toX, toY, alpha: 0.32 * strength, width: thick });
      } else if (line.lo && line.hi) {
        fillBetween(ctx, line, line.lo, line.hi, span, { toX, toY, alpha: 0.28 * strength });
      }
      const weight = (dense ? 1 : line.width ?? 1.6) * (this.emphasis === line.key ? 1.6 : 1) * thick;
      stroke(ctx, line, line.y, span, { toX, toY, alpha: dense ? 0.6 * strength : strength, width: weight, dots: this.lines.length <= 10 });
    }
    ctx.restore();
    this.drawGaps(ctx, toX, top + height);
    this.drawName(ctx, left, top + height, width);
  }

  /** Draws the name of the x-axis in the lower left corner, or above the end of the axis if it is long. */
  private drawName(ctx: CanvasRenderingContext2D, left: number, bottom: number, width: number) {
    ctx.save();
    ctx.font = `${Math.round(11 * rem() * pixel())}px ${fontFamily()}`;
    ctx.fillStyle = cssColor("--ink-3");
    ctx.textAlign = "right";
    ctx.textBaseline = "top";
    const isLong = ctx.measureText(this.options.xName).width > left - 10 * pixel();
    ctx.fillText(this.options.xName, isLong ? left + width : left - 10 * pixel(), bottom + (isLong ? -16 : 6) * pixel());
    ctx.restore();
  }

  /** Marks NaN and infinities at the bottom of the chart. */
  private drawGaps(ctx: CanvasRenderingContext2D, toX: (x: number) => number, bottom: number) {
    const [x0, x1] = this.shownX();
    ctx.save();
    ctx.fillStyle = cssColor("--bad");
    const size = 3 * pixel();
    for (const line of this.lines) {
      const shown = line.raw ?? line.y;
      const [from, to] = inside(line.x, x0, x1);
      for (let i = from, drawn = 0; i < to && drawn < 500; i++) {
        if (Number.isFinite(shown[i]!)) continue;
        drawn++;
        const x = toX(line.x[i]!);
        ctx.beginPath();
        ctx.moveTo(x, bottom - 2 * size);
        ctx.lineTo(x + size, bottom);
        ctx.lineTo(x - size, bottom);
        ctx.fill();
      }
    }
    ctx.restore();
  }
}

let size = 0;
addEventListener("resize", () => (size = 0));

/** The scale factor of the layout relative to a root font of 14 px. */
function rem(): number {
  size ||= parseFloat(getComputedStyle(document.documentElement).fontSize) / 14;
  return size;
}

let family = "";

function fontFamily(): string {
  return (family ||= getComputedStyle(document.body).fontFamily);
}

function axisWidth(_: uPlot, values: string[] | null): number {
  const longest = values?.reduce((n, text) => Math.max(n, text?.length ?? 0), 0) ?? 0;
  return Math.round((14 + Math.max(5, longest) * 6.3) * rem()); // leaves room for the name of the x-axis below
}

export function xLabel(kind: XKind, value: number): string {
  if (kind === "time") return value === 0 ? "0" : duration(value).replace(".0 s", " s");
  if (kind === "step" && Math.abs(value) >= 10000) return value >= 1e6 ? `${number(value / 1e6, 6)}M` : `${number(value / 1e3, 6)}k`;
  return number(value, 6);
}
