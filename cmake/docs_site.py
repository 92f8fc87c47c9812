"""Hooks of mkdocs: what mkdocs.yml builds besides docs/.

- README.md, CONTRIBUTING.md, CHANGELOG.md, SECURITY.md and bench/README.md are pages.
- Files of the repository that a page links to (recipes, examples) become pages below source/, so that the site is complete.
- The C++ API is made of the public headers (api_reference.py).
- Markdown as GitHub reads it: lists and tables without a blank line above, sub-lists indented by two spaces.
"""
import posixpath
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "cmake"))
import api_reference  # noqa: E402

PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
         "SECURITY.md": "security.md", "bench/README.md": "benchmarks.md"}
PATH_OF = {page: path for path, page in PAGES.items()}
LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".cff": "yaml", ".c": "c", ".cpp": "cpp", ".h": "cpp", ".py": "python", ".sh": "bash",
             ".sbatch": "bash", ".json": "json", ".txt": "cmake"}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def outside_code(text, change):
    """`text` with `change` applied to the lines that are in no fenced block."""
    out, fence = [], None
    for line in text.split("\n"):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and fence is None:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = None
        out.append(line if mark or fence else change(line))
    return "\n".join(out)


def page_of(path):
    """The address in the site of a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path == "docs" or path.startswith("docs/"):
        inside = path.removeprefix("docs").lstrip("/")
        return posixpath.join(inside, "index.md") if (ROOT / path).is_dir() else inside
    if (ROOT / path).is_dir():
        return f"source/{path}/index.md"
    return f"source/{path}" + ("" if path.endswith((".md", ".png", ".svg")) else ".md")


def path_of(page):
    """The file of the repository that a page is made of."""
    if page in PATH_OF:
        return PATH_OF[page]
    if page.startswith("source/"):
        return page.removeprefix("source/").removesuffix("/index.md")
    return f"docs/{page}"


def targets(path, text):
    """(link, file of the repository, anchor) of each link to one."""
    folder = path if (ROOT / path).is_dir() else posixpath.dirname(path)
    found = []
    def note(line):
        for match in LINK.finditer(line):
            target, _, anchor = match[2].partition("#")
            resolved = posixpath.normpath(posixpath.join(folder, target)) if target else ""
            if target and not re.match(r"\w+:|/", target) and (ROOT / resolved).exists():
                found.append((match[2], resolved, anchor))
        return line
    outside_code(text, note)
    return found


def linked(page, path, text):
    """`text` with links to files of the repository as links between pages of the site."""
    new = {link: posixpath.relpath(page_of(target), posixpath.dirname(page) or ".") + (f"#{anchor}" if anchor else "")
           for link, target, anchor in targets(path, text)}
    return outside_code(text, lambda line: LINK.sub(lambda m: m[1] + new.get(m[2], m[2]) + m[3], line))


def as_page(path):
    """A file or folder of the repository as Markdown."""
    if (ROOT / path).is_dir():
        parts = [f"# {path}", ""]
        for child in sorted((ROOT / path).iterdir()):
            if not child.name.startswith((".", "__")):
                parts.append(f"- [{child.name}]({child.name})")
        text = "\n".join(parts) + "\n"
    elif path.endswith(".md"):
        text = (ROOT / path).read_text()
    else:
        fence = f"````{LANGUAGES.get(Path(path).suffix, 'text')}"
        body = (ROOT / path).read_text(errors="replace")
        if len(body) > 60000:
            body = body[:60000] + "\n... (shortened)\n"
        text = f"# {path}\n\n{fence}\n{body.rstrip()}\n````\n"
    return "---\nsearch: {exclude: true}\n---\n\n" + text


def as_github(text):
    """What GitHub reads as a list or a table, for Python-Markdown."""
    previous, in_list = "", False
    def change(line):
        nonlocal previous, in_list
        item = re.match(r" *([-*+]|\d+\.) ", line)
        if not line.strip():
            new = line
        elif item or (in_list and line.startswith("  ")):
            begins = item and not in_list and previous.strip()
            in_list = True
            spaces = len(line) - len(line.lstrip(" "))
            new = ("\n" if begins else "") + " " * (4 * ((spaces + 1) // 2)) + line.lstrip(" ")
        else:
            table = line.startswith("|") and previous.strip() and not previous.startswith("|")
            in_list = in_list and bool(previous.strip())
            new = ("\n" if table else "") + line
        previous = line
        return new
    return outside_code(text, change)


def on_config(config):
    names = sorted(path.name.split(".")[0] for path in (ROOT / "include" / "lockstep").glob("*.h*"))
    def expand(item):
        if isinstance(item, list):
            return [expand(each) for each in item]
        if isinstance(item, dict):
            return {key: expand(value) for key, value in item.items()}
        return ["api/index.md", *({f"{name}.h": f"api/{name}.md"} for name in names)] if item == "api/*" else item
    config.nav = expand(config.nav)
    return config


def on_files(files, config):
    add = lambda page, text: files.append(File.generated(config, page, content=text))  # noqa: E731
    for page, text in api_reference.pages(ROOT / "include" / "lockstep").items():
        add(page, text)
    waiting = []
    for path, page in PAGES.items():
        if (ROOT / path).exists():
            add(page, ("---\nsearch: {boost: 0.2}\n---\n" if path == "CHANGELOG.md" else "") + (ROOT / path).read_text())
            waiting.append((path, (ROOT / path).read_text()))
    for file in list(files):
        if file.src_uri.endswith(".md") and (ROOT / "docs" / file.src_uri).is_file():
            waiting.append((f"docs/{file.src_uri}", (ROOT / "docs" / file.src_uri).read_text()))
    done = set()
    while waiting:
        path, text = waiting.pop()
        for _, target, _ in targets(path, text):
            if page_of(target).startswith("source/") and target not in done:
                done.add(target)
                text = as_page(target)
                add(page_of(target), text)
                waiting.append((target, text))
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    text = markdown if uri.startswith("api/") else linked(uri, path_of(uri), markdown)
    return as_github(text)
