// Parses the output of `git diff`.

export interface DiffLine { kind: "added" | "removed" | "same" | "place"; text: string; }
/** `notes`: of the head, e.g. that the file is new or binary. */
export interface FileDiff { name: string; notes: string[]; lines: DiffLine[]; added: number; removed: number }

const NOTE = /^(new file|deleted file|rename|copy|old mode|new mode|similarity|Binary files)/;

/** The name after the change; of a deleted file, the one before. Names with unusual characters are quoted, as git prints them. */
function nameOf(head: string): string {
  const [, before, after] = /^diff --git ("?a\/.*?) ("?b\/.*)$/.exec(head) ?? [];
  return (after ?? before ?? head).replace(/^("?)[ab]\//, "$1");
}

export function parseDiff(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let inHead = true;
  for (const line of text.split("\n")) {
    if (line.startsWith("diff --git ")) {
      files.push({ name: nameOf(line), notes: [], lines: [], added: 0, removed: 0 });
      inHead = true;
      continue;
    }
    const file = files[files.length - 1];
    if (!file) continue;
    if (line.startsWith("@@")) {
      inHead = false;
      file.lines.push({ kind: "place", text: line });
    } else if (inHead) {
      if (NOTE.test(line)) file.notes.push(line);
    } else if (line.startsWith("+")) {
      file.added++;
      file.lines.push({ kind: "added", text: line.slice(1) });
    } else if (line.startsWith("-")) {
      file.removed++;
      file.lines.push({ kind: "removed", text: line.slice(1) });
    } else if (line !== "") {
      file.lines.push({ kind: "same", text: line.slice(1) });
    }
  }
  return files;
}
