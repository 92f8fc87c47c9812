"""Format of rejections: an error line, the same of several ranks once, then the launcher's report."""

import re

import pytest

ALONE_AND_LAUNCHED = pytest.mark.parametrize("ranks", [None, 2], ids=["alone", "launched"])
ERROR = "lockstep-trainer: error: "


def error_lines(ended, ranks):
    """The error lines of the trainers: stderr without the launcher's report."""
    lines = ended.err.splitlines()
    if ranks is None:
        assert len(lines) == 1, ended.err
        assert lines[0].startswith(ERROR)
        return [lines[0][len(ERROR) :]]
    begin = next((i for i, line in enumerate(lines) if line.startswith("lockstep: ")), None)
    assert begin is not None, ended.err
    errors = {}
    for line in lines[:begin]:
        rank, _, text = line.partition("] " + ERROR)
        assert rank.startswith("[rank ") and text, f"not an error line: {line}"
        assert rank not in errors, f"two errors of one rank:\n{ended.err}"
        errors[rank] = text
    assert errors, ended.err
    report = lines[begin:]
    assert re.match(r"lockstep: (rank \d+ \(of \d+\).* failed first|all \d+ ranks failed): exited with code", report[0])
    errors = list(errors.values())
    if report[0].endswith("(the input is wrong)"):
        assert len(set(errors)) == len(errors), f"an error twice:\n{ended.err}"
    if report[0].startswith("lockstep: all "):
        assert not {line.strip() for line in report} & set(errors), f"an error twice:\n{ended.err}"
    else:
        assert report[1].strip() in errors, ended.err
    return errors


def assert_refused(job, ended, code, texts, ranks):
    assert ended.code == code, ended.err
    for line in error_lines(ended, ranks):
        for text in texts:
            assert text in line
    assert not job.runs.exists(), "a run directory was left"


def files_below(directory):
    return sorted(path for path in directory.rglob("*"))


def refuse(job, overrides, texts, ranks, code=78):
    """Runs and expects one error with `texts`, and no new file."""
    before = files_below(job.directory)
    ended = job.run(*overrides, ranks=ranks)
    assert_refused(job, ended, code, texts, ranks)
    assert files_below(job.directory) == before
    return ended
