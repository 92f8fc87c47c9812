// Draws the points of a scatter plot, and below them the mean of their colors' column as cells or as a surface with contour lines.
import { rampColor } from "../chart/palette";
import { cssColor } from "../colors";
import { shownTheme } from "../settings";
import { type Cells, COLUMNS, contourOf, ROWS, type Segment, type Smooth, type Surface } from "./surface";
import type { Values } from "./values";

export const PAD = { left: 62, right: 14, top: 24, bottom: 34 };
const MANY_POINTS = 400;
const SURFACE_ALPHA = 0.72;
const MAX_LEVELS = 8;
const LABEL_DISTANCE = 40;

/** The part of the canvas inside of the axes. */
export interface Area { left: (unit: number) => number; top: (unit: number) => number; width: number; height: number }

export function areaOf(width: number, height: number): Area {
  const [inner, tall] = [width - PAD.left - PAD.right, height - PAD.top - PAD.bottom];
  return { left: (unit) => PAD.left + inner * unit, top: (unit) => height - PAD.bottom - tall * unit, width, height };
}

export interface Drawing { area: Area; points: readonly (readonly [number, number])[]; colors: readonly string[]; inside: Uint8Array; surface: Surface | null; color: Values }

/** `ratio`: canvas pixels per pixel of the page. */
export function drawScatter(canvas: HTMLCanvasElement, { area, points, colors, inside, surface, color }: Drawing, ratio = Math.min(2, devicePixelRatio || 1)) {
  canvas.width = Math.round(area.width * ratio);
  canvas.height = Math.round(area.height * ratio);
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  if (surface?.kind === "cells") drawCells(ctx, area, surface, color);
  if (surface?.kind === "smooth") {
    drawSmooth(ctx, area, surface, color);
    drawContours(ctx, contourLines(surface, area, color));
  }
  const others: number[] = [];
  const byColor = new Map<string, number[]>();
  colors.forEach((style, run) => {
    if (!inside[run]) others.push(run);
    else if (byColor.has(style)) byColor.get(style)!.push(run);
    else byColor.set(style, [run]);
  });
  const many = points.length > MANY_POINTS;
  const radius = many ? 2.6 : 3.6;
  ctx.globalAlpha = 0.6;
  drawPoints(ctx, points, new Map([[cssColor("--line-strong"), others]]), radius, false);
  ctx.globalAlpha = many ? 0.75 : 0.9;
  drawPoints(ctx, points, byColor, radius, surface !== null);
}

/** `outlined`: with a border, because a surface of the same color is below. */
function drawPoints(ctx: CanvasRenderingContext2D, points: Drawing["points"], runs: Map<string, number[]>, radius: number, outlined: boolean) {
  ctx.strokeStyle = cssColor("--surface");
  ctx.lineWidth = 1.4;
  for (const [style, own] of runs) {
    ctx.fillStyle = style;
    ctx.beginPath();
    for (const run of own) {
      const [px, py] = points[run]!;
      if (!Number.isFinite(px) || !Number.isFinite(py)) continue;
      ctx.moveTo(px + radius, py);
      ctx.arc(px, py, radius, 0, 7);
    }
    if (outlined) ctx.stroke();
    ctx.fill();
  }
}

function drawCells(ctx: CanvasRenderingContext2D, area: Area, { xEdges, yEdges, mean }: Cells, { scale }: Values) {
  const columns = xEdges.length - 1;
  ctx.globalAlpha = SURFACE_ALPHA;
  mean.forEach((value, cell) => {
    if (Number.isNaN(value)) return;
    const [column, row] = [cell % columns, Math.floor(cell / columns)];
    const [x, y] = [area.left(xEdges[column]!), area.top(yEdges[row + 1]!)];
    ctx.fillStyle = rampColor(scale.position(value), shownTheme.value);
    ctx.fillRect(x + 0.5, y + 0.5, area.left(xEdges[column + 1]!) - x - 1, area.top(yEdges[row]!) - y - 1);
  });
}

function drawSmooth(ctx: CanvasRenderingContext2D, area: Area, surface: Smooth, { scale }: Values) {
  const [wide, tall] = [area.left(1 / COLUMNS) - area.left(0), area.top(0) - area.top(1 / ROWS)];
  ctx.globalAlpha = SURFACE_ALPHA;
  surface.mean.forEach((value, at) => {
    if (Number.isNaN(value)) return;
    ctx.fillStyle = rampColor(scale.position(value), shownTheme.value);
    const [x, y] = [Math.round(area.left((at % COLUMNS) / COLUMNS)), Math.round(area.top((Math.floor(at / COLUMNS) + 1) / ROWS))];
    ctx.fillRect(x, y, Math.round(area.left((at % COLUMNS) / COLUMNS) + wide) - x, Math.round(area.top((Math.floor(at / COLUMNS) + 1) / ROWS) + tall) - y);
  });
}

interface ContourLine { segments: Segment[]; label: string; place: readonly [number, number] | null }

/** Contour lines at the ticks of the color's scale, in pixels, each with a place for its label that is far from the others. */
function contourLines(surface: Smooth, area: Area, { scale }: Values): ContourLine[] {
  const lines: ContourLine[] = [];
  const fits = ([x, y]: Segment) => x > PAD.left + 24 && x < area.width - PAD.right - 24 && y > PAD.top + 14 && y < area.height - PAD.bottom - 10
    && lines.every(({ place }) => !place || Math.hypot(place[0] - x, 2 * (place[1] - y)) > LABEL_DISTANCE);
  for (const { at, label } of scale.ticks(MAX_LEVELS)) {
    const segments = contourOf(surface, scale.value(at)).map(([x0, y0, x1, y1]): Segment => [area.left(x0), area.top(y0), area.left(x1), area.top(y1)]);
    // The segments are in the order of y: the label is near the middle of the line.
    const fromMiddle = segments.map((segment, i) => ({ segment, off: Math.abs(i - segments.length / 2) })).sort((a, b) => a.off - b.off);
    const found = fromMiddle.find(({ segment }) => fits(segment))?.segment;
    if (segments.length > 0) lines.push({ segments, label, place: found ? [found[0], found[1]] : null });
  }
  return lines;
}

function drawContours(ctx: CanvasRenderingContext2D, lines: readonly ContourLine[]) {
  ctx.strokeStyle = ctx.fillStyle = cssColor("--ink");
  ctx.globalAlpha = 0.75;
  ctx.lineWidth = 1.1;
  ctx.beginPath();
  for (const [x0, y0, x1, y1] of lines.flatMap(({ segments }) => segments)) {
    ctx.moveTo(x0, y0);
    ctx.lineTo(x1, y1);
  }
  ctx.stroke();
  ctx.globalAlpha = 1;
  ctx.font = `600 10.5px ${getComputedStyle(document.body).fontFamily}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.strokeStyle = cssColor("--surface");
  ctx.lineWidth = 3;
  ctx.lineJoin = "round";
  for (const { label, place } of lines) {
    if (!place) continue;
    ctx.strokeText(label, ...place);
    ctx.fillText(label, ...place);
  }
}
