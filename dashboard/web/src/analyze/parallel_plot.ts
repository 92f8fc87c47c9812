// Draws parallel coordinates on two canvases: all runs in gray, and the runs inside of the brushes in color. A frame draws at most
// LINES_PER_FRAME colored lines; the others follow in the next frames, so that brushing stays fluid with thousands of runs.
import type { Values } from "./values";

export const PAD = { top: 46, bottom: 26, side: 44 };
const LINES_PER_FRAME = 200;
/** Where runs without a value are drawn, below the axis. */
const NONE = 14;

/** `ink`: of the baseline. */
export interface PlotColors { gray: string; of: (run: number) => string; accent: string; ink: string }

export class ParallelPlot {
  private y = new Float32Array(0);
  private count = 0;
  private columns: Values[] = [];
  private size = { width: 0, height: 0 };
  private colors: PlotColors = { gray: "", of: () => "", accent: "", ink: "" };
  /** Runs by color, shuffled: the first lines of a frame are a sample of all. */
  private order: Uint32Array = new Uint32Array(0);
  private names: string[] = [];
  private frame = 0;

  constructor(private back: HTMLCanvasElement, private front: HTMLCanvasElement, private top: HTMLCanvasElement) {}

  x(axis: number): number {
    const { width } = this.size;
    return this.columns.length < 2 ? width / 2 : PAD.side + ((width - 2 * PAD.side) * axis) / (this.columns.length - 1);
  }

  yOf(position: number): number {
    return this.size.height - PAD.bottom - (this.size.height - PAD.top - PAD.bottom) * position;
  }

  /** Where the line of a run crosses an axis. */
  placeOf(run: number, axis: number): [number, number] {
    return [this.x(axis), this.y[axis * this.count + run]!];
  }

  /** The runs that are inside, from the top of an axis to its bottom. */
  inOrder(axis: number, inside: Uint8Array): number[] {
    const top = (run: number) => this.y[axis * this.count + run]!;
    return Array.from({ length: this.count }, (_, run) => run).filter((run) => inside[run]).sort((a, b) => top(a) - top(b));
  }

  /** The position on an axis of a vertical coordinate. */
  position(y: number): number {
    return Math.min(1, Math.max(0, (this.size.height - PAD.bottom - y) / (this.size.height - PAD.top - PAD.bottom)));
  }

  set(columns: Values[], count: number, width: number, height: number, colors: PlotColors) {
    Object.assign(this, { columns, count, colors, size: { width, height } });
    const ratio = Math.min(2, devicePixelRatio || 1);
    for (const canvas of [this.back, this.front, this.top]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.getContext("2d")!.setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.y = new Float32Array(columns.length * count);
    columns.forEach(({ values, scale }, axis) => {
      for (let run = 0; run < count; run++) {
        const value = values[run]!;
        this.y[axis * count + run] = Number.isFinite(value) ? this.yOf(scale.position(value)) : this.yOf(0) + NONE;
      }
    });
    this.names = Array.from({ length: count }, (_, run) => colors.of(run));
    const order = Uint32Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1, state = 1; i > 0; i--) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      const k = state % (i + 1);
      [order[i], order[k]] = [order[k]!, order[i]!];
    }
    this.order = order;
    this.drawBack();
  }

  private trace(ctx: CanvasRenderingContext2D, run: number) {
    const { y, count, columns } = this;
    ctx.moveTo(this.x(0), y[run]!);
    for (let axis = 1; axis < columns.length; axis++) ctx.lineTo(this.x(axis), y[axis * count + run]!);
  }

  private drawBack() {
    const ctx = this.back.getContext("2d")!;
    ctx.clearRect(0, 0, this.size.width, this.size.height);
    ctx.strokeStyle = this.colors.gray;
    ctx.globalAlpha = Math.max(0.12, Math.min(0.7, 60 / this.count));
    ctx.lineWidth = 1;
    // One path per few runs: overlapping lines of one path would not add up.
    for (let run = 0; run < this.count; run += 8) {
      ctx.beginPath();
      for (let k = run; k < Math.min(this.count, run + 8); k++) this.trace(ctx, k);
      ctx.stroke();
    }
  }

  /** Draws the runs that are inside; `gray`: whether the others are visible behind them. */
  drawFront(inside: Uint8Array, gray: boolean) {
    cancelAnimationFrame(this.frame);
    this.back.style.opacity = gray ? "1" : "0";
    const ctx = this.front.getContext("2d")!;
    ctx.clearRect(0, 0, this.size.width, this.size.height);
    const chosen: number[] = [];
    for (const run of this.order) if (inside[run]) chosen.push(run);
    ctx.globalAlpha = Math.max(0.35, Math.min(0.85, 120 / Math.max(1, chosen.length)));
    ctx.lineWidth = chosen.length > 40 ? 1 : 1.6; // one pixel is drawn much faster
    const part = (from: number) => {
      const byColor = new Map<string, number[]>();
      for (const run of chosen.slice(from, from + LINES_PER_FRAME)) {
        const same = byColor.get(this.names[run]!);
        if (same) same.push(run);
        else byColor.set(this.names[run]!, [run]);
      }
      for (const [color, runs] of byColor) {
        ctx.strokeStyle = color;
        ctx.beginPath();
        for (const run of runs) this.trace(ctx, run);
        ctx.stroke();
      }
      if (from + LINES_PER_FRAME < chosen.length) this.frame = requestAnimationFrame(() => part(from + LINES_PER_FRAME));
    };
    part(0);
  }

  /** Draws a run in front of the others, and the baseline (-1: none) dashed. */
  drawTop(run: number | null, base: number) {
    const ctx = this.top.getContext("2d")!;
    ctx.clearRect(0, 0, this.size.width, this.size.height);
    if (base >= 0) {
      ctx.strokeStyle = this.colors.ink;
      ctx.globalAlpha = 1;
      ctx.lineWidth = 2;
      ctx.setLineDash([6, 4]);
      ctx.beginPath();
      this.trace(ctx, base);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    if (run === null) return;
    for (const [color, width] of [[this.colors.accent, 5], [this.names[run]!, 2.5]] as const) {
      ctx.strokeStyle = color;
      ctx.globalAlpha = width > 3 ? 0.35 : 1;
      ctx.lineWidth = width;
      ctx.beginPath();
      this.trace(ctx, run);
      ctx.stroke();
    }
  }

  /** The run whose line is nearest to a point and at most 8 pixels away. */
  runAt(x: number, y: number, inside: Uint8Array): number | null {
    const last = this.columns.length - 1;
    if (last < 1) return null;
    const at = Math.min(last - 1e-6, Math.max(0, ((x - PAD.side) / (this.size.width - 2 * PAD.side)) * last));
    const axis = Math.floor(at);
    let best: number | null = null;
    let distance = 8;
    for (let run = 0; run < this.count; run++) {
      if (!inside[run]) continue;
      const [from, to] = [this.y[axis * this.count + run]!, this.y[(axis + 1) * this.count + run]!];
      const slope = (to - from) / (this.x(axis + 1) - this.x(axis));
      const off = Math.abs(from + (to - from) * (at - axis) - y) / Math.hypot(1, slope);
      if (off < distance) [best, distance] = [run, off];
    }
    return best;
  }

  destroy() {
    cancelAnimationFrame(this.frame);
  }
}
