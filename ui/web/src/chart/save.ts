// A chart as a picture or as numbers.
import { cssColour } from "../colours";
import type { Line } from "./line";

function save(name: string, url: string) {
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  if (url.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const fileName = (title: string, ending: string) => `${title.replace(/[^\w.-]+/g, "_").replace(/^[_.]+|_+$/g, "") || "chart"}.${ending}`;

/** The canvas of a chart with its title and a legend. */
export function savePng(title: string, canvas: HTMLCanvasElement, lines: readonly Line[]) {
  const ratio = window.devicePixelRatio || 1;
  const font = getComputedStyle(document.body).fontFamily;
  const out = document.createElement("canvas");
  const ctx = out.getContext("2d")!;
  const line = 18 * ratio;
  const margin = 14 * ratio;
  const shown = lines.slice(0, 24);
  const columns = Math.max(1, Math.floor(canvas.width / (220 * ratio)));
  out.width = canvas.width + 2 * margin;
  out.height = canvas.height + 2 * margin + 26 * ratio + Math.ceil(shown.length / columns) * line;
  ctx.fillStyle = cssColour("--surface");
  ctx.fillRect(0, 0, out.width, out.height);
  ctx.fillStyle = cssColour("--ink");
  ctx.font = `600 ${14 * ratio}px ${font}`;
  ctx.textBaseline = "top";
  ctx.fillText(title, margin, margin);
  ctx.drawImage(canvas, margin, margin + 26 * ratio);
  ctx.font = `${11 * ratio}px ${font}`;
  shown.forEach((l, i) => {
    const x = margin + (i % columns) * (canvas.width / columns);
    const y = margin + 28 * ratio + canvas.height + Math.floor(i / columns) * line;
    ctx.fillStyle = l.colour;
    ctx.fillRect(x, y + 5 * ratio, 16 * ratio, 3 * ratio);
    ctx.fillStyle = cssColour("--ink-2");
    ctx.fillText(l.label, x + 22 * ratio, y, canvas.width / columns - 30 * ratio);
  });
  out.toBlob((blob) => blob && save(fileName(title, "png"), URL.createObjectURL(blob)));
}

/** A map with its title, the names of its rows (as many as have room), and what is at its left and right end. */
export function saveHeatPng(title: string, canvas: HTMLCanvasElement, rows: readonly string[], ends: readonly [string, string]) {
  const ratio = window.devicePixelRatio || 1;
  const font = getComputedStyle(document.body).fontFamily;
  const out = document.createElement("canvas");
  const ctx = out.getContext("2d")!;
  const [left, top, margin, width] = [90 * ratio, 40 * ratio, 14 * ratio, 1000 * ratio];
  const height = Math.max(12 * canvas.height, 120) * ratio;
  out.width = left + width + margin;
  out.height = top + height + 30 * ratio;
  ctx.fillStyle = cssColour("--surface");
  ctx.fillRect(0, 0, out.width, out.height);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(canvas, left, top, width, height);
  ctx.fillStyle = cssColour("--ink");
  ctx.font = `600 ${14 * ratio}px ${font}`;
  ctx.textBaseline = "middle";
  ctx.fillText(title, margin, 20 * ratio);
  ctx.font = `${11 * ratio}px ${font}`;
  ctx.fillStyle = cssColour("--ink-2");
  ctx.fillText(ends[0], left, top + height + 14 * ratio);
  ctx.textAlign = "right";
  ctx.fillText(ends[1], left + width, top + height + 14 * ratio);
  const every = Math.ceil((12 * ratio * rows.length) / height);
  rows.forEach((row, i) => i % every === 0 && ctx.fillText(row, left - 8 * ratio, top + ((i + 0.5) * height) / rows.length, left - margin));
  out.toBlob((blob) => blob && save(fileName(title, "png"), URL.createObjectURL(blob)));
}

const cell = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Rows of a table; texts are quoted where they need it. */
export function saveRows(title: string, head: readonly string[], rows: readonly (readonly (string | number)[])[]) {
  const text = [head, ...rows].map((row) => row.map((one) => cell(String(one))).join(",")).join("\n");
  save(fileName(title, "csv"), URL.createObjectURL(new Blob([text + "\n"], { type: "text/csv" })));
}

/** What is drawn, where no server can give every value. */
export function saveDrawnCsv(title: string, x: string, lines: readonly Line[]) {
  saveRows(title, ["line", x, "value"], lines.flatMap((line) => Array.from(line.x, (at, i) => [line.label, at, (line.raw ?? line.y)[i]!])));
}

export function saveCsv(title: string, url: string) {
  save(fileName(title, "csv"), url);
}
