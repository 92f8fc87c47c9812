"""Compares the speed of Lockstep's tokenizers and the tokenizers package on one core, in alternating rounds.

    .venv/bin/python bench/tokenizer.py [--rounds 3] [--seconds 3] [--only KIND] [--out bench/results/tokenizer.json]

Each kind is a tokenizer with the structure of a real one, trained on the text that is encoded: the King James Bible, line by line
(a verse each), or sentences in 27 languages ("languages"). The ids of both programs are compared.
The peer encodes all lines in one call without offsets (encode_batch_fast), its fastest way, with TOKENIZERS_PARALLELISM=false, and
line by line (encode).
Needs: cmake --build build --target lockstep_bench_tokenizer
"""

import argparse
import json
import pathlib
import random
import sys
import tempfile

from measuring import BIN, SOURCE, commit, machine, output_of, print_table, row, save

sys.path.insert(0, str(SOURCE / "tests" / "data"))

DRIVER = BIN / "lockstep_bench_tokenizer"
PYTHON = SOURCE / ".venv" / "bin" / "python"
BIBLE = SOURCE / ".data" / "bible" / "kjv.txt"
SIZE = 16000
PEER = """
import json, struct, sys, time, zlib
from tokenizers import Tokenizer
path, text, seconds, way = sys.argv[1:]
begin = time.perf_counter()
tokenizer = Tokenizer.from_file(path)
load = time.perf_counter() - begin
content = open(text, newline="").read()
lines = content.split("\\n")[:-1]
passes = []
while len(passes) < 3 or time.perf_counter() - begin < float(seconds):
    start = time.perf_counter()
    if way == "batch":
        found = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
    else:
        found = [tokenizer.encode(line, add_special_tokens=False) for line in lines]
    passes.append(time.perf_counter() - start)
ids = [i for one in found for i in one.ids]
sum = zlib.crc32(struct.pack(f"<{len(ids)}i", *ids))
print(json.dumps({"mb_per_s": len(content.encode()) / 1e6 / sorted(passes)[len(passes) // 2], "load_s": load,
                  "tokens": len(ids), "crc32": sum}))
"""


def kinds():
    """{name: (structure of tests/data/tokenizer_families.py, trained model)}"""
    import tokenizer_families as families
    from tokenizers import models, normalizers, pre_tokenizers, trainers

    level, words = pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Metaspace()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pairs = trainers.BpeTrainer(vocab_size=SIZE, initial_alphabet=alphabet, show_progress=False)
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    sentence_pairs = trainers.BpeTrainer(vocab_size=SIZE, special_tokens=names, show_progress=False)
    unigram = trainers.UnigramTrainer(vocab_size=SIZE, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)
    pieces = trainers.WordPieceTrainer(vocab_size=SIZE, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)
    byte_level = (models.BPE(), pairs, None, level)
    return {
        "GPT-2": (families.gpt2, *byte_level),
        "Llama 3": (families.llama3, *byte_level),
        "Qwen2": (families.qwen2, *byte_level),
        "Llama 2": (families.llama2, models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), sentence_pairs, None, words),
        "T5": (families.t5, models.Unigram(), unigram, normalizers.NFKC(), words),
        "BERT": (families.bert, models.WordPiece(unk_token="[UNK]"), pieces, normalizers.BertNormalizer(),
                 pre_tokenizers.BertPreTokenizer()),
    }


def trained(text, structure, model, trainer, normalizer, pre_tokenizer):
    from tokenizers import Tokenizer

    learner = Tokenizer(model)
    if normalizer:
        learner.normalizer = normalizer
    learner.pre_tokenizer = pre_tokenizer
    learner.train([str(text)], trainer)
    learned = json.loads(learner.to_str())["model"]
    whole = structure()
    first = whole["model"]
    learned = {**first, **{key: learned[key] for key in ("vocab", "merges") if key in learned}}
    if learned["type"] == "Unigram":
        learned["unk_id"] = 2
    # Added tokens follow the vocabulary.
    for number, token in enumerate(token for token in whole["added_tokens"] if token["id"] >= len(first["vocab"])):
        token["id"] = len(learned["vocab"]) + number
    return {**whole, "model": learned, "post_processor": None}


def measure(scratch, text, kind, arguments):
    path = pathlib.Path(scratch) / "tokenizer.json"
    path.write_text(json.dumps(trained(text, *kind)))
    ways = {"lockstep": [DRIVER, path, text, arguments.seconds]}
    for name, way in (("tokenizers, encode_batch_fast", "batch"), ("tokenizers, encode", "single")):
        ways[name] = [PYTHON, "-c", PEER, path, text, arguments.seconds, way]
    speeds, sums = {}, set()
    for _ in range(arguments.rounds):
        for name, command in ways.items():
            result = json.loads(output_of(command, scratch, 300, TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1"))
            speeds.setdefault(name, []).append(result["mb_per_s"])
            sums.add((result["tokens"], result["crc32"]))
    if len(sums) > 1:
        raise RuntimeError(f"the ids differ: {sums}")
    return [row(name, "MB/s", values, digits=2) for name, values in speeds.items()]


def languages(scratch):
    from tokenizer_families import SENTENCES

    path = pathlib.Path(scratch) / "languages.txt"
    lines = [line.replace("\n", " ").replace("\r", " ") for line in SENTENCES]
    rng = random.Random(0)
    words = [word for line in lines for word in line.split(" ")]
    path.write_text("".join(" ".join(rng.choices(words, k=20)) + "\n" for _ in range(8000)))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only")
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    result = {"commit": commit(), "goal": "at least 2 times the best of the peer", "parts": {}, "compared": {}}
    with tempfile.TemporaryDirectory() as scratch:
        result["machine"] = machine(scratch)
        for text_name, text in (("Bible", BIBLE), ("languages", languages(scratch))):
            for name, kind in kinds().items():
                if arguments.only and arguments.only != name:
                    continue
                part = f"{name}, {text_name}"
                rows = result["parts"][part] = measure(scratch, text, kind, arguments)
                ours, *theirs = (line["median"] for line in rows)
                result["compared"][part] = round(ours / max(theirs), 1)
                print_table(part, rows)
                print(f"  {result['compared'][part]} times the best of the peer, equal ids")
    result["command"] = f"bench/tokenizer.py --rounds {arguments.rounds} --seconds {arguments.seconds}"
    save(result, arguments.out)


if __name__ == "__main__":
    main()
