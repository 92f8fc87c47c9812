"""The words of docs/glossary.md, and the texts of errors."""
from pathlib import Path

import error_texts
import pytest
import wording

ROOT = Path(__file__).resolve().parents[2]
BAD = wording.phrases((ROOT / wording.GLOSSARY).read_text())


def test_no_file_uses_a_word_that_the_glossary_says_not_to_use():
    done = wording.files(ROOT)
    problems = [f"{path}:{line}: '{phrase}' (see docs/glossary.md)" for path in done
                for line, phrase, _ in wording.findings((ROOT / path).read_text(errors="replace"), BAD)]
    assert len(done) > 1000
    assert not problems, "\n" + "\n".join(problems)


def test_the_glossary_has_one_row_per_term():
    terms = wording.terms((ROOT / wording.GLOSSARY).read_text())
    assert len(terms) > 90
    assert len(set(terms)) == len(terms), [term for term in terms if terms.count(term) > 1]


# Words that no file uses, so that this one is checked too.
SAMPLE = wording.phrases("| term | meaning | do not use |\n|---|---|---|\n"
                         "| a | b | foobar, foobar place, qux upon, kQux |\n| c | | is a zot (except is a zot too, has a zot) |\n"
                         "| d | e | blarg... |\n| f | g | |\n")


@pytest.mark.parametrize("text", ["kQuxRanks", "// foobar waits", "open_foobar()", "it qux\n// upon it", "a value is a zot", "class FoobarPlace",
                                  "the run **qux upon**", "blarg", "the_blarged_value", "# foobar: what a Makefile says"])
def test_a_word_is_found_in_identifiers_comments_and_across_lines(text):
    assert list(wording.findings(text, SAMPLE))


@pytest.mark.parametrize("text", ["contact_foobars.h", "it has a zot", "it is a zot too", "kMaxRanks", "its own file", "Unfoobar", "reblarg"])
def test_other_uses_of_a_word_are_left_alone(text):
    assert not list(wording.findings(text, SAMPLE))


def test_the_line_of_a_word_is_that_of_its_beginning():
    assert [(line, phrase) for line, phrase, _ in wording.findings("a\nb qux\nupon c\n", SAMPLE)] == [(2, "qux upon")]


ERRORS = list(error_texts.error_texts(ROOT, wording.error_files(ROOT)))


def test_error_texts_are_found():
    by_folder = {}
    for path, _, _ in ERRORS:
        by_folder[path.split("/")[0]] = by_folder.get(path.split("/")[0], 0) + 1
    assert len(ERRORS) > 1000
    assert all(by_folder.get(folder, 0) >= 5 for folder in
               ("core", "formats", "launch", "tracking", "data", "models", "distributed", "catalog", "trainer", "dashboard", "cli", "python")), by_folder


def test_error_texts_are_one_finished_line_in_the_words_of_users():
    problems = [f"{path}:{line}: {problem}: \"{text}\"" for path, line, text in ERRORS for problem in error_texts.text_problems(text)]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("text", ["", " ", "...", "cannot read {}:", "cannot read '{}", "TODO", "expected (a, b", "std::vector too long",
                                  "cannot open {}\n", "cannot open ", "cannot  open", "member_ is null", "nullptr"])
def test_an_unfinished_or_internal_text_is_found(text):
    assert error_texts.text_problems(text)


@pytest.mark.parametrize("text", ["cannot open '{}'", "'{}' is not a number (expected 0 to 5)", "rank {}: it's gone", "set train.ema.decay"])
def test_a_finished_text_is_not(text):
    assert not error_texts.text_problems(text)


CPP = r'''
Error refused(const std::string& why) const;
  [[noreturn]] void fail(const std::string& what) const {
// throw refused("a comment");
throw refused("it has no tokens");
throw config_error(fmt::format("{}: two "
                               "lines", name_));
throw Error(ErrorKind::Config, "no '" + name(1, "x") + "'" + suggest(name));
if (x) fail(a ? "expected one" : fmt::format("expected {}", 2));
return environment_error(what + ": it \"failed\"");
check(name == "x", "names differ");
checked.check(1, "not an error");
throw bad_value(node, path, R"(a "raw" text)");
'''


def test_the_texts_of_cpp():
    texts = [text for _, text in error_texts.code_texts(CPP, error_texts.call_pattern(error_texts.helpers([CPP, "Error bad_value(int a);\n"])))]
    assert texts == ["it has no tokens", "{}: two lines", "no '{}'{}", "expected one", "expected {}", '{}: it "failed"', "names differ", 'a "raw" text']


def test_the_texts_of_typescript():
    code = ('// throw new ApiError("a comment")\nthrow new ApiError("unreachable", `status ${f(`a${1}`)} of ${b}`, c ?? "d");\n'
            'if (a) return fail(/^["\']/.test(b) ? "one" : `\'${b}\' two`, column);\n')
    found = list(error_texts.code_texts(error_texts.without_patterns(code), error_texts.TYPESCRIPT_CALL))
    assert found == [(2, "unreachable"), (2, "status {} of {}"), (2, "d"), (3, "one"), (3, "'{}' two")]


def test_the_texts_of_python():
    code = 'raise Refused(f"{a}: no such file")\ndef f():\n    return CompileError("x " + y + f"{z}" "!")\nraise\nprint("no error")\nraise error\n'
    assert list(error_texts.python_texts(code)) == [(1, "{}: no such file"), (3, "x {}{}!")]
