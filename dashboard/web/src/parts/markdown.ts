// The subset of Markdown of notes: headings, lists, quotes, code, emphasis and links. Anything else, such as HTML, is text.
export type Inline = string | { kind: "bold" | "italic" | "code"; text: string } | { kind: "link"; href: string; text: string };
export type Block =
  | { kind: "h"; level: number; parts: Inline[] }
  | { kind: "p" | "quote"; parts: Inline[] }
  | { kind: "pre"; text: string }
  | { kind: "list"; ordered: boolean; items: Inline[][] };

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?])/g;

export function parseInline(text: string): Inline[] {
  const parts: Inline[] = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) parts.push(text.slice(from, match.index));
    const [whole, code, bold, italic, label, href, bare] = match;
    parts.push(code !== undefined ? { kind: "code", text: code } : bold !== undefined ? { kind: "bold", text: bold } : italic !== undefined ? { kind: "italic", text: italic } : { kind: "link", href: (href ?? bare)!, text: label ?? bare! });
    from = match.index + whole.length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

const LIST = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/;

export function parseMarkdown(text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.split("\n");
  let paragraph: string[] = [];
  const endParagraph = () => {
    if (paragraph.length > 0) blocks.push({ kind: "p", parts: parseInline(paragraph.join("\n")) });
    paragraph = [];
  };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]!;
    const heading = /^(#{1,4})\s+(.*)$/.exec(line);
    const item = LIST.exec(line);
    if (line.startsWith("```")) {
      endParagraph();
      const end = lines.findIndex((other, k) => k > i && other.startsWith("```"));
      blocks.push({ kind: "pre", text: lines.slice(i + 1, end < 0 ? lines.length : end).join("\n") });
      i = end < 0 ? lines.length : end;
    } else if (heading) {
      endParagraph();
      blocks.push({ kind: "h", level: heading[1]!.length, parts: parseInline(heading[2]!) });
    } else if (item) {
      endParagraph();
      const last = blocks[blocks.length - 1];
      const ordered = item[1] !== undefined;
      const previous = LIST.test(lines[i - 1] ?? "");
      if (previous && last?.kind === "list" && last.ordered === ordered) last.items.push(parseInline(item[2]!));
      else blocks.push({ kind: "list", ordered, items: [parseInline(item[2]!)] });
    } else if (line.startsWith("> ")) {
      endParagraph();
      blocks.push({ kind: "quote", parts: parseInline(line.slice(2)) });
    } else if (line.trim() === "") endParagraph();
    else paragraph.push(line);
  }
  endParagraph();
  return blocks;
}
