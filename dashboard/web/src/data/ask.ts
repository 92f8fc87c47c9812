// Requests to `lockstep ui`, from a page or from the worker that all pages share.
import { Refusal } from "./source";

export type Words = Record<string, string | number | string[] | null | undefined>;

export function address(path: string, words: Words = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(words)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(key, String(one));
  }
  const text = query.toString();
  return `/api/${path}${text ? `?${text}` : ""}`;
}

export async function ask<T>(path: string, words?: Words, body?: { method: string; json: unknown }): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(address(path, words), body
      ? { method: body.method, body: JSON.stringify(body.json), headers: { "Content-Type": "application/json", "X-Lockstep-Request": "1" } }
      : {});
  } catch {
    throw new Refusal("unreachable", "The server does not answer. Is `lockstep ui` still running?");
  }
  if (answer.ok) return (await answer.json()) as T;
  let told: { error?: { code?: string; message?: string; column?: number } } = {};
  try {
    told = await answer.json();
  } catch {
    // Not from our server; the status says enough.
  }
  throw new Refusal(told.error?.code ?? String(answer.status), told.error?.message ?? `The server answered ${answer.status}.`, told.error?.column);
}
