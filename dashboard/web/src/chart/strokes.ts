// Draws lines and areas on a canvas.
import { type Line, nearest } from "./line";

export const pixel = () => window.devicePixelRatio || 1;

export type Scale = (value: number) => number;
export interface Pen { toX: Scale; toY: Scale; alpha: number; width?: number; dots?: boolean }

export function scale(min: number, max: number, start: number, length: number, log: boolean): Scale {
  if (log) {
    const low = Math.log10(min);
    const per = length / (Math.log10(max) - low);
    return (value) => (value > 0 ? start + (Math.log10(value) - low) * per : NaN);
  }
  const per = length / (max - min);
  return (value) => start + (value - min) * per;
}

/** Whether a line oscillates so densely that it would look like a filled area. */
export function isArea(line: Line, [from, to]: [number, number], toY: Scale, width: number): boolean {
  if (to - from < (0.8 * width) / pixel()) return false;
  let traveled = 0;
  for (let i = from + 1; i < to; i++) {
    const by = Math.abs(toY(line.y[i]!) - toY(line.y[i - 1]!));
    if (by > 0) traveled += by; // false for NaN
  }
  return traveled > 12 * width;
}

/** Indices of the points between two x, with one more on each side. */
export function inside(x: ArrayLike<number>, x0: number, x1: number): [number, number] {
  const n = x.length;
  if (n === 0) return [0, 0];
  let from = nearest(x, x0);
  let to = nearest(x, x1);
  from = Math.max(0, from - 1);
  to = Math.min(n, to + 2);
  return [from, to];
}

export function stroke(ctx: CanvasRenderingContext2D, line: Line, y: ArrayLike<number>, [from, to]: [number, number], pen: Pen) {
  ctx.globalAlpha = pen.alpha;
  ctx.strokeStyle = line.color;
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
  // A point without neighbors is drawn as a dot; with `dots`, so are all points of a short line.
  ctx.fillStyle = line.color;
  if (to - from <= 24 && pen.dots) for (let i = from; i < to; i++) dots.push([pen.toX(line.x[i]!), pen.toY(y[i]!)]);
  for (const [px, py] of dots) {
    if (!Number.isFinite(py)) continue;
    ctx.beginPath();
    ctx.arc(px, py, 2.4 * pixel(), 0, 7);
    ctx.fill();
  }
  ctx.globalAlpha = 1;
}

export function fillBetween(ctx: CanvasRenderingContext2D, line: Line, lo: ArrayLike<number>, hi: ArrayLike<number>, [from, to]: [number, number], pen: Pen) {
  ctx.globalAlpha = pen.alpha;
  ctx.fillStyle = line.color;
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
