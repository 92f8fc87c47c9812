// ROC and precision-recall curves, and confusion matrices, of tables with the label and the score of each sample. No DOM.
import type { TablePage } from "../data/source";
import { plain, toNumber } from "../format";

/** A class against the rest: per sample whether it belongs to the class, and its score. */
export interface ClassScores { name: string; positive: Uint8Array; score: Float64Array }

export interface ClassCurve { name: string; x: number[]; y: number[]; area: number; positives: number; count: number }

const PREFIX = "score/";

const TRUTH = new Map<string, number>([["1", 1], ["true", 1], ["0", 0], ["false", 0]]);
const truthOf = (label: unknown) => TRUTH.get(plain(label).toLowerCase());

/** Whether there are rows, and the columns are `label` and one `score/CLASS` for each class, or `label`, which is 0, 1, false or true, and `score`. */
export function isScored({ columns, rows }: TablePage): boolean {
  const label = columns.indexOf("label");
  if (label < 0 || rows.length === 0) return false;
  return columns.includes("score") ? rows.every((row) => truthOf(row[label]) !== undefined) : columns.filter((column) => column.startsWith(PREFIX)).length > 1;
}

/** One entry per class, of the rows with numbers as scores; `class` in a table with `score`: one row per sample and class. Throws an Error
 * if a label of a table with `score` is neither 0, 1, false nor true. */
export function classScores({ columns, rows }: TablePage): ClassScores[] {
  const label = columns.indexOf("label");
  const score = columns.indexOf("score");
  if (score < 0)
    return columns.flatMap((column, i) => (column.startsWith(PREFIX) ? [scoresOf(column.slice(PREFIX.length), rows, i, (row) => Number(plain(row[label]) === column.slice(PREFIX.length)))] : []));
  const truth = (row: unknown[]): number => {
    const found = truthOf(row[label]);
    if (found === undefined) throw new Error(`The column label has the value "${plain(row[label])}", but next to the column score it must be 0, 1, false or true. Use a column score/CLASS for each class instead.`);
    return found;
  };
  const own = columns.indexOf("class");
  if (own < 0) return [scoresOf("", rows, score, truth)];
  const byClass = new Map<string, unknown[][]>();
  for (const row of rows) {
    const name = plain(row[own]);
    if (byClass.has(name)) byClass.get(name)!.push(row);
    else byClass.set(name, [row]);
  }
  return [...byClass].map(([name, part]) => scoresOf(name, part, score, truth));
}

function scoresOf(name: string, rows: readonly unknown[][], column: number, truth: (row: unknown[]) => number): ClassScores {
  const known = rows.filter((row) => !Number.isNaN(toNumber(row[column])));
  return { name, positive: Uint8Array.from(known, truth), score: Float64Array.from(known, (row) => toNumber(row[column])) };
}

/** Calls `visit` with the true and false positives at each distinct threshold, the highest first. */
function eachThreshold({ positive, score }: ClassScores, visit: (truePositives: number, falsePositives: number) => void): void {
  const order = Uint32Array.from(score.keys()).sort((a, b) => (score[a] === score[b] ? 0 : score[a]! > score[b]! ? -1 : 1));
  let [yes, no] = [0, 0];
  order.forEach((sample, i) => {
    if (positive[sample]) yes++;
    else no++;
    if (i + 1 === order.length || score[order[i + 1]!] !== score[sample]) visit(yes, no);
  });
}

const countOf = (positive: Uint8Array) => positive.reduce((sum, one) => sum + one, 0);

/** True positive rate over false positive rate. The area is that of the trapezoids between all distinct thresholds; NaN if all samples
 * are in the class, or none is. */
export function rocCurve(scores: ClassScores): ClassCurve {
  const [positives, count] = [countOf(scores.positive), scores.positive.length];
  const [x, y] = [[0], [0]];
  let area = 0;
  eachThreshold(scores, (yes, no) => {
    const [px, py] = [no / (count - positives), yes / positives];
    area += ((px - x[x.length - 1]!) * (py + y[y.length - 1]!)) / 2;
    x.push(px);
    y.push(py);
  });
  return { name: scores.name, ...thinned(x, y), area, positives, count };
}

/** Precision over recall, as steps. The area is the average precision: the sum over all distinct thresholds of the precision times the
 * increase of the recall; NaN without positive samples. */
export function precisionRecallCurve(scores: ClassScores): ClassCurve {
  const [positives, count] = [countOf(scores.positive), scores.positive.length];
  const [x, y]: [number[], number[]] = [[], []];
  let area = 0;
  eachThreshold(scores, (yes, no) => {
    const [recall, precision] = [yes / positives, yes / (yes + no)];
    const before = x[x.length - 1] ?? 0;
    area += (recall - before) * precision;
    x.push(before, recall);
    y.push(precision, precision);
  });
  return { name: scores.name, ...thinned(x, y), area: positives > 0 ? area : NaN, positives, count };
}

const NEAR = 1 / 1000; // of an axis

/** Leaves out points next to the last kept one; keeps the first and the last. */
function thinned(x: number[], y: number[]): { x: number[]; y: number[] } {
  const kept: number[] = [];
  for (let i = 0; i < x.length; i++) {
    const last = kept[kept.length - 1];
    if (last === undefined || i === x.length - 1 || Math.abs(x[i]! - x[last]!) >= NEAR || Math.abs(y[i]! - y[last]!) >= NEAR) kept.push(i);
  }
  return { x: kept.map((i) => x[i]!), y: kept.map((i) => y[i]!) };
}

/** Whether a table has the points of a curve. One with a row per class and its F1 score is a summary, not a curve. */
export const isCurve = ({ columns }: TablePage) => isRoc(columns) || (columns.includes("precision") && columns.includes("recall") && !columns.includes("f1"));

const isRoc = (columns: readonly string[]) => columns.includes("fpr") && columns.includes("tpr");

/** The curves of a table of points, one per `class`: the true over the false positive rate, or precision over recall. Points that are not
 * finite are left out. Points with equal x keep their order, so that vertical steps do too; it is reversed if x descends, as
 * scikit-learn's precision_recall_curve() returns it. */
export function loggedCurves({ columns, rows }: TablePage): { kind: "roc" | "pr"; curves: ClassCurve[] } {
  const kind = isRoc(columns) ? "roc" : "pr";
  const [x, y, k] = [...(kind === "roc" ? ["fpr", "tpr"] : ["recall", "precision"]), "class"].map((name) => columns.indexOf(name)) as [number, number, number];
  const nameOf = (row: unknown[]) => (k >= 0 ? plain(row[k]) : "");
  const byClass = new Map<string, [number, number][]>(rows.map((row) => [nameOf(row), []]));
  for (const row of rows) {
    const point: [number, number] = [toNumber(row[x]), toNumber(row[y])];
    if (point.every(Number.isFinite)) byClass.get(nameOf(row))!.push(point);
  }
  const curves = [...byClass].map(([name, points]): ClassCurve => {
    if (points.length > 0 && points[0]![0] > points[points.length - 1]![0]) points.reverse();
    points.sort((a, b) => a[0] - b[0]);
    const [px, py] = [points.map(([at]) => at), points.map(([, value]) => value)];
    return { name, x: px, y: py, area: points.length > 0 ? areaUnder(px, py) : NaN, positives: NaN, count: points.length };
  });
  return { kind, curves };
}

/** The area under a curve of logged points, as trapezoids. `x` ascends. */
export const areaUnder = (x: readonly number[], y: readonly number[]): number => x.slice(1).reduce((sum, at, i) => sum + ((at - x[i]!) * (y[i]! + y[i + 1]!)) / 2, 0);

/** The counts of a class at a threshold: a score of at least the threshold is a positive prediction. */
export function countsAt({ positive, score }: ClassScores, threshold: number): { truePositives: number; falsePositives: number; falseNegatives: number; trueNegatives: number } {
  const counts = [0, 0, 0, 0];
  positive.forEach((one, i) => counts[2 * one + Number(score[i]! >= threshold)]!++);
  return { trueNegatives: counts[0]!, falsePositives: counts[1]!, falseNegatives: counts[2]!, truePositives: counts[3]! };
}

/** The range of thresholds for the finite scores of a class, and the usual one, which it includes: 0.5 of probabilities, 0 of logits. */
export function thresholdsOf({ score }: ClassScores): { low: number; high: number; usual: number } {
  const usual = score.every((one) => one >= 0 && one <= 1) ? 0.5 : 0;
  const finite = score.filter(Number.isFinite);
  return { low: finite.reduce((a, b) => Math.min(a, b), usual), high: finite.reduce((a, b) => Math.max(a, b), usual), usual };
}

/** The different labels of a table with `score/CLASS` columns for which there is no column. */
export function labelsWithoutScores({ columns, rows }: TablePage): string[] {
  const label = columns.indexOf("label");
  return columns.includes("score") ? [] : [...new Set(rows.map((row) => plain(row[label])))].filter((name) => !columns.includes(PREFIX + name));
}

/** A table `actual, predicted, count`: the predicted class has the highest score, the first of equal ones. Scores that are NaN are
 * ignored, and rows without any other. */
export function confusionOfScores(table: TablePage): TablePage {
  const label = table.columns.indexOf("label");
  const classes = table.columns.flatMap((column, i) => (column.startsWith(PREFIX) ? [{ name: column.slice(PREFIX.length), i }] : []));
  const counts = new Map<string, [string, string, number]>();
  for (const row of table.rows) {
    const known = classes.filter(({ i }) => !Number.isNaN(toNumber(row[i])));
    if (known.length === 0) continue;
    const best = known.reduce((most, now) => (toNumber(row[now.i]) > toNumber(row[most.i]) ? now : most)).name;
    const actual = plain(row[label]);
    const key = JSON.stringify([actual, best]);
    const entry = counts.get(key) ?? [actual, best, 0];
    entry[2]++;
    counts.set(key, entry);
  }
  return { ...table, columns: ["actual", "predicted", "count"], rows: [...counts.values()] };
}
