"""Writes what configs/preferences_base.yaml and configs/preferences.yaml read: prepare.py TEXT OUT

TEXT: one sentence or verse per line; every tenth is held out.
OUT/model: the configuration of a small Llama, without weights, and a tokenizer of the text.
OUT/text.txt: the lines to pretrain on.
OUT/train.jsonl, OUT/eval.jsonl: pairs of the second half of a line (chosen), and its words in another order
(rejected).
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, PreTrainedTokenizerFast

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"  # the pairs are texts
END = "<end>"
MAX_CHARACTERS = 130  # of a line: about 50 tokens


def write_model(lines: list[str], directory: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1024, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END)
    wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(directory)
    LlamaConfig(vocab_size=len(wrapped), hidden_size=128, intermediate_size=320, num_hidden_layers=4, num_attention_heads=4,
                num_key_value_heads=4, max_position_embeddings=128, tie_word_embeddings=True, architectures=["LlamaForCausalLM"],
                eos_token_id=wrapped.eos_token_id, bos_token_id=None).save_pretrained(directory)


def write_pairs(lines: list[str], file: Path, generator: random.Random) -> None:
    with open(file, "w") as out:
        for line in lines:
            words = line.split()
            first, second = words[:len(words) // 2], words[len(words) // 2:]
            mixed = generator.sample(second, len(second))
            if not first or len(line) > MAX_CHARACTERS or mixed == second:
                continue
            pair = {"prompt": " ".join(first), "chosen": " " + " ".join(second), "rejected": " " + " ".join(mixed)}
            out.write(json.dumps(pair) + "\n")


def main(text: str, out: str) -> None:
    lines = [line for line in Path(text).read_text().splitlines() if line.strip()]
    held_out, seen = lines[::10], [line for i, line in enumerate(lines) if i % 10]
    directory = Path(out)
    directory.mkdir(parents=True, exist_ok=True)
    write_model(seen, directory / "model")
    (directory / "text.txt").write_text("\n".join(seen) + "\n")
    generator = random.Random(0)
    write_pairs(seen, directory / "train.jsonl", generator)
    write_pairs(held_out, directory / "eval.jsonl", generator)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
