"""Counts the words that docs/glossary.md says not to use: in identifiers, comments, messages and documents.

`python wording.py [ROOT]` prints each of them with its count and its places.
"""
import bisect
import pathlib
import re
import subprocess
import sys

GLOSSARY = "docs/glossary.md"
CODE = (".h", ".cpp", ".in", ".cu", ".py", ".sh", ".cmake", ".ts", ".tsx", ".mjs", ".js", ".css", ".html", ".md", ".yaml", ".yml", ".toml",
        ".cff", ".sbatch", ".txt", ".clang-tidy", ".gitignore", "CMakePresets.json", "Makefile", "package.json")
EXCLUDED = {GLOSSARY, "cmake/requirements-streaming.txt"}  # names of packages
ERRORS = re.compile(r"(?!tests/|bench/|examples/|cmake/|docs/).*\.(h|cpp|py|ts|tsx)$")  # the files whose errors users see


def normalized(text):
    """Lower case; identifiers in CamelCase and snake_case as words; markup and line breaks as spaces."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)
    return re.sub(r"[\s`*]+", " ", text).lower()


class Phrase:
    """`bad (except one, two)`: bad is not used, except within `one` and `two`. `bad...`: nor are words that begin with bad."""

    def __init__(self, text):
        match = re.fullmatch(r"(.*?)(?: \(except (.*)\))?", text.strip())
        self.text = match[1]
        self.literal = normalized(match[1].removesuffix("...")).strip()
        self.bad = self.pattern(match[1])
        self.allowed = [self.pattern(each) for each in (match[2] or "").split(", ") if each]

    @staticmethod
    def pattern(words):
        text = re.escape(normalized(words.removesuffix("...")).strip()).replace(r"\ ", " ")
        return re.compile(rf"\b{text}\w*\b" if words.endswith("...") else rf"\b{text}\b")

    def places(self, text):
        if self.literal not in text:  # much quicker than the patterns
            return []
        for allowed in self.allowed:
            text = allowed.sub(lambda match: " " * len(match[0]), text)
        return [match.start() for match in self.bad.finditer(text)]


def rows(glossary):
    """The three cells of each row of the tables."""
    for line in glossary.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0] != "term" and not set(cells[0]) <= set("- "):
            yield cells


def terms(glossary):
    return [term for term, meaning, _ in rows(glossary) if meaning]


def phrases(glossary):
    """Those of the last column of each table."""
    return [Phrase(each) for _, _, bad in rows(glossary) for each in re.split(r", (?![^(]*\))", bad) if each]


def files(root):
    root = pathlib.Path(root)
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True).stdout
    return [path for path in listed.split("\0")
            if path.endswith(CODE) and path not in EXCLUDED and (root / path).is_file()]


def error_files(root):
    return [path for path in files(root) if ERRORS.match(path)]


def findings(text, bad):
    """(line, phrase, 1) of each use. Comments are read across their lines."""
    begins, whole = [], ""
    for line in text.splitlines():
        begins.append(len(whole))
        whole += normalized(re.sub(r"^\s*(//|#|\*)\s*", "", line)) + " "
    for phrase in bad:
        for at in phrase.places(whole):
            yield bisect.bisect_right(begins, at), phrase.text, 1


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
