// UMAP (McInnes, Healy, Melville 2018) of vectors in two dimensions, by umap-js, from exact nearest neighbors and principal components.
import { UMAP } from "umap-js";
import { principalComponents, uniformNumbers, type Vectors } from "./projection";
import { MIN_POINTS, type UmapProgress, type UmapRequest } from "./umap";

const SEED = 42;
/** The largest coordinate at the start, and the noise that separates equal points: as in umap-learn. */
const START_SIZE = 10;
const START_NOISE = 1e-4;

/** The nearest vectors of each, the nearest first, which is itself. */
export interface Neighbors { indices: number[][]; distances: number[][] }

type OnProgress = (progress: UmapProgress) => void;

/** The coordinates of each vector along both axes. The result depends on the request only. At least 4 vectors; more neighbors than there are
 * vectors are cut. */
export function umapLayout({ vectors, neighbors, distance }: UmapRequest, onProgress: OnProgress): Float64Array[] {
  if (vectors.rows < MIN_POINTS) throw new Error(`UMAP needs at least ${MIN_POINTS} vectors, and there are ${vectors.rows}.`);
  const random = uniformNumbers(SEED);
  const count = Math.min(neighbors, vectors.rows - 1);
  const { indices, distances } = nearestNeighbors(vectors, count, (done) => onProgress({ stage: "neighbors", done, total: vectors.rows }));
  const umap = new UMAP({ nNeighbors: count, minDist: distance, random });
  umap.setPrecomputedKNN(indices, distances);
  const epochs = umap.initializeFit(Array.from({ length: vectors.rows }, (_, row) => Array.from(vectors.values.subarray(row * vectors.width, (row + 1) * vectors.width))));
  const points = umap.getEmbedding();
  // The library starts at random places, which does not keep the order of distant groups.
  startPlaces(vectors, random).forEach((score, k) => score.forEach((value, row) => (points[row]![k] = value)));
  for (let epoch = 0; epoch < epochs; epoch++) {
    umap.step();
    onProgress({ stage: "epochs", done: epoch + 1, total: epochs });
  }
  return [0, 1].map((k) => Float64Array.from(umap.getEmbedding(), (point) => point[k]!));
}

/** The first two principal components, scaled, with noise. */
function startPlaces(vectors: Vectors, random: () => number): Float64Array[] {
  const scores = principalComponents(vectors).scores.slice(0, 2);
  const largest = scores.reduce((most, score) => score.reduce((own, value) => Math.max(own, Math.abs(value)), most), 0) || 1;
  return scores.map((score) => score.map((value) => (START_SIZE * value) / largest + START_NOISE * (2 * random() - 1)));
}

/** Compares all pairs, in Euclidean distance. `onRow`: how many vectors have been compared with all others. */
export function nearestNeighbors({ rows, width, values }: Vectors, count: number, onRow: (done: number) => void): Neighbors {
  // The nearest so far of each vector, in ascending order.
  const indices = new Int32Array(rows * count).fill(-1);
  const squares = new Float64Array(rows * count).fill(Infinity);
  const insert = (row: number, other: number, square: number) => {
    let at = (row + 1) * count - 1;
    if (square >= squares[at]!) return;
    for (; at > row * count && squares[at - 1]! > square; at--) {
      squares[at] = squares[at - 1]!;
      indices[at] = indices[at - 1]!;
    }
    squares[at] = square;
    indices[at] = other;
  };
  for (let row = 0; row < rows; row++) {
    insert(row, row, -1); // first, also before equal vectors
    for (let other = row + 1; other < rows; other++) {
      const square = squaredDistance(values, row * width, other * width, width);
      insert(row, other, square);
      insert(other, row, square);
    }
    onRow(row + 1);
  }
  const listOf = <T>(row: number, of: (at: number) => T) => Array.from({ length: count }, (_, k) => of(row * count + k));
  const all = Array.from({ length: rows }, (_, row) => row);
  return { indices: all.map((row) => listOf(row, (at) => indices[at]!)), distances: all.map((row) => listOf(row, (at) => Math.sqrt(Math.max(0, squares[at]!)))) };
}

function squaredDistance(values: Float32Array, a: number, b: number, width: number): number {
  let sum = 0;
  for (let k = 0; k < width; k++) {
    const difference = values[a + k]! - values[b + k]!;
    sum += difference * difference;
  }
  return sum;
}
