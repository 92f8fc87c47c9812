// Requests to `lockstep ui`, from a page or from the shared worker.
import { ApiError } from "./source";

export type Params = Record<string, string | number | string[] | null | undefined>;

export function apiUrl(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(key, String(one));
  }
  const text = query.toString();
  return `/api/${path}${text ? `?${text}` : ""}`;
}

export async function request<T>(path: string, params?: Params, body?: { method: string; json: unknown }): Promise<T> {
  let response: Response;
  try {
    response = await fetch(apiUrl(path, params), body
      ? { method: body.method, body: JSON.stringify(body.json), headers: { "Content-Type": "application/json", "X-Lockstep-Request": "1" } }
      : {});
  } catch {
    throw new ApiError("unreachable", "Cannot reach the server. Is `lockstep ui` still running?");
  }
  if (response.ok) return (await response.json()) as T;
  let json: { error?: { code?: string; message?: string; column?: number } } = {};
  try {
    json = await response.json();
  } catch {
    // Not a JSON error, e.g. from a proxy.
  }
  throw new ApiError(json.error?.code ?? String(response.status), json.error?.message ?? `The server responded with status ${response.status}.`, json.error?.column);
}
