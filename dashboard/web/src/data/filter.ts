// The filter language of docs/dashboard_api.md, for reports, which have no server to ask: what a filter takes here, `lockstep ui`
// takes of the same runs. A test compares the two.
import { Refusal } from "./source";

/** What a run has in a field; several only for `tag`, none where it does not have it. */
export type Contents = (number | boolean | string)[];
export type FieldOf<R> = (run: R, field: string) => Contents;
export type Test<R> = (run: R) => boolean;

interface Word { kind: "word" | "text" | "operator" | "symbol" | "end"; text: string; column: number }

const fail = (message: string, column: number): never => {
  throw new Refusal("bad_filter", message, column);
};

const WORD = /\s*(?:("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|([(),])|(!=|!~|<=|>=|==|[=<>~])|((?:last|min|max|mean|count|step)\([^)]*\)[^\s()<>=!~,"']*|[^\s()<>=!~,"']+))/y;

function wordsOf(text: string): Word[] {
  const words: Word[] = [];
  let at = 0;
  while (text.slice(at).trim() !== "") {
    WORD.lastIndex = at;
    const found = WORD.exec(text);
    const column = at + /^\s*/.exec(text.slice(at))![0].length + 1;
    if (!found) return fail(/^["']/.test(text[column - 1]!) ? "a quote is not closed" : `'${text[column - 1]}' is not an operator`, column);
    const [, quoted, symbol, operator, word] = found;
    if (quoted !== undefined) words.push({ kind: "text", text: quoted.slice(1, -1).replace(/\\(.)/gs, "$1"), column });
    else if (symbol) words.push({ kind: "symbol", text: symbol, column });
    else if (operator) words.push({ kind: "operator", text: operator === "==" ? "=" : operator, column });
    else words.push({ kind: "word", text: word!, column });
    at = WORD.lastIndex;
  }
  words.push({ kind: "end", text: "", column: text.length + 1 });
  return words;
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

/** As the server writes a number. */
const written = (value: number) => (value !== 0 && Math.abs(value) < 1e-4 ? value.toExponential().replace(/e([+-])(\d)$/, "e$10$2") : String(value).toLowerCase().replace("infinity", "inf"));

function fits(text: string, pattern: string): boolean {
  return new RegExp(`^${pattern.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&")).join(".*")}$`, "s").test(text);
}

function comparison<R>(of: FieldOf<R>, field: string, op: string, word: Word, now: number): Test<R> {
  const isQuoted = word.kind === "text";
  const isTime = field === "created" || field === "updated";
  const isDuration = field === "duration";
  let wanted = !isQuoted || isTime || isDuration ? numberOf(word.text) : null;
  if (isDuration) wanted ??= secondsOf(word.text);
  if (isTime && wanted === null) {
    const age = dateOf(word.text) === null ? secondsOf(word.text) : null;
    wanted = age === null ? dateOf(word.text) : now - age;
  }
  if (wanted === null && (isTime || isDuration)) fail(`expected a ${isTime ? "time such as 2026-11-21 or 7d" : "duration such as 90 or 2h"}, got '${word.text}'`, word.column);
  if (wanted === null && ["<", "<=", ">", ">="].includes(op) && !isQuoted) fail(`expected a number, got '${word.text}'`, word.column);
  const small = word.text.toLowerCase();
  const ordered = <T extends number | string>(a: T, b: T) => (op === "<" ? a < b : op === "<=" ? a <= b : op === ">" ? a > b : a >= b);
  const holds = (value: number | boolean | string): boolean => {
    if (op === "~" || op === "!~") return (typeof value === "number" ? written(value) : String(value).toLowerCase()).includes(small);
    if (typeof value === "boolean") return (op === "=" || op === "!=") && small === String(value);
    if (typeof value === "string") return op === "=" || op === "!=" ? fits(value, word.text) : ordered(value, word.text);
    if (wanted === null) return false;
    return op === "=" || op === "!=" ? value === wanted || (Number.isNaN(value) && Number.isNaN(wanted)) : ordered(value, wanted);
  };
  return op.startsWith("!") ? (run) => !of(run, field).some(holds) : (run) => of(run, field).some(holds);
}

/** Throws a Refusal that says what is wrong, and where. `now`: what ages count from. */
export function filterOf<R>(text: string, of: FieldOf<R>, now: number): Test<R> {
  const words = wordsOf(text);
  let at = 0;
  const here = () => words[at]!;
  const is = (symbol: string) => here().kind === "symbol" && here().text === symbol;
  const take = (keyword: string) => here().kind === "word" && here().text === keyword && Boolean(++at);
  const expected = (what: string) => fail(`${what}, found ${here().kind === "end" ? "the end" : `'${here().text}'`}`, here().column);
  const value = (): Word => (here().kind === "word" || here().kind === "text" ? words[at++]! : expected("expected a value"));

  const field = (): string => {
    const word = value();
    return isField(word.text) ? word.text : fail(`unknown field '${word.text}'; metrics have a slash or are written metric.NAME, configuration is config.KEY`, word.column);
  };
  const single = (): Test<R> => {
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
      const asked = field();
      return (run) => of(run, asked).length > 0;
    }
    const next = words[at + 1];
    if (next?.kind === "operator") {
      const asked = field();
      const op = words[at++]!.text;
      return comparison(of, asked, op, value(), now);
    }
    if (next?.kind === "word" && next.text === "in" && words[at + 2]?.text === "(") {
      const asked = field();
      const tests: Test<R>[] = [];
      at++;
      do {
        at++;
        tests.push(comparison(of, asked, "=", value(), now));
      } while (is(","));
      if (!is(")")) expected("expected ',' or ')'");
      at++;
      return (run) => tests.some((test) => test(run));
    }
    const wanted = value().text.toLowerCase();
    return (run) => ["id", "name", "group", "host", "note", "tag"].some((name) => of(run, name).some((own) => String(own).toLowerCase().includes(wanted)));
  };
  const all = (): Test<R> => {
    const tests = [single()];
    while (here().kind !== "end" && !is(")") && !(here().kind === "word" && here().text === "or")) {
      take("and");
      tests.push(single());
    }
    return (run) => tests.every((test) => test(run));
  };
  const any = (): Test<R> => {
    const tests = [all()];
    while (take("or")) tests.push(all());
    return (run) => tests.some((test) => test(run));
  };
  if (here().kind === "end") return () => true;
  const test = any();
  if (here().kind !== "end") expected("expected 'and' or 'or'");
  return test;
}
