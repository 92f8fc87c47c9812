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

const cell = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** What is drawn, where no server can give every value. */
export function saveDrawnCsv(title: string, x: string, lines: readonly Line[]) {
  const rows = [`line,${x},value`];
  for (const line of lines) for (let i = 0; i < line.x.length; i++) rows.push(`${cell(line.label)},${line.x[i]},${(line.raw ?? line.y)[i]}`);
  save(fileName(title, "csv"), URL.createObjectURL(new Blob([rows.join("\n") + "\n"], { type: "text/csv" })));
}

export function saveCsv(title: string, url: string) {
  save(fileName(title, "csv"), url);
}
