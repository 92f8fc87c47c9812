// The note of a run, written in Markdown.
import { type Inline, parseMarkdown } from "./markdown";

const inline = (parts: readonly Inline[]) => parts.map((part, i) => {
  if (typeof part === "string") return part;
  if (part.kind === "link") return <a key={i} class="link" href={part.href} target="_blank" rel="noopener noreferrer">{part.text}</a>;
  return part.kind === "bold" ? <strong key={i}>{part.text}</strong> : part.kind === "italic" ? <em key={i}>{part.text}</em> : <code key={i}>{part.text}</code>;
});

export function NoteText({ text }: { text: string }) {
  return (
    <div class="run-note">
      {parseMarkdown(text).map((block, i) => {
        switch (block.kind) {
          case "h": return <p key={i} role="heading" aria-level={block.level + 1} class={`note-head level-${block.level}`}>{inline(block.parts)}</p>;
          case "p": return <p key={i}>{inline(block.parts)}</p>;
          case "quote": return <blockquote key={i}>{inline(block.parts)}</blockquote>;
          case "pre": return <pre key={i}>{block.text}</pre>;
          case "list": return block.ordered ? <ol key={i}>{block.items.map((item, k) => <li key={k}>{inline(item)}</li>)}</ol> : <ul key={i}>{block.items.map((item, k) => <li key={k}>{inline(item)}</li>)}</ul>;
        }
      })}
    </div>
  );
}
