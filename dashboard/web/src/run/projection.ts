// Vectors in a column of a table, and their principal components; points with the columns x, y and z. No DOM.
import { toNumber } from "../format";

/** `rows` vectors of `width` numbers, row by row. */
export interface Vectors { rows: number; width: number; values: Float32Array }

/** `scores[k][row]`: the coordinate of a row along component k, the one with the largest variance first; `shares[k]`: its part of the
 * variance of all vectors. */
export interface Projection { scores: Float64Array[]; shares: number[] }

const MAX_COMPONENTS = 5;
/** More directions than components are iterated: the error of a component falls with its variance relative to that of the first direction left out. */
const EXTRA_DIRECTIONS = 5;
const MAX_ITERATIONS = 30;
const TOLERANCE = 1e-7; // of the variances, relative to the largest

const isNumber = (value: unknown) => typeof value === "number" || value === "nan" || value === "inf" || value === "-inf";

/** Whether cells are numbers, or empty; values that are not finite are texts. */
export const isNumeric = (cells: readonly unknown[]) => cells.every((cell) => cell === null || isNumber(cell)) && cells.some((cell) => typeof cell === "number");

/** The columns `vector` and `vector/NAME`, if the first value is a list of at least two numbers. */
export function vectorColumns(columns: readonly string[], rows: readonly unknown[][]): string[] {
  return columns.filter((column, i) => {
    const value = rows[0]?.[i];
    return (column === "vector" || column.startsWith("vector/")) && Array.isArray(value) && value.length > 1 && value.every(isNumber);
  });
}

/** Those with more than two numbers, which are not coordinates, in the first row. */
export const componentColumns = (columns: readonly string[], rows: readonly unknown[][]) => vectorColumns(columns, rows).filter((name) => (rows[0]![columns.indexOf(name)] as unknown[]).length > 2);

const COORDINATES = ["x", "y", "z"];

/** Whether rows are points: columns x, y and z with numbers. */
export const hasPoints = (columns: readonly string[], rows: readonly unknown[][]) => rows.length > 0 && COORDINATES.every((name) => columns.includes(name) && isNumber(rows[0]![columns.indexOf(name)]));

/** The coordinates x, y and z, and the indices of their rows, without rows with values that are not finite. */
export function pointsOf(rows: readonly unknown[][], columns: readonly string[]): { projection: Projection; kept: number[] } {
  const indices = COORDINATES.map((name) => columns.indexOf(name));
  const kept = Array.from(rows.keys()).filter((row) => indices.every((i) => Number.isFinite(toNumber(rows[row]![i]))));
  return { projection: { scores: indices.map((i) => Float64Array.from(kept, (row) => toNumber(rows[row]![i]))), shares: [] }, kept };
}

/** The vectors of a column, and the indices of their rows. Rows with another length or with values that are not finite are left out. */
export function vectorsOf(rows: readonly unknown[][], column: number): { vectors: Vectors; kept: number[] } {
  const width = (rows[0]?.[column] as unknown[] | undefined)?.length ?? 0;
  const isVector = (value: unknown) => Array.isArray(value) && value.length === width && value.every((member) => Number.isFinite(toNumber(member)));
  const kept = Array.from(rows.keys()).filter((row) => isVector(rows[row]![column]));
  const values = new Float32Array(kept.length * width);
  kept.forEach((row, i) => (rows[row]![column] as unknown[]).forEach((member, k) => (values[i * width + k] = toNumber(member))));
  return { vectors: { rows: kept.length, width, values }, kept };
}

/** The first principal components: orthogonal iteration with Rayleigh-Ritz steps (Saad, Numerical Methods for Large Eigenvalue
 * Problems, 2011, chapter 5). The largest weight of a component is positive. The result depends on the vectors only. Two numbers
 * are the coordinates themselves. */
export function principalComponents({ rows, width, values }: Vectors): Projection {
  const { centered, total } = centeredOf(rows, width, values);
  const share = (score: Float64Array) => (total > 0 ? dot(score, score) / total : 0);
  const column = (of: Float32Array, k: number) => Float64Array.from({ length: rows }, (_, row) => of[width * row + k]!);
  if (width === 2) return { scores: [column(values, 0), column(values, 1)], shares: [share(column(centered, 0)), share(column(centered, 1))] };
  const count = Math.min(MAX_COMPONENTS, width);
  let basis = startBasis(Math.min(width, MAX_COMPONENTS + EXTRA_DIRECTIONS), width);
  let before: number[] = [];
  for (let iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
    const products = multiplied(centered, rows, basis);
    const { values: variances, vectors } = eigenOf(basis.map((a) => products.map((b) => dot(a, b))));
    basis = orthonormal(vectors.map((weights) => combined(products, weights)));
    if (variances.slice(0, count).every((variance, i) => Math.abs(variance - (before[i] ?? Infinity)) <= TOLERANCE * variances[0]!)) break;
    before = variances;
  }
  const scores = basis.slice(0, count).map((direction) => projected(centered, rows, withPositiveWeight(direction)));
  return { scores, shares: scores.map(share) };
}

function centeredOf(rows: number, width: number, values: Float32Array): { centered: Float32Array; total: number } {
  const mean = new Float64Array(width);
  for (let i = 0; i < values.length; i++) mean[i % width]! += values[i]! / rows;
  const centered = values.map((value, i) => value - mean[i % width]!);
  return { centered, total: centered.reduce((sum, value) => sum + value * value, 0) };
}

/** Pseudo-random numbers from 0 to 1, without 1, the same for each seed. */
export function uniformNumbers(seed: number): () => number {
  let state = seed;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

/** Orthonormal directions, the same each time. */
function startBasis(count: number, width: number): Float64Array[] {
  const random = uniformNumbers(12345);
  const next = () => random() - 0.5;
  return orthonormal(Array.from({ length: count }, () => Float64Array.from({ length: width }, next)));
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += a[k]! * b[k]!;
  return sum;
}

const combined = (vectors: readonly Float64Array[], weights: readonly number[]) => vectors[0]!.map((_, k) => vectors.reduce((sum, vector, i) => sum + weights[i]! * vector[k]!, 0));

/** Gram-Schmidt, twice for its precision. A vector that depends on those before it becomes 0. */
function orthonormal(vectors: Float64Array[]): Float64Array[] {
  const found: Float64Array[] = [];
  for (const vector of vectors) {
    const size = Math.sqrt(dot(vector, vector));
    for (let time = 0; time < 2; time++)
      for (const other of found) {
        const along = dot(vector, other);
        vector.forEach((_, k) => (vector[k]! -= along * other[k]!));
      }
    const left = Math.sqrt(dot(vector, vector));
    found.push(vector.map((value) => (left > 1e-10 * size ? value / left : 0)));
  }
  return found;
}

/** The products of the covariance, times the number of rows, with the directions. */
function multiplied(centered: Float32Array, rows: number, directions: readonly Float64Array[]): Float64Array[] {
  const width = directions[0]!.length;
  const products = directions.map(() => new Float64Array(width));
  for (let row = 0; row < rows; row++) {
    const vector = centered.subarray(row * width, (row + 1) * width);
    for (let i = 0; i < directions.length; i++) addProduct(vector, directions[i]!, products[i]!);
  }
  return products;
}

/** Adds the vector, times its coordinate along the direction, to the product. */
function addProduct(vector: Float32Array, direction: Float64Array, product: Float64Array) {
  let [a, b] = [0, 0];
  for (let k = 0; k + 1 < vector.length; k += 2) {
    a += vector[k]! * direction[k]!;
    b += vector[k + 1]! * direction[k + 1]!;
  }
  const last = vector.length - 1;
  const along = a + b + (last % 2 === 0 ? vector[last]! * direction[last]! : 0);
  for (let k = 0; k < vector.length; k++) product[k]! += along * vector[k]!;
}

function projected(centered: Float32Array, rows: number, direction: Float64Array): Float64Array {
  const width = direction.length;
  const score = new Float64Array(rows);
  for (let row = 0; row < rows; row++) for (let k = 0; k < width; k++) score[row]! += centered[row * width + k]! * direction[k]!;
  return score;
}

function withPositiveWeight(direction: Float64Array): Float64Array {
  const largest = direction.reduce((most, weight) => (Math.abs(weight) > Math.abs(most) ? weight : most), 0);
  return largest < 0 ? direction.map((weight) => -weight) : direction;
}

const SWEEPS = 30;

/** The eigenvalues of a small symmetric matrix, the largest first, and their eigenvectors (Jacobi 1846). */
export function eigenOf(matrix: readonly (readonly number[])[]): { values: number[]; vectors: number[][] } {
  const size = matrix.length;
  const a = matrix.map((row) => [...row]);
  const v = matrix.map((_, i) => matrix.map((__, k) => Number(i === k)));
  const rotate = (of: number[][], i: number, p: number, q: number, c: number, s: number) => {
    const [x, y] = [of[i]![p]!, of[i]![q]!];
    of[i]![p] = c * x - s * y;
    of[i]![q] = s * x + c * y;
  };
  for (let sweep = 0; sweep < SWEEPS; sweep++)
    for (let p = 0; p < size; p++)
      for (let q = p + 1; q < size; q++) {
        if (a[p]![q] === 0) continue;
        const angle = 0.5 * Math.atan2(2 * a[p]![q]!, a[q]![q]! - a[p]![p]!);
        const [c, s] = [Math.cos(angle), Math.sin(angle)];
        for (let i = 0; i < size; i++) rotate(a, i, p, q, c, s);
        for (let k = 0; k < size; k++) {
          const [x, y] = [a[p]![k]!, a[q]![k]!];
          [a[p]![k], a[q]![k]] = [c * x - s * y, s * x + c * y];
        }
        for (let i = 0; i < size; i++) rotate(v, i, p, q, c, s);
      }
  const order = [...a.keys()].sort((i, k) => a[k]![k]! - a[i]![i]!);
  return { values: order.map((i) => a[i]![i]!), vectors: order.map((i) => v.map((row) => row[i]!)) };
}
