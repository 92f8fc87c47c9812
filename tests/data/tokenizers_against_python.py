"""Tokenizers of every kind have the ids and the texts of the tokenizers library: tokenizer_families.py, on texts in many
languages."""

import itertools
import json
import os
import random
import subprocess

import pytest
from tokenizer_families import FAMILIES, HARD, SENTENCES, byte_level_model, content, mixed_texts, word_level_model
from tokenizers import Tokenizer

DRIVER = os.environ["LOCKSTEP_TOKENIZER_DRIVER"]


def run(path, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    return subprocess.run([DRIVER, path], input=lines.encode(), capture_output=True, timeout=120)


def answers(path, requests):
    ended = run(path, requests)
    assert ended.returncode == 0, ended.stderr.decode()
    *lines, size = ended.stdout.rstrip(b"\n").split(b"\n")  # not at other ends of lines
    assert len(lines) == len(requests)
    return [json.loads(line) for line in lines], int(size)


def saved(tmp_path, tokenizer):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tokenizer))
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_and_texts_are_those_of_the_library(tmp_path, family):
    path = saved(tmp_path, FAMILIES[family]())
    peer = Tokenizer.from_file(str(path))
    texts = [*SENTENCES, *HARD, *mixed_texts(300)]
    rng = random.Random(1)
    pairs = [(rng.choice(texts), rng.choice(texts)) for _ in range(40)]
    size = max(peer.get_vocab().values()) + 1
    encoded = [peer.encode(text, add_special_tokens=False).ids for text in texts]
    id_lists = [*encoded, *([rng.randrange(size + 3) for _ in range(rng.randint(0, 30))] for _ in range(200))]
    decoded = list(itertools.product(id_lists, (True, False)))
    requests = [{"text": text} for text in texts] + [{"first": a, "second": b} for a, b in pairs]
    requests += [{"ids": ids, "skip_special": skip} for ids, skip in decoded]
    found, ours = answers(path, requests)
    assert ours == size
    for text, ids, answer in zip(texts, encoded, found):
        assert answer["plain"] == ids, (text, peer.encode(text, add_special_tokens=False).tokens)
        whole = peer.encode(text)
        assert (answer["ids"], answer["type_ids"]) == (whole.ids, whole.type_ids), text
    for pair, answer in zip(pairs, found[len(texts):]):
        whole = peer.encode(*pair)
        assert (answer["ids"], answer["type_ids"]) == (whole.ids, whole.type_ids), pair
    for (ids, skip), answer in zip(decoded, found[len(texts) + len(pairs):]):
        assert answer == peer.decode(ids, skip_special_tokens=skip), (ids, skip)


SPLITS = [
    *({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
      for pattern in ({"String": "a"}, {"Regex": r"\s+|[aeiou]"}, {"Regex": "b*"})
      for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous") for invert in (True, False)),
    *({"type": "Punctuation", "behavior": behavior} for behavior in ("Removed", "MergedWithPrevious", "Contiguous")),
    {"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": True},
    {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}]},
    {"type": "CharDelimiterSplit", "delimiter": "ü"}, {"type": "Digits", "individual_digits": True}, {"type": "Whitespace"},
    {"type": "FixedLength", "length": 3},
]


@pytest.mark.parametrize("first", ["a", "normalized"])
def test_pieces_are_those_of_the_library(tmp_path, first):
    """A vocabulary of the pieces themselves shows where a text is split."""
    texts = [*SENTENCES[:12], *HARD, *mixed_texts(60, 3), "aabbaab bab a", "baab", "aaa", "b"]
    normalizer = {"type": "Strip", "strip_left": True, "strip_right": False} if first == "normalized" else None
    for pre_tokenizer in SPLITS:
        split = Tokenizer.from_str(json.dumps(content(word_level_model(), (), normalizer, pre_tokenizer)))
        words = {word for text in texts for word, _ in split.pre_tokenizer.pre_tokenize_str(
            split.normalizer.normalize_str(text) if normalizer else text)}
        model = {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(["?", *sorted(words - {"?"})])}, "unk_token": "?"}
        path = saved(tmp_path, content(model, (), normalizer, pre_tokenizer))
        peer = Tokenizer.from_file(str(path))
        found, _ = answers(path, [{"text": text} for text in texts])
        for text, answer in zip(texts, found):
            assert answer["plain"] == peer.encode(text).ids, (pre_tokenizer, text)


def test_characters_are_classified_as_in_the_library(tmp_path):
    """Assigned characters, one by one; those that differ are new in Unicode 9 to 14, which the library does not know here."""
    import unicodedata

    characters = [chr(c) for c in range(0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    characters = characters[:0x600] + characters[0x600::13]
    model = {"type": "WordLevel", "vocab": {"?": 0, **{f"{a}{b}": 1 + i for i, (a, b) in enumerate(itertools.product("ab.", "ab."))}, "a": 20, "b": 21}, "unk_token": "?"}
    steps = {
        "Whitespace": (None, {"type": "Whitespace"}, 0), "BertPreTokenizer": (None, {"type": "BertPreTokenizer"}, 110),
        "Digits": (None, {"type": "Digits", "individual_digits": True}, 0),
        "BertNormalizer": ({"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": False,
                            "lowercase": False}, {"type": "WhitespaceSplit"}, 15),
        "StripAccents": ({"type": "StripAccents"}, None, 320),
    }
    for name, (normalizer, pre_tokenizer, limit) in steps.items():
        path = saved(tmp_path, content(model, (), normalizer, pre_tokenizer))
        peer = Tokenizer.from_file(str(path))
        found, _ = answers(path, [{"text": f"a{c}b"} for c in characters])
        differ = [c for c, answer in zip(characters, found) if answer["plain"] != peer.encode(f"a{c}b").ids]
        assert len(differ) <= limit, (name, len(differ), [hex(ord(c)) for c in differ[:20]])


def refused(tmp_path, tokenizer):
    path = saved(tmp_path, tokenizer)
    ended = run(path, [])
    message = ended.stderr.decode()
    assert ended.returncode == 78 and message.count("\n") == 1 and message.startswith(f"{path}: not a usable tokenizer.json: ")
    return message


def test_unsupported_and_corrupt_files_are_one_line(tmp_path):
    gpt2 = FAMILIES["GPT-2"]()
    for change, expected in (
        ({"model": {"type": "Other"}}, "model: 'Other' is not supported; supported: BPE, Unigram, WordLevel, WordPiece"),
        ({"model": None}, "model: it has no type"),
        ({"normalizer": {"type": "Magic"}}, "normalizer: 'Magic' is not supported; supported: BertNormalizer, "),
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "pre_tokenizer: 'UnicodeScripts' is not supported; supported: "),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated",
                                                                  "invert": False}]}}, "pre_tokenizer.pretokenizers[0].pattern: '(' is not a valid"),
        ({"decoder": {"type": "Strip"}}, "decoder: it has no content"),
        ({"post_processor": {"type": "BertProcessing"}}, "post_processor.cls: expected a token and its id"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAA"}}, "normalizer: precompiled_charsmap is not base64"),
        ({"added_tokens": [{"id": -1, "content": "x"}]}, "added_tokens[0]: id is not a number from 0"),
        ({"model": {**gpt2["model"], "dropout": 0.1}}, "model: it has a dropout"),
        ({"model": {**gpt2["model"], "merges": ["a"]}}, "model.merges: merge 0 is not two tokens"),
        ({"model": {**gpt2["model"], "vocab": {"a": 0, "b": 0}}}, "model.vocab: two tokens have the id 0"),
        ({"model": {"type": "Unigram", "vocab": [["a"]]}}, "model.vocab: entry 0 is not a token and its score"),
    ):
        assert expected in refused(tmp_path, {**gpt2, **change})
    deep = None
    for _ in range(40):
        deep = {"type": "Sequence", "normalizers": [deep] if deep else []}
    assert "it is nested more than 16 times" in refused(tmp_path, {**gpt2, "normalizer": deep})
    assert "it is not a JSON object" in refused(tmp_path, [1])
    assert run(tmp_path / "none", []).stderr.decode() == f"{tmp_path}/none: no such file; expected the tokenizer.json of a model\n"


def test_text_without_tokens_is_refused(tmp_path):
    path = saved(tmp_path, content({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "?"}))
    assert answers(path, [{"text": "b"}])[0] == [{"error": "the tokenizer has no token for 'b' and none for unknown text"}]


def test_a_directory_is_read(tmp_path):
    saved(tmp_path, FAMILIES["GPT-2"]())
    assert answers(tmp_path, [{"text": "a"}])[0][0]["plain"] == [json.loads(byte_level_model())["vocab"]["a"]]
