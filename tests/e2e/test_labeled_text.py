"""Dataset labeled_text: tokens, masks and labels as transformers' tokenizer and collators make them."""

import json
import math

import pytest
import tokenizers
import torch
import transformers
from torch.nn import functional as F

from refusals import refuse

torch.set_num_threads(1)
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
TEXTS = [
    "the parcel came late again",
    "it broke after one week",
    "very good, thank you!",
    "the shade is not the one on the picture, and the size is wrong too",
    "late",
    "a good week with a good parcel",
] * 4
LABELS = ["delivery", "quality", "praise", "quality", "delivery", "praise"] * 4
CLASSES = sorted(set(LABELS))
LENGTH = 16


def make_tokenizer(directory):
    """A byte-level BPE with RoBERTa's special tokens, as a directory of transformers."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>", mask_token="<mask>"
    )
    fast.save_pretrained(directory)
    return fast


def make(job, task, labels=len(CLASSES)):
    """The tokenizer and a tiny RoBERTa in one directory."""
    directory = job.directory / "hf"
    tokenizer = make_tokenizer(directory)
    torch.manual_seed(3)
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=40, pad_token_id=1, bos_token_id=0, eos_token_id=2, num_labels=labels,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    classes = {"classification": transformers.AutoModelForSequenceClassification, "tokens": transformers.AutoModelForTokenClassification,
               "mlm": transformers.AutoModelForMaskedLM}
    model = classes[task].from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(directory)
    return tokenizer, classes[task].from_pretrained(directory, attn_implementation="eager")


def write_rows(job, rows):
    (job.directory / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"name": "labeled_text", "path": str(job.directory / "rows.jsonl"), "tokenizer": str(job.directory / "hf"), "length": LENGTH}


def configure(job, data, **train):
    job.config.update(
        model={"name": "hf_encoder", "path": str(job.directory / "hf")},
        data={"train": data, "eval": data, "batch_size": 8, "eval_batch_size": 8, "shuffle": False},
        optimizer={"name": "adamw", "lr": 1e-3, "weight_decay": 0.1},
        train={"epochs": 100, "log_every": "1 step", "eval_every": "1000 epochs", **train},
    )
    job.write()


def encode(tokenizer, texts):
    """Between the special tokens, cut and padded."""
    rows = [[0, *tokenizer(text, add_special_tokens=False)["input_ids"][: LENGTH - 2], 2] for text in texts]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [1] * (longest - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": ids.ne(1).long()}


def train_in_python(model, batches, steps, loss_of):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    losses = []
    for step in range(steps):
        inputs, label = batches[step % len(batches)]
        loss = loss_of(model(**inputs).logits, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def parts(items):
    return [items[i : i + 8] for i in range(0, len(items), 8)]


@pytest.mark.parametrize("pad_to", ["longest", "length"])
def test_classes_are_trained_as_with_transformers(job, pad_to):
    tokenizer, model = make(job, "classification")
    data = write_rows(job, [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS)])
    configure(job, {**data, "pad_to": pad_to}, max_steps=30)
    run_dir = job.train()
    batches = [(encode(tokenizer, texts), torch.tensor([CLASSES.index(label) for label in labels])) for texts, labels in zip(parts(TEXTS), parts(LABELS))]
    expected = train_in_python(model, batches, 30, F.cross_entropy)
    assert [value for _, value in job.series(run_dir.name, "train/loss")] == pytest.approx(expected, abs=1e-4)
    assert json.loads((run_dir / "data.json").read_text())["classes"] == CLASSES


def make_bert(job):
    """A WordPiece tokenizer with BERT's template of pairs, and a tiny BERT."""
    directory = job.directory / "hf"
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(TEXTS, tokenizers.trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False))
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]")
    fast.save_pretrained(directory)
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=len(fast), hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=40, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    model = transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
    model.save_pretrained(directory)
    return fast, model


@pytest.mark.parametrize("file", ["rows.jsonl", "rows.csv"])
def test_pairs_of_texts_are_those_of_transformers(job, file):
    tokenizer, model = make_bert(job)
    pairs = [(text, TEXTS[(i * 5 + 1) % 6]) for i, text in enumerate(TEXTS)]
    labels = [i % 2 for i in range(len(pairs))]
    data = write_rows(job, [{"text": a, "answer": b, "label": label} for (a, b), label in zip(pairs, labels)])
    (job.directory / "rows.csv").write_text("text,answer,label\n" + "".join(f'"{a}","{b}",{label}\n' for (a, b), label in zip(pairs, labels)))
    configure(job, {**data, "path": str(job.directory / file), "text_pair": "answer"}, max_steps=3)
    run_dir = job.train()
    batches = []
    for some, label in zip(parts(pairs), parts(labels)):
        inputs = tokenizer([a for a, _ in some], [b for _, b in some], truncation=True, max_length=LENGTH, padding=True, return_tensors="pt", return_token_type_ids=True)
        assert inputs["token_type_ids"].any()
        batches.append((inputs, torch.tensor(label)))
    assert any(len(tokenizer(a, b)["input_ids"]) > LENGTH for a, b in pairs)
    expected = train_in_python(model, batches, 3, F.cross_entropy)
    assert [value for _, value in job.series(run_dir.name, "train/loss")] == pytest.approx(expected, abs=1e-4)


def test_a_csv_file_and_a_split(job):
    make(job, "classification")
    rows = "".join(f'"{text}",{label}\n' for text, label in zip(TEXTS, LABELS))
    (job.directory / "rows.csv").write_text("body,topic\n" + rows)
    data = {**write_rows(job, []), "path": str(job.directory / "rows.csv"), "text": "body", "label": "topic"}
    configure(job, data, max_steps=40)
    job.config["data"].update(eval=None, split={"eval": 0.25})
    job.write()
    run_dir = job.train(ranks=2)
    losses = [value for _, value in job.series(run_dir.name, "train/loss")]
    assert losses[-1] < 0.5 * losses[0]


def test_classes_of_a_csv_file_may_look_like_numbers(job):
    """Class "2" of ["2", "1"] is number 0, as in a file of JSON Lines."""
    make(job, "classification", 2)
    names = [str(1 + number % 2) for number in range(len(TEXTS))]
    data = {**write_rows(job, [{"text": text, "label": name} for text, name in zip(TEXTS, names)]), "classes": ["2", "1"]}
    (job.directory / "rows.csv").write_text("text,label\n" + "".join(f'"{text}",{name}\n' for text, name in zip(TEXTS, names)))
    losses = []
    for file in ("rows.jsonl", "rows.csv"):
        configure(job, {**data, "path": str(job.directory / file)}, max_steps=3)
        losses.append(job.series(job.train().name, "train/loss"))
    assert losses[0] == losses[1]


def test_several_classes_and_values(job):
    tokenizer, model = make(job, "classification")
    lists = [[label] if i % 3 else CLASSES[:2] for i, label in enumerate(LABELS)]
    data = write_rows(job, [{"text": text, "label": labels} for text, labels in zip(TEXTS, lists)])
    configure(job, {**data, "kind": "classes"}, max_steps=10)
    job.config["model"]["loss"] = "binary"
    job.write()
    run_dir = job.train()
    hot = torch.tensor([[float(name in labels) for name in CLASSES] for labels in lists])
    batches = [(encode(tokenizer, texts), hot[i * 8 : i * 8 + 8]) for i, texts in enumerate(parts(TEXTS))]
    expected = train_in_python(model, batches, 10, F.binary_cross_entropy_with_logits)
    assert [value for _, value in job.series(run_dir.name, "train/loss")] == pytest.approx(expected, abs=1e-4)
    data = write_rows(job, [{"text": text, "label": len(text)} for text in TEXTS])
    configure(job, {**data, "kind": "value"}, max_steps=2)
    job.config["model"].update(labels=1, loss={"name": "huber", "delta": 2})
    job.write()
    job.train()


def test_words_have_their_class_at_their_first_token(job):
    tokenizer, model = make(job, "tokens")
    words = [text.split() for text in TEXTS]
    labels = [[len(word) % 3 for word in row] for row in words]
    data = write_rows(job, [{"text": row, "label": label} for row, label in zip(words, labels)])
    configure(job, {**data, "kind": "words"}, max_steps=10)
    run_dir = job.train()

    def targets_of(row, label):
        targets = [-100]
        for i, word in enumerate(row):
            count = len(tokenizer(word if i == 0 else " " + word, add_special_tokens=False)["input_ids"])
            targets += [label[i]] + [-100] * (count - 1)
        return targets[: LENGTH - 1] + [-100]

    batches = []
    for texts, rows, classes in zip(parts(TEXTS), parts(words), parts(labels)):
        inputs = encode(tokenizer, texts)
        targets = [targets_of(row, label) for row, label in zip(rows, classes)]
        longest = inputs["input_ids"].shape[1]
        batches.append((inputs, torch.tensor([row + [-100] * (longest - len(row)) for row in targets])))
    expected = train_in_python(model, batches, 10, lambda logits, targets: F.cross_entropy(logits.flatten(0, 1), targets.flatten()))
    assert [value for _, value in job.series(run_dir.name, "train/loss")] == pytest.approx(expected, abs=1e-4)


def test_masked_tokens_do_not_depend_on_ranks_and_workers(job):
    make(job, "mlm")
    data = write_rows(job, [{"text": text} for text in TEXTS])
    configure(job, {**data, "kind": "masked", "mask_share": 0.5}, max_steps=12)
    curves = []
    for ranks, workers in ((None, 0), (None, 2), (2, 1)):
        run_dir = job.train(f"data.workers={workers}", ranks=ranks)
        curves.append([value for _, value in job.series(run_dir.name, "train/loss")])
    assert curves[0] == curves[1]
    assert curves[2] == pytest.approx(curves[0], abs=1e-4)
    assert len(set(curves[0])) == 12
    other = job.train("run.seed=8")
    assert job.series(other.name, "train/loss")[0][1] != curves[0][0]


def test_bits_per_byte_of_masked_tokens(job):
    """Where all are masked, their bytes are those of the texts."""
    tokenizer, _ = make(job, "mlm")
    data = write_rows(job, [{"text": text} for text in TEXTS])
    configure(job, {**data, "kind": "masked", "mask_share": 1}, max_steps=1, eval_metrics=["bits_per_byte"])
    run_dir = job.train("data.eval.pad_to=length")
    tokens = [row[: LENGTH - 2] for row in tokenizer(TEXTS, add_special_tokens=False)["input_ids"]]
    size = sum(len(tokenizer.decode(row).encode()) for row in tokens)
    (loss,), (bits,) = ([value for _, value in job.series(run_dir.name, name)] for name in ("eval/loss", "eval/bits_per_byte"))
    assert bits == pytest.approx(loss / math.log(2) * sum(map(len, tokens)) / size, rel=1e-12)
    half = job.train("data.eval.mask_share=0.5")
    assert 0.3 < job.series(half.name, "eval/bits_per_byte")[0][1] / bits < 3


def test_bits_per_byte_of_classes_are_refused(job):
    make(job, "tokens")
    words = write_rows(job, [{"text": text.split(), "label": [0] * len(text.split())} for text in TEXTS])
    configure(job, {**words, "kind": "words", "classes": CLASSES}, max_steps=1, eval_metrics=["bits_per_byte"])
    refuse(job, [], ["train.eval_metrics: bits_per_byte needs a language model, and data that know their bytes"], None)


@pytest.mark.parametrize(
    "rows, more, text",
    [
        (['{"text": "a"}'], {}, "line 1 has no 'label'"),
        (['{"text": "a", "label": "x"}', "[1]"], {}, "line 2 is not a JSON object"),
        (['{"text": 3, "label": "x"}'], {}, "line 1: 'text' is not a string or a list of words"),
        (['{"text": "a", "label": {}}'], {}, "line 1: 'label' is not a name, a number, or a list"),
        (['{"text": "a", "label": ["x"]}'], {}, "line 1: a list of labels needs kind: classes or kind: words"),
        (['{"text": ["a"], "label": ["x", "y"]}'], {"kind": "words"}, "line 1: 2 labels for 1 words"),
        (['{"text": "a", "label": "x"}'], {"classes": ["y"]}, "line 1: class 'x' is not in classes"),
        (['{"text": "a", "label": 1.5}'], {}, "line 1: label 1.5 is not the number of a class"),
        (['{"text": "a", "label": "x"}'], {"kind": "value"}, "line 1: kind: value needs numbers as label"),
        (['{"text": "a", "label": "x"}'], {"tokenizer": "."}, "tokenizer.json: no such file; expected the tokenizer.json of a model"),
        (['{"text": "a", "label": "x"}'], {"mask_share": 0.2}, "kind: masked"),
        ([], {}, "it is empty"),
    ],
)
def test_bad_rows_are_one_line(job, rows, more, text):
    make(job, "classification")
    data = write_rows(job, [])
    (job.directory / "rows.jsonl").write_text("\n".join(rows))
    configure(job, {**data, **more})
    refuse(job, [], [text], None)


def test_a_tokenizer_of_another_model_is_refused(job):
    make(job, "classification")
    data = write_rows(job, [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS)])
    configure(job, data)
    file = job.directory / "hf" / "config.json"
    config = json.loads(file.read_text())
    config["vocab_size"] -= 1
    file.write_text(json.dumps(config))
    size = config["vocab_size"]
    refuse(job, ["model.weights=false"], [f"the tokenizer of the data has {size + 1} tokens, but the model has a vocabulary of {size}"], None)
