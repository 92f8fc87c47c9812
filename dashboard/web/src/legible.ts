// Text of runs may hold characters that turn the order of what is around them, and so make a name look like another one.
// They are shown by their codes, wherever the page shows text.
import { options, type VNode } from "preact";

const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export const legible = (text: string) => text.replace(TURNING, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

const shown = (child: unknown): unknown => (typeof child === "string" ? legible(child) : Array.isArray(child) ? child.map(shown) : child);
const hasText = (child: unknown): boolean => (typeof child === "string" ? child.search(TURNING) >= 0 : Array.isArray(child) && child.some(hasText));

/** From now on, whatever is drawn. */
export function keepOrderOfText() {
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
