"""A chat model is fine-tuned on conversations as with transformers, packed or not, on any number of ranks."""

import gzip
import json
import math
import random
import sys

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn import functional as F

from processes import SOURCE
from refusals import refuse
from safetensors_file import assert_same_bits, last_weights

sys.path.insert(0, str(SOURCE / "tests" / "data"))
import chat_templates  # noqa: E402

torch.set_num_threads(1)  # the model is small
LENGTH, BATCH, STEPS = 48, 8, 30
WORDS = "red blue green one two three what is the of a sum color name it yes no maybe".split()


def conversations(count, seed=5):
    """The first one is longer than LENGTH; the last word of an answer is the last of its question."""
    rng = random.Random(seed)
    made = []
    for i in range(count):
        turns = []
        for _ in range(9 if i == 0 else rng.randint(1, 2)):
            question = rng.choices(WORDS, k=rng.randint(2, 4))
            turns += [" ".join(question) + "?", " ".join(rng.choices(WORDS, k=2)) + " " + question[-1]]
        made.append(chat_templates.turns(*turns, system="be brief" if rng.random() < 0.3 else None))
    return made


def write_model(directory, template=chat_templates.CHATML_MARKED):
    """A small Llama and its tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([json.dumps(conversations(50))], trainer)
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<pad>")
    wrapped.chat_template = template
    wrapped.save_pretrained(directory)
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=len(wrapped),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").save_pretrained(directory)
    return wrapped


def write_records(path, chats):
    text = "".join(json.dumps({"messages": messages}) + "\n" for messages in chats)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def configure(job, chats, **data):
    tokenizer = write_model(job.directory / "hf")
    write_records(job.directory / "chats.jsonl.gz", chats)
    train = {"name": "chat", "path": str(job.directory / "chats.jsonl.gz"), "tokenizer": str(job.directory / "hf"), "length": LENGTH}
    job.config.update(
        model={"name": "hf", "path": str(job.directory / "hf")},
        data={"train": {**train, **data}, "batch_size": BATCH, "shuffle": False, "drop_last": True},
        optimizer={"name": "adamw", "lr": 1e-3, "weight_decay": 0.1},
        train={"epochs": 100, "max_steps": STEPS, "log_every": "1 step"},
    )
    job.write()
    return tokenizer


def encoded(tokenizer, chats, learn_all=False):
    """[(tokens, targets)] of each conversation, truncated."""
    rows = []
    for messages in chats:
        whole = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
        tokens = whole["input_ids"][:LENGTH]
        mask = [1] * LENGTH if learn_all else whole["assistant_masks"]
        targets = [after if learned else -100 for after, learned in zip(tokens[1:], mask[1:])] + [-100]
        rows.append((tokens, targets))
    return rows


def packed(rows):
    """The indices of the rows in each window: best fit, longest first."""
    windows = []
    for i in sorted(range(len(rows)), key=lambda i: -len(rows[i][0])):
        room = [LENGTH - sum(len(rows[j][0]) for j in window) for window in windows]
        fitting = [k for k in range(len(windows)) if room[k] >= len(rows[i][0])]
        if fitting:
            windows[min(fitting, key=lambda k: (room[k], k))].append(i)
        else:
            windows.append([i])
    return sorted(sorted(window) for window in windows)


def tensors(rows, windows):
    """Tokens, targets, and the position and document of each token [N, LENGTH]."""
    table = {"tokens": [], "targets": [], "positions": [], "documents": []}
    for window in windows:
        parts = [rows[i] for i in window] + [([0] * (LENGTH - sum(len(rows[i][0]) for i in window)), None)]
        table["tokens"].append([token for tokens, _ in parts for token in tokens])
        table["targets"].append([target for tokens, targets in parts for target in targets or [-100] * len(tokens)])
        table["positions"].append([place for tokens, _ in parts for place in range(len(tokens))])
        table["documents"].append([number for number, (tokens, _) in enumerate(parts) for _ in tokens])
    return {name: torch.tensor(values) for name, values in table.items()}


def train_in_python(directory, samples, steps=STEPS):
    """With a mask of the blocks of each document, and positions that restart."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    batches = len(samples["tokens"]) // BATCH
    losses = []
    for step in range(steps):
        rows = slice(step % batches * BATCH, (step % batches + 1) * BATCH)
        batch = {name: values[rows] for name, values in samples.items()}
        seen = (batch["documents"][:, :, None] == batch["documents"][:, None, :]).tril()
        mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)[:, None]
        logits = model(batch["tokens"], attention_mask=mask, position_ids=batch["positions"]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of(job, run_dir):
    return [value for _, value in job.series(run_dir.name, "train/loss")]


@pytest.mark.parametrize("ranks", [None, 2])
@pytest.mark.parametrize("pack", [False, True])
def test_fine_tuning_has_the_losses_of_transformers(job, pack, ranks):
    chats = conversations(160 if pack else 48)
    tokenizer = configure(job, chats, pack=pack)
    rows = encoded(tokenizer, chats)
    windows = packed(rows) if pack else [[i] for i in range(len(rows))]
    assert not pack or max(len(window) for window in windows) >= 3
    expected = train_in_python(job.directory / "hf", tensors(rows, windows))
    losses = losses_of(job, job.train(ranks=ranks))
    assert losses == pytest.approx(expected, abs=1e-4)
    assert expected[0] - expected[-1] > 1


def test_all_tokens_are_learned(job):
    chats = conversations(16)
    tokenizer = configure(job, chats, loss="all")
    rows = encoded(tokenizer, chats, learn_all=True)
    expected = train_in_python(job.directory / "hf", tensors(rows, [[i] for i in range(16)]), steps=3)
    assert losses_of(job, job.train("train.max_steps=3")) == pytest.approx(expected, abs=1e-4)


def test_conversations_padded_to_the_longest_of_their_batch(job):
    """Smaller batches, the same losses, on any number of ranks; little is padding where lengths are sorted."""
    configure(job, conversations(40))
    job.config["data"] |= {"eval": job.config["data"]["train"], "eval_batch_size": 5}
    job.write()
    longest = ["data.train.pad_to=longest", "data.eval.pad_to=longest", "train.max_steps=10"]
    padded, shorter = job.train("train.max_steps=10"), job.train(*longest)
    assert losses_of(job, shorter) == pytest.approx(losses_of(job, padded), abs=1e-5)
    assert job.series(shorter.name, "eval/loss")[0][1] == pytest.approx(job.series(padded.name, "eval/loss")[0][1], abs=1e-5)
    sorted_by_length = [*longest, "data.bucket_batches=5", "data.shuffle=true"]
    buckets = [job.train(*sorted_by_length, ranks=ranks) for ranks in (None, 2)]
    assert losses_of(job, buckets[1]) == pytest.approx(losses_of(job, buckets[0]), abs=1e-5)


def test_bits_per_byte_of_answers(job):
    """Special tokens, such as the end of a turn, cost bits, but have no bytes."""
    chats = conversations(16)
    tokenizer = configure(job, chats, pack=True)
    job.config["data"] |= {"eval": job.config["data"]["train"], "eval_batch_size": 2}
    job.write()
    run_dir = job.train("train.max_steps=1", "train.eval_metrics=[bits_per_byte]", ranks=2)
    targets = [[target for target in targets if target != -100] for _, targets in encoded(tokenizer, chats)]
    size = sum(len(tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False).encode()) for tokens in targets)
    (loss,), (bits,) = ([value for _, value in job.series(run_dir.name, name)] for name in ("eval/loss", "eval/bits_per_byte"))
    assert bits == pytest.approx(loss / math.log(2) * sum(map(len, targets)) / size, rel=1e-12)


def test_resume_in_mid_epoch_on_other_ranks(job):
    """The samples of a step depend on neither, so only the order of sums differs between one rank and two."""
    configure(job, conversations(160), pack=True)
    job.config["data"].update(shuffle=True, workers=2)
    job.write()
    whole = job.train("train.max_steps=9")
    stopped = job.train("train.max_steps=4")
    again = job.run("train.max_steps=9", options=["--resume", stopped.name])
    assert again.code == 0, again.err
    assert_same_bits(last_weights(whole), last_weights(stopped))
    assert losses_of(job, stopped) == losses_of(job, whole)
    two = job.train("train.max_steps=9", ranks=2)
    assert losses_of(job, two) == pytest.approx(losses_of(job, whole), abs=1e-5)


def test_a_mixture_has_exact_shares(job):
    """Three samples of one file for one of the other, in a fixed order; packed windows of both."""
    first, second = conversations(48), conversations(24, seed=6)
    tokenizer = configure(job, first)
    write_records(job.directory / "second.jsonl", second)
    parts = [{**job.config["data"]["train"]}, {**job.config["data"]["train"], "path": str(job.directory / "second.jsonl")}]
    job.config["data"]["train"] = {
        "name": "mixture",
        "samples": 32,
        "parts": [{"weight": 0.75, "data": parts[0]}, {"weight": 0.25, "data": parts[1]}],
    }
    job.write()
    rows = encoded(tokenizer, first) + encoded(tokenizer, second)
    numbers = ([j * 48 // 24 for j in range(24)], [48 + j * 24 // 8 for j in range(8)])
    used, order = [0, 0], []
    for i in range(32):
        lag = [count * (i + 1) - 32 * done if done < count else -1e9 for count, done in zip((24, 8), used)]
        part = lag.index(max(lag))
        order.append([numbers[part][used[part]]])
        used[part] += 1
    expected = train_in_python(job.directory / "hf", tensors(rows, order), steps=8)
    assert losses_of(job, job.train("train.max_steps=8")) == pytest.approx(expected, abs=1e-4)
    job.config["data"]["train"]["parts"][1]["data"]["length"] = LENGTH + 1
    job.write()
    text = f"dataset mixture: the parts have different fields: parts[0] has tokens Long [{LENGTH}], targets Long [{LENGTH}]; parts[1]"
    ended = job.run()
    assert ended.code == 78 and text in ended.err, ended.err


def test_truncated_and_skipped_conversations_are_reported(job):
    configure(job, conversations(16), max_bad_samples=2)
    file = job.directory / "chats.jsonl"
    write_records(file, conversations(16))
    file.write_text('{"messages": []}\n' + file.read_text() + '{"messages": [{"role": "user", "content": "Hi"}]}\n')
    ended = job.run("train.max_steps=1", f"data.train.path={file}")
    assert ended.code == 0, ended.err
    messages = ended.out + ended.err
    assert "1 of 16 conversations are longer than 48 tokens and truncated" in messages
    assert "chats.jsonl: 2 records that cannot be used are skipped; the first: " in messages
    assert "chats.jsonl: line 1: 'messages' is not a list of messages" in messages


GOOD = '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}'


@pytest.mark.parametrize(
    "line, text",
    [
        ("{", "line 2: not one JSON object per line"),
        ('{"messages": 5}', "line 2: 'messages' is not a list of messages"),
        ('{"a": 1}', "line 2: the record has no conversation: it has a; valid are messages, conversations"),
        (GOOD.replace('"assistant"', '"user"'), "line 2: it has no answer to learn: no message has the role 'assistant'"),
        (GOOD.replace("Hi", "Hi " * 60), "line 2: its answer begins after the first 48 tokens, which is the length"),
        (GOOD.replace('"Ho"', "7"), "chat_template.jinja: line 5: int + str is not possible"),
    ],
)
def test_bad_records_are_one_line(job, line, text):
    configure(job, conversations(8))
    file = job.directory / "chats.jsonl"
    file.write_text(f"{GOOD}\n{line}\n")
    refuse(job, [f"data.train.path={file}"], ["chats.jsonl: ", text], None)


def break_tokenizer(directory, what):
    file = directory / "tokenizer_config.json"
    config = json.loads(file.read_text())
    (directory / "chat_template.jinja").unlink(missing_ok=True)
    if what == "no config":
        return file.unlink()
    if what == "no tokenizer":
        (directory / "tokenizer.json").unlink()
    config["chat_template"] = {
        "syntax": "a\n{% if %}",
        "date": "{{ strftime_now('%Y') }}",
        "number": 5,
        "no tokenizer": chat_templates.CHATML,
    }.get(what)
    file.write_text(json.dumps(config))


@pytest.mark.parametrize(
    "what, text",
    [
        ("no config", "has no tokenizer_config.json: expected a directory with tokenizer.json and tokenizer_config.json"),
        ("no tokenizer", "tokenizer.json: no such file"),
        ("no template", "tokenizer_config.json: it has no 'chat_template', and there is no chat_template.jinja"),
        ("syntax", "tokenizer_config.json: chat_template: line 2: expected a value, got the end of the tag"),
        ("number", "tokenizer_config.json: 'chat_template' is neither a text nor a list of named ones"),
        ("date", "its chat template contains the date; set date: YYYY-MM-DD"),
    ],
)
def test_bad_tokenizers_are_one_line(job, what, text):
    configure(job, conversations(8))
    break_tokenizer(job.directory / "hf", what)
    refuse(job, [], [text], None)


@pytest.mark.parametrize(
    "override, text",
    [
        ("data.train.date=tomorrow", "dataset chat: date is 'tomorrow', expected YYYY-MM-DD"),
        ("data.train.template=tool_use", "the tokenizer has one chat template, without a name; leave out template: tool_use"),
        ("data.train.pad_to=longest", "chats.jsonl.gz: pad_to: longest has no effect with pack: all samples have the same length"),
        ("data.train.limit=9", "limit 9 is larger than the number of conversations, 8"),
        ("model={name: gpt, vocab_size: 400, context: 48}", "model gpt does not separate documents; use model hf or decoder, or set pack: false"),
    ],
)
def test_bad_settings_are_one_line(job, override, text):
    configure(job, conversations(8), pack="gpt" in override or "pad_to" in override)
    refuse(job, [override, "data.batch_size=2"], [text], None)
