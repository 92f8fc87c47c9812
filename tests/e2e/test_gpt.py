"""A GPT on text: the recipe from start to end, means over tokens, and weights of Hugging Face's GPT-2."""

import json
import math
import sys

import numpy as np
import pytest
import torch
import yaml
from lockstep import models
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from processes import BIN, SOURCE, run
from refusals import ALONE_AND_LAUNCHED, refuse
from safetensors_file import last_weights

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import tokens  # noqa: E402

BIBLE = SOURCE / ".data" / "bible" / "kjv.txt"
SIZES = {"vocab_size": 61, "context": 16, "layers": 2, "heads": 2, "width": 32}


def values(job, metric):
    (entry,) = job.list()
    return [value for _, value in job.series(entry["id"], metric)]


def test_the_recipe_learns_the_bible(job):
    """As described in its comments and docs/training.md: tokenize, train, and the loss falls."""
    folder = job.directory / "text"
    command = [BIN / "lockstep-data", "tokenize", "--bytes", "--eval", 0.1, "--out", folder, BIBLE]
    ended = run(command, job.directory)
    assert (ended.code, ended.err) == (0, "")
    assert "257 tokens in the vocabulary" in ended.out
    job.config = yaml.safe_load((SOURCE / "configs" / "gpt_bible.yaml").read_text())
    job.config["run"]["dir"] = str(job.runs)
    for part in ("train", "eval"):
        job.config["data"][part]["path"] = str(folder / part)
    job.write()
    job.train("train.max_steps=60", "train.log_every=20 steps", "data.eval.limit=200", ranks=2)
    loss = values(job, "train/loss")
    assert 3 < loss[0] < math.log(257)
    assert values(job, "eval/loss")[-1] < 3
    samples = values(job, "train/samples_per_s")
    assert values(job, "train/tokens_per_s") == pytest.approx([64 * speed for speed in samples])


def test_the_recipe_of_bytes_measures_bits(job):
    """As described in its comments, with fewer steps and less held-out text."""
    folder = job.directory / "text"
    ended = run([BIN / "lockstep-data", "tokenize", "--bytes", "--eval", 0.1, "--out", folder, BIBLE], job.directory)
    assert (ended.code, ended.err) == (0, "")
    job.config = yaml.safe_load((SOURCE / "configs" / "bible_bytes.yaml").read_text())
    job.config["run"]["dir"] = str(job.runs)
    for part in ("train", "eval"):
        job.config["data"][part]["path"] = str(folder / part)
    job.write()
    job.train("train.max_steps=20", "schedule.warmup_steps=2", "train.log_every=5 steps", "data.eval.limit=100", "train.samples.max_tokens=5")
    (bits,) = values(job, "eval/bits_per_byte")
    assert bits == pytest.approx(values(job, "eval/loss")[-1] / math.log(2))
    assert bits < 5.5  # 8 at the beginning


def test_the_recipe_for_gpus_has_gpt2s_124_million_parameters(job):
    """And trains, with smaller layers and a few tokens, on this CPU."""
    job.config = yaml.safe_load((SOURCE / "configs" / "gpt2_124m.yaml").read_text())
    sizes = {name: value for name, value in job.config["model"].items() if name != "name"}
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in models.build("gpt", 0, **sizes).parameters()) == 124_439_808
    text = job.directory / "text.bin"
    tokens.write_tokens(text, np.random.default_rng(0).integers(0, 50257, 40 * 32 + 1))
    job.config["run"]["dir"] = str(job.runs)
    for part in ("train", "eval"):
        job.config["data"][part].update(path=str(text), length=32)
    job.config["distributed"] = {"device": "cpu"}
    job.write()
    smaller = ["model.layers=1", "model.width=48", "data.per_rank_batch_size=2", "data.eval.limit=2"]
    run_dir = job.train(*smaller, "train.max_steps=1", "train.log_every=1 step", "schedule.warmup_steps=0", ranks=2)
    assert values(job, "train/loss") == [pytest.approx(math.log(50257), abs=0.5)]
    assert all(tensor.dtype == torch.float32 for tensor in load_file(last_weights(run_dir)).values())


def make_documents(path, count, separator=0):
    """`count` documents of 1 to 16 tokens and a separator."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, SIZES["context"] + 1, count)
    documents = [[*rng.integers(1, SIZES["vocab_size"], length), separator] for length in lengths]
    tokens.write_tokens(path, np.concatenate(documents))
    return tokens.load_documents(path, SIZES["context"], separator)


def configure(job, text, **train):
    data = {"name": "tokens", "path": str(text), "length": SIZES["context"], "separator": 0}
    job.config.update(
        model={"name": "gpt", **SIZES},
        data={"train": data, "eval": data, "batch_size": 12, "eval_batch_size": 7, "shuffle": False},
        optimizer={"name": "sgd", "lr": 1.0},
        train={"epochs": 1, **train},
    )
    job.write()


def train_in_python(batch, samples_per_step, mean):
    """SGD on the loss `mean(losses [N, T], counts [N, T])` of each step's samples, in file order."""
    model = models.build("gpt", 7, **SIZES)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for inputs, targets in zip(*(part.split(samples_per_step) for part in batch)):
        losses = F.cross_entropy(model(inputs).transpose(1, 2), targets, reduction="none")
        optimizer.zero_grad()
        mean(losses, targets != -100).backward()
        optimizer.step()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def distance(ours, theirs):
    return max((ours[name] - theirs[name]).abs().max().item() for name in theirs)


@pytest.mark.parametrize(
    "ranks, accumulate, backend",
    [(None, 1, "auto"), (1, 3, "auto"), (2, 1, "auto"), (3, 1, "gloo"), (2, 3, "gloo")],
)
def test_loss_is_the_mean_over_all_tokens_of_a_step(job, ranks, accumulate, backend):
    """Documents differ in length, and so does the number of tokens per rank and batch; each token has equal weight."""
    batch = make_documents(job.directory / "text.bin", 72)
    configure(job, job.directory / "text.bin", accumulate=accumulate, log_every="1 epoch")
    run_dir = job.train(f"distributed.backend={backend}", ranks=ranks)
    ours = load_file(last_weights(run_dir))
    steps = 12 * accumulate
    expected = train_in_python(batch, steps, lambda loss, counts: loss.sum() / counts.sum())
    by_sample = train_in_python(
        batch, steps, lambda loss, counts: (loss.sum(1) / counts.sum(1)).mean()
    )
    assert distance(ours, expected) < 1e-5
    assert distance(by_sample, expected) > 1e-3  # the comparison can fail

    model = models.build("gpt", 0, **SIZES)
    model.load_state_dict(ours)
    with torch.no_grad():
        logits = model(batch[0])
    counts = batch[1] != -100
    loss = F.cross_entropy(logits[counts], batch[1][counts]).item()
    accuracy = (logits.argmax(2) == batch[1])[counts].float().mean().item()
    assert values(job, "eval/loss") == pytest.approx([loss], rel=1e-5)
    assert values(job, "eval/accuracy") == pytest.approx([accuracy], rel=1e-6)


def test_documents_in_batches_of_similar_length(job):
    """Shorter batches, the same results; a run that is stopped between them resumes exactly."""
    make_documents(job.directory / "text.bin", 72)
    configure(job, job.directory / "text.bin")
    buckets = ["data.bucket_batches=3", "data.shuffle=true"]
    longest = [*buckets, "data.train.pad_to=longest", "data.eval.pad_to=longest"]
    runs = [job.train(*buckets), job.train(*longest), job.train(*longest, ranks=2)]
    whole = [load_file(last_weights(run_dir)) for run_dir in runs]
    assert distance(whole[1], whole[0]) < 1e-5
    assert distance(whole[2], whole[0]) < 1e-5
    half = job.train(*longest, "train.max_steps=3", ranks=2)
    ended = job.run(*longest, ranks=2, options=["--resume", half.name])
    assert ended.code == 0, ended.err
    resumed = load_file(last_weights(half))
    assert all(torch.equal(whole[2][name], resumed[name]) for name in resumed)


def test_evaluation_weights_tokens_equally_on_any_number_of_ranks(job):
    make_documents(job.directory / "text.bin", 72)
    configure(job, job.directory / "text.bin", max_steps=1)
    results = [job.train("optimizer.lr=1e-30", ranks=ranks) for ranks in (1, 2, 3)]
    losses = [job.series(run_dir.name, "eval/loss") for run_dir in results]
    assert losses[0] == losses[1] == losses[2]


def test_text_without_targets(job):
    """No NaN: no mean is recorded, and no weight changes."""
    shape = (24, SIZES["context"])
    nothing = {"tokens": torch.zeros(shape, dtype=torch.int64), "targets": torch.full(shape, -100)}
    save_file(nothing, job.directory / "nothing.safetensors")
    configure(job, job.directory / "text.bin")
    job.config["data"]["train"] = {"name": "safetensors", "path": str(job.directory / "nothing.safetensors")}
    del job.config["data"]["eval"], job.config["data"]["eval_batch_size"]
    job.write()
    run_dir = job.train(ranks=2)
    untouched = models.build("gpt", 7, **SIZES).state_dict()
    assert all(torch.equal(tensor, untouched[name]) for name, tensor in load_file(last_weights(run_dir)).items())
    assert values(job, "train/loss") == []
    assert values(job, "train/tokens_per_s") == [0]
    ended = job.run("data.eval=" + json.dumps(job.config["data"]["train"]))
    assert ended.code == 78
    assert "data.eval: no valid target in the dataset" in ended.err


def hugging_face_gpt():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(5)
    config = GPT2Config(
        vocab_size=SIZES["vocab_size"],
        n_positions=SIZES["context"],
        n_embd=SIZES["width"],
        n_layer=SIZES["layers"],
        n_head=SIZES["heads"],
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).eval()


def loss_of(model, batch):
    with torch.no_grad():
        return F.cross_entropy(model(batch[0]).logits.flatten(0, 1), batch[1].flatten()).item()


@ALONE_AND_LAUNCHED
def test_hugging_face_weights_round_trip(job, ranks):
    batch = make_documents(job.directory / "text.bin", 72)
    configure(job, job.directory / "text.bin", init_from=str(job.directory / "hf" / "model.safetensors"))
    theirs = hugging_face_gpt()
    theirs.save_pretrained(job.directory / "hf")
    unchanged = job.train("train.max_steps=1", "optimizer.lr=1e-30", ranks=ranks)
    (_, loss), = job.series(unchanged.name, "eval/loss")
    assert loss == pytest.approx(loss_of(theirs, batch), rel=1e-5)
    tuned = job.train("train.max_steps=3", "optimizer.lr=0.1", ranks=ranks)
    missing = theirs.load_state_dict(load_file(last_weights(tuned)), strict=False)
    assert missing.unexpected_keys == []
    assert missing.missing_keys == ["lm_head.weight"]  # the same tensor as transformer.wte.weight
    (_, tuned_loss), = job.series(tuned.name, "eval/loss")
    assert tuned_loss < loss
    assert tuned_loss == pytest.approx(loss_of(theirs, batch), rel=1e-5)


def test_resumed_run_ignores_init_from(job):
    make_documents(job.directory / "text.bin", 72)
    first = job.directory / "first.safetensors"
    configure(job, job.directory / "text.bin", init_from=str(first))
    save_file(dict(models.build("gpt", 3, **SIZES).named_parameters()), first)
    whole = load_file(last_weights(job.train("train.max_steps=4")))
    half = job.train("train.max_steps=2")
    first.unlink()
    ended = job.run("train.max_steps=4", options=["--resume", half.name])
    assert ended.code == 0, ended.err
    resumed = load_file(last_weights(half))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def spoil(weights, how):
    if how == "missing":
        weights["wte.weight"] = weights.pop("transformer.wte.weight")
        return ["has no 'transformer.wte.weight', which the model has", "28 tensors, e.g. "]
    if how == "more":
        weights["lm_head.weight"] = weights["transformer.wte.weight"].clone()
        return ["has 'lm_head.weight', which the model does not have"]
    weights["transformer.wpe.weight"] = torch.zeros(17, 32)
    return ["'transformer.wpe.weight' is [17,32] in the file and [16,32] in the model"]


@ALONE_AND_LAUNCHED
@pytest.mark.parametrize("how", ["missing", "more", "another shape"])
def test_mismatched_weights_are_rejected(job, how, ranks):
    make_documents(job.directory / "text.bin", 72)
    path = job.directory / "first.safetensors"
    weights = {name: p.detach() for name, p in models.build("gpt", 3, **SIZES).named_parameters()}
    texts = spoil(weights, how)
    save_file(weights, path)
    configure(job, job.directory / "text.bin", init_from=str(path))
    refuse(job, [], ["train.init_from: ", str(path), *texts], ranks)


@pytest.mark.parametrize("content", [None, b"", b"\x08\0\0\0\0\0\0\0{}      x"])
def test_files_without_weights_are_rejected(job, content):
    make_documents(job.directory / "text.bin", 72)
    path = job.directory / "first.safetensors"
    if content is not None:
        path.write_bytes(content)
    configure(job, job.directory / "text.bin", init_from=str(path))
    refuse(job, [], ["train.init_from: ", str(path)], None)
