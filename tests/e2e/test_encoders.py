"""Model hf_encoder: BERT, RoBERTa and ModernBERT with heads, compared with transformers."""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from refusals import refuse
from safetensors_file import last_weights

torch.set_num_threads(1)  # these models are small
LENGTH, SAMPLES, VOCABULARY, LABELS = 20, 24, 89, 3
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "cls_token_id": 0,
    "sep_token_id": 2,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
FAMILIES = {
    "bert": lambda **more: transformers.BertConfig(**{**SIZES, **NO_DROPOUT, **more}),
    "roberta": lambda **more: transformers.RobertaConfig(**{**SIZES, **NO_DROPOUT, **more}),
    "modernbert": lambda **more: transformers.ModernBertConfig(**{**SIZES, "local_attention": 8, **more}),
    "modernbert with means": lambda **more: transformers.ModernBertConfig(
        **{**SIZES, "local_attention": 8, "classifier_pooling": "mean", "norm_bias": True, "classifier_bias": True, "mlp_bias": True, **more}
    ),
}
CLASSES = {
    "classification": transformers.AutoModelForSequenceClassification,
    "tokens": transformers.AutoModelForTokenClassification,
    "mlm": transformers.AutoModelForMaskedLM,
}


def make(directory, family, task, **more):
    """A model with random weights, of norms and biases too, saved in `directory`."""
    torch.manual_seed(3)
    config = FAMILIES[family](num_labels=LABELS, **more)
    model = CLASSES[task].from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(directory)
    return CLASSES[task].from_pretrained(directory, attn_implementation="eager").eval()


def samples(task, kind="single"):
    """Tokens of different lengths with padding, and labels."""
    random = np.random.default_rng(1)
    tokens = random.integers(3, VOCABULARY, (SAMPLES, LENGTH))
    lengths = random.integers(4, LENGTH + 1, SAMPLES)
    mask = np.arange(LENGTH) < lengths[:, None]
    tokens[~mask] = 1
    fields = {"tokens": torch.tensor(tokens), "attention_mask": torch.tensor(mask.astype(np.int64))}
    if task == "classification":
        fields["label"] = {
            "single": torch.tensor(tokens[:, 0] % LABELS),
            "multi": torch.tensor((tokens[:, :LABELS] % 2).astype(np.float32)),
            "values": torch.tensor((tokens[:, :LABELS] / VOCABULARY).astype(np.float32)),
        }[kind]
    else:
        targets = tokens % LABELS if task == "tokens" else tokens.copy()
        targets[~mask | (random.random(tokens.shape) < 0.5)] = -100
        fields["targets"] = torch.tensor(targets)
    return fields


def configure(job, directory, fields, **train):
    file = job.directory / "samples.safetensors"
    save_file({name: value.contiguous() for name, value in fields.items()}, file)
    data = {"name": "safetensors", "path": str(file)}
    job.config.update(
        model={"name": "hf_encoder", "path": str(directory)},
        data={"train": data, "eval": data, "batch_size": 8, "eval_batch_size": 8, "shuffle": False},
        optimizer={"name": "adamw", "lr": 1e-3, "weight_decay": 0.1},
        train={"epochs": 100, **train},
    )
    job.write()


def logits_here(job, *overrides):
    out = job.directory / "logits.safetensors"
    ended = job.run(*overrides, options=["--predict", out])
    assert (ended.code, ended.err) == (0, ""), ended.err
    return load_file(out)["predictions"]


def logits_of(model, fields):
    with torch.no_grad():
        logits = model(fields["tokens"], attention_mask=fields["attention_mask"]).logits
    return logits


def difference(ours, expected, fields):
    """The largest, without padding."""
    if ours.dim() == 3:
        seen = fields["attention_mask"].bool()
        ours, expected = ours[seen], expected[seen]
    assert expected.std() > 0.1
    return (ours - expected).abs().max()


@pytest.mark.parametrize("task", CLASSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(job, family, task):
    model, fields = make(job.directory / "hf", family, task), samples(task)
    configure(job, job.directory / "hf", fields)
    assert difference(logits_here(job), logits_of(model, fields), fields) < 1e-5


def test_token_types_and_samples_without_padding(job):
    model, fields = make(job.directory / "hf", "bert", "classification"), samples("classification")
    types = (torch.arange(LENGTH) > 5).long().expand(SAMPLES, -1)
    configure(job, job.directory / "hf", {"tokens": fields["tokens"], "token_types": types, "label": fields["label"]})
    with torch.no_grad():
        expected = model(fields["tokens"], attention_mask=torch.ones_like(types), token_type_ids=types).logits
    assert (logits_here(job) - expected).abs().max() < 1e-5


def loss_of(model, fields, rows, task, kind):
    logits = model(fields["tokens"][rows], attention_mask=fields["attention_mask"][rows]).logits
    if task != "classification":
        return F.cross_entropy(logits.flatten(0, 1), fields["targets"][rows].flatten())
    losses = {"single": F.cross_entropy, "multi": F.binary_cross_entropy_with_logits, "values": F.mse_loss}
    return losses[kind](logits, fields["label"][rows])


def train_in_python(directory, fields, task, kind, steps):
    model = CLASSES[task].from_pretrained(directory, attn_implementation="eager").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    losses = []
    for step in range(steps):
        begin = 8 * step % SAMPLES
        loss = loss_of(model, fields, slice(begin, begin + 8), task, kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.eval()


PROBLEMS = {"single": "single_label_classification", "multi": "multi_label_classification", "values": "regression"}


@pytest.mark.parametrize(
    "family, task, kind, ranks",
    [
        ("bert", "classification", "single", 2),
        ("bert", "mlm", "single", None),
        ("roberta", "classification", "multi", None),
        ("roberta", "tokens", "single", 2),
        ("modernbert", "classification", "values", None),
        ("modernbert", "mlm", "single", 2),
    ],
)
def test_steps_have_the_losses_of_transformers(job, family, task, kind, ranks):
    directory, steps = job.directory / "hf", 50
    more = {"problem_type": PROBLEMS[kind]} if task == "classification" else {}
    make(directory, family, task, **more)
    fields = samples(task, kind)
    configure(job, directory, fields, max_steps=steps, log_every="1 step", eval_every="1000 epochs")
    run_dir = job.train(ranks=ranks)
    expected, model = train_in_python(directory, fields, task, kind, steps)
    losses = [value for _, value in job.series(run_dir.name, "train/loss")]
    assert losses == pytest.approx(expected, abs=1e-4)
    assert expected[-1] < 0.9 * expected[0]
    # A checkpoint is a directory for from_pretrained(), with the weights of the last step.
    exported = last_weights(run_dir).parent
    read = CLASSES[task].from_pretrained(exported, attn_implementation="eager").eval()
    job.config["model"]["path"] = str(exported)
    job.write()
    assert difference(logits_here(job), logits_of(read, fields), fields) < 1e-5
    assert difference(logits_of(read, fields), logits_of(model, fields), fields) < 1e-2
    if task == "classification":
        assert read.config.problem_type == PROBLEMS[kind]


def test_a_head_for_another_task(job):
    """From a model for masked tokens: the encoder is kept, the head begins with random values, and its labels are saved."""
    directory, fields = job.directory / "hf", samples("classification")
    make(directory, "bert", "mlm")
    configure(job, directory, fields, max_steps=1)
    job.config["model"].update(task="classification", labels=["bad", "fair", "good"])
    job.write()
    ended = job.run("optimizer.lr=1e-30", "optimizer.weight_decay=0")
    assert ended.code == 0, ended.err
    fresh = "bert.pooler.dense.bias, bert.pooler.dense.weight, classifier.bias, classifier.weight"
    assert f"has no weights for this task: {fresh} begin with random values" in ended.out + ended.err
    run_dir = job.only_run()
    weights, before = load_file(last_weights(run_dir)), load_file(directory / "model.safetensors")
    assert all(torch.equal(weights[name], before[name]) for name in weights if name in before)
    assert set(weights) - set(before) == set(fresh.split(", "))
    assert 0 < weights["classifier.weight"].std() < 0.05
    model = CLASSES["classification"].from_pretrained(last_weights(run_dir).parent).eval()
    assert model.config.id2label == {0: "bad", 1: "fair", 2: "good"} and model.config.label2id["fair"] == 1
    job.config["model"] = {"name": "hf_encoder", "path": str(last_weights(run_dir).parent)}
    job.write()
    assert (logits_here(job) - logits_of(model, fields)).abs().max() < 1e-5  # small: the head is fresh


def test_old_names_and_models_without_a_head(job):
    directory, fields = job.directory / "hf", samples("tokens")
    model = make(directory, "bert", "tokens")
    file = directory / "model.safetensors"
    tensors = load_file(file)
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value for name, value in tensors.items()}
    old["bert.embeddings.position_ids"] = torch.arange(40).unsqueeze(0)
    old["cls.seq_relationship.weight"] = torch.zeros(2, 32)
    configure(job, directory, fields)
    save_file(old, file)
    assert difference(logits_here(job), logits_of(model, fields), fields) < 1e-5
    base = {name.removeprefix("bert."): value for name, value in tensors.items() if name.startswith("bert.")}
    save_file(base, file)
    configure(job, directory, fields, max_steps=1)
    run_dir = job.train("optimizer.lr=1e-30", "optimizer.weight_decay=0")
    weights = load_file(last_weights(run_dir))
    assert all(torch.equal(weights["bert." + name], value) for name, value in base.items())


def change(directory, **values):
    file = directory / "config.json"
    config = json.loads(file.read_text())
    config.update(values)
    file.write_text(json.dumps({name: value for name, value in config.items() if value is not ...}))


@pytest.mark.parametrize(
    "values, text",
    [
        ({"model_type": "deberta"}, "model_type 'deberta' is not an encoder that is supported; these are: bert, roberta, modernbert"),
        ({"architectures": ["BertModel"]}, "names no head that is supported; set model.task to classification, tokens or mlm"),
        ({"problem_type": "ranking"}, "'problem_type' is 'ranking'; single_label_classification, multi_label_classification and regression"),
        ({"num_hidden_layers": 2}, "has 'bert.encoder.layer.2.attention.output.LayerNorm.bias', which the model does not have"),
        ({"num_hidden_layers": 4}, "has no 'bert.encoder.layer.3"),
        ({"intermediate_size": 40}, "is [48,32] in the file and [40,32] in the model"),
        ({"num_attention_heads": 5}, "5 heads do not divide a width of 32"),
        ({"id2label": {"0": "a", "2": "b"}}, "'id2label' has no name for label 1 of 2"),
        ({"hidden_dropout_prob": 1.5}, "'hidden_dropout_prob' must be at least 0 and below 1"),
    ],
)
def test_models_that_do_not_fit_are_rejected(job, values, text):
    make(job.directory / "hf", "bert", "classification")
    configure(job, job.directory / "hf", samples("classification"))
    change(job.directory / "hf", **values)
    refuse(job, [], [text], None)


@pytest.mark.parametrize(
    "overrides, text",
    [
        (["model.task=mlm", "model.labels=3"], "labels has no effect with task: mlm"),
        (["model.task=tokens", "model.loss=focal"], "loss has no effect unless task is classification"),
        (["model.labels=[a, a]"], "or a list of different names"),
        (["model.labels=2"], "the dataset has label 2, but the model has 2 classes"),
        (["model.loss={name: cross_entropy, class_weights: [1, 2]}"], "loss.class_weights has 2 values for 3 classes"),
        (["model.loss={name: focal, label_smoothing: 0.1}"], "name: cross_entropy"),
        (["model.loss=hinge"], "cross_entropy, focal, binary, mse, l1, huber"),
        (["model.loss=binary"], "a label of 0 or 1 for each class"),
    ],
)
def test_settings_that_do_not_fit_are_rejected(job, overrides, text):
    make(job.directory / "hf", "bert", "classification")
    configure(job, job.directory / "hf", samples("classification"))
    refuse(job, overrides, [text], None)


def test_samples_that_do_not_fit_are_rejected(job):
    directory, fields = job.directory / "hf", samples("tokens")
    make(directory, "roberta", "tokens")
    configure(job, directory, {**fields, "tokens": fields["tokens"].clamp_min(VOCABULARY)})
    refuse(job, [], [f"has token {VOCABULARY}", f"tokens 0 to {VOCABULARY - 1} are valid"], None)
    configure(job, directory, {name: value.repeat(1, 2) for name, value in fields.items()})
    refuse(job, [], ["it takes up to 38 tokens, but 'tokens' is [1, 40]"], None)
    configure(job, directory, {**fields, "targets": fields["targets"].clamp_min(LABELS)})
    refuse(job, [], [f"'targets' has label {LABELS}, but there are {LABELS}; set model.labels"], None)
    configure(job, directory, {**fields, "attention_mask": fields["attention_mask"][:, 1:]})
    refuse(job, [], ["'attention_mask' is [1, 19], but 'tokens' is [1, 20]"], None)
