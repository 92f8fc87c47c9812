"""--generate continues prompts as transformers does, and train.samples records texts without an effect on training."""

import json
import os
import pty
import shutil
import threading

import numpy as np
import pytest
import torch
from lockstep import models
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors, trainers
from tokenizers import models as kinds

import processes
from conftest import Job, long
from processes import LOCKSTEP
from refusals import refuse
from safetensors_file import last_weights
from test_hugging_face import VOCABULARY, configure, make

torch.set_num_threads(1)  # these models are small
LENGTHS = [1, 5, 17, 9]
SENTENCES = ["the cat sat on the mat", "a dog ran in the park", "the bird sang a song", "we saw the sea"] * 30
GPT = {"name": "gpt", "vocab_size": 257, "context": 64, "layers": 2, "heads": 2, "width": 32}


def generate(job, *options, config=(), **how):
    ended = job.run(*config, options=options, **how)
    assert (ended.code, ended.err) == (0, ""), ended.err
    return ended.out


def rows_of(job, *options, **how):
    out = job.directory / "texts.jsonl"
    generate(job, *options, "--out", out, **how)
    return [json.loads(line) for line in out.read_text().splitlines()]


def write_prompts(job, prompts, name="prompts.jsonl"):
    file = job.directory / name
    file.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    return file


def random_prompts():
    random = np.random.default_rng(5)
    return [random.integers(2, VOCABULARY, length).tolist() for length in LENGTHS]


@pytest.mark.parametrize("name", ["llama 3", "qwen 2 with windows", "gemma 2", "gpt-neox", "mixtral", "phi 3"])
def test_greedy_tokens_are_those_of_transformers(job, name):
    model = make(name, job.directory / "hf")
    configure(job, job.directory / "hf")
    prompts = random_prompts()
    file = write_prompts(job, [{"tokens": prompt} for prompt in prompts])
    rows = rows_of(job, "--generate", file, "--max-tokens", "24", "--batch-size", "3")
    assert [row["prompt_tokens"] for row in rows] == prompts
    for prompt, row in zip(prompts, rows):
        found = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=24, pad_token_id=0)
        expected = found[0, len(prompt) :].tolist()
        assert row["tokens"] == expected
        assert row["finish"] == ("end" if expected[-1] == 1 else "length")
    assert len({tuple(row["tokens"]) for row in rows}) > 1


@pytest.mark.parametrize("penalty", [1.3, 0.6])
def test_penalized_tokens_are_those_of_transformers(job, penalty):
    model = make("llama 3", job.directory / "hf")
    configure(job, job.directory / "hf")
    file = write_prompts(job, [{"tokens": prompt} for prompt in random_prompts()])
    rows = rows_of(job, "--generate", file, "--max-tokens", "24", "--repetition-penalty", penalty)
    for prompt, row in zip(random_prompts(), rows, strict=True):
        found = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=24, pad_token_id=0, repetition_penalty=penalty)
        assert row["tokens"] == found[0, len(prompt) :].tolist()
    assert rows != rows_of(job, "--generate", file, "--max-tokens", "24")


def beams_of(model, prompt, ends, **how):
    """The texts that transformers finds, best first."""
    found = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=24, pad_token_id=0, eos_token_id=ends, **how)
    texts = [text[len(prompt) :].tolist() for text in found]
    lengths = [next((i + 1 for i, token in enumerate(text) if token in ends), len(text)) for text in texts]  # without padding
    return [text[:length] for text, length in zip(texts, lengths)]


@pytest.mark.parametrize("name, ends", [long("llama 3", 0), ("gemma 2", 12), long("gpt-neox", 2), ("mixtral", 6)])
def test_beams_are_those_of_transformers(job, name, ends):
    """With few and many end tokens, one of them of a likely text, and penalties that prefer short texts and long ones."""
    model = make(name, job.directory / "hf")
    configure(job, job.directory / "hf")
    likely = model.generate(torch.tensor([random_prompts()[0]]), do_sample=False, min_new_tokens=4, max_new_tokens=4, pad_token_id=0)
    end_tokens = sorted({int(likely[0, -1]), *range(2, 2 + 8 * ends, 8)})
    (job.directory / "hf" / "generation_config.json").write_text(json.dumps({"eos_token_id": end_tokens}))
    file = write_prompts(job, [{"tokens": prompt} for prompt in random_prompts()])
    found = []
    for beams, penalty, early, repeats in [(2, 1.0, False, 1.0), (4, 1.0, True, 1.0), (3, 0.5, False, 1.3), (5, 2.0, False, 1.0),
                                           (3, -1.0, False, 1.0)]:
        options = ["--beams", beams, "--samples", beams - 1, "--length-penalty", penalty, "--repetition-penalty", repeats,
                   *["--early-stopping"] * early]
        rows = rows_of(job, "--generate", file, "--max-tokens", "24", *options)
        expected = [text for prompt in random_prompts() for text in
                    beams_of(model, prompt, end_tokens, num_beams=beams, num_return_sequences=beams - 1, length_penalty=penalty,
                             early_stopping=early, repetition_penalty=repeats)]
        assert [row["tokens"] for row in rows] == expected, (beams, penalty, early, repeats)
        assert [row["finish"] for row in rows] == ["end" if text[-1] in end_tokens else "length" for text in expected]
        found += rows
    assert {row["finish"] for row in found} == {"end", "length"}
    greedy = rows_of(job, "--generate", file, "--max-tokens", "24")
    assert [row["tokens"] for row in greedy] != [row["tokens"] for row in found[: len(greedy)]]  # of beams 2


def test_beams_on_two_ranks(job):
    """Ranks divide the samples of a prompt."""
    make("llama 3", job.directory / "hf")
    configure(job, job.directory / "hf")
    file = write_prompts(job, [{"tokens": prompt} for prompt in random_prompts()])
    options = ["--beams", 4, "--samples", 3, "--max-tokens", 12, "--out", "texts.jsonl"]
    alone = rows_of(job, "--generate", file, *options[:-2])
    (job.directory / "texts.jsonl").unlink()
    ended = processes.run([LOCKSTEP, "launch", "-n", 2, "--generate", file, job.file, "--", *options], job.directory)
    assert ended.code == 0, ended.err
    assert [json.loads(line) for line in (job.directory / "texts.jsonl").read_text().splitlines()] == alone


def save_tokenizer(directory):
    """A byte-level tokenizer of VOCABULARY tokens or more; returns it."""
    tokenizer = Tokenizer(kinds.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"]))
    tokenizer.save(str(directory / "tokenizer.json"))
    return tokenizer


@pytest.mark.parametrize("adds", [None, True, False])
def test_a_prompt_begins_as_the_tokenizer_has_it(job, adds):
    """By the post-processor of tokenizer.json, unless tokenizer_config.json says otherwise."""
    make("llama 3", job.directory / "hf")
    configure(job, job.directory / "hf")
    tokenizer = Tokenizer(kinds.WordLevel({"<s>": 2, "the": 3, "cat": 4, "[UNK]": 5}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<s>"])
    if adds is None:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    else:
        config = {"bos_token": "<s>", "add_bos_token": adds}
        (job.directory / "hf" / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer.save(str(job.directory / "hf" / "tokenizer.json"))
    text = "the cat"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    file = write_prompts(job, [{"prompt": text}, {"prompt": "<s>" + text}, {"tokens": [2, *ids]}, {"tokens": ids}])
    plain, begun, with_token, without = (row["tokens"] for row in rows_of(job, "--generate", file, "--max-tokens", "12"))
    assert with_token != without
    assert begun == with_token
    assert plain == (without if adds is False else with_token)


def configure_gpt(job, **train):
    text = job.directory / "text.bin"
    np.frombuffer("\n".join(SENTENCES).encode(), np.uint8).astype(np.uint16).tofile(text)
    data = {"name": "tokens", "path": str(text), "length": 32}
    optimizer = {"name": "adamw", "lr": 0.004}
    job.config.update(model=GPT, data={"train": data, "batch_size": 16}, optimizer=optimizer, train={"epochs": 100, **train})
    job.write()


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    """The directory of a run of a small gpt that has learned the sentences, as bytes."""
    job = Job(tmp_path_factory.mktemp("trained"))
    configure_gpt(job, max_steps=250)
    return job.train()


@pytest.fixture
def trained(job, trained_once):
    """This run, as one of this job."""
    configure_gpt(job)
    return shutil.copytree(trained_once, job.runs / trained_once.name)


def gpt_of(run_dir):
    sizes = dict(GPT)
    module = models.build(sizes.pop("name"), 0, **sizes).eval()
    module.load_state_dict(load_file(last_weights(run_dir)), strict=False)
    return module


def in_python(module, prompt, count):
    tokens = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            tokens.append(int(module(torch.tensor([tokens]))[0, -1].argmax()))
    return tokens[len(prompt) :]


def test_texts_of_a_run(job, trained):
    """Greedy, with bytes as tokens: as text, and as JSON Lines, of several prompts at a time and alone."""
    module = gpt_of(trained)
    prompts = ["the c", "a dog ran", "we"]
    bytes_of = ["--tokenizer", "bytes", "--resume", trained.name, "--max-tokens", "20"]
    (job.directory / "prompts.txt").write_text("\n".join(prompts) + "\n\n")
    rows = rows_of(job, "--generate", job.directory / "prompts.txt", *bytes_of)
    for prompt, row in zip(prompts, rows, strict=True):
        assert row["prompt"] == prompt
        assert row["tokens"] == in_python(module, prompt.encode(), 20)
        assert row["text"] == bytes(row["tokens"]).decode()
        assert generate(job, "--prompt", prompt, *bytes_of) == row["text"] + "\n"
    assert len(set(rows[0]["text"])) > 4
    assert "".join(f"> {row['prompt']}\n{row['text']}\n\n" for row in rows) == generate(job, "--generate=prompts.txt", *bytes_of)


def test_stop_strings(job, trained):
    options = ["--tokenizer", "bytes", "--resume", trained.name, "--max-tokens", "40", "--prompt", "the cat"]
    (whole,) = rows_of(job, *options)
    stop = whole["text"][9:14]
    before, _, _ = whole["text"].partition(stop)
    assert whole["finish"] == "length" and len(before) > 2
    (cut,) = rows_of(job, *options, "--stop", "never", "--stop", stop)
    assert (cut["finish"], cut["text"], bytes(cut["tokens"]).decode()) == ("stop", before, before + stop)


def test_sampled_texts(job, trained):
    options = ["--tokenizer", "bytes", "--resume", trained.name, "--max-tokens", "30", "--prompt", "the ", "--prompt", "the "]
    sampled = [*options, "--temperature", "1.5"]
    first = rows_of(job, *sampled, "--seed", "4")
    assert first == rows_of(job, *sampled, "--seed=4", "--batch-size", "1")
    assert first[0]["text"] != first[1]["text"]  # of equal prompts
    assert first != rows_of(job, *sampled, "--seed", "5")
    texts = rows_of(job, *sampled, "--seed", "4", "--samples", "3")
    assert [row["prompt"] for row in texts] == ["the "] * 6 and len({row["text"] for row in texts}) == 6
    assert texts[::3] == first
    greedy = rows_of(job, *options)
    assert greedy == rows_of(job, *sampled, "--min-p", "1")
    assert greedy == rows_of(job, *sampled, "--top-k", "1") == rows_of(job, *sampled, "--top-p", "0.001")


def test_prompts_are_divided_between_ranks(job, trained):
    prompts = write_prompts(job, [{"prompt": "the " * i} for i in range(1, 6)])
    options = ["--tokenizer", "bytes", "--resume", trained.name, "--max-tokens", "10", "--generate", prompts]
    alone = rows_of(job, *options)
    (job.directory / "texts.jsonl").unlink()
    command = [LOCKSTEP, "launch", "-n", 2, "--generate", prompts, "--resume", trained.name, job.file, "--", *options[:2], *options[4:6]]
    command += ["--out", "texts.jsonl"]
    ended = processes.run(command, job.directory)
    assert ended.code == 0, ended.err
    assert "texts: 5 in texts.jsonl" in ended.out and f"weights: {trained} after step 250" in ended.out
    assert [json.loads(line) for line in (job.directory / "texts.jsonl").read_text().splitlines()] == alone


def test_a_text_is_streamed_to_a_terminal(job, trained):
    """Characters of several bytes are complete in each piece."""
    command = job.command(options=["--tokenizer", "bytes", "--resume", trained.name, "--prompt", "the cat", "--max-tokens", "25"])
    expected = processes.run(command, job.directory).out
    main, other = pty.openpty()
    process = processes.start(command, job.directory, stdout=other)
    os.close(other)
    pieces = []

    def read():
        try:
            while piece := os.read(main, 1000):
                pieces.append(piece)
        except OSError:  # the terminal is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    assert processes.finish(process).code == 0
    reader.join()
    os.close(main)
    assert b"".join(pieces).replace(b"\r\n", b"\n").decode() == expected


def test_the_tokenizer_of_the_model(job):
    directory = job.directory / "hf"
    model = make("llama 2", directory)
    tokenizer = save_tokenizer(directory)
    text = tokenizer.decode([token for token in range(40, 60)])
    configure(job, directory)
    tokens = tokenizer.encode(text).ids
    (row,) = rows_of(job, "--prompt", text, "--max-tokens", "8")
    found = model.generate(torch.tensor([tokens]), do_sample=False, max_new_tokens=8, pad_token_id=0)
    assert row["tokens"] == found[0, len(tokens) :].tolist()
    shown = [token for token in row["tokens"] if token != 1]
    assert row["text"] == tokenizer.decode(shown, skip_special_tokens=False)


CHAT_TEMPLATE = ("{% for m in messages %}{% if m.role == 'judge' %}{{ raise_exception('no judges') }}{% endif %}"
                 "{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}")


@pytest.fixture
def chat(job):
    """The model and the tokenizer of a directory with a chat template, which job's run file names."""
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    directory = job.directory / "hf"
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=290, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                                         max_position_embeddings=128, initializer_range=0.3)).eval()
    model.save_pretrained(directory)
    fast = PreTrainedTokenizerFast(tokenizer_object=save_tokenizer(directory), bos_token="the", eos_token="<|endoftext|>")
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(directory)
    config = json.loads((directory / "tokenizer_config.json").read_text())
    (directory / "tokenizer_config.json").write_text(json.dumps({**config, "add_bos_token": True}))
    configure(job, directory)
    return model, fast


def test_answers_in_conversations(job, chat):
    """Prompts with messages get the chat template, and no tokens in front, as apply_chat_template of transformers does."""
    model, fast = chat
    user = [{"role": "user", "content": "the dog?"}]
    conversations = [[{"role": "system", "content": "A cat."}, *user], user]
    file = write_prompts(job, [{"messages": conversations[0]}, {"prompt": user[0]["content"]}])
    rows = rows_of(job, "--generate", file, "--chat", "--max-tokens", "8")
    for messages, row in zip(conversations, rows, strict=True):
        assert row["prompt"] == fast.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        tokens = fast.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        found = model.generate(torch.tensor([tokens]), do_sample=False, max_new_tokens=8, pad_token_id=0)
        assert row["tokens"] == found[0, len(tokens) :].tolist()


@pytest.mark.parametrize("beams, penalty, early", [(2, 1.0, False), (4, 1.0, True), (3, -1.0, False)])
def test_beams_end_at_stop_strings_as_in_transformers(job, chat, beams, penalty, early):
    model, fast = chat
    prompt = fast.encode("a bird in the park", add_special_tokens=False)
    options = ["--generate", write_prompts(job, [{"tokens": prompt}]), "--max-tokens", 24, "--beams", beams, "--samples", beams,
               "--length-penalty", penalty, *["--early-stopping"] * early]
    whole = rows_of(job, *options)
    letters = [letter for row in whole for letter in row["text"][3:] if letter.isascii() and letter.isprintable()]
    stops = sorted({letters[0], letters[-1]})  # of likely texts
    rows = rows_of(job, *options, *[f"--stop={stop}" for stop in stops])
    found = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=24, pad_token_id=0, num_beams=beams,
                           num_return_sequences=beams, length_penalty=penalty, early_stopping=early, stop_strings=stops, tokenizer=fast)
    for row, tokens in zip(rows, found, strict=True):
        count = len(row["tokens"])
        assert row["tokens"] == tokens[len(prompt) :][:count].tolist()
        assert set(tokens[len(prompt) + count :].tolist()) <= {0, model.config.eos_token_id}  # padding
        ending = fast.decode(row["tokens"])
        assert row["finish"] in ("stop", "length") and (row["finish"] == "stop") == any(stop in ending for stop in stops)
        assert not any(stop in row["text"] for stop in stops) and ending.startswith(row["text"])
    assert rows != whole and "stop" in {row["finish"] for row in rows}


def test_conversations_that_are_refused(job, chat):
    file = write_prompts(job, [{"prompt": "x"}, {"messages": [{"role": "judge", "content": "x"}]}])
    refused(job, ["prompts.jsonl:2: ", "no judges"], "--generate", file)
    refused(job, ["--chat takes no value"], "--prompt", "x", "--chat=1")
    refused(job, ["--prompt: --tokenizer bytes has no chat template"], "--prompt", "x", "--chat", "--tokenizer", "bytes")
    for path in (job.directory / "hf").glob("chat_template*"):
        path.unlink()
    refused(job, ["--prompt: ", "it has no 'chat_template'"], "--prompt", "x", "--chat")
    assert generate(job, "--prompt", "x", "--max-tokens", "2")


def samples_of(run_dir):
    """{step: rows} of the table, as the dashboard reads it."""
    found = {}
    for file in sorted((run_dir / "sinks").glob("**/*.jsonl")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if row["type"] == "table":
                found[row["step"]] = row
    return found


def weights_of(run_dir):
    tensors = {}
    for file in sorted((run_dir / "checkpoints" / "8").glob("model*.safetensors")):
        tensors |= load_file(file)
    return tensors


SAMPLES = {"every": "20 steps", "prompts": ["the ", "a dog"], "max_tokens": 12, "temperature": 0.8, "top_p": 0.9, "tokenizer": "bytes"}


@pytest.mark.parametrize("ranks, settings", [
    (None, [[]]), (2, [[], ["shard=optimizer"], ["shard=gradients", "backend=gloo"], ["shard=full"], ["shard=full", "backend=gloo"]]),
])
def test_samples_change_no_bit(job, ranks, settings):
    configure_gpt(job, max_steps=8)
    job.config["model"] = {**GPT, "dropout": 0.1}
    job.write()
    plain = job.train(ranks=ranks)
    for chosen in settings:
        overrides = [f"distributed.{setting}" for setting in chosen]
        run_dir = job.train(*overrides, f"train.samples={json.dumps({**SAMPLES, 'every': '3 steps'})}", ranks=ranks)
        before, after = weights_of(plain), weights_of(run_dir)
        assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before), chosen
        assert job.series(plain.name, "train/loss") == job.series(run_dir.name, "train/loss")


def test_samples_are_recorded(job):
    configure_gpt(job, max_steps=50, samples=SAMPLES)
    job.config["tracking"] = {"sinks": ["jsonl"]}
    job.write()
    tables = samples_of(job.train())
    assert sorted(tables) == [20, 40, 50]
    for table in tables.values():
        assert table["name"] == "samples" and table["columns"] == ["prompt", "text"]
        assert [row[0] for row in table["rows"]] == SAMPLES["prompts"]
        assert all(0 < len(row[1]) <= 12 for row in table["rows"])


def refused(job, texts, *options, config=()):
    ended = job.run(*config, options=options)
    assert ended.code == 78 and ended.err.count("\n") == 1, ended.err
    for text in texts:
        assert text in ended.err


def test_options_that_are_refused(job, trained):
    weights = ["--resume", trained.name, "--tokenizer", "bytes"]
    prompt = ["--prompt", "x", *weights]
    refused(job, ["--max-tokens has no effect without --generate FILE or --prompt TEXT"], "--max-tokens=4")
    refused(job, ["--out has no effect without --evaluate, --generate FILE or --prompt TEXT"], "--out=x")
    refused(job, ["--prompt cannot be combined with --dry-run"], "--dry-run", *prompt)
    refused(job, ["--top-p has no effect with --temperature 0"], *prompt, "--top-p", "0.5")
    refused(job, ["--min-p has no effect with --temperature 0"], *prompt, "--min-p", "0.5")
    refused(job, ["--length-penalty has no effect without --beams"], *prompt, "--length-penalty", "2")
    refused(job, ["--early-stopping has no effect without --beams"], *prompt, "--early-stopping")
    refused(job, ["--temperature cannot be combined with --beams"], *prompt, "--beams", "2", "--temperature", "1")
    refused(job, ["--samples: 3: --beams 2 finds 2 texts"], *prompt, "--beams", "2", "--samples", "3")
    refused(job, ["--beams: 300: the model has a vocabulary of 257"], *prompt, "--beams", "300")
    refused(job, ["--samples has no effect with --temperature 0"], *prompt, "--samples", "2")
    refused(job, ["--repetition-penalty: '0': expected a number above 0"], *prompt, "--repetition-penalty", "0")
    refused(job, ["--temperature: '-1': expected a number from 0"], *prompt, "--temperature", "-1")
    refused(job, ["--top-k: '2x': expected an integer from 1"], *prompt, "--top-k", "2x")
    refused(job, ["unknown option '--top-q'; did you mean '--top-"], *prompt, "--top-q", "2")
    refused(job, ["--prompt cannot be combined with --predict"], *prompt, "--predict", "out")
    refused(job, ["--prompt needs a text"], *weights, "--prompt")
    refused(job, ["--generate needs weights: --resume RUN_ID"], "--prompt", "x", "--tokenizer", "bytes")
    refused(job, ["there is no tokenizer for the prompts: set --tokenizer"], "--prompt", "x", "--resume", trained.name)
    refused(job, ["--tokenizer: nowhere does not exist"], "--prompt", "x", "--resume", trained.name, "--tokenizer", "nowhere")
    refused(job, ["prompt 1 has 65 tokens, but the model takes up to 64"], "--prompt", "x" * 65, *weights)
    refused(job, ["--generate: nowhere is not a file"], "--generate", "nowhere", *weights)
    refused(job, ["--out: the directory none does not exist"], *prompt, "--out", "none/out.jsonl")
    refused(job, ["model 'mlp' does not generate text; the models gpt, decoder and hf do"], *prompt, config=["model={name: mlp}"])


@pytest.mark.parametrize("name, text, expected", [
    ("a.jsonl", '{"prompt": "x"}\n{"text": "y"}\n', ["a.jsonl:2: it needs one of these keys; expected an object with"]),
    ("a.jsonl", '\n{"prompt": 3}\n', ['a.jsonl:2: its "prompt" is not a string']),
    ("a.jsonl", '{"tokens": [1, -2]}\n', ['a.jsonl:1: its "tokens" are not a list of integers from 0']),
    ("a.jsonl", '{"tokens": [400]}\n', ["prompt 1 has token 400, but the model has a vocabulary of 257"]),
    ("a.jsonl", '{"prompt": ""}\n', ["prompt 1 is empty"]),
    ("a.jsonl", '{"messages": [{"content": "x"}]}\n', ["a.jsonl:1: 'messages[0]' is not a message with a 'role'"]),
    ("a.jsonl", '{"messages": [{"role": "assistant", "content": "x"}]}\n', ["a.jsonl:1: the last message is an answer already"]),
    ("a.jsonl", '{"messages": [{"role": "user", "content": "x"}]}\n', ["a.jsonl:1: --tokenizer bytes has no chat template"]),
    ("a.jsonl", "no\n", ["a.jsonl:1: not a JSON object"]),
    ("a.txt", "\n \n", ["a.txt: there is no prompt"]),
])
def test_prompts_that_are_refused(job, trained, name, text, expected):
    (job.directory / name).write_text(text)
    refused(job, expected, "--generate", name, "--resume", trained.name, "--tokenizer", "bytes")


@pytest.mark.parametrize("samples, config, expected", [
    ({"prompts": ["x"]}, [], "train.samples: there is no tokenizer"),
    ({"prompts": ["x" * 70], "tokenizer": "bytes"}, [], "train.samples.prompts: prompt 1 has 70 tokens"),
    ({"prompts": ["x"], "tokenizer": "bytes"}, ["model={name: mlp}"], "model 'mlp' does not generate text"),
    ({"max_tokens": 5}, [], "train.samples.max_tokens: has no effect without train.samples.prompts"),
    ({"prompts": ["x"], "tokenizer": "bytes", "top_k": 5}, [], "train.samples.top_k: has no effect without train.samples.temperature"),
])
def test_samples_that_are_refused(job, samples, config, expected):
    configure_gpt(job)
    refuse(job, [*config, f"train.samples={json.dumps(samples)}"], [expected], None)
