// The sequential color scale of heatmaps: one hue, readable with color blindness.
import { shownTheme } from "../settings";

const STOPS = {
  light: [[238, 241, 240], [176, 214, 219], [96, 171, 186], [28, 117, 138], [14, 66, 88], [10, 30, 46]],
  dark: [[27, 31, 35], [22, 62, 76], [27, 108, 126], [72, 163, 178], [160, 213, 218], [240, 250, 248]],
} as const;

export function heatColor(fraction: number): [number, number, number] {
  const stops = STOPS[shownTheme.value];
  const at = Math.min(1, Math.max(0, fraction)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  const f = at - i;
  const mix = (k: 0 | 1 | 2) => Math.round(stops[i]![k] + (stops[i + 1]![k] - stops[i]![k]) * f);
  return [mix(0), mix(1), mix(2)];
}

/** Draws cells[row][column] (0 to 1, null: none) as one pixel each; CSS scales the canvas. */
export function drawHeat(canvas: HTMLCanvasElement, cells: readonly (readonly (number | null)[])[]) {
  const rows = cells.length;
  const columns = cells[0]?.length ?? 0;
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows);
  const ctx = canvas.getContext("2d")!;
  const image = ctx.createImageData(canvas.width, canvas.height);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const fraction = cells[row]![column];
      if (fraction === null || fraction === undefined || Number.isNaN(fraction)) continue;
      const [r, g, b] = heatColor(fraction);
      image.data.set([r, g, b, 255], 4 * (row * columns + column));
    }
  }
  ctx.putImageData(image, 0, 0);
}
