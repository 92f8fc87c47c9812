// Expressions of metrics: "train/loss - eval/loss", "smooth(train/loss, 0.9)", "eval/accuracy vs train/loss".
//   expression = sum ["vs" sum]           sum = product *(("+" | "-") product)      product = power *(("*" | "/") power)
//   power = ["-"] atom ["^" power]        atom = number | metric | function "(" sum *("," sum) ")" | "(" sum ")"
// A metric is the longest known name at its place. With "vs", the second sum is the horizontal axis.
import { type Line, smooth } from "./line";
import { unitOf } from "./ticks";

type Evaluate = (values: (name: string) => ArrayLike<number>, count: number) => ArrayLike<number>;
/** `keepsUnit`: only sums, extremes and smoothing of metrics, whose unit the values have. */
interface Sum { names: string[]; evaluate: Evaluate; text: string; keepsUnit: boolean }
/** `runs`: a value depends on all before it. */
export interface Expression { y: Sum; x: Sum | null; names: string[]; runs: boolean }

export class ExpressionError extends Error {
  constructor(message: string, readonly column: number) {
    super(message);
  }
}

const POINTWISE: Record<string, (...values: number[]) => number> = {
  abs: Math.abs, exp: Math.exp, log: Math.log, log10: Math.log10, sqrt: Math.sqrt, min: Math.min, max: Math.max,
};
const RUNNING: Record<string, (values: ArrayLike<number>, weight: number) => ArrayLike<number>> = {
  smooth: (values, weight) => smooth(values, weight),
  cummin: (values) => running(values, Math.min),
  cummax: (values) => running(values, Math.max),
  diff: (values) => Float64Array.from(values, (value, i) => (i > 0 ? value - values[i - 1]! : NaN)),
};
const ARGUMENTS: Record<string, [number, number]> = { min: [2, 8], max: [2, 8], smooth: [2, 2] };
export const FUNCTIONS = [...Object.keys(POINTWISE), ...Object.keys(RUNNING)];

function running(values: ArrayLike<number>, best: (a: number, b: number) => number): Float64Array {
  let now = NaN;
  return Float64Array.from(values, (value) => (now = Number.isNaN(value) ? now : Number.isNaN(now) ? value : best(now, value)));
}

const operators: Record<string, (a: number, b: number) => number> = { "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b, "^": (a, b) => a ** b };

function combined(operator: (a: number, b: number) => number, left: Evaluate, right: Evaluate): Evaluate {
  return (values, count) => {
    const [a, b] = [left(values, count), right(values, count)];
    return Float64Array.from({ length: count }, (_, i) => operator(a[i]!, b[i]!));
  };
}

class Parser {
  private at = 0;
  private used = new Set<string>();
  private depth = 0;
  private keepsUnit = true;
  private runs = false;
  constructor(private text: string, private names: readonly string[]) {}

  whole(): Expression {
    const y = this.sum();
    const x = this.word("vs") ? this.sum() : null;
    this.space();
    if (this.at < this.text.length) this.fail(`unexpected "${this.text.slice(this.at, this.at + 12)}"`);
    const names = [...new Set([...y.names, ...(x?.names ?? [])])];
    if (names.length === 0) this.fail("an expression needs a metric");
    return { y, x, names, runs: this.runs };
  }

  private sum(): Sum {
    this.used = new Set();
    this.keepsUnit = true;
    this.space();
    const from = this.at;
    const evaluate = this.chain(["+", "-"], () => this.chain(["*", "/"], () => this.power()));
    return { names: [...this.used], evaluate, text: this.text.slice(from, this.at).trim(), keepsUnit: this.keepsUnit };
  }

  private chain(signs: string[], part: () => Evaluate): Evaluate {
    let left = part();
    for (let sign = this.sign(signs); sign; sign = this.sign(signs)) {
      if (sign === "*" || sign === "/") this.keepsUnit = false;
      left = combined(operators[sign]!, left, part());
    }
    return left;
  }

  private power(): Evaluate {
    if (this.sign(["-"])) {
      const of = this.power();
      return (values, count) => Float64Array.from(of(values, count), (value) => -value);
    }
    const base = this.atom();
    if (!this.sign(["^"])) return base;
    this.keepsUnit = false;
    return combined(operators["^"]!, base, this.power());
  }

  private atom(): Evaluate {
    this.space();
    const rest = this.text.slice(this.at);
    if (++this.depth > 50) this.fail("too many nested parentheses");
    try {
      if (this.sign(["("])) return this.closed();
      const call = /^([a-z]\w*)\s*\(/.exec(rest);
      if (call && FUNCTIONS.includes(call[1]!)) return this.call(call[1]!, call[0].length);
      const name = this.names.reduce((longest, known) => (known.length > longest.length && rest.startsWith(known) && !/^[\w.]/.test(rest.slice(known.length)) ? known : longest), "");
      if (name) {
        this.at += name.length;
        this.used.add(name);
        return (values) => values(name);
      }
      const number = /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?/i.exec(rest);
      if (number) {
        this.at += number[0].length;
        const value = Number(number[0]);
        return (_, count) => new Float64Array(count).fill(value);
      }
      const word = /^[^\s()+*^,]+/.exec(rest)?.[0];
      return this.fail(word ? `unknown metric or function "${word}"${nearestName(word, [...this.names, ...FUNCTIONS])}` : "a metric, a number or an opening parenthesis is missing");
    } finally {
      this.depth--;
    }
  }

  private call(name: string, length: number): Evaluate {
    const from = this.at;
    this.at += length;
    const given: Evaluate[] = [];
    do given.push(this.chain(["+", "-"], () => this.chain(["*", "/"], () => this.power()))); while (this.sign([","]));
    if (!this.sign([")"])) this.fail("a closing parenthesis is missing");
    if (["exp", "log", "log10", "sqrt"].includes(name)) this.keepsUnit = false;
    if (name in RUNNING) this.runs = true;
    const [least, most] = ARGUMENTS[name] ?? [1, 1];
    if (given.length < least || given.length > most) this.fail(`${name} takes ${least === most ? least : `${least} to ${most}`} ${most === 1 ? "value" : "values"}`, from);
    return (values, count) => {
      const all = given.map((part) => part(values, count));
      if (name in RUNNING) return RUNNING[name]!(all[0]!, Math.min(0.9999, Math.max(0, all[1]?.[0] ?? 0)));
      return Float64Array.from({ length: count }, (_, i) => POINTWISE[name]!(...all.map((part) => part[i]!)));
    };
  }

  private closed(): Evaluate {
    const inner = this.chain(["+", "-"], () => this.chain(["*", "/"], () => this.power()));
    if (!this.sign([")"])) this.fail("a closing parenthesis is missing");
    return inner;
  }

  private space() {
    while (/\s/.test(this.text[this.at] ?? "")) this.at++;
  }

  private sign(signs: string[]): string | null {
    this.space();
    const found = this.text[this.at] ?? "";
    if (!signs.includes(found)) return null;
    this.at++;
    return found;
  }

  private word(word: string): boolean {
    this.space();
    if (!new RegExp(`^${word}\\b`).test(this.text.slice(this.at))) return false;
    this.at += word.length;
    return true;
  }

  private fail(message: string, at = this.at): never {
    throw new ExpressionError(message, at + 1);
  }
}

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let k = 1; k <= b.length; k++) next.push(Math.min(next[k - 1]! + 1, row[k]! + 1, row[k - 1]! + Number(a[i - 1] !== b[k - 1])));
    row = next;
  }
  return row[b.length]!;
}

function nearestName(word: string, names: readonly string[]): string {
  const [best] = names.map((name) => ({ name, off: distance(word, name) })).sort((a, b) => a.off - b.off);
  return best && best.off <= Math.max(2, word.length / 3) ? `; did you mean "${best.name}"?` : "";
}

/** Throws ExpressionError. */
export function parseExpression(text: string, names: readonly string[]): Expression {
  if (text.length > 500) throw new ExpressionError("an expression has at most 500 characters", 501);
  return new Parser(text, names).whole();
}

/** The metric whose unit the values of an expression have, or "". */
export function unitNameOf({ y: { names, keepsUnit } }: Expression): string {
  const [first, ...others] = names;
  const suffix = (name: string) => unitOf(name, 1).suffix;
  return first !== undefined && keepsUnit && others.every((name) => suffix(name) === suffix(first)) ? first : "";
}

/** Values of a line at `x` by linear interpolation; NaN outside of its points. */
export function valuesAtX(line: Pick<Line, "x" | "y">, x: ArrayLike<number>): Float64Array {
  const out = new Float64Array(x.length).fill(NaN);
  let right = 0;
  for (let i = 0; i < x.length; i++) {
    while (right < line.x.length && line.x[right]! < x[i]!) right++;
    if (right === line.x.length) break;
    if (line.x[right] === x[i]) {
      while (line.x[right + 1] === x[i]) right++; // the last of several values
      out[i] = line.y[right]!;
    } else if (right > 0) {
      const share = (x[i]! - line.x[right - 1]!) / (line.x[right]! - line.x[right - 1]!);
      out[i] = line.y[right - 1]! + (line.y[right]! - line.y[right - 1]!) * share;
    }
  }
  return out;
}

/** The lines of an expression, from the lines of its metrics: one for each key that every metric has. The values are at the points of
 * the metric with the fewest; the others are interpolated. */
export function expressionLines({ y, x, names }: Expression, linesOf: ReadonlyMap<string, readonly Line[]>, smoothing: number): Line[] {
  const out: Line[] = [];
  for (const first of linesOf.get(names[0]!) ?? []) {
    const own = names.map((name) => linesOf.get(name)?.find((line) => line.key === first.key));
    if (own.some((line) => line === undefined)) continue;
    const lines = own as Line[];
    const base = lines.reduce((least, line) => (line.x.length < least.x.length ? line : least));
    const values = new Map(names.map((name, i) => [name, valuesAtX({ x: lines[i]!.x, y: lines[i]!.raw ?? lines[i]!.y }, base.x)]));
    const of = (sum: Sum) => Float64Array.from(sum.evaluate((name) => values.get(name)!, base.x.length));
    const look = { key: first.key, label: first.label, color: first.color, ...(first.dash ? { dash: first.dash } : {}), ...(first.isBaseline ? { isBaseline: true } : {}) };
    let at = Array.from(base.x);
    let result = Array.from(of(y));
    if (x) {
      const along = of(x);
      const order = Array.from(along.keys()).filter((i) => Number.isFinite(along[i]!)).sort((a, b) => along[a]! - along[b]!);
      at = order.map((i) => along[i]!);
      result = order.map((i) => result[i]!);
    } else {
      // Points where not every metric has a value yet are not gaps.
      const known = Array.from(at.keys()).filter((i) => names.every((name) => !Number.isNaN(values.get(name)![i]!) || lines[names.indexOf(name)]!.x === base.x));
      at = known.map((i) => at[i]!);
      result = known.map((i) => result[i]!);
    }
    out.push(smoothing && !x ? { ...look, x: at, y: smooth(result, smoothing), raw: result } : { ...look, x: at, y: result });
  }
  return out;
}
