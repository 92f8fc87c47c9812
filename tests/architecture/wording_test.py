"""The words of docs/glossary.md, and the texts of errors."""
import re
from pathlib import Path

import pytest
import wording

ROOT = Path(__file__).resolve().parents[2]
BAD = wording.phrases((ROOT / wording.GLOSSARY).read_text())


def test_no_file_uses_a_word_that_the_glossary_says_not_to_use():
    done = wording.files(ROOT)
    problems = [f"{path}:{line}: '{phrase}' (see docs/glossary.md)" for path in done
                for line, phrase, _ in wording.findings((ROOT / path).read_text(errors="replace"), BAD)]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("text", ["kMostRanks", "// nobody waits", "open_meeting()", "it goes\n// on with it", "a value is no number",
                                  "class MeetingPlace", "the run **goes on**"])
def test_a_word_is_found_in_identifiers_comments_and_across_lines(text):
    assert list(wording.findings(text, BAD))


@pytest.mark.parametrize("text", ["contact_sheet.h", "there is no file", "it is no longer so", "kMaxRanks", "its own file", "Bookmost"])
def test_other_uses_of_a_word_are_left_alone(text):
    assert not list(wording.findings(text, BAD))


ERRORS = [(path, line, text) for path in wording.files(ROOT) if path.endswith((".h", ".cpp")) and not path.startswith(("tests/", "bench/"))
          for line, text in wording.error_texts((ROOT / path).read_text())]


def test_error_texts_are_found():
    assert len(ERRORS) > 400


def test_error_texts_are_one_finished_line_in_the_words_of_users():
    problems = [f"{path}:{line}: {problem}: \"{text}\"" for path, line, text in ERRORS for problem in wording.text_problems(text)]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("text", ["", "cannot read {}:", "cannot read '{}", "TODO", "expected (a, b", "std::vector too long",
                                  "cannot open {}\n", "cannot open ", "member_ is null", "nullptr"])
def test_an_unfinished_or_internal_text_is_found(text):
    assert wording.text_problems(text)


@pytest.mark.parametrize("text", ["cannot open '{}'", "'{}' is not a number (expected 0 to 5)", "rank {}: it's gone", "set train.ema.decay"])
def test_a_finished_text_is_not(text):
    assert not wording.text_problems(text)
