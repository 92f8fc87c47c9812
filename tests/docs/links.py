"""Links of Markdown files, as GitHub resolves them: files that do not exist, and anchors that their pages do not have."""
import re
from pathlib import Path

LINK = re.compile(r"(?<!\\)\]\(\s*<?([^)\s>]+)>?\s*(?:\"[^\"]*\")?\)")
CODE = re.compile(r"(`+)(?:(?!\1).)+?\1")


def lines_outside_fences(text):
    """(number, line) of all lines that are in no fenced block."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and fence is None:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = None
        elif fence is None:
            yield number, line


def anchor_of(heading):
    text = re.sub(r"<[^>]*>", "", heading)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    """What a link may name after #: headings, and ids in HTML."""
    found, count = set(), {}
    for _, line in lines_outside_fences(text):
        found |= set(re.findall(r'<a (?:id|name)="([^"]+)"', line))
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading:
            anchor = anchor_of(heading[1])
            number = count[anchor] = count.get(anchor, -1) + 1
            found.add(f"{anchor}-{number}" if number else anchor)
    return found


def links(text):
    """(number of the line, target) of all links and images."""
    for number, line in lines_outside_fences(text):
        for match in LINK.finditer(CODE.sub(lambda code: "`" * len(code[0]), line)):
            yield number, match[1]


def broken_links(root, path):
    """What is wrong with the links of the file `path` below `root`, one line each."""
    root, problems = Path(root).resolve(), []
    for number, target in links((root / path).read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = ((root / path).parent / name).resolve() if name else root / path
        if name.startswith("/") or not file.is_relative_to(root) or not file.exists():
            problems.append(f"{path}:{number}: '{target}': no such file")
        elif anchor and (file.suffix != ".md" or anchor not in anchors(file.read_text())):
            problems.append(f"{path}:{number}: '{target}': no such heading or anchor")
    return problems
