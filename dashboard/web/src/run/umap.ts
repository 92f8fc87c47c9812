// UMAP of vectors: what is chosen, and what its worker receives and sends. Without the library, which only the worker loads.
import type { Vectors } from "./projection";

/** More points are thinned: the time of the nearest neighbors grows with their square. */
export const MAX_POINTS = 5000;
export const MIN_POINTS = 4;

/** As in umap-learn. `neighbors`: of a point, with itself; `distance`: between points that are close to each other on the map. */
export interface UmapChoice { neighbors: number; distance: number }
export const NEIGHBORS = [5, 10, 15, 20, 30, 50];
export const DISTANCES = [0, 0.05, 0.1, 0.25, 0.5, 0.8];
export const USUAL: UmapChoice = { neighbors: 15, distance: 0.1 };

export interface UmapRequest extends UmapChoice { vectors: Vectors }

/** `neighbors`: of how many points they are found; `epochs`: of the layout. */
export interface UmapProgress { stage: "neighbors" | "epochs"; done: number; total: number }
export type UmapMessage = { progress: UmapProgress } | { scores: Float64Array[] } | { error: string };

/** The listed value that a text is, or the usual one. */
export const listed = (text: string, values: readonly number[], usual: number) => (text !== "" && values.includes(Number(text)) ? Number(text) : usual);

/** `count` whole numbers from 0 to `rows` - 1, evenly spaced; all if there are not more. */
export const evenly = (rows: number, count: number) => Array.from({ length: Math.min(rows, count) }, (_, i) => Math.floor((i * rows) / Math.min(rows, count)));

/** The vectors with these numbers. */
export function vectorsAt({ width, values }: Vectors, chosen: readonly number[]): Vectors {
  const own = new Float32Array(chosen.length * width);
  chosen.forEach((row, i) => own.set(values.subarray(row * width, (row + 1) * width), i * width));
  return { rows: chosen.length, width, values: own };
}

/** From 0 to 1: the neighbors are half of it. */
export const fractionOf = ({ stage, done, total }: UmapProgress) => (total > 0 ? done / total / 2 : 0) + (stage === "epochs" ? 0.5 : 0);
