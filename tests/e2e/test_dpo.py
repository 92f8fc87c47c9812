"""Direct preference optimization: the losses of its formula over transformers' logits, on any number of ranks."""

import json
import sys

import peft
import pytest
import torch
import transformers
import yaml
from torch.nn import functional as F

import test_chat as chat
from processes import BIN, LOCKSTEP, SOURCE, run
from refusals import refuse

torch.set_num_threads(1)  # the model is small
LENGTH, BATCH, STEPS, BETA = 48, 4, 6, 0.5


def texts(count):
    """Records of texts, as TRL's standard format."""
    made = []
    for messages in chat.conversations(2 * count, seed=9)[1:]:
        question, answer = messages[-2]["content"], messages[-1]["content"]
        made.append({"prompt": question, "chosen": " " + answer, "rejected": " " + " ".join(reversed(answer.split())) + " no"})
    return made[:count]


def conversations(count):
    """Records of messages; of every second one, the prompt is what both conversations begin with."""
    made = []
    for i, record in enumerate(texts(count)):
        prompt = [{"role": "user", "content": record["prompt"]}]
        chosen, rejected = ([{"role": "assistant", "content": record[name].strip()}] for name in ("chosen", "rejected"))
        if i % 2:
            made.append({"chosen": prompt + chosen, "rejected": prompt + rejected})
        else:
            made.append({"prompt": prompt, "chosen": chosen, "rejected": rejected})
    return made


def configure(job, records, dpo, **model):
    tokenizer = chat.write_model(job.directory / "hf")
    (job.directory / "pairs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    data = {"name": "preferences", "path": str(job.directory / "pairs.jsonl"), "tokenizer": str(job.directory / "hf"), "length": LENGTH}
    job.config.update(
        model={"name": "hf", "path": str(job.directory / "hf"), "dpo": dpo, **model},
        data={"train": data, "batch_size": BATCH, "shuffle": False},
        optimizer={"name": "sgd", "lr": 0.5},
        train={"epochs": 100, "max_steps": STEPS, "log_every": "1 step"},
    )
    job.write()
    return tokenizer


def encoded(tokenizer, record, name):
    """Tokens and targets of an answer."""
    if isinstance(record[name], str):
        prompt, answer = (tokenizer(record[key], add_special_tokens=False)["input_ids"] for key in ("prompt", name))
        tokens, learned = prompt + answer + [tokenizer.eos_token_id], [0] * len(prompt) + [1] * (len(answer) + 1)
    else:
        whole = tokenizer.apply_chat_template(record.get("prompt", []) + record[name], return_dict=True, return_assistant_tokens_mask=True)
        tokens, learned = whole["input_ids"], whole["assistant_masks"]
    assert len(tokens) <= LENGTH
    targets = [token if is_learned else -100 for token, is_learned in zip(tokens[1:], learned[1:])]
    rest = LENGTH - len(tokens)
    return tokens + [0] * rest, targets + [-100] * (rest + 1)


def train_in_python(directory, tokenizer, records, smoothing=0.0, adapter=None):
    """The losses, and the rewards of the chosen answers. `adapter`: is trained further."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager")
    if adapter:
        model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True)
    pairs = torch.tensor([[encoded(tokenizer, record, name) for name in ("chosen", "rejected")] for record in records])
    tokens, targets = pairs[:, :, 0], pairs[:, :, 1]

    def log_probabilities(rows):
        logits = model(tokens[rows].flatten(0, 1)).logits
        losses = F.cross_entropy(logits.flatten(0, 1), targets[rows].flatten(), reduction="none")
        return -losses.view(-1, 2, LENGTH).sum(2)

    with torch.no_grad():
        reference = log_probabilities(slice(None))
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.5)
    losses, rewards = [], []
    for step in range(STEPS):
        rows = slice(step % (len(records) // BATCH) * BATCH, (step % (len(records) // BATCH) + 1) * BATCH)
        ratios = log_probabilities(rows) - reference[rows]
        margins = BETA * (ratios[:, 0] - ratios[:, 1])
        loss = (-(1 - smoothing) * F.logsigmoid(margins) - smoothing * F.logsigmoid(-margins)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        rewards.append((BETA * ratios[:, 0]).mean().item())
    return losses, rewards


def values(job, run_dir, metric):
    return [value for _, value in job.series(run_dir.name, metric)]


@pytest.mark.parametrize("kind, smoothing, ranks", [("texts", 0.0, None), ("texts", 0.1, 2), ("conversations", 0.0, 2)])
def test_losses_are_those_of_the_formula(job, kind, smoothing, ranks):
    records = texts(12) if kind == "texts" else conversations(12)
    dpo = {"beta": BETA, **({"label_smoothing": smoothing} if smoothing else {})}
    tokenizer = configure(job, records, dpo)
    losses, rewards = train_in_python(job.directory / "hf", tokenizer, records, smoothing)
    run_dir = job.train(ranks=ranks)
    assert values(job, run_dir, "train/loss") == pytest.approx(losses, abs=1e-5)
    assert values(job, run_dir, "train/chosen_reward") == pytest.approx(rewards, abs=1e-4)
    assert losses[0] == pytest.approx(0.6931, abs=1e-3) and losses[-1] < losses[0] - 0.01


def test_the_reference_has_the_adapter_that_is_continued(job, tmp_path):
    """As TRL: the reference is what training begins with, not the base model without the adapter."""
    records = texts(12)
    tokenizer = configure(job, records, {"beta": BETA}, lora={"path": str(tmp_path / "adapter")})
    torch.manual_seed(1)
    settings = peft.LoraConfig(r=2, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    base = transformers.AutoModelForCausalLM.from_pretrained(job.directory / "hf")
    peft.get_peft_model(base, settings).save_pretrained(tmp_path / "adapter")
    losses, rewards = train_in_python(job.directory / "hf", tokenizer, records, adapter=tmp_path / "adapter")
    run_dir = job.train()
    assert values(job, run_dir, "train/loss") == pytest.approx(losses, abs=1e-5)
    assert values(job, run_dir, "train/chosen_reward") == pytest.approx(rewards, abs=1e-4)
    assert losses[0] == pytest.approx(0.6931, abs=1e-3) and losses[-1] < losses[0] - 0.01


def test_a_resumed_run_keeps_the_reference(job):
    """The weights of its checkpoint are not those that it began with."""
    configure(job, texts(12), {"beta": BETA}, lora={"rank": 2, "targets": ["q_proj", "v_proj"]})
    job.config["data"]["eval"] = job.config["data"]["train"]
    job.write()
    whole = job.train()
    stopped = job.train("train.max_steps=3")
    again = job.run(options=["--resume", stopped.name])
    assert again.code == 0, again.err
    assert values(job, stopped, "train/loss") == values(job, whole, "train/loss")
    assert values(job, whole, "eval/accuracy")[-1] > 0.5


def use_recipe(job, name, model, **data):
    job.config = yaml.safe_load((SOURCE / "configs" / name).read_text())
    job.config["run"]["dir"] = str(job.runs)
    job.config["model"]["path"] = str(model)
    for part, settings in data.items():
        job.config["data"][part] |= settings
    job.write()


@pytest.mark.long
def test_the_recipes_learn_the_order_of_words(job):
    """As described in their comments, with less text and fewer steps."""
    folder = job.directory / "preferences"
    verses = (SOURCE / ".data" / "bible" / "kjv.txt").read_text().splitlines()[:1500]
    (job.directory / "verses.txt").write_text("\n".join(verses))
    prepare = [sys.executable, SOURCE / "examples" / "preferences" / "prepare.py", job.directory / "verses.txt", folder]
    tokenize = [BIN / "lockstep-data", "tokenize", "--tokenizer", folder / "model", "--documents", "line", "--separator", "<end>",
                "--eval", 0.05, "--out", folder / "tokens", folder / "text.txt"]
    for command in (prepare, tokenize):
        ended = run(command, job.directory)
        assert ended.code == 0, ended.err
    use_recipe(job, "preferences_base.yaml", folder / "model",
               train={"path": str(folder / "tokens" / "train")}, eval={"path": str(folder / "tokens" / "eval"), "limit": 20})
    base = job.train("train.max_steps=40", "schedule.warmup_steps=5")
    ended = run([LOCKSTEP, "ckpt", "export", base.name, "--dir", job.runs, "--out", folder / "base"], job.directory)
    assert ended.code == 0, ended.err
    both = {"tokenizer": str(folder / "base")}
    use_recipe(job, "preferences.yaml", folder / "base", train={**both, "path": str(folder / "train.jsonl"), "limit": 320},
               eval={**both, "path": str(folder / "eval.jsonl"), "limit": 40})
    tuned = job.train("train.max_steps=40", "schedule.warmup_steps=5", ranks=2)
    assert values(job, tuned, "eval/accuracy")[-1] > 0.75
    assert values(job, tuned, "eval/loss")[-1] < 0.65


def test_pairs_padded_to_the_longest_of_their_batch(job):
    """Smaller batches, the same losses, on any number of ranks, and resumed."""
    configure(job, texts(12), {"beta": BETA})
    job.config["data"]["eval"] = {**job.config["data"]["train"]}
    job.config["data"]["eval_batch_size"] = 5
    job.write()
    longest = ["data.train.pad_to=longest", "data.eval.pad_to=longest"]
    padded, shorter = job.train(), [job.train(*longest), job.train(*longest, "data.bucket_batches=3", "data.shuffle=true", ranks=2)]
    for metric in ("train/loss", "train/margin", "eval/loss", "eval/margin"):
        assert values(job, shorter[0], metric) == pytest.approx(values(job, padded, metric), abs=1e-5)
    assert values(job, shorter[1], "train/loss")[-1] < 0.69
    half = job.train(*longest, "train.max_steps=3")
    again = job.run(*longest, options=["--resume", half.name])
    assert again.code == 0, again.err
    assert values(job, half, "train/loss") == values(job, shorter[0], "train/loss")


@pytest.mark.parametrize(
    "override, text",
    [
        ("tracking.media.confusion=true", "tracking.media.confusion needs a classifier"),
        ("tracking.media.worst_samples=3", "tracking.media.worst_samples needs predictions of each sample"),
        ("train.eval_metrics=[f1]", "train.eval_metrics: f1 needs a model that returns predictions, and labels"),
        ("train.eval_metrics=[top_1]", "train.eval_metrics: top_1 needs a model that returns predictions, and labels"),
        ("train.eval_metrics=[perplexity]", "train.eval_metrics: perplexity needs a language model"),
        ("train.eval_metrics=[bits_per_byte]", "train.eval_metrics: bits_per_byte needs a language model"),
    ],
)
def test_options_of_classifiers_are_refused(job, override, text):
    configure(job, texts(8), {"beta": BETA})
    job.config["data"]["eval"] = job.config["data"]["train"]
    job.write()
    refuse(job, [override], [text], None)


GOOD = json.dumps({"prompt": "a", "chosen": "b", "rejected": "c"})


@pytest.mark.parametrize(
    "line, text",
    [
        ("{", "line 2: not one JSON object per line"),
        ('{"prompt": "a", "chosen": "b"}', "line 2: 'rejected' is missing"),
        ('{"prompt": "a", "chosen": "b", "rejected": "b"}', "line 2: 'chosen' and 'rejected' are equal"),
        ('{"chosen": "b", "rejected": "c"}', "line 2: 'prompt' is missing"),
        ('{"prompt": "a", "chosen": ["b"], "rejected": "c"}', "line 2: 'prompt', 'chosen' and 'rejected' must be three texts"),
        (GOOD.replace('"a"', f'"{"a " * 100}"'), "line 2: the answer of 'chosen' begins after the first 48 tokens"),
    ],
)
def test_bad_records_are_one_line(job, line, text):
    configure(job, texts(8), {"beta": BETA})
    (job.directory / "pairs.jsonl").write_text(f"{GOOD}\n{line}\n")
    refuse(job, [], ["pairs.jsonl: ", text], None)


def test_dpo_needs_pairs(job):
    tokenizer = configure(job, texts(8), {"beta": BETA})
    assert tokenizer
    chat.write_records(job.directory / "chats.jsonl", chat.conversations(8))
    refuse(job, [f"data.train={{name: chat, path: {job.directory}/chats.jsonl, tokenizer: {job.directory}/hf, length: 48}}"],
           ["with dpo the model needs pairs of texts: 'tokens' is [1, 48], expected [B, 2, T]; use dataset preferences"], None)
