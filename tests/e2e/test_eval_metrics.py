"""train.eval_metrics: equal to scikit-learn, and the same on any number of ranks."""

import json

import numpy
import pytest
import torch
from safetensors.numpy import load_file
from sklearn import metrics
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from conftest import MNIST
from refusals import refuse

# 301 samples in batches of 50: seven batches, not divisible by 2 or 3 ranks.
EVALUATION = ["data.eval.limit=301", "data.eval_batch_size=50"]
STEPS = ["train.max_steps=3"]


def evaluated(job, names, *overrides, ranks=1):
    """{metric: value} of a run with train.eval_metrics, and the run's directory."""
    run_dir = job.train(*STEPS, *overrides, f"train.eval_metrics=[{', '.join(names)}]", ranks=ranks)
    entry = next(entry for entry in job.list() if entry["id"] == run_dir.name)
    return {name.removeprefix("eval/"): v for name, v in entry["summary"].items() if name.startswith("eval/")}, run_dir


def predictions(job, run_dir, *overrides):
    file = job.directory / "predictions.safetensors"
    ended = job.run(*overrides, options=["--predict", file, "--resume", run_dir.name])
    assert ended.code == 0, ended.err
    return torch.from_numpy(load_file(file)["predictions"])


def test_classes(job):
    names = ["accuracy", "top_3", "precision", "recall", "f1", "precision_micro", "f1_per_class", "roc_auc", "roc_auc_per_class",
             "average_precision"]
    ours, run_dir = evaluated(job, names, *EVALUATION)
    logits = predictions(job, run_dir, *EVALUATION)
    label = numpy.frombuffer((MNIST / "t10k-labels-idx1-ubyte").read_bytes()[8 : 8 + 301], numpy.uint8)
    scores, predicted = torch.softmax(logits, 1).numpy(), logits.argmax(1).numpy()
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(label, predicted, average="macro", zero_division=0)
    one_hot = numpy.eye(10)[label]
    expected = {
        "accuracy": metrics.accuracy_score(label, predicted),
        "top_3": metrics.top_k_accuracy_score(label, scores, k=3),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "precision_micro": metrics.precision_score(label, predicted, average="micro"),
        "roc_auc": metrics.roc_auc_score(label, scores.astype(numpy.float64) / scores.astype(numpy.float64).sum(1, keepdims=True), multi_class="ovr"),
        "average_precision": metrics.average_precision_score(one_hot, scores, average="macro"),
    }
    for number, value in enumerate(metrics.f1_score(label, predicted, average=None, zero_division=0)):
        expected[f"f1/{number}"] = value
    for number in range(10):
        expected[f"roc_auc/{number}"] = metrics.roc_auc_score(one_hot[:, number], scores[:, number])
    assert ours.pop("loss") > 0
    assert ours == pytest.approx(expected, rel=1e-12)


def test_scores_need_memory_for_the_samples_only(job):
    """Batches of the largest size would need 40 GiB."""
    whole = ["data.eval.limit=301", f"data.eval_batch_size={2**30}"]
    assert evaluated(job, ["roc_auc"], *whole)[0]["roc_auc"] == pytest.approx(evaluated(job, ["roc_auc"], *EVALUATION)[0]["roc_auc"], rel=1e-4)


def write_npz(job, inputs, label, model):
    numpy.savez(job.directory / "data.npz", image=inputs, label=label)
    job.config["data"]["train"] = job.config["data"]["eval"] = {"name": "npy", "path": str(job.directory / "data.npz")}
    job.config["model"] = model
    job.write()


def test_several_classes_per_sample(job):
    random = numpy.random.default_rng(0)
    inputs = random.standard_normal((301, 8)).astype(numpy.float32)
    label = (inputs[:, :4] + random.standard_normal((301, 4)) > 0.3).astype(numpy.float32)
    write_npz(job, inputs, label, {"name": "mlp", "inputs": 8, "hidden": [4], "classes": 4, "loss": "binary"})
    names = ["accuracy", "f1", "f1_micro", "recall_per_class", "roc_auc", "average_precision", "average_precision_per_class"]
    ours, run_dir = evaluated(job, names)
    logits = predictions(job, run_dir).numpy()
    predicted = logits > 0
    expected = {
        "accuracy": metrics.accuracy_score(label, predicted),
        "f1": metrics.f1_score(label, predicted, average="macro", zero_division=0),
        "f1_micro": metrics.f1_score(label, predicted, average="micro", zero_division=0),
        "roc_auc": metrics.roc_auc_score(label, logits),
        "average_precision": metrics.average_precision_score(label, logits),
    }
    for number in range(4):
        expected[f"recall/{number}"] = metrics.recall_score(label[:, number], predicted[:, number], zero_division=0)
        expected[f"average_precision/{number}"] = metrics.average_precision_score(label[:, number], logits[:, number])
    ours.pop("loss")
    assert ours == pytest.approx(expected, rel=1e-12)


def test_values(job):
    random = numpy.random.default_rng(0)
    inputs = random.standard_normal((301, 8)).astype(numpy.float32)
    label = (1e4 + inputs[:, :2] + random.standard_normal((301, 2))).astype(numpy.float32)  # r2 without lost digits
    write_npz(job, inputs, label, {"name": "mlp", "inputs": 8, "hidden": [4], "outputs": 2, "loss": "huber"})
    ours, run_dir = evaluated(job, ["r2", "mae", "rmse"])
    values = predictions(job, run_dir).numpy().astype(numpy.float64)
    assert ours["r2"] == pytest.approx(metrics.r2_score(label.astype(numpy.float64), values), rel=1e-9)
    assert ours["rmse"] == pytest.approx(metrics.root_mean_squared_error(label.astype(numpy.float64), values), rel=1e-12)
    assert ours["mae"] == pytest.approx(metrics.mean_absolute_error(label, values), rel=1e-6)  # the model's own, in float32


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_same_bits_on_three_ranks(job, kind):
    names = ["f1", "top_3", "roc_auc", "average_precision"]
    if kind == "values":
        random = numpy.random.default_rng(0)
        inputs, label = random.standard_normal((301, 8)).astype(numpy.float32), random.standard_normal(301).astype(numpy.float32)
        write_npz(job, inputs, label, {"name": "mlp", "inputs": 8, "hidden": [4], "loss": "mse"})
        names = ["r2", "rmse"]
    same = ["data.eval_batch_size=50", "optimizer={name: sgd, lr: 1e-30}"]
    alone, _ = evaluated(job, names, *same)
    assert set(names) < set(alone)
    assert evaluated(job, names, *same, ranks=3)[0] == alone


def test_perplexity_of_a_language_model(job):
    numpy.arange(4000, dtype=numpy.uint16).__mod__(7).tofile(job.directory / "tokens.bin")
    data = {"name": "tokens", "path": str(job.directory / "tokens.bin"), "length": 16, "limit": 40}
    job.config["data"] = {"train": data, "eval": data, "batch_size": 4}
    job.config["model"] = {"name": "gpt", "vocab_size": 8, "context": 16, "layers": 1, "heads": 1, "width": 8}
    job.write()
    ours, _ = evaluated(job, ["perplexity", "top_3"])
    assert ours["perplexity"] == pytest.approx(numpy.exp(ours["loss"]), rel=1e-12)
    assert ours["accuracy"] <= ours["top_3"] <= 1


def test_bits_of_a_model_of_bytes(job):
    """The ends of documents cost bits too, but are no bytes."""
    tokens = numpy.arange(4000) % 90
    tokens[::100] = 256
    tokens.astype(numpy.uint16).tofile(job.directory / "tokens.bin")
    data = {"name": "tokens", "path": str(job.directory / "tokens.bin"), "length": 16, "limit": 40}
    job.config["data"] = {"train": data, "eval": data, "batch_size": 4}
    job.config["model"] = {"name": "gpt", "context": 16, "layers": 1, "heads": 1, "width": 8}
    job.write()
    ours, _ = evaluated(job, ["bits_per_byte"])
    targets = tokens[1 : 40 * 16 + 1]
    expected = ours["loss"] / numpy.log(2) * len(targets) / (targets < 256).sum()
    assert ours["bits_per_byte"] == pytest.approx(expected, rel=1e-12)


TEXT = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich, 今日は良い天気. Ein naïver Café-Gast zahlt 5 €! " * 8 + "a b " * 40
WINDOW = 16


def trained(tokenizer, trainer):
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return trained(tokenizer, trainers.BpeTrainer(vocab_size=260, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))


def byte_fallback():
    """Of characters, with bytes for rare ones, as that of Llama 2."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    # Without initial_alphabet, ties between rare characters would decide which of them become bytes.
    alphabet = sorted({c for c in TEXT if c.isascii() and c != " "} | {"\u2581"})
    trained(tokenizer, trainers.BpeTrainer(vocab_size=100, limit_alphabet=len(alphabet), initial_alphabet=alphabet, show_progress=False))
    file = json.loads(tokenizer.to_str())
    vocabulary = file["model"]["vocab"]
    file["model"] |= {"byte_fallback": True, "vocab": vocabulary | {f"<0x{byte:02X}>": len(vocabulary) + byte for byte in range(256)}}
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return trained(tokenizer, trainers.UnigramTrainer(vocab_size=150, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False))


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return trained(tokenizer, trainers.WordPieceTrainer(vocab_size=150, special_tokens=["[UNK]"], show_progress=False))


def write_text(job, make):
    """TEXT as tokens, for training and evaluation of a gpt. Returns the tokenizer and the tokens."""
    tokenizer = make()
    tokenizer.save(str(job.directory / "tokenizer.json"))
    ids = tokenizer.encode(TEXT).ids
    numpy.array(ids, numpy.uint16).tofile(job.directory / "tokens.bin")
    data = {"name": "tokens", "path": str(job.directory / "tokens.bin"), "length": WINDOW, "tokenizer": str(job.directory)}
    job.config["data"] = {"train": data, "eval": data, "batch_size": 6, "eval_batch_size": 5}
    job.config["model"] = {"name": "gpt", "vocab_size": tokenizer.get_vocab_size(), "context": WINDOW, "layers": 1, "heads": 1, "width": 8}
    job.write()
    return tokenizer, ids


@pytest.mark.parametrize("make", [byte_level, byte_fallback, unigram, word_piece])
def test_bits_per_byte_of_tokens(job, make):
    """Also where a sample ends within a character. The first token has no target."""
    tokenizer, ids = write_text(job, make)
    targets = (len(ids) - 1) // WINDOW * WINDOW
    bytes_of = lambda tokens: len(tokenizer.decode(tokens).encode())  # noqa: E731
    bytes_of_targets = bytes_of(ids[: targets + 1]) - bytes_of(ids[:1])
    if make in (byte_level, byte_fallback):
        cut = [tokenizer.decode(ids[begin : begin + WINDOW]) for begin in range(1, targets, WINDOW)]
        assert "\ufffd" in "".join(cut)  # the comparison includes such samples
        assert tokenizer.decode(ids) == TEXT
    same_weights = "optimizer={name: sgd, lr: 1e-30}"
    ours, _ = evaluated(job, ["bits_per_byte"], same_weights)
    assert ours["bits_per_byte"] == pytest.approx(ours["loss"] / numpy.log(2) * targets / bytes_of_targets, rel=1e-12)
    assert evaluated(job, ["bits_per_byte"], same_weights, ranks=3)[0] == ours


def test_bits_per_byte_of_a_part_of_a_mixture(job):
    tokenizer, ids = write_text(job, unigram)
    part = {"weight": 1, "data": job.config["data"]["train"]}
    job.config["data"] = {"train": {"name": "mixture", "parts": [part, part]}, "split": {"eval": 0.4}, "batch_size": 4}
    job.write()
    windows = (len(ids) - 1) // WINDOW
    halves = torch.utils.data.random_split(range(2 * windows), [0.6, 0.4], torch.Generator().manual_seed(0))
    parts = [ids[sample // 2 * WINDOW : sample // 2 * WINDOW + WINDOW + 1] for sample in halves[1].indices]  # the parts alternate
    bytes_of = lambda tokens: len(tokenizer.decode(tokens).encode())  # noqa: E731
    expected = sum(bytes_of(tokens) - bytes_of(tokens[:1]) for tokens in parts)
    ours, _ = evaluated(job, ["bits_per_byte"])
    assert ours["bits_per_byte"] == pytest.approx(ours["loss"] / numpy.log(2) * len(parts) * WINDOW / expected, rel=1e-12)


def test_bits_per_byte_need_a_tokenizer(job):
    write_text(job, unigram)
    refuse(job, ["data.eval.tokenizer=null", "train.eval_metrics=[bits_per_byte]"], ["bits_per_byte", "data.eval.tokenizer"], ranks=None)
    refuse(job, [f"data.train.tokenizer={job.directory}/none"], ["none: no such file; expected the tokenizer.json"], ranks=None)
    numpy.full(400, 160, numpy.uint16).tofile(job.directory / "tokens.bin")
    refuse(job, [], ["token 160", "outside the vocabulary of ", "was it created with another tokenizer?"], ranks=None)


@pytest.mark.parametrize(
    "overrides, texts",
    [
        (["train.eval_metrics=[acuracy]"], ["train.eval_metrics[0]", "acuracy", "did you mean 'accuracy'?"]),
        (["train.eval_metrics=[top_0]"], ["train.eval_metrics[0]", "top_0"]),
        (["train.eval_metrics=[top_10]"], ["train.eval_metrics: top_10 is always 1: the model has 10 classes"]),
        (["train.eval_metrics=[r2]"], ["train.eval_metrics: r2 needs a model for regression"]),
        (["train.eval_metrics=[bits_per_byte]"], ["train.eval_metrics: bits_per_byte needs a language model, and data that know their bytes"]),
        (["train.eval_metrics=[perplexity]"], ["train.eval_metrics: perplexity needs a language model"]),
    ],
)
def test_metrics_that_cannot_be_computed_are_refused(job, overrides, texts):
    refuse(job, overrides, texts, ranks=None)


def test_metrics_without_an_evaluation_set_are_refused(job):
    del job.config["data"]["eval"], job.config["data"]["eval_batch_size"]
    job.write()
    refuse(job, ["train.eval_metrics=[f1]"], ["train.eval_metrics: has no effect without data.eval or data.split.eval"], ranks=None)


def test_early_stop_watches_them(job):
    run_dir = job.train("train.max_steps=3", "train.eval_metrics=[f1]", "train.early_stop={patience: 1, metric: f1, mode: max}")
    assert run_dir
