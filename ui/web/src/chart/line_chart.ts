// A chart of lines. uPlot does the axes, the scales and the pointer; the lines are drawn here, because each has its own x
// and may stand for a band.
import uPlot from "uplot";
import { cssColour } from "../colours";
import { duration, number } from "../format";
import { extentX, extentY, type Line, logTicks, nearest, type Who } from "./line";

export type XKind = "step" | "epoch" | "time";

export interface ChartOptions {
  height: number;
  xKind: XKind;
  log: boolean;
  sync: string;
  format: (value: number, digits?: number) => string;
  /** Ticks at powers of two. */
  binary: boolean;
  /** Null: back to everything. */
  onZoom: (range: [number, number] | null) => void;
  /** The pointer (or that of another chart) is at x; null when it left. */
  onHover: (x: number | null, at: { left: number; top: number; here: boolean } | null) => void;
  /** A click on a line; on a band, on whoever has the extreme that is nearest. */
  onPick?: (line: Line, who: Who | null) => void;
}

const pixel = () => window.devicePixelRatio || 1;

export class LineChart {
  private plot: uPlot;
  private lines: Line[] = [];
  private range: [number, number] | null = null;
  private frame = 0;
  private byKey = false;
  emphasis: string | null = null;

  constructor(readonly host: HTMLElement, private options: ChartOptions) {
    this.plot = this.make();
  }

  private make(): uPlot {
    const { options } = this;
    const font = `${Math.round(11 * rem())}px ${fontFamily()}`;
    const axisColours = { stroke: () => cssColour("--ink-3"), font, ticks: { show: false }, grid: { stroke: () => cssColour("--grid"), width: 1 } };
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
          { ...axisColours, scale: "x", size: Math.round(24 * rem()), gap: 4, space: 70, values: (_, ticks) => ticks.map((t) => xLabel(options.xKind, t)) },
          { ...axisColours, scale: "y", size: axisWidth, gap: 6, space: 32, values: (_, ticks) => tickLabels(ticks, options.format), ...(options.binary ? { incrs: BINARY } : {}), ...(options.log ? this.logAxis() : {}) },
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

  // uPlot's own ticks never end when a logarithmic scale begins at a number that is not round.
  private logAxis() {
    const most = () => Math.max(2, Math.floor(this.options.height / (32 * rem())));
    return { splits: (_: uPlot, __: number, low: number, high: number) => logTicks(low, high, most()), filter: (_: uPlot, ticks: number[]) => ticks };
  }

  private shownX(): [number, number] {
    const all = this.range ?? extentX(this.lines) ?? [0, 1];
    return all[0] === all[1] ? [all[0] - 0.5, all[1] + 0.5] : all;
  }

  private shownY(): [number, number] {
    const [x0, x1] = this.shownX();
    return extentY(this.lines, x0, x1, this.options.log);
  }

  set(lines: Line[], range: [number, number] | null) {
    this.lines = lines;
    this.range = range;
    const [x0, x1] = this.shownX();
    this.plot.setData([[x0, x1], [null, null]], true);
  }

  redraw() {
    if (!this.frame) this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.plot.redraw(false, true);
    });
  }

  resize(width: number, height = this.options.height) {
    this.options.height = height;
    if (width > 0 && (width !== this.plot.width || height !== this.plot.height)) this.plot.setSize({ width, height });
  }

  /** Moves the pointer by the keyboard: -1 or 1 twentieth of the width. */
  nudge(by: number) {
    const width = this.plot.over.clientWidth;
    const left = this.plot.cursor.left ?? -1;
    const next = left < 0 ? (by > 0 ? 0 : width) : Math.min(width, Math.max(0, left + (by * width) / 40));
    this.byKey = true;
    this.plot.setCursor({ left: next, top: this.plot.over.clientHeight / 2 }, true);
    this.byKey = false;
  }

  /** Half (or twice) the range, around the pointer. */
  zoomBy(factor: number) {
    const [x0, x1] = this.shownX();
    const left = this.plot.cursor.left ?? -1;
    const centre = left >= 0 ? this.plot.posToVal(left, "x") : (x0 + x1) / 2;
    this.options.onZoom([centre - (centre - x0) * factor, centre + (x1 - centre) * factor]);
  }

  get canvas(): HTMLCanvasElement {
    return this.plot.root.querySelector("canvas")!;
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
    if (left === undefined || left < 0) {
      this.options.onHover(null, null);
      return;
    }
    const event = u.cursor.event;
    const here = event ? u.root.contains(event.target as Node) : this.byKey;
    this.options.onHover(u.posToVal(left, "x"), { left: left + u.over.offsetLeft, top: (top ?? 0) + u.over.offsetTop, here });
  }

  private clicked(event: MouseEvent) {
    const box = this.plot.over.getBoundingClientRect();
    const left = event.clientX - box.left;
    const top = event.clientY - box.top;
    const line = this.lineAt(left, top) ?? this.lines.find((l) => l.extremes) ?? null;
    if (line) this.options.onPick?.(line, line.extremes ? this.extremeAt(line, left, top) : null);
  }

  private extremeAt(line: Line, left: number, top: number): Who | null {
    const i = nearest(line.x, this.plot.posToVal(left, "x"));
    const { lo, hi, who } = line.extremes!;
    if (i < 0) return null;
    const away = (value: number) => Math.abs(this.plot.valToPos(value, "y") - top);
    return who(i, away(lo[i]!) < away(hi[i]!) ? "lo" : "hi");
  }

  /** The line nearest to a place in the plot, within 24 pixels. */
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
    for (const line of this.lines) {
      const span = inside(line.x, x0, x1);
      // Where there is a point every other pixel, nobody sees round corners, and they are most of the work.
      ctx.lineJoin = span[1] - span[0] > width / (2 * pixel()) ? "bevel" : "round";
      const faint = this.emphasis !== null && this.emphasis !== line.key;
      const strength = faint ? 0.22 : 1;
      if (line.band) fillBetween(ctx, line, line.band.lo, line.band.hi, span, { toX, toY, alpha: 0.16 * strength });
      if (line.raw) {
        if (line.lo && line.hi) fillBetween(ctx, line, line.lo, line.hi, span, { toX, toY, alpha: 0.13 * strength });
        stroke(ctx, line, line.raw, span, { toX, toY, alpha: 0.32 * strength, width: thick });
      } else if (line.lo && line.hi) {
        fillBetween(ctx, line, line.lo, line.hi, span, { toX, toY, alpha: 0.28 * strength });
      }
      stroke(ctx, line, line.y, span, { toX, toY, alpha: strength, width: (line.width ?? 1.6) * thick });
    }
    ctx.restore();
    this.drawGaps(ctx, toX, top + height);
  }

  /** NaN and infinities have no height: they are marked at the bottom, so that they are not overlooked. */
  private drawGaps(ctx: CanvasRenderingContext2D, toX: (x: number) => number, bottom: number) {
    const [x0, x1] = this.shownX();
    ctx.save();
    ctx.fillStyle = cssColour("--bad");
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

type Map1 = (value: number) => number;
interface Pen { toX: Map1; toY: Map1; alpha: number; width?: number }

function scale(min: number, max: number, start: number, length: number, log: boolean): Map1 {
  if (log) {
    const low = Math.log10(min);
    const per = length / (Math.log10(max) - low);
    return (value) => (value > 0 ? start + (Math.log10(value) - low) * per : NaN);
  }
  const per = length / (max - min);
  return (value) => start + (value - min) * per;
}

/** Indices of the points between two x, and one more on each side. */
function inside(x: ArrayLike<number>, x0: number, x1: number): [number, number] {
  const n = x.length;
  if (n === 0) return [0, 0];
  let from = nearest(x, x0);
  let to = nearest(x, x1);
  from = Math.max(0, from - 1);
  to = Math.min(n, to + 2);
  return [from, to];
}

function stroke(ctx: CanvasRenderingContext2D, line: Line, y: ArrayLike<number>, [from, to]: [number, number], pen: Pen) {
  ctx.globalAlpha = pen.alpha;
  ctx.strokeStyle = line.colour;
  ctx.lineWidth = (pen.width ?? 1.5) * pixel();
  ctx.setLineDash((line.dash ?? []).map((d) => d * pixel()));
  ctx.beginPath();
  let open = false;
  let alone = true;
  let lastX = 0;
  let lastY = 0;
  const dots: [number, number][] = [];
  for (let i = from; i < to; i++) {
    const py = pen.toY(y[i]!);
    if (!Number.isFinite(py)) {
      if (open && alone) dots.push([lastX, lastY]);
      open = false;
      continue;
    }
    const px = pen.toX(line.x[i]!);
    if (open) {
      ctx.lineTo(px, py);
      alone = false;
    } else {
      ctx.moveTo(px, py);
      open = true;
      alone = true;
    }
    lastX = px;
    lastY = py;
  }
  if (open && alone) dots.push([lastX, lastY]);
  ctx.stroke();
  ctx.setLineDash([]);
  // A point without neighbours has no line: a dot stands for it. So do few points, where one wants to see them.
  ctx.fillStyle = line.colour;
  if (to - from <= 24 && pen.alpha === 1) for (let i = from; i < to; i++) dots.push([pen.toX(line.x[i]!), pen.toY(y[i]!)]);
  for (const [px, py] of dots) {
    if (!Number.isFinite(py)) continue;
    ctx.beginPath();
    ctx.arc(px, py, 2.4 * pixel(), 0, 7);
    ctx.fill();
  }
  ctx.globalAlpha = 1;
}

function fillBetween(ctx: CanvasRenderingContext2D, line: Line, lo: ArrayLike<number>, hi: ArrayLike<number>, [from, to]: [number, number], pen: Pen) {
  ctx.globalAlpha = pen.alpha;
  ctx.fillStyle = line.colour;
  let start = from;
  while (start < to) {
    while (start < to && !(Number.isFinite(pen.toY(lo[start]!)) && Number.isFinite(pen.toY(hi[start]!)))) start++;
    let end = start;
    while (end < to && Number.isFinite(pen.toY(lo[end]!)) && Number.isFinite(pen.toY(hi[end]!))) end++;
    if (end - start > 1) {
      ctx.beginPath();
      for (let i = start; i < end; i++) ctx.lineTo(pen.toX(line.x[i]!), pen.toY(hi[i]!));
      for (let i = end - 1; i >= start; i--) ctx.lineTo(pen.toX(line.x[i]!), pen.toY(lo[i]!));
      ctx.fill();
    }
    start = end + 1;
  }
  ctx.globalAlpha = 1;
}

let size = 0;
addEventListener("resize", () => (size = 0));

/** How much larger than usual everything is, e.g. at 4K. */
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
  return Math.round((14 + Math.max(3, longest) * 6.3) * rem());
}

const BINARY = Array.from({ length: 60 }, (_, i) => 2 ** i);

/** Labels with as many digits as it takes to tell them apart. */
function tickLabels(ticks: (number | null)[], format: (value: number, digits?: number) => string): string[] {
  let labels: string[] = [];
  for (let digits = 4; digits <= 10; digits++) {
    labels = ticks.map((t) => (t === null ? "" : format(t, digits).replace(" %", "%")));
    const told = labels.filter(Boolean);
    if (new Set(told).size === told.length) break;
  }
  return labels;
}

export function xLabel(kind: XKind, value: number): string {
  if (kind === "time") return value === 0 ? "0" : duration(value).replace(".0 s", " s");
  if (kind === "step" && Math.abs(value) >= 10000) return value >= 1e6 ? `${number(value / 1e6, 6)}M` : `${number(value / 1e3, 6)}k`;
  return number(value, 6);
}
