// Text of runs may contain bidirectional control characters, which reorder the surrounding text and can make a name look like
// another. They are shown as escape sequences.
import { options, type VNode } from "preact";

const BIDI_CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export const escapeBidi = (text: string) => text.replace(BIDI_CONTROLS, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

const shown = (child: unknown): unknown => (typeof child === "string" ? escapeBidi(child) : Array.isArray(child) ? child.map(shown) : child);
const hasText = (child: unknown): boolean => (typeof child === "string" ? child.search(BIDI_CONTROLS) >= 0 : Array.isArray(child) && child.some(hasText));

/** Applies escapeBidi to all text and titles that are rendered from now on. */
export function installBidiEscaping() {
  const before = options.vnode;
  options.vnode = (vnode: VNode) => {
    const props = vnode.props as { children?: unknown; title?: unknown };
    if (typeof vnode.type === "string") {
      if (hasText(props.children)) props.children = shown(props.children);
      if (hasText(props.title)) props.title = shown(props.title);
    }
    before?.(vnode);
  };
}
