"""`lockstep-compile hf:DIR` with adapters (LoRA): trained as in PEFT, and what checkpoints of them contain."""

import json
import shutil
import sys
import zipfile
import zlib

import numpy
import peft
import pytest
import torch
import transformers
from safetensors.torch import load, load_file, save
from torch.nn import functional as F

import hf_cases
import processes
from conftest import long
from hf_cases import BATCH, SAMPLES, TOKENS, Case, compile_here
from processes import LOCKSTEP
from refusals import refuse
from safetensors_file import last_weights, read_raw
from test_compiled_cases import quick_compiler  # noqa: F401, a fixture
from test_hf_bad_input import config_of, refused

STEPS = 12
LR = 0.1
TOLERANCE = 1e-5  # of losses, relative
MODEL = Case("LlamaForCausalLM", "LlamaConfig", hf_cases.GROUPED, hf_cases.windows)
LORA = "rank=4,alpha=8,targets=q_proj+down_proj,dora=true,modules_to_save=lm_head"
SAME = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"], "use_dora": True, "modules_to_save": ["lm_head"]}
OTHER = {"r": 2, "lora_alpha": 4, "target_modules": "all-linear", "use_rslora": True}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return hf_cases.save(MODEL, tmp_path_factory.mktemp("base") / "llama")


@pytest.fixture(scope="module")
def adapter(base, tmp_path_factory):
    """One that changes the base model."""
    model = peft.get_peft_model(read_base(base), peft.LoraConfig(**OTHER, task_type="CAUSAL_LM"))
    torch.manual_seed(2)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, 0, 0.05)
    model.save_pretrained(tmp_path_factory.mktemp("adapter"))
    return tmp_path_factory.getbasetemp() / "adapter0"


def compiled(folder, *arguments):
    from lockstep.compile.command_line import main

    assert main([*map(str, arguments), "--batch", str(BATCH), "--length", str(TOKENS), "-o", str(folder / "model.ls2")]) == 0
    return folder / "model.ls2"


@pytest.fixture(scope="module")
def package(base, tmp_path_factory, quick_compiler):  # noqa: F811
    return compiled(tmp_path_factory.mktemp("package"), f"hf:{base}", "--lora", LORA, "--seed", 7)


def read_base(base, **how):
    return transformers.AutoModelForCausalLM.from_pretrained(base, attn_implementation="sdpa", **how)


def new_in_python(base):
    model = read_base(base)
    torch.manual_seed(7)
    return peft.get_peft_model(model, peft.LoraConfig(**SAME, task_type="CAUSAL_LM"))


def use(job, package):
    path = job.directory / "data.npz"
    numpy.savez(path, **{name: tensor.numpy() for name, tensor in hf_cases.data_of(MODEL).items()})
    job.config["model"] = {"name": "compiled", "package": str(package)}
    data = {"name": "npy", "path": str(path)}
    job.config["data"] = {"train": data, "eval": data, "per_rank_batch_size": BATCH, "eval_batch_size": SAMPLES, "shuffle": False}
    job.config["optimizer"] = {"name": "sgd", "lr": LR}
    job.config["train"] = {"epochs": 1000, "max_steps": STEPS, "log_every": "1 step", "eval_every": "1000 epochs"}
    job.config["checkpoint"] = {"every": "1000 epochs"}
    job.write()
    return hf_cases.data_of(MODEL)


def train_in_peft(model, data, precision=torch.float32):
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=LR)
    losses = []
    for step in range(STEPS):
        begin = step * BATCH % SAMPLES
        tokens, targets = (data[name][begin : begin + BATCH] for name in ("tokens", "targets"))
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            loss = F.cross_entropy(model(input_ids=tokens).logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def logits_of(model, data):
    with torch.no_grad():
        return model.eval()(input_ids=data["tokens"]).logits


def ckpt(job, *words, code=0):
    ended = processes.run([LOCKSTEP, "ckpt", *words, "--dir", job.runs], job.directory)
    assert ended.code == code, ended.out + ended.err
    return ended


def test_trains_like_peft(job, base, package):
    data = use(job, package)
    run_dir = job.train()
    model = new_in_python(base)
    losses = train_in_peft(model, data)
    assert [value for _, value in job.series(run_dir.name, "train/loss")] == pytest.approx(losses, rel=TOLERANCE)
    assert losses[0] - losses[-1] > 0.05

    # The checkpoint contains what was trained, and PEFT's files.
    step = last_weights(run_dir).parent
    stored = load_file(base / "model.safetensors")
    trained = {f"model.layers.0.{layer}.{name}.weight" for layer in ("self_attn.q_proj", "mlp.down_proj")
               for name in ("lora_A", "lora_B", "lora_magnitude_vector")} | {"lm_head.weight"}
    assert set(read_raw(last_weights(run_dir))) == trained
    content = json.loads((step / "manifest.json").read_text())["content"]
    assert content["base"]["path"] == str(package) and set(content["base"]["checksums"]) == stored.keys() - trained
    files = load_file(step / "adapter_model.safetensors")
    expected = peft.get_peft_model_state_dict(model)
    assert files.keys() == expected.keys()
    assert all((files[name] - tensor).abs().max() < 1e-4 for name, tensor in expected.items())

    # PEFT reads it, as do a run that resumes, and the exports.
    logits = logits_of(peft.PeftModel.from_pretrained(read_base(base), step), data)
    assert (logits - logits_of(model, data)).abs().max() < 1e-4
    ended = job.run(options=["--predict", job.directory / "logits", "--resume", run_dir.name])
    assert ended.code == 0, ended.err
    assert (load_file(job.directory / "logits")["predictions"] - logits).abs().max() < 1e-5
    ckpt(job, "export", run_dir.name, "--out", job.directory / "merged", "--merge")
    assert (logits_of(read_base(job.directory / "merged"), data) - logits).abs().max() < 1e-5
    with zipfile.ZipFile(package) as archive:
        described = json.loads(archive.read("manifest.json"))["adapter"]
    assert (job.directory / "merged" / "config.json").read_text() == described["model_config"]
    ckpt(job, "export", run_dir.name, "--format", "pt2", "--out", job.directory / "graph.pt2")
    exported = torch.export.load(job.directory / "graph.pt2").module()
    assert (exported(data["tokens"]) - logits).abs().max() < 1e-5
    assert f"; {len(stored.keys() - trained)} of the base model" in ckpt(job, "verify", run_dir.name).out


def with_other_weights(package, out):
    """A package with the same code and another base model."""
    with zipfile.ZipFile(package) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    tensors = load(members["weights.safetensors"])
    tensors["model.norm.weight"] += 1
    manifest = json.loads(members.pop("manifest.json"))
    members["weights.safetensors"] = save(tensors)
    manifest["members"]["weights.safetensors"]["crc32"] = zlib.crc32(members["weights.safetensors"])
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, member in {"manifest.json": json.dumps(manifest), **members}.items():
            archive.writestr(name, member)


@pytest.mark.long
def test_a_resumed_run_has_the_same_bits(job, capsys, package):
    """On two ranks, from a moved package; with another base model it is refused."""
    use(job, package)
    whole = load_file(last_weights(job.train(ranks=2)))
    mine, moved = job.directory / "mine.ls2", job.directory / "moved.ls2"
    shutil.copy(package, mine)
    use(job, mine)
    part = job.train("train.max_steps=5", ranks=2)
    mine.rename(moved)
    with_other_weights(package, mine)
    assert "'model.norm.weight' has changed" in ckpt(job, "verify", part.name, code=75).out
    options = ["--resume", part.name]
    ended = job.run(ranks=2, options=options)
    assert ended.code == 78 and "'model.norm.weight' has changed since the checkpoint was written" in ended.err, ended.err
    step, how = last_weights(part).parent, ["--format", "pt2", "--out", job.directory / "graph.pt2"]
    err = ckpt(job, "export", part.name, *how, code=78).err
    assert len(err.splitlines()) == 1 and "'model.norm.weight' has changed" in err
    code, _, errors = compile_here(capsys, "export", step, *how, "--package", mine)
    assert code == 78 and len(errors) == 1 and f"base model {mine}: 'model.norm.weight' has changed since" in errors[0]
    ckpt(job, "export", part.name, *how, "--package", moved)
    ckpt(job, "export", part.name, "--merge", "--out", job.directory / "merged", "--package", moved)
    mine.unlink()
    ended = job.run(f"model.package={moved}", ranks=2, options=options)
    assert ended.code == 0, ended.err
    resumed = load_file(last_weights(part))
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)
    content = json.loads((last_weights(part).parent / "manifest.json").read_text())["content"]
    assert content["base"]["path"] == str(moved)


@pytest.mark.long
def test_exports_with_a_base_model_in_several_files(job, capsys, package):
    """The base model of the checkpoint is an index, that of train.init_from."""
    use(job, package)
    with zipfile.ZipFile(package) as archive:
        tensors = load(archive.read("weights.safetensors"))
    names = sorted(tensors)
    tensors["model.norm.weight"] += 1  # so that the package is another base model
    files = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, kept in files.items():
        (job.directory / file).write_bytes(save({name: tensors[name] for name in kept}))
    index = job.directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {name: file for file, kept in files.items() for name in kept}}))
    run_dir = job.train(f"train.init_from={index}", "train.max_steps=1")
    step, out = last_weights(run_dir).parent, job.directory / "graph.pt2"
    assert json.loads((step / "manifest.json").read_text())["content"]["base"]["path"] == str(index)
    code, _, errors = compile_here(capsys, "export", step, "--format", "pt2", "--out", out)
    assert code == 0, errors
    data = hf_cases.data_of(MODEL)
    exported = torch.export.load(out).module()(data["tokens"])
    ended = job.run(f"train.init_from={index}", options=["--predict", job.directory / "logits", "--resume", run_dir.name])
    assert ended.code == 0, ended.err
    assert (load_file(job.directory / "logits")["predictions"] - exported).abs().max() < 1e-5
    out.unlink()
    (job.directory / "model-2.safetensors").unlink()
    code, _, errors = compile_here(capsys, "export", step, "--format", "pt2", "--out", out)
    assert code == 78 and len(errors) == 1 and f"base model: {index}: names model-2.safetensors, which does not exist; " in errors[0]


RETURNING = """
import peft, torch, transformers
from torch.nn import functional as F

def adapted(base):
    model = transformers.AutoModelForCausalLM.from_pretrained(base, attn_implementation="sdpa")
    torch.manual_seed(7)
    return peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **SETTINGS))

def of_a_config(base):
    # PEFT then knows no name of the base model
    stored = transformers.AutoModelForCausalLM.from_pretrained(base)
    config = type(stored.config)(**{name: value for name, value in stored.config.to_dict().items() if name != "_name_or_path"})
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    model.load_state_dict(stored.state_dict())
    torch.manual_seed(7)
    return peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **SETTINGS))

def loss(model, batch):
    logits = model(input_ids=batch["tokens"]).logits
    return {"loss": F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten()), "predictions": logits}
"""


@pytest.mark.long
@pytest.mark.parametrize("function", ["adapted", "of_a_config"])
def test_a_function_that_returns_a_model_of_peft(job, capsys, base, quick_compiler, function):  # noqa: F811
    """It is trained as that of --lora, and its checkpoints have the same content."""
    package, file = job.directory / "model.ls2", job.directory / "made.py"
    file.write_text(RETURNING.replace("SETTINGS", str(SAME)))
    data = use(job, package)
    code, _, errors = compile_here(capsys, f"{file}:{function}", f"base={base}", "--loss", "loss", "--batch", job.file, "-o", package)
    assert code == 0, errors
    run_dir = job.train()
    model = new_in_python(base)
    assert [value for _, value in job.series(run_dir.name, "train/loss")] == pytest.approx(train_in_peft(model, data), rel=TOLERANCE)
    step, expected = last_weights(run_dir).parent, peft.get_peft_model_state_dict(model)
    files = load_file(step / "adapter_model.safetensors")
    assert files.keys() == expected.keys() and len(read_raw(last_weights(run_dir))) == len(files)
    named = json.loads((step / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert named == (str(base) if function == "adapted" else None)
    logits = logits_of(model, data)
    assert (logits_of(peft.PeftModel.from_pretrained(read_base(base), step), data) - logits).abs().max() < 1e-4
    ckpt(job, "export", run_dir.name, "--out", job.directory / "merged", "--merge")
    assert (logits_of(read_base(job.directory / "merged"), data) - logits).abs().max() < 1e-4


def test_a_model_of_peft_from_a_relative_path(base, monkeypatch):
    """Exports find its base model from other directories; a name on a hub is kept."""
    from lockstep.compile.hf.adapters import returned_adapters

    monkeypatch.chdir(base.parent)
    for name, kept in (("llama", str(base)), ("org/llama", "org/llama")):
        model = new_in_python("llama")
        model.peft_config["default"].base_model_name_or_path = name
        assert json.loads(returned_adapters(model, print).config)["base_model_name_or_path"] == kept


WHOLE = {
    "another kind": (peft.IA3Config(task_type="CAUSAL_LM", target_modules=["k_proj"], feedforward_modules=[]), None, "peft_type 'IA3' is not LORA"),
    "biases": (peft.LoraConfig(r=2, target_modules=["q_proj"], bias="all"), None, "'bias' is 'all'; only 'none' is supported"),
    "embeddings": (peft.LoraConfig(r=2, target_modules=["embed_tokens"]), None, "'model.embed_tokens' is of type Embedding"),
    "more that is trained": (peft.LoraConfig(r=2, target_modules=["q_proj"]), lambda model: model.model.model.norm.requires_grad_(True),
                             "'model.norm.weight' is trained, but is not part of PEFT's files"),
    "a second adapter": (peft.LoraConfig(r=2, target_modules=["q_proj"]), lambda model: model.add_adapter("b", peft.LoraConfig(r=2)),
                         "its adapters are default, b; expected one, called 'default'"),
    "merged": (peft.LoraConfig(r=2, target_modules=["q_proj"]), lambda model: model.merge_adapter(), "its adapters are merged or disabled"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_models_of_peft_whose_checkpoints_are_whole(base, name):
    from lockstep.compile.hf.adapters import returned_adapters

    config, change, text = WHOLE[name]
    model, lines = peft.get_peft_model(read_base(base), config), []
    if change is not None:
        change(model)
    assert returned_adapters(model, lines.append) is None
    assert len(lines) == 1 and text in lines[0] and lines[0].endswith(": checkpoints contain the whole model, without PEFT's files")


@pytest.mark.long
def test_continues_an_adapter_on_weights_in_bf16(job, base, adapter, tmp_path, quick_compiler):  # noqa: F811
    package = compiled(tmp_path, f"hf:{base}", "--adapter", adapter, "--base-dtype", "bf16", "--precision", "bf16")
    with zipfile.ZipFile(package) as archive:
        weights = load(archive.read("weights.safetensors"))
    assert {tensor.dtype for name, tensor in weights.items() if ".lora_" in name} == {torch.float32}
    assert {tensor.dtype for name, tensor in weights.items() if ".lora_" not in name} == {torch.bfloat16}
    data = use(job, package)
    run_dir = job.train()
    model = peft.PeftModel.from_pretrained(read_base(base, dtype=torch.bfloat16), adapter, is_trainable=True)
    losses = train_in_peft(model, data, torch.bfloat16)
    assert [value for _, value in job.series(run_dir.name, "train/loss")] == pytest.approx(losses, rel=2e-3)
    ours, start = (load_file(path / "adapter_model.safetensors") for path in (last_weights(run_dir).parent, adapter))
    theirs = peft.get_peft_model_state_dict(model)
    assert ours.keys() == theirs.keys()
    apart = sum((ours[name] - theirs[name]).norm() ** 2 for name in ours) ** 0.5
    changed = sum((ours[name] - start[name]).norm() ** 2 for name in ours) ** 0.5
    assert apart < 0.1 * changed


def adapted(base, wanted, seed=7, **changes):
    """The model, what the package says about its adapters, and the reported lines."""
    from lockstep.compile.hf.adapters import add_adapters
    from lockstep.compile.hf.directory import ModelDirectory
    from lockstep.compile.hf.model import load_model

    lines = []
    model, task = load_model(ModelDirectory(str(base)), None, changes, 0, lines.append)
    return model, add_adapters(model, task, wanted, base, seed, lines.append), lines


def tensors_of(model, description):
    """As in adapter_model.safetensors."""
    state = model.state_dict()
    return {description.tensors[description.names.get(name, name)]: tensor for name, tensor in state.items()
            if description.names.get(name, name) in description.tensors}


def test_the_first_weights_are_those_of_peft(base, adapter):
    """Of new adapters with the same seed, and of a directory; the settings are kept."""
    from lockstep.compile.hf.adapter_options import AdapterDirectory, lora_of

    model, description, lines = adapted(base, lora_of(LORA))
    assert lines == ["adapters of rank 4: 0.7 k parameters are trained"]
    for found, expected in ((tensors_of(model, description), peft.get_peft_model_state_dict(new_in_python(base))),
                            (tensors_of(*adapted(base, AdapterDirectory(str(adapter)))[:2]), load_file(adapter / "adapter_model.safetensors"))):
        assert found.keys() == expected.keys() and all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    kept = json.loads(adapted(base, AdapterDirectory(str(adapter)))[1].config)
    given = json.loads((adapter / "adapter_config.json").read_text())
    for settings in (kept, given):
        settings["target_modules"] = sorted(settings["target_modules"])
        settings.pop("base_model_name_or_path")
    assert kept == given


def test_other_architectures(tmp_path):
    """Layers of GPT-2 are transposed, which --merge must know; a new layer for classes is trained in full, as in PEFT."""
    from lockstep.compile.hf.adapter_options import lora_of

    _, description, _ = adapted(hf_cases.save(hf_cases.CASES["gpt2"], tmp_path / "gpt2"), lora_of("rank=2"))
    assert json.loads(description.config)["fan_in_fan_out"] is True
    assert "transformer.h.0.attn.c_attn.lora_A.weight" in description.tensors
    _, description, _ = adapted(hf_cases.save(hf_cases.CASES["distilbert"], tmp_path / "bert"), lora_of("rank=2,targets=q_lin"))
    assert {"classifier.weight", "classifier.bias"} <= description.tensors.keys()
    assert json.loads(description.config)["task_type"] == "TOKEN_CLS"


def test_merged_models_have_the_changed_config(base):
    from lockstep.compile.hf.adapter_options import lora_of

    _, description, _ = adapted(base, lora_of("rank=2"), rms_norm_eps=0.5)
    expected = {**transformers.AutoConfig.from_pretrained(base).to_dict(), "rms_norm_eps": 0.5, "_name_or_path": ""}
    assert transformers.LlamaConfig(**json.loads(description.model_config)).to_dict() == expected


@pytest.mark.parametrize("limit", [1 << 30, 100], ids=["small", "large"])
def test_weights_are_aligned(tmp_path, monkeypatch, limit):
    """Also in members that have the headers of files above 2 GiB."""
    from lockstep.compile.packing import ALIGNMENT, write_package

    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
    members = {"weights.safetensors": bytes(range(200)), "a.pt2": b"abc", "b": bytes(101), "c": bytes(99)}
    write_package(tmp_path / "model.ls2", {}, members)
    content = (tmp_path / "model.ls2").read_bytes()
    with zipfile.ZipFile(tmp_path / "model.ls2") as archive:
        for name, expected in members.items():
            header = archive.getinfo(name).header_offset
            begin = header + 30 + sum(int.from_bytes(content[header + at : header + at + 2], "little") for at in (26, 28))
            assert archive.read(name) == expected and content[begin : begin + len(expected)] == expected and begin % ALIGNMENT == 0


@pytest.mark.parametrize("size", [0, 1, 5, 4095, 4097, 70000, long((1 << 24) + 3)])
def test_checksums_of_tensors(size):
    from lockstep.compile.checksums import crc32c
    from lockstep.event_log import frames

    data = numpy.random.default_rng(size).integers(0, 256, size, dtype=numpy.uint8)
    assert crc32c(data) == frames.crc32c(data.tobytes())


INVALID = {
    "no rank": (["--lora", "alpha=2"], "rank is missing"),
    "a rank of 0": (["--lora", "rank=0"], "rank: '0' is not valid, expected an integer of at least 1"),
    "no number": (["--lora", "rank=2,alpha=x"], "alpha: 'x' is not valid, expected a number above 0"),
    "all dropped": (["--lora", "rank=2,dropout=1"], "dropout: '1' is not valid, expected a number of at least 0 and below 1"),
    "a flag": (["--lora", "rank=2,dora=yes"], "dora: 'yes' is not valid, expected true or false"),
    "an empty name": (["--lora", "rank=2,targets=q_proj+"], "targets: 'q_proj+' is not valid, expected names of layers"),
    "an unknown setting": (["--lora", "rnk=2"], "unknown setting 'rnk'; did you mean 'rank'?"),
    "settings without names": (["--lora", "16"], "unknown setting '16'; valid: rank, alpha"),
    "no such layer": (["--lora", "rank=2,targets=q_proj+w_proj"], "targets: no linear layer is called 'w_proj'; there are down_proj, gate_proj"),
    "no linear layer": (["--lora", "rank=2,targets=embed_tokens"], "targets: no linear layer is called 'embed_tokens'"),
    "no such module": (["--lora", "rank=2,modules_to_save=head"], "modules_to_save: no module is called 'head'; there are"),
    "both": (["--lora", "rank=2", "--adapter", "DIR"], "--lora starts new adapters, --adapter continues those of a directory: remove one"),
    "no adapter": (["--adapter", "nowhere"], "--adapter nowhere: has no adapter_config.json: expected a directory written by PEFT"),
    "a base in bf16 only": (["--lora", "rank=2", "--base-dtype", "bf16"], "--base-dtype bf16: needs --precision bf16"),
    "a base without adapters": (["--base-dtype", "bf16"], "--base-dtype bf16: only with --lora or --adapter"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_settings(capsys, tmp_path, base, name):
    arguments, text = INVALID[name]
    assert text in refused(capsys, tmp_path, f"hf:{base}", *arguments)


CHANGED = {  # of adapter_config.json
    "another kind": ({"peft_type": "IA3"}, "adapter_config.json: peft_type 'IA3' is not supported, only LORA"),
    "other layers": ({"target_modules": ["c_attn"]}, "c_attn"),
    "another rank": ({"r": 3}, "is [2, 16] in the file and [3, 16] in the model: is it an adapter of another base model?"),
    "fewer layers": ({"target_modules": ["q_proj"]}, "which the model does not have: is it an adapter of another base model?"),
    "embeddings": ({"target_modules": ["embed_tokens"]}, "'model.embed_tokens' is of type Embedding: only linear layers can have adapters"),
    "biases": ({"bias": "lora_only"}, "'bias' is 'lora_only'; only 'none' is supported"),
    "weights of the base": ({"init_lora_weights": "pissa"}, "init_lora_weights 'pissa' changes the weights of the base model"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_invalid_adapters(capsys, tmp_path, base, adapter, name):
    changes, text = CHANGED[name]
    shutil.copytree(adapter, tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    line = refused(capsys, tmp_path, f"hf:{base}", "--adapter", tmp_path / "adapter")
    assert text in line and str(tmp_path / "adapter") in line


def test_other_reasons(capsys, tmp_path, base, monkeypatch):
    other = hf_cases.save(Case(MODEL.model, MODEL.config, {**hf_cases.GROUPED, "tie_word_embeddings": True}, MODEL.data), tmp_path / "tied")
    assert "these cannot be trained in full" in refused(capsys, tmp_path, f"hf:{other}", "--lora", "rank=2,modules_to_save=embed_tokens")
    shutil.rmtree(tmp_path / "out")
    assert "targets has 'lm_head', whose weights are also the embeddings" in refused(
        capsys, tmp_path, f"hf:{other}", "--lora", "rank=2,targets=q_proj+lm_head")
    shutil.rmtree(tmp_path / "out")
    empty = config_of(tmp_path / "empty")
    assert f"{empty} has no weights" in refused(capsys, tmp_path, f"hf:{empty}", "--lora", "rank=2")
    shutil.rmtree(tmp_path / "out")
    function = refused(capsys, tmp_path, "lockstep.models:mlp", "--loss", "mse", "--batch", "example", "--lora", "rank=2")
    assert function == "--lora: only for hf:DIR"
    shutil.rmtree(tmp_path / "out")
    monkeypatch.setitem(sys.modules, "peft", None)
    assert "peft, which is not installed: pip install 'lockstep[hf]', or pip install peft==" in refused(
        capsys, tmp_path, f"hf:{base}", "--lora", "rank=2")


def test_a_package_with_invalid_adapters(job, package):
    """A tensor that the model does not have."""
    broken = job.directory / "broken.ls2"
    with zipfile.ZipFile(package) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    manifest["adapter"]["tensors"]["nothing"] = "nothing"
    members["manifest.json"] = json.dumps(manifest)
    with zipfile.ZipFile(broken, "w", zipfile.ZIP_STORED) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    use(job, broken)
    refuse(job, [], ["has an adapter with 'nothing', which is not a tensor of the model; compile the model again"], None)
