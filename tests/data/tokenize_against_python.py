"""lockstep-data has the vocabulary and the tokens of the tokenizers library, on real text."""

import bz2
import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

PROGRAM = Path(os.environ["LOCKSTEP_DATA"])
TEXT = Path(os.environ["LOCKSTEP_SOURCE"]) / "README.md"
END = "<|endoftext|>"
# Edge cases of words, blanks and scripts.
HARD = "It's  two  blanks, we'll\tsee\n\n\n 12345 3.14 naïve Ωμέγα 中文字 🙂🙂 a\u00a0b\r\nx   \n"


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def done(*arguments):
    ended = run(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def refused(*arguments):
    ended = run(*arguments)
    assert ended.returncode == 78 and ended.stderr.startswith("lockstep-data: error: ")
    assert ended.stderr.count("\n") == 1
    return ended.stderr


def tokens_of(folder, part="train"):
    shards = sorted((folder / part).glob("*.bin"))
    return np.concatenate([np.fromfile(shard, np.uint16)[512:] for shard in shards])


@pytest.fixture
def text(tmp_path):
    """The documentation of this project, interleaved with edge cases."""
    pages = sorted(TEXT.parent.glob("docs/*.md"))
    file = tmp_path / "text.txt"
    file.write_bytes(HARD.join(page.read_text() for page in pages).encode())
    return file


def peer_trained(text, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


@pytest.mark.parametrize("size", [257, 300, 1500])
def test_vocabulary_matches_the_tokenizers_library(tmp_path, text, size):
    done("train-tokenizer", "--vocab-size", size, "--out", tmp_path / "tokenizer.json", text)
    ours = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    theirs = json.loads(peer_trained(text.read_bytes().decode(), size).to_str())["model"]
    assert ours["vocab"] == theirs["vocab"]
    assert ours["merges"] == theirs["merges"]


@pytest.fixture
def tokenizer(tmp_path, text):
    done("train-tokenizer", "--vocab-size", 800, "--out", tmp_path / "tokenizer.json", text)
    return tmp_path / "tokenizer.json"


def with_pattern_of_llama(file):
    content = json.loads(file.read_text())
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    content["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [split, {**content["pre_tokenizer"], "use_regex": False}],
    }
    file.write_text(json.dumps(content))


def with_prefix_blank(file):
    content = json.loads(file.read_text())
    content["pre_tokenizer"]["add_prefix_space"] = True
    content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]
    file.write_text(json.dumps(content))


def with_whole_words(file):
    content = json.loads(file.read_text())
    content["model"]["ignore_merges"] = True
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("change", [None, with_pattern_of_llama, with_prefix_blank, with_whole_words])
@pytest.mark.parametrize("documents", ["file", "line", "paragraph"])
def test_tokens_match_the_tokenizers_library(tmp_path, text, tokenizer, change, documents):
    if change:
        change(tokenizer)
    done("tokenize", "--out", tmp_path / "out", "--tokenizer", tokenizer, "--documents", documents, text)
    peer = Tokenizer.from_file(str(tokenizer))
    content = text.read_bytes().decode()
    parts = {"file": [content], "line": content.replace("\r\n", "\n").split("\n"), "paragraph": content.split("\n\n")}[documents]
    expected = [i for part in parts if part.strip("\r\n") for i in [*peer.encode(part).ids, peer.token_to_id(END)]]
    ours = tokens_of(tmp_path / "out")
    assert ours.tolist() == expected
    assert (tmp_path / "out" / "tokenizer.json").read_text() == tokenizer.read_text()


def test_special_tokens_in_a_text_match_the_tokenizers_library(tmp_path, text, tokenizer):
    (tmp_path / "b.txt").write_text(f"one{END}{END} two <|endof {END}")
    done("tokenize", "--out", tmp_path / "out", "--tokenizer", tokenizer, tmp_path / "b.txt")
    peer = Tokenizer.from_file(str(tokenizer))
    expected = [*peer.encode((tmp_path / "b.txt").read_text()).ids, peer.token_to_id(END)]
    assert tokens_of(tmp_path / "out").tolist() == expected


def test_bytes_shards_and_an_evaluation_split(tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 4)
    out = done(
        "tokenize", "--out", tmp_path / "out", "--bytes", "--eval", 0.25, "--shard-tokens", 100, tmp_path / "a.bin"
    )
    assert "separator 256" in out and "257 tokens in the vocabulary" in out
    assert len(list((tmp_path / "out" / "train").glob("*.bin"))) == 8
    both = np.concatenate([tokens_of(tmp_path / "out"), tokens_of(tmp_path / "out", "eval")])
    assert both.tolist() == [*range(256)] * 4 + [256]
    assert len(tokens_of(tmp_path / "out", "eval")) == 256


@pytest.mark.parametrize("documents, expected", [("line", ["a", "b", "c"]), ("paragraph", ["a{}b", "c{}"]), ("file", ["a{0}b{0}{0}c{0}"])])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_windows_are_lines(tmp_path, documents, expected, end):
    (tmp_path / "a.txt").write_bytes("a{0}b{0}{0}c{0}".format(end).encode())
    done("tokenize", "--out", tmp_path / "out", "--bytes", "--documents", documents, tmp_path / "a.txt")
    assert tokens_of(tmp_path / "out").tolist() == [token for text in expected for token in [*text.format(end).encode(), 256]]


@pytest.mark.parametrize("part", ["train", "eval"])
def test_tokens_of_an_earlier_command_are_not_mixed_with_new_ones(tmp_path, part):
    (tmp_path / "a.txt").write_text("some text")
    done("tokenize", "--out", tmp_path / "out", "--bytes", "--eval", 0.5, "--shard-tokens", 2, tmp_path / "a.txt")
    other = {"train": "eval", "eval": "train"}[part]
    shutil.rmtree(tmp_path / "out" / other)
    before = tokens_of(tmp_path / "out", part).tolist()
    message = refused("tokenize", "--out", tmp_path / "out", "--bytes", tmp_path / "a.txt")
    assert f"{tmp_path}/out/{part} already has *.bin files: remove it, or choose another folder" in message
    assert tokens_of(tmp_path / "out", part).tolist() == before and not (tmp_path / "out" / other).exists()


def test_options_without_effect_are_refused(tmp_path, text, tokenizer):
    out = ("--out", tmp_path / "out")
    bpe = ("train-tokenizer", "--vocab-size", 300, *out)
    assert "--separator is an option of tokenize, not of train-tokenizer" in refused(*bpe, "--separator", "x", text)
    assert "--vocab-size is an option of train-tokenizer, not of tokenize" in refused("tokenize", "--bytes", *out, "--vocab-size", 10, text)
    assert "--out is an option of tokenize, not of index" in refused("index", *out, tmp_path)
    assert "--separator has no effect with --bytes: the separator is 256" in refused("tokenize", "--bytes", *out, "--separator", "x", text)
    (tmp_path / "a.txt").write_text("some text")
    assert "--eval 0.01: of 10 tokens, none remains for evaluation" in refused("tokenize", "--bytes", *out, "--eval", 0.01, tmp_path / "a.txt")
    assert not (tmp_path / "out").exists()


def test_compressed_texts_are_read(tmp_path, text):
    (tmp_path / "text.gz").write_bytes(gzip.compress(text.read_bytes()))
    for name, file in (("plain", text), ("packed", tmp_path / "text.gz")):
        done("tokenize", "--out", tmp_path / name, "--bytes", file)
    assert np.array_equal(tokens_of(tmp_path / "packed"), tokens_of(tmp_path / "plain"))


def test_errors_are_reported_in_one_line(tmp_path, text, tokenizer):
    out = tmp_path / "out"
    assert "a command is missing; valid: tokenize, train-tokenizer, index" in refused()
    assert "did you mean 'tokenize'" in refused("tokenise")
    assert "--out is required" in refused("tokenize", "--bytes", text)
    assert "one of --tokenizer FILE and --bytes" in refused("tokenize", "--out", out, text)
    assert "no such file" in refused("tokenize", "--out", out, "--bytes", tmp_path / "none.txt")
    assert "file, line, paragraph" in refused("tokenize", "--out", out, "--bytes", "--documents", "page", text)
    assert "no token '<end>'" in refused("tokenize", "--out", out, "--tokenizer", tokenizer, "--separator", "<end>", text)
    (tmp_path / "latin.txt").write_bytes("Ümlaut".encode("latin-1"))
    message = refused("tokenize", "--out", out, "--tokenizer", tokenizer, tmp_path / "latin.txt")
    assert "latin.txt: byte 0 is not UTF-8 text" in message
    (tmp_path / "text.bz2").write_bytes(bz2.compress(text.read_bytes()))
    message = refused("tokenize", "--out", out, "--tokenizer", tokenizer, tmp_path / "text.bz2")
    assert "text.bz2: it is compressed with bzip2, not text; decompress it first" in message
    assert f"{tmp_path}: is a directory, expected a file" in refused("tokenize", "--out", out, "--bytes", tmp_path)
    content = json.loads(tokenizer.read_text())
    for change, expected in (
        ({"model": {"type": "Other"}}, "model: 'Other' is not supported; supported: BPE, Unigram, WordLevel, WordPiece"),
        ({"normalizer": {"type": "Magic"}}, "normalizer: 'Magic'"),
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "'UnicodeScripts'"),
    ):
        (tmp_path / "other.json").write_text(json.dumps({**content, **change}))
        assert expected in refused("tokenize", "--out", out, "--tokenizer", tmp_path / "other.json", text)
    (tmp_path / "other.json").write_text("{")
    assert "other.json" in refused("tokenize", "--out", out, "--tokenizer", tmp_path / "other.json", text)
    assert not out.exists()
