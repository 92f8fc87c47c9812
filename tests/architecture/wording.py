"""Counts the words that docs/glossary.md says not to use: in identifiers, comments, messages and documents.

`python wording.py [ROOT]` prints each of them with its count and its places.
"""
import bisect
import pathlib
import re
import subprocess
import sys

GLOSSARY = "docs/glossary.md"
CODE = (".h", ".cpp", ".in", ".cu", ".py", ".sh", ".cmake", ".ts", ".tsx", ".mjs", ".css", ".md", ".yaml", ".txt")

EXCLUDED = re.compile(rf"^{re.escape(GLOSSARY)}$|^docs/decisions/|^tests/architecture/|^tests/golden/|^bench/results/|package-lock")


def normalized(text):
    """Lower case; identifiers in CamelCase and snake_case as words; markup and line breaks as spaces."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)
    return re.sub(r"[\s`*]+", " ", text).lower()


class Phrase:
    """`bad (except one, two)`: bad is not used, except within `one` and `two`."""

    def __init__(self, text):
        match = re.fullmatch(r"(.*?)(?: \(except (.*)\))?", text.strip())
        self.text = match[1]
        self.bad = self.pattern(match[1])
        self.allowed = [self.pattern(each) for each in (match[2] or "").split(", ") if each]

    @staticmethod
    def pattern(words):
        return re.compile(r"\b" + re.escape(normalized(words).strip()).replace(r"\ ", " ") + r"\b")

    def places(self, text):
        for allowed in self.allowed:
            text = allowed.sub(lambda match: " " * len(match[0]), text)
        return [match.start() for match in self.bad.finditer(text)]


def phrases(glossary):
    """Those of the last column of each table."""
    found = []
    for line in glossary.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0] != "term" and not set(cells[0]) <= set("- "):
            found += [Phrase(each) for each in re.split(r", (?![^(]*\))", cells[2]) if each]
    return found


def files(root):
    root = pathlib.Path(root)
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True).stdout
    return [path for path in listed.split("\0")
            if path.endswith(CODE) and not EXCLUDED.search(path) and (root / path).is_file()]


def findings(text, bad):
    """(line, phrase, 1) of each use. Comments are read across their lines."""
    begins, whole = [], ""
    for line in text.splitlines():
        begins.append(len(whole))
        whole += normalized(re.sub(r"^\s*(//|#|\*)\s*", "", line)) + " "
    for phrase in bad:
        for at in phrase.places(whole):
            yield bisect.bisect_right(begins, at), phrase.text, 1


ERROR_CALL = re.compile(r'\b(?:config_error|environment_error|errno_error|bad_request|forward_error|column_of_error|tee_error|\w*Error)'
                        r'\s*\(\s*(?:ErrorKind::\w+,\s*)?(?:fmt::format\(\s*)?((?:"(?:[^"\\]|\\.)*"\s*)+)([,)+;]?)')


def error_texts(code):
    """(line, text) of each error whose text is written where it is made; a text that is continued with + ends in '...'."""
    for match in ERROR_CALL.finditer(code):
        text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[1])).replace('\\"', '"').replace("\\n", "\n")
        yield code[:match.start(1)].count("\n") + 1, text + ("..." if match[2] == "+" else "")


def text_problems(text):
    """What is wrong with the text of an error: it is empty, not finished, or names what only the code knows."""
    problems = []
    if not text.strip("."):
        problems.append("empty")
    if "\n" in text:
        problems.append("more than one line")
    if re.search(r"[\s:,;(\[]$", text):
        problems.append("not finished")
    quoted = re.sub(r"(?<=\w)'(?=\w)", "", text)  # without apostrophes
    unquoted, quotes = re.sub(r"'[^']*'", "", quoted), quoted.count("'")
    if not text.endswith("...") and (quotes % 2 or any(unquoted.count(a) != unquoted.count(b) for a, b in ("()", "[]"))):
        problems.append("not closed")
    if re.search(r"\b(TODO|FIXME|nullptr|assert\w*|std::|\w+_(?![\w*{]))", text):
        problems.append("internal")
    return problems


def main(root):
    root = pathlib.Path(root)
    bad = phrases((root / GLOSSARY).read_text())
    counts, places = dict.fromkeys((phrase.text for phrase in bad), 0), {}
    for path in files(root):
        for number, phrase, count in findings((root / path).read_text(errors="replace"), bad):
            counts[phrase] += count
            places.setdefault(phrase, []).append(f"{path}:{number}")
    for phrase, count in sorted(counts.items(), key=lambda each: -each[1]):
        print(f"{count:5} {phrase:24} {' '.join(places.get(phrase, [])[:12])}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
