// Saves charts, heatmaps and tables as images or CSV.
import { cssColor } from "../colors";
import type { Line } from "./line";

function save(name: string, url: string) {
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  if (url.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const fileName = (title: string, ending: string) => `${title.replace(/[^\w.-]+/g, "_").replace(/^[_.]+|_+$/g, "") || "chart"}.${ending}`;

const ratio = () => Math.max(2, window.devicePixelRatio || 1); // at least twice the resolution of the page
const font = (size: number, weight = 400) => `${weight} ${size * ratio()}px ${getComputedStyle(document.body).fontFamily}`;
const MARGIN = 14;
const HEAD = 40;

/** Creates a canvas with a title; the content starts below HEAD. Sizes in canvas pixels. */
function createPage(title: string, width: number, height: number): CanvasRenderingContext2D {
  const out = document.createElement("canvas");
  out.width = width;
  out.height = height;
  const ctx = out.getContext("2d")!;
  ctx.fillStyle = cssColor("--surface");
  ctx.fillRect(0, 0, out.width, out.height);
  ctx.fillStyle = cssColor("--ink");
  ctx.font = font(14, 600);
  ctx.textBaseline = "middle";
  ctx.fillText(truncate(ctx, title, width - 2 * MARGIN * ratio()), MARGIN * ratio(), 20 * ratio());
  ctx.font = font(11);
  ctx.fillStyle = cssColor("--ink-2");
  return ctx;
}

/** Truncates the text to a width. */
function truncate(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 0 && ctx.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}

function saveCanvas(title: string, ctx: CanvasRenderingContext2D) {
  ctx.canvas.toBlob((blob) => blob && save(fileName(title, "png"), URL.createObjectURL(blob)));
}

/** Saves a text under this name. */
export function saveText(name: string, text: string, type: string) {
  save(name, URL.createObjectURL(new Blob([text], { type })));
}

/** Saves a chart as SVG. */
export function saveSvg(title: string, svg: string) {
  save(fileName(title, "svg"), URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })));
}

const PNG_SCALE = 2; // canvas pixels per CSS pixel

async function imageOf(svg: string): Promise<HTMLImageElement> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  return image;
}

/** Rasterizes an SVG chart at twice the resolution of the page. */
export async function savePng(title: string, svg: string) {
  const image = await imageOf(svg);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [PNG_SCALE * image.width, PNG_SCALE * image.height];
  const ctx = canvas.getContext("2d")!;
  ctx.drawImage(image, 0, 0, canvas.width, canvas.height);
  saveCanvas(title, ctx);
}

const STYLES = ["fill", "stroke", "stroke-width", "stroke-linejoin", "paint-order", "font-family", "font-size", "font-weight"] as const;

/** The text of an SVG in the page, with the styles that it has from style sheets. */
function styledSvg(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const [from, to] = [svg, copy].map((root) => [...root.querySelectorAll("*")]);
  from!.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) to![i]!.setAttribute(name, style.getPropertyValue(name));
  });
  return new XMLSerializer().serializeToString(copy);
}

/** Draws the points of a plot, the element `host`, with `ratio` canvas pixels per pixel of the page. */
export interface PointPainter { host: HTMLElement; paint: (canvas: HTMLCanvasElement, ratio: number) => void }

/** Colors: a ramp with its ends, or the first names and how many more there are. */
export type Legend = { title: string } & ({ ramp: string[]; ends: [string, string]; log: boolean } | { names: { label: string; color: string }[]; more: number });

const LEGEND_ROW = 18;
const LEGEND_RAMP = 120; // pixels of the page

type LegendItem = { width: number; draw: (ctx: CanvasRenderingContext2D, x: number, y: number) => void };

/** The parts of a legend, from left to right. */
function legendItems(legend: Legend, measure: CanvasRenderingContext2D, unit: number): LegendItem[] {
  const gap = 12 * unit;
  const text = (content: string, space = gap): LegendItem => ({ width: measure.measureText(content).width + space, draw: (ctx, x, y) => ctx.fillText(content, x, y) });
  const filled = (ctx: CanvasRenderingContext2D, color: string, path: () => void) => {
    ctx.save();
    ctx.fillStyle = color;
    ctx.beginPath();
    path();
    ctx.fill();
    ctx.restore();
  };
  if ("ramp" in legend) {
    const part = (LEGEND_RAMP * unit) / legend.ramp.length;
    const ramp: LegendItem = { width: LEGEND_RAMP * unit + gap / 2, draw: (ctx, x, y) => legend.ramp.forEach((color, i) => filled(ctx, color, () => ctx.rect(x + i * part, y - 4 * unit, Math.ceil(part), 8 * unit))) };
    return [text(legend.title), text(legend.ends[0], gap / 2), ramp, text(legend.ends[1]), ...(legend.log ? [text("log")] : [])];
  }
  const names = legend.names.map(({ label, color }): LegendItem => {
    const name = text(label);
    return { width: 14 * unit + name.width, draw: (ctx, x, y) => { filled(ctx, color, () => ctx.arc(x + 4 * unit, y, 4 * unit, 0, 7)); name.draw(ctx, x + 14 * unit, y); } };
  });
  return [text(legend.title), ...names, ...(legend.more > 0 ? [text(`and ${legend.more} more`)] : [])];
}

/** Saves points, with the axes of their plot, an SVG if it has one, and the legend of their colors. */
export async function savePointsPng(title: string, { host, paint }: PointPainter, legend: Legend | null) {
  const unit = ratio();
  const [width, height, axes] = [host.clientWidth, host.clientHeight, host.querySelector("svg")];
  const points = document.createElement("canvas");
  paint(points, unit);
  const measure = document.createElement("canvas").getContext("2d")!;
  measure.font = font(11);
  // The rows of the legend.
  let [x, row] = [MARGIN * unit, 0];
  const placed = (legend ? legendItems(legend, measure, unit) : []).map((item) => {
    if (x > MARGIN * unit && x + item.width > (width + MARGIN) * unit) [x, row] = [MARGIN * unit, row + 1];
    const at = { item, x, row };
    x += item.width;
    return at;
  });
  const bottom = (HEAD + height + MARGIN) * unit;
  const ctx = createPage(title, (width + 2 * MARGIN) * unit, bottom + (placed.length > 0 ? row + 1 : 0) * LEGEND_ROW * unit);
  if (axes) ctx.drawImage(await imageOf(styledSvg(axes)), MARGIN * unit, HEAD * unit, width * unit, height * unit);
  ctx.drawImage(points, MARGIN * unit, HEAD * unit, width * unit, height * unit);
  for (const at of placed) at.item.draw(ctx, at.x, bottom + (at.row + 0.2) * LEGEND_ROW * unit);
  saveCanvas(title, ctx);
}

/** Saves a heatmap with its title, as many row names as fit, and the labels of its left and right end. */
export function saveHeatPng(title: string, canvas: HTMLCanvasElement, rows: readonly string[], ends: readonly [string, string]) {
  const unit = ratio();
  const [left, top, width] = [90 * unit, HEAD * unit, 1000 * unit];
  const height = Math.max(12 * canvas.height, 120) * unit;
  const ctx = createPage(title, left + width + MARGIN * unit, top + height + 30 * unit);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(canvas, left, top, width, height);
  ctx.fillText(ends[0], left, top + height + 14 * unit);
  ctx.textAlign = "right";
  ctx.fillText(ends[1], left + width, top + height + 14 * unit);
  const every = Math.ceil((12 * unit * rows.length) / height);
  rows.forEach((row, i) => i % every === 0 && ctx.fillText(truncate(ctx, row, left - MARGIN * unit), left - 8 * unit, top + ((i + 0.5) * height) / rows.length));
  saveCanvas(title, ctx);
}

export interface Cell { text: string; number?: boolean; fill?: string; ink?: string }

/** Saves a table with its title; columns fit their content, up to 240 pixels. */
export function saveTablePng(title: string, head: readonly string[], rows: readonly (readonly Cell[])[]) {
  const unit = ratio();
  const row = 22 * unit;
  const pad = 8 * unit;
  const measure = document.createElement("canvas").getContext("2d")!;
  measure.font = font(11);
  const textWidth = (text: string) => Math.min(240 * unit, measure.measureText(text).width);
  const widths = head.map((name, i) => rows.reduce((most, cells) => Math.max(most, textWidth(cells[i]?.text ?? "")), textWidth(name)) + 2 * pad);
  const lefts = widths.map((_, i) => MARGIN * unit + widths.slice(0, i).reduce((sum, width) => sum + width, 0));
  const titleWidth = measure.measureText(title).width * 1.5 + 2 * MARGIN * unit;
  const ctx = createPage(title, Math.max(titleWidth, lefts.at(-1)! + widths.at(-1)! + MARGIN * unit), (HEAD + MARGIN) * unit + (rows.length + 1) * row);
  [head.map((text): Cell => ({ text })), ...rows].forEach((cells, i) => cells.forEach((cell, column) => {
    const [x, y, width] = [lefts[column]!, HEAD * unit + i * row, widths[column]!];
    if (cell.fill) {
      ctx.fillStyle = cell.fill;
      ctx.fillRect(x, y, width - unit, row - unit);
    }
    ctx.fillStyle = cell.ink ?? cssColor(i === 0 ? "--ink-2" : "--ink");
    const right = cell.number ?? rows[0]?.[column]?.number ?? false;
    ctx.textAlign = right ? "right" : "left";
    ctx.fillText(truncate(ctx, cell.text, width - 2 * pad + 1), right ? x + width - pad : x + pad, y + row / 2);
  }));
  saveCanvas(title, ctx);
}

const cell = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Saves rows as CSV. */
export function saveRows(title: string, head: readonly string[], rows: readonly (readonly (string | number)[])[]) {
  const text = [head, ...rows].map((row) => row.map((one) => cell(String(one))).join(",")).join("\n");
  save(fileName(title, "csv"), URL.createObjectURL(new Blob([text + "\n"], { type: "text/csv" })));
}

/** Saves the drawn points as CSV, if no server can provide all values. `head`: column names of a line, its x and its y. */
export function saveDrawnCsv(title: string, head: readonly [string, string, string], lines: readonly Line[]) {
  saveRows(title, head, lines.filter((line) => !line.isReference).flatMap((line) => Array.from(line.x, (at, i) => [line.label, at, (line.raw ?? line.y)[i]!])));
}

export function saveCsv(title: string, url: string) {
  save(fileName(title, "csv"), url);
}
