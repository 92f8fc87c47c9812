"""Pages of the C++ API, generated from the comments in include/lockstep/*.h.

A page has the comment and the example at the top of its header, then each declaration at namespace level with the comment
above it. Private members, forward declarations and includes are left out.
"""
import re
from pathlib import Path


def escaped(text):
    return re.sub(r"([<>*\[\]|])", r"\\\1", text)


def prose(lines):
    """The lines of a comment as Markdown: indented lines as they are, `Thread:` and the like in bold."""
    out, block = [], []
    for line in [*lines, ""]:
        if line.startswith("  "):
            block.append(line)
            continue
        if block:
            out += ["", "```text", *block, "```", ""]
            block = []
        label = re.match(r"(Thread|Threads|Errors|Collective|Collectives|Cost|Order|Message): ?(.*)", line)
        if label and (not out or not out[-1] or out[-1][-1] in ".:"):
            out += ["", f"**{label[1]}**: {escaped(label[2])}"]
        else:
            out.append(escaped(line))
    return "\n".join(out).strip()


def uncommented(line):
    return re.sub(r'//.*|"(?:[^"\\]|\\.)*"', "", line)


def declarations(lines):
    """(comment lines, code lines, whether it follows the one before without a blank line) of everything at namespace level."""
    comment, code, depth, parentheses, adjacent, inner = [], [], 0, 0, False, False
    for line in lines:
        if inner:  # another namespace than the public one
            inner = not line.startswith("}")
        elif not code and not line.strip():
            comment, adjacent = [], False
        elif not code and line.startswith("//"):
            comment.append(re.sub(r"^// ?", "", line))
        elif not code and re.match(r"namespace (?!lockstep {)", line):
            inner = "}" not in line
        elif not code and re.match(r"namespace|}|#(include|if|endif|else|pragma|undef)", line):
            comment, adjacent = [], False
        else:
            bare = uncommented(line)
            code.append(line)
            depth += bare.count("{") - bare.count("}")
            parentheses += bare.count("(") - bare.count(")")
            if code[0].startswith("#define"):
                complete = not line.endswith("\\")
            else:
                complete = depth == 0 and parentheses == 0 and re.search(r"[;}]\s*$", bare)
            if complete:
                yield comment, code, adjacent
                comment, code, depth, parentheses, adjacent = [], [], 0, 0, True


def without_private(code):
    out, hidden = [], False
    for line in code:
        access = re.match(r"\s*(public|protected|private):", line)
        if access:
            hidden = access[1] == "private"
        if line.startswith("}"):
            hidden = False
        if not hidden:
            out.append(line)
    while len(out) > 1 and not out[-2].strip():
        del out[-2]
    return out


def title(code):
    """What is declared: `class Model`, `open_tracker()`, `REGISTER_MODEL`."""
    text = " ".join(uncommented(line) for line in code).replace("requires", " requires")
    text = re.sub(r"^(template <.*?> (?=[a-z])|\s)*", "", text)
    kind = re.search(r"\b(class|struct|enum class|enum|concept|using)\s+(\w+)", text.split("(")[0])
    if text.startswith("#define"):
        return text.split()[1].split("(")[0]
    if kind and not re.match(r"\s*inline constexpr", text):
        return f"{kind[1].replace('enum class', 'enum')} {kind[2]}"
    function = re.search(r"(operator\S+|~?\w+)\s*\(", text)
    if function:
        return function[1] + "()"
    return re.search(r"(\w+)\s*(=|;|\{)", text)[1]


def is_forward(code):
    return len(code) == 1 and re.match(r"(template <.*> )?(class|struct) \w+;", code[0])


def header_page(path):
    """(the first sentence, the page) of a header."""
    name = path.name.removesuffix(".in")
    head, rest = path.read_text().split("#pragma once", 1)
    lines = [re.sub(r"^// ?", "", line) for line in head.strip().splitlines()]
    example = next(i for i, line in enumerate(lines) if re.search(r"\bExample.*:$", line))
    about = prose(lines[:example])
    code = "\n".join(line.removeprefix("  ") for line in lines[example + 1:])
    page = [f"# lockstep/{name}", "", about, "", f"```cpp\n#include <lockstep/{name}>\n```",
            "", "## Example", "", f"```cpp\n{code}\n```"]
    groups = []
    for comment, body, adjacent in declarations(rest.splitlines()):
        if is_forward(body):
            continue
        if groups and (adjacent and not comment or title(body) == groups[-1][0]):
            groups[-1][2].extend([*(f"// {line}" for line in comment), *body])
        else:
            groups.append((title(body), comment, list(body)))
    for heading, comment, body in groups:
        page += ["", f"## `{heading}`", ""]
        page += [prose(comment), ""] if comment else []
        page += ["```cpp", *without_private(body), "```"]
    sentence = re.split(r"(?<=\.)\s", " ".join(about.split()))[0]
    return sentence, "\n".join(page) + "\n"


def pages(folder):
    """{address in the site: text} of all headers and of their index."""
    found, rows = {}, []
    for path in sorted(Path(folder).glob("*.h*")):
        name = path.name.split(".")[0]
        sentence, found[f"api/{name}.md"] = header_page(path)
        rows.append(f"| [`lockstep/{name}.h`]({name}.md) | {sentence} |")
    found["api/index.md"] = "\n".join([
        "# C++ API", "",
        "The public headers, `<lockstep/...>`: what plugins and embedding programs include. No other header is installed.",
        "[Extending and embedding](../extending.md) explains how to use them.", "",
        "| header | content |", "|---|---|", *rows]) + "\n"
    return found
