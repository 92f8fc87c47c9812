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

/** Rasterizes an SVG chart at twice the resolution of the page. */
export async function savePng(title: string, svg: string) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [PNG_SCALE * image.width, PNG_SCALE * image.height];
  const ctx = canvas.getContext("2d")!;
  ctx.drawImage(image, 0, 0, canvas.width, canvas.height);
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
