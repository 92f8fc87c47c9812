// The filter language of docs/dashboard_api.md for reports, which have no server. Must match the same runs as `lockstep ui`; a
// test compares the two.
import { ApiError } from "./source";

/** The values of a field of a run: none if it has no value, several only for `tag`. */
export type FieldValues = (number | boolean | string)[];
export type FieldOf<R> = (run: R, field: string) => FieldValues;
export type Predicate<R> = (run: R) => boolean;

interface Token { kind: "word" | "text" | "operator" | "symbol" | "end"; text: string; column: number }

const fail = (message: string, column: number): never => {
  throw new ApiError("bad_filter", message, column);
};

const TOKEN = /\s*(?:("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|([(),])|(!=|!~|<=|>=|==|[=<>~])|((?:last|min|max|mean|count|step)\([^)]*\)[^\s()<>=!~,"']*|[^\s()<>=!~,"']+))/y;

function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (text.slice(at).trim() !== "") {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    const column = at + /^\s*/.exec(text.slice(at))![0].length + 1;
    if (!found) return fail(/^["']/.test(text[column - 1]!) ? "unterminated quote" : `'${text[column - 1]}' is not an operator`, column);
    const [, quoted, symbol, operator, word] = found;
    if (quoted !== undefined) tokens.push({ kind: "text", text: quoted.slice(1, -1).replace(/\\(.)/gs, "$1"), column });
    else if (symbol) tokens.push({ kind: "symbol", text: symbol, column });
    else if (operator) tokens.push({ kind: "operator", text: operator, column });
    else tokens.push({ kind: "word", text: word!, column });
    at = TOKEN.lastIndex;
  }
  tokens.push({ kind: "end", text: "", column: text.length + 1 });
  return tokens;
}

export const PLAIN_FIELDS = ["id", "name", "group", "job_type", "state", "host", "note", "tag", "exit", "signal", "reason", "created", "updated", "duration", "world_size", "num_ranks", "step", "epoch", "num_alerts"];
export const isField = (text: string) => PLAIN_FIELDS.includes(text) || /^(config|metric)\../.test(text) || /^(last|min|max|mean|count|step)\(.+\)$/.test(text) || text.includes("/");

const UNITS: Record<string, number> = { s: 1, sec: 1, m: 60, min: 60, h: 3600, d: 86400, day: 86400, days: 86400, w: 604800 };

function numberOf(text: string): number | null {
  if (/^[+-]?(inf|infinity)$/i.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  if (/^[+-]?nan$/i.test(text)) return NaN;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : null;
}

function secondsOf(text: string): number | null {
  const [, count, unit] = /^(\d+\.?\d*|\.\d+) ?([a-z]+)$/.exec(text) ?? [];
  return unit !== undefined && UNITS[unit] !== undefined ? Number(count) * UNITS[unit] : null;
}

function dateOf(text: string): number | null {
  const known = /^\d{4}-\d{1,2}-\d{1,2}( \d{1,2}:\d{1,2}(:\d{1,2})?|T\d{1,2}:\d{1,2}(:\d{1,2}Z)?)?$/.test(text);
  const [year, month, day, hour = 0, minute = 0, second = 0] = text.split(/\D+/).filter(Boolean).map(Number);
  return known ? Date.UTC(year!, month! - 1, day, hour, minute, second) / 1000 : null;
}

/** A number as the server formats it. */
const serverFormat = (value: number) => (value !== 0 && Math.abs(value) < 1e-4 ? value.toExponential().replace(/e([+-])(\d)$/, "e$10$2") : String(value).toLowerCase().replace("infinity", "inf"));

function matchesGlob(text: string, pattern: string): boolean {
  return new RegExp(`^${pattern.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&")).join(".*")}$`, "s").test(text);
}

function comparison<R>(of: FieldOf<R>, field: string, op: string, word: Token, now: number): Predicate<R> {
  const isQuoted = word.kind === "text";
  const isTime = field === "created" || field === "updated";
  const isDuration = field === "duration";
  let number = !isQuoted || isTime || isDuration ? numberOf(word.text) : null;
  if (isDuration) number ??= secondsOf(word.text);
  if (isTime && number === null) {
    const age = dateOf(word.text) === null ? secondsOf(word.text) : null;
    number = age === null ? dateOf(word.text) : now - age;
  }
  if (number === null && (isTime || isDuration)) fail(`expected a ${isTime ? 'time such as 2026-11-21, "2026-11-21 06:03" or 7d' : "duration such as 90, 2h or 3d"}, got '${word.text}'`, word.column);
  if (number === null && ["<", "<=", ">", ">="].includes(op) && !isQuoted) fail(`expected a number, got '${word.text}'`, word.column);
  const lower = word.text.toLowerCase();
  const isEquality = ["=", "==", "!="].includes(op);
  const ordered = <T extends number | string>(a: T, b: T) => (op === "<" ? a < b : op === "<=" ? a <= b : op === ">" ? a > b : a >= b);
  const holds = (value: number | boolean | string): boolean => {
    if (op === "~" || op === "!~") return (typeof value === "number" ? serverFormat(value) : String(value).toLowerCase()).includes(lower);
    if (typeof value === "boolean") return isEquality && lower === String(value);
    if (typeof value === "string") return op === "==" ? value === word.text : isEquality ? matchesGlob(value, word.text) : ordered(value, word.text);
    if (number === null) return false;
    return isEquality ? value === number || (Number.isNaN(value) && Number.isNaN(number)) : ordered(value, number);
  };
  return op.startsWith("!") ? (run) => !of(run, field).some(holds) : (run) => of(run, field).some(holds);
}

/** Throws ApiError with the column of a syntax error. `now`: unix seconds; ages are relative to it. */
export function parseFilter<R>(text: string, of: FieldOf<R>, now: number): Predicate<R> {
  const tokens = tokenize(text);
  let at = 0;
  const here = () => tokens[at]!;
  const is = (symbol: string) => here().kind === "symbol" && here().text === symbol;
  const take = (keyword: string) => here().kind === "word" && here().text === keyword && Boolean(++at);
  const expected = (what: string) => fail(`${what}, found ${here().kind === "end" ? "the end" : `'${here().text}'`}`, here().column);
  const value = (): Token => (here().kind === "word" || here().kind === "text" ? tokens[at++]! : expected("expected a value"));

  const field = (): string => {
    const word = value();
    return isField(word.text) ? word.text : fail(`unknown field '${word.text}'; write a metric as metric.NAME, a configuration key as config.KEY`, word.column);
  };
  const single = (): Predicate<R> => {
    if (take("not")) {
      const other = single();
      return (run) => !other(run);
    }
    if (is("(")) {
      at++;
      const inner = any();
      if (!is(")")) expected("expected ')'");
      at++;
      return inner;
    }
    if (take("has")) {
      const name = field();
      return (run) => of(run, name).length > 0;
    }
    const next = tokens[at + 1];
    if (next?.kind === "operator") {
      const name = field();
      const op = tokens[at++]!.text;
      return comparison(of, name, op, value(), now);
    }
    if (next?.kind === "word" && next.text === "in" && tokens[at + 2]?.text === "(") {
      const name = field();
      const tests: Predicate<R>[] = [];
      at++;
      do {
        at++;
        tests.push(comparison(of, name, "=", value(), now));
      } while (is(","));
      if (!is(")")) expected("expected ',' or ')'");
      at++;
      return (run) => tests.some((test) => test(run));
    }
    const pattern = value().text.toLowerCase();
    return (run) => ["id", "name", "group", "host", "note", "tag"].some((name) => of(run, name).some((text) => String(text).toLowerCase().includes(pattern)));
  };
  const all = (): Predicate<R> => {
    const tests = [single()];
    while (here().kind !== "end" && !is(")") && !(here().kind === "word" && here().text === "or")) {
      take("and");
      tests.push(single());
    }
    return (run) => tests.every((test) => test(run));
  };
  const any = (): Predicate<R> => {
    const tests = [all()];
    while (take("or")) tests.push(all());
    return (run) => tests.some((test) => test(run));
  };
  if (here().kind === "end") return () => true;
  const test = any();
  if (here().kind !== "end") expected("expected 'and' or 'or'");
  return test;
}

export function isValid(filter: string): boolean {
  try {
    parseFilter(filter, () => [], 0);
    return true;
  } catch {
    return false;
  }
}

/** Whether a valid filter compares the field with the value: `tag = a`, `tag != "a"`, `tag in (b, a)`. */
export function compares(filter: string, field: string, value: string): boolean {
  const tokens = tokenize(filter);
  return tokens.some(({ kind, text }, i) => {
    if (text !== value || (kind !== "word" && kind !== "text")) return false;
    if (tokens[i - 1]?.kind === "operator") return tokens[i - 2]?.text === field;
    let first = i;
    while (tokens[first - 1]?.text === ",") first -= 2;
    return tokens[first - 1]?.text === "(" && tokens[first - 2]?.text === "in" && tokens[first - 3]?.text === field;
  });
}

/** The runs that match a valid filter and a condition. */
export const both = (filter: string, condition: string): string => (filter.trim() ? `(${filter}) and ${condition}` : condition);

/** A field as a word of the filter language: with quotes if it has spaces, operators or parentheses, except those of an aggregate. */
export const fieldWord = (field: string): string => (/^(?:(?:last|min|max|mean|count|step)\([^)\s"']*\)|[^\s()<>=!~,"']+)$/.test(field) ? field : `"${field.replace(/[\\"]/g, "\\$&")}"`);

/** A value as a literal of the filter language: with quotes, except numbers, also those that are texts in a response. */
export function quoted(value: unknown): string {
  if (typeof value === "number" || typeof value === "boolean" || value === "nan" || value === "inf" || value === "-inf") return String(value);
  return `"${String(value).replace(/[\\"]/g, "\\$&")}"`;
}
