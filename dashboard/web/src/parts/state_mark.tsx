// The state of a run as a shape, a word and a color.
import { signalName } from "../format";
import type { RunState } from "../data/source";

const SHAPES = {
  running: <><circle class="pulse" cx="7" cy="7" r="5.6" fill="none" stroke="currentColor" stroke-width="1.4" /><circle cx="7" cy="7" r="2.8" fill="currentColor" /></>,
  finished: <path d="m2.6 7.4 3 3 5.8-6.4" fill="none" stroke="currentColor" stroke-width="1.9" stroke-linecap="round" stroke-linejoin="round" />,
  failed: <path d="m3.2 3.2 7.6 7.6m0-7.6-7.6 7.6" fill="none" stroke="currentColor" stroke-width="1.9" stroke-linecap="round" />,
  killed: <path d="M8 1 3 8h3l-.8 5 5-7.2H7L8 1Z" fill="currentColor" />,
  preempted: <path d="M4.6 3v8M9.4 3v8" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" />,
  lost: <><circle cx="7" cy="7" r="5.2" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="2.6 2" /><path d="M7 9.7v.1M5.7 5.6a1.4 1.4 0 1 1 1.9 1.4c-.4.2-.6.4-.6.8" fill="none" stroke="currentColor" stroke-width="1.3" stroke-linecap="round" /></>,
  corrupt: <path d="M7 1.8 13 12H8.4L7 9.4 8.2 7.2 6.4 5.6M5.6 12H1L5.4 4.4" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />,
};

export interface Outcome {
  state: RunState;
  exit?: number | null | undefined;
  signal?: number | null | undefined;
}

export function stateText({ state, exit, signal }: Outcome): string {
  if (state === "failed") {
    if (signal) return `failed · ${signalName(signal)}`;
    return exit ? `failed · ${exit}` : "failed";
  }
  if (state === "killed") return signal ? `killed · ${signalName(signal)}` : "killed";
  return state;
}

/** `title`: why it ended; `text`: instead of the state. */
export function StateMark(props: Outcome & { title?: string | undefined; text?: string }) {
  const code = props.state === "failed" && props.exit && !props.signal ? `Exit code ${props.exit}` : "";
  return (
    <span class={`state ${props.state}`} title={[code, props.title].filter(Boolean).join(": ") || undefined}>
      <svg width="1rem" height="1rem" viewBox="0 0 14 14" aria-hidden="true">{SHAPES[props.state] ?? SHAPES.lost}</svg>
      {props.text ?? stateText(props)}
    </span>
  );
}

/** Whether a sweep stopped a trial with these tags early. Other runs can have the tag `pruned` too. */
export const isPruned = (tags: readonly string[]) => tags.includes("pruned") && tags.some((tag) => tag.startsWith("trial:"));

export function PrunedTag({ tags }: { tags: readonly string[] }) {
  return isPruned(tags) ? <span class="tag" title="The sweep stopped this trial early">pruned</span> : null;
}
