"""The texts of errors in C++, TypeScript and Python, and what is wrong with them.

Values that a text contains are {}. `python error_texts.py [ROOT]` prints all texts.
"""
import ast
import pathlib
import re
import sys

SPACE = re.compile(r"\s+")
RAW = re.compile(r'R"(\w*)\((.*?)\)\1"', re.S)
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)
CHARACTER = re.compile(r"'(?:[^'\\]|\\.)+'")
OPENING, CLOSING = "([{", ")]}"
ESCAPES = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\'": "'", "\\\\": "\\"}


def without_comments(code):
    """`code` with spaces in place of comments, so that positions stay."""
    pattern = re.compile(RAW.pattern + "|" + QUOTED.pattern + r"|`(?:[^`\\]|\\.)*`|(?<!\w)" + CHARACTER.pattern + r"|//[^\n]*|/\*.*?\*/", re.S)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]) if match[0].startswith(("//", "/*")) else match[0], code)


def without_patterns(code):
    """TypeScript with spaces in place of regular expressions, which may contain quotes."""
    pattern = re.compile(r"(?<=[(,=:?&|!])(\s*)/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
    return pattern.sub(lambda match: match[1] + " " * (len(match[0]) - len(match[1])), code)


def unescaped(text):
    return re.sub(r"\\.", lambda match: ESCAPES.get(match[0], "?"), text)


def template_text(code, at):
    """The text of the template literal (TypeScript) that begins at `at`, with {} for ${...}, and the position behind it."""
    text, at = "", at + 1
    while code[at] != "`":
        if code.startswith("${", at):
            at = end_of_group(code, at + 1)
            text += "{}"
        else:
            text += code[at]
            at += 1
    return unescaped(text), at + 1


def literal_at(code, at):
    """(text, position behind it) of the literal that begins at `at`; None: there is none."""
    if raw := RAW.match(code, at):
        return raw[2], raw.end()
    if quoted := QUOTED.match(code, at):
        return unescaped(quoted[0][1:-1]), quoted.end()
    if code[at] == "`":
        return template_text(code, at)
    if code[at] == "'" and not (at and code[at - 1].isalnum()) and (character := CHARACTER.match(code, at)):
        return unescaped(character[0][1:-1]), character.end()
    return None


def end_of_group(code, at):
    """The position behind the bracket that closes the one at `at`."""
    depth = 0
    while at < len(code):
        if found := literal_at(code, at):
            at = found[1]
            continue
        depth += (code[at] in OPENING) - (code[at] in CLOSING)
        at += 1
        if depth == 0:
            return at
    return at


def expression_texts(code):
    """The texts that an argument can have: literals and values that are added; each alternative of `?:`.

    Empty if it contains no literal.
    """
    texts, parts, has_literal, at = [], [], False, 0

    def finish():
        nonlocal parts, has_literal
        if has_literal:
            texts.append("".join(parts))
        parts, has_literal = [], False

    while at < len(code):
        if space := SPACE.match(code, at):
            at = space.end()
        elif found := literal_at(code, at):
            text, at = found
            parts.append(text)
            has_literal = True
        elif formatted := re.compile(r"(?:fmt::format|std::string)\s*\(").match(code, at):
            end = end_of_group(code, formatted.end() - 1)
            first = arguments(code[formatted.end():end - 1])[:1]
            inner = expression_texts(first[0]) if first else []
            has_literal = has_literal or bool(inner)
            parts.append(inner[0] if inner else "{}")
            texts += inner[1:]
            at = end
        elif code.startswith("??", at):
            finish()
            at += 2
        elif code[at] == "?":
            parts, has_literal = [], False  # a condition
            at += 1
        elif code[at] == ":" and not code.startswith("::", at) and code[at - 1] != ":":
            finish()
            at += 1
        elif code[at] == "+":
            at += 1
        else:
            at = end_of_value(code, at)
            if not parts or parts[-1] != "{}":
                parts.append("{}")
    finish()
    return texts


def end_of_value(code, at):
    """The position behind an expression without literals outside of brackets."""
    at = end_of_group(code, at) if code[at] in OPENING else at + 1
    while at < len(code) and code[at] not in "+?\"`" and not (code[at] == ":" and not code.startswith("::", at) and code[at - 1] != ":"):
        at = end_of_group(code, at) if code[at] in OPENING else at + 1
    return at


def arguments(code):
    """What is between the commas."""
    found, begin, at = [], 0, 0
    while at < len(code):
        if literal := literal_at(code, at):
            at = literal[1]
        elif code[at] in OPENING:
            at = end_of_group(code, at)
        else:
            if code[at] == ",":
                found.append(code[begin:at])
                begin = at + 1
            at += 1
    return found + [code[begin:]] if code[begin:].strip() else found


# Functions that return an error or throw one.
DECLARED = re.compile(r"^[ \t]*(?:static |inline |virtual )*(?:\w+::)*\w*Error (?:\w+::)*(\w+)\(|\[\[noreturn\]\] void (?:\w+::)*(\w+)\([^)]*std::string", re.M)
TYPESCRIPT_CALL = re.compile(r"\b(?:new \w*Error|fail|expected)\s*\(")


def helpers(texts):
    return {match[1] or match[2] for text in texts for match in DECLARED.finditer(text)}


def call_pattern(names):
    return re.compile(rf"\b(?:throw\s+std::\w+|\w*(?:Error|_error)|PeerLost|{'|'.join(sorted(names))}|(?<!\.)check)\s*\(")


def code_texts(code, pattern):
    """(line, text) of the errors that the calls of `pattern` make."""
    code = without_comments(code)
    for match in pattern.finditer(code):
        end = end_of_group(code, match.end() - 1)
        given = arguments(code[match.end():end - 1])
        if re.match(r"check\b", match[0]):
            given = given[1:2]
        for argument in given:
            for text in expression_texts(argument):
                yield code[:match.start()].count("\n") + 1, text


PYTHON_ERROR = re.compile(r"\w*Error|Refused|CompilerFault|FixedSize")


def python_text(node):
    """The text of an expression; None: it contains no literal."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = python_text(node.left), python_text(node.right)
        return None if sides == (None, None) else "".join("{}" if side is None else side for side in sides)
    return None


def python_texts(code):
    """(line, text) of each error that is made with a text."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            text = python_text(node.args[0]) if PYTHON_ERROR.fullmatch(name) and node.args else None
            if text is not None:
                yield node.lineno, text


def error_texts(root, paths):
    """(path, line, text) of the errors of all files; `paths` below `root`."""
    texts = {path: (pathlib.Path(root) / path).read_text(errors="replace") for path in paths}
    pattern = call_pattern(helpers(text for path, text in texts.items() if path.endswith((".h", ".cpp"))))
    for path, text in texts.items():
        if path.endswith((".h", ".cpp")):
            found = code_texts(text, pattern)
        elif path.endswith((".ts", ".tsx", ".mjs")):
            found = code_texts(without_patterns(text), TYPESCRIPT_CALL)
        else:
            found = python_texts(text) if path.endswith(".py") else []
        for line, each in found:
            yield path, line, each


def text_problems(text):
    """What is wrong with the text of an error: it is empty, not finished, or names what only the code knows."""
    problems = []
    if not re.sub(r"[\s.]", "", text):
        problems.append("empty")
    if "\n" in text:
        problems.append("more than one line")
    if "  " in text:
        problems.append("two spaces")
    if re.search(r"[\s:,;(\[]$", text):
        problems.append("not finished")
    quoted = re.sub(r"(?<=\w)'(?=\w)", "", text)  # without apostrophes
    unquoted, quotes = re.sub(r"'[^']*'", "", quoted), quoted.count("'")
    if quotes % 2 or any(unquoted.count(a) != unquoted.count(b) for a, b in ("()", "[]")):
        problems.append("not closed")
    if re.search(r"\b(TODO|FIXME|nullptr|assert\w*|std::|\w+_(?![\w*{]))", text):
        problems.append("internal")
    return problems


if __name__ == "__main__":
    import wording
    base = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
    for where, number, words in error_texts(base, wording.error_files(base)):
        print(f"{where}:{number}: {text_problems(words) or ''} {words!r}")
