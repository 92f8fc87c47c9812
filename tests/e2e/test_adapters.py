"""Adapters of language models (LoRA, rank-stabilized LoRA, DoRA, modules trained in full): as in PEFT, and what checkpoints of them
contain."""

import json
import shutil

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

import processes
import test_hugging_face as hf
from conftest import Job
from processes import LOCKSTEP
from refusals import refuse
from safetensors_file import assert_same_bits, checkpoints, crc32c, last_weights, read_raw

STEPS = 60
KINDS = {
    "lora": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]},
    "rslora": {"r": 4, "lora_alpha": 4, "target_modules": "all-linear", "use_rslora": True},
    "dora": {"r": 2, "lora_alpha": 8, "target_modules": ["q_proj", "o_proj", "down_proj"], "use_dora": True},
    "saved": {"r": 2, "lora_alpha": 4, "target_modules": ["k_proj"], "modules_to_save": ["lm_head", "embed_tokens"]},
}


def read_base(directory, **how):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager", **how)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A base model whose projections of queries, keys and values have biases."""
    directory = tmp_path_factory.mktemp("base") / "hf"
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(transformers.Qwen2Config(**hf.SIZES))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(directory)
    (directory / "tokenizer.json").write_text('{"version": "1.0"}')
    return directory


def adapt(base, directory, kind):
    """A model of PEFT whose adapters change the base model, saved in `directory`."""
    torch.manual_seed(1)
    model = peft.get_peft_model(read_base(base), peft.LoraConfig(**KINDS[kind], task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.02)
            elif "lora_magnitude" in name:
                parameter.mul_(1.1)
    model.save_pretrained(directory)
    return model


def configure(job, base, lora, **train):
    batch = hf.configure(job, base, **train)
    job.config["model"]["lora"] = lora
    job.write()
    return batch


def train_in_peft(model, batch):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, weight_decay=0.1)
    inputs, targets = (part.split(8) for part in batch)
    losses = []
    model.train()
    for step in range(STEPS):
        number = step % len(inputs)
        loss = F.cross_entropy(model(inputs[number]).logits.flatten(0, 1), targets[number].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def ckpt(job, *words, code=0):
    ended = processes.run([LOCKSTEP, "ckpt", *words, "--dir", job.runs], job.directory)
    assert ended.code == code, ended.out + ended.err
    return ended


def export_error(job, *words):
    ended = ckpt(job, "export", *words, code=78)
    assert len(ended.err.splitlines()) == 1, ended.err
    return ended.err


def manifest_of(run_dir):
    return last_weights(run_dir).parent / "manifest.json"


@pytest.mark.parametrize("kind, ranks", [("lora", None), ("rslora", 2), ("dora", None), ("dora", 2), ("saved", 2)])
def test_adapters_are_those_of_peft(job, base, kind, ranks):
    adapter = job.directory / "adapter"
    model = adapt(base, adapter, kind)
    batch = configure(job, base, {"path": str(adapter)}, max_steps=STEPS, log_every="1 step", eval_every="1000 epochs")
    assert (hf.logits_here(job) - hf.logits_of(model.eval(), batch[0])).abs().max() < 1e-5
    run_dir = job.train(ranks=ranks)
    expected = train_in_peft(model, batch)
    losses = [value for _, value in job.series(run_dir.name, "train/loss")]
    assert losses == pytest.approx(expected, abs=1e-4)
    assert expected[0] - expected[-1] > 0.1

    # The checkpoint contains what was trained, under the names of the model.
    step = last_weights(run_dir).parent
    trained = {name.replace(".modules_to_save", "").replace(".default", "").removeprefix("base_model.model.")
               for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert set(read_raw(last_weights(run_dir))) == trained
    content = json.loads((step / "manifest.json").read_text())["content"]
    assert content["base"]["path"] == str(base / "model.safetensors")
    whole = load_file(base / "model.safetensors")
    assert set(content["base"]["checksums"]) == set(whole) - trained
    assert all(crc32c(read_raw(base / "model.safetensors")[name][2]) == value for name, value in list(content["base"]["checksums"].items())[:3])

    # PEFT reads it, as the run that resumes.
    read = peft.PeftModel.from_pretrained(read_base(base), step).eval()
    ended = job.run(options=["--predict", job.directory / "logits", "--resume", run_dir.name])
    assert ended.code == 0, ended.err
    assert (load_file(job.directory / "logits")["predictions"] - hf.logits_of(read, batch[0])).abs().max() < 1e-5
    assert (hf.logits_of(read, batch[0]) - hf.logits_of(model.eval(), batch[0])).abs().max() < 1e-2

    # Exported: the adapter, and the model with the adapters merged.
    out = ckpt(job, "export", run_dir.name, f"--out={job.directory}/peft/").out
    assert f"adapter of step {STEPS} in {job.directory}/peft" in out
    assert sorted(file.name for file in (job.directory / "peft").iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    assert_same_bits(job.directory / "peft" / "adapter_model.safetensors", step / "adapter_model.safetensors")
    (job.directory / "merged").mkdir()  # may exist if it is empty
    ckpt(job, "export", f"{run_dir.name}:{STEPS}", "--out", job.directory / "merged", "--merge")
    merged = read_base(job.directory / "merged").eval()
    theirs = read.merge_and_unload().state_dict()
    assert load_file(job.directory / "merged" / "model.safetensors").keys() == whole.keys()
    for name, tensor in merged.state_dict().items():
        assert (tensor - theirs[name]).abs().max() <= 1e-6, name
    assert (job.directory / "merged" / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()
    assert not list(job.directory.glob(".tmp-*"))


@pytest.mark.parametrize("kind", ["rslora", "dora", "saved"])
def test_adapters_return_unchanged(job, base, kind):
    """Read and written without training: byte-equal tensors, and the settings."""
    adapter = job.directory / "adapter"
    adapt(base, adapter, kind)
    configure(job, base, {"path": str(adapter)}, max_steps=1)
    run_dir = job.train("optimizer.lr=1e-30", "optimizer.weight_decay=0")
    assert_same_bits(last_weights(run_dir).parent / "adapter_model.safetensors", adapter / "adapter_model.safetensors")
    ours, theirs = (json.loads((path / "adapter_config.json").read_text()) for path in (last_weights(run_dir).parent, adapter))
    for key in ours.keys() - {"base_model_name_or_path", "target_modules"}:
        assert ours[key] == theirs[key], key
    if isinstance(theirs["target_modules"], list):
        assert sorted(ours["target_modules"]) == sorted(theirs["target_modules"])


def test_dora_starts_at_the_base_model(job, base):
    batch = configure(job, base, {"rank": 2, "dora": True})
    assert (hf.logits_here(job) - hf.logits_of(read_base(base).eval(), batch[0])).abs().max() < 1e-5


def weights_of(run_dir):
    tensors = {}
    for file in sorted(last_weights(run_dir).parent.glob("model*.safetensors")):
        tensors |= load_file(file)
    return tensors


@pytest.mark.parametrize("shard, backend", [("optimizer", "auto"), ("gradients", "auto"), ("full", "auto"), ("full", "gloo")])
def test_sharded_runs_have_the_same_bits_and_resume(job, base, shard, backend):
    """Stopped and resumed, also with another number of ranks."""
    configure(job, base, {"rank": 2, "dora": True, "modules_to_save": ["lm_head"]}, max_steps=6, ema={"decay": 0.5})
    whole = weights_of(job.train(ranks=2))
    how = [f"distributed.shard={shard}", f"distributed.backend={backend}"]
    part = job.train(*how, "train.max_steps=3", ranks=2)
    assert "model.norm.weight" not in weights_of(part) and "lm_head.weight" in weights_of(part)
    assert "model.norm.weight" not in set().union(*(read_raw(file) for file in last_weights(part).parent.glob("ema*.safetensors")))
    other = job.runs / f"{part.name[:-1]}{'0' if part.name[-1] != '0' else '1'}"
    shutil.copytree(part, other)
    assert job.run(*how, ranks=2, options=["--resume", part.name]).code == 0
    resumed = weights_of(part)
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)
    ended = job.run(options=["--resume", other.name])
    assert ended.code == 0, ended.err
    alone = weights_of(other)
    assert all((whole[name] - alone[name]).abs().max() < 1e-4 for name in whole)


def test_a_run_of_one_rank_is_resumed_by_two(job, base):
    configure(job, base, {"rank": 2}, max_steps=3)
    run_dir = job.train()
    ended = job.run("train.max_steps=5", "distributed.shard=full", ranks=2, options=["--resume", run_dir.name])
    assert ended.code == 0, ended.err
    assert checkpoints(run_dir)[-1] == 5 and "base" in json.loads(manifest_of(run_dir).read_text())["content"]


def test_base_weights_in_bf16(job, base):
    """Adapters are fp32, and the logits those of PEFT on a base model in bf16."""
    adapter = job.directory / "adapter"
    adapt(base, adapter, "lora")
    batch = configure(job, base, {"path": str(adapter)}, max_steps=30, log_every="1 step")
    exact = hf.logits_here(job)
    model = peft.PeftModel.from_pretrained(read_base(base, dtype=torch.bfloat16), adapter).eval()
    rounded = hf.logits_of(model, batch[0]).float()
    job.config["model"]["base_dtype"] = "bf16"
    job.write()
    ours = hf.logits_here(job)
    assert 0 < (ours - exact).abs().mean() < 1.5 * (rounded - exact).abs().mean()
    runs = [job.train(f"distributed.shard={shard}", ranks=2) for shard in ("none", "full")]
    losses = [value for _, value in job.series(runs[0].name, "train/loss")]
    assert losses[-1] < losses[0] - 0.05
    assert {dtype for dtype, _, _ in read_raw(last_weights(runs[0])).values()} == {"F32"}
    none, full = (weights_of(run) for run in runs)
    assert all(torch.equal(none[name], full[name]) for name in none)
    ckpt(job, "export", runs[0].name, "--out", job.directory / "merged", "--merge")
    assert read_base(job.directory / "merged").lm_head.weight.dtype == torch.float32, "as in the base model's file"


@pytest.fixture
def trained(job, base):
    """A run with a separate base model, of one checkpoint."""
    shutil.copytree(base, job.directory / "hf")
    configure(job, job.directory / "hf", {"rank": 2}, max_steps=2)
    return job.train()


def change(file):
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)


def test_checkpoints_are_listed_verified_and_compared(job, trained):
    base = job.directory / "hf" / "model.safetensors"
    assert f"  base {base}" in ckpt(job, "list", trained.name).out
    assert json.loads(ckpt(job, "list", trained.name, "--json").out)[0]["base"] == str(base)
    assert "of the base model" in ckpt(job, "verify", trained.name).out
    again = job.train()
    lines = ckpt(job, "diff", trained.name, again.name).out.splitlines()
    assert [line.split()[0] for line in lines] == ["base", "model", "optimizer"]
    shutil.copytree(base.parent, job.directory / "other")
    change(job.directory / "other" / "model.safetensors")
    other = job.train(f"model.path={job.directory}/other", "optimizer.lr=1e-30", "optimizer.weight_decay=0")
    text = ckpt(job, "diff", trained.name, other.name, code=1).out
    assert "only in one" not in text and "are bit-identical" in text
    change(base)
    line = ckpt(job, "verify", trained.name, code=75).out
    assert "BASE MODEL: base model " in line and str(base) in line and "has changed since the checkpoint was written" in line
    assert "2 " in ckpt(job, "list", trained.name).out
    base.unlink()
    line = ckpt(job, "verify", trained.name, code=75).out
    assert "BASE MODEL: base model: cannot read " in line and str(base) in line and line.count("\n") == 1


def test_a_base_model_that_changed_is_one_clear_line(job, trained):
    base = job.directory / "hf" / "model.safetensors"
    shutil.copytree(base.parent, job.directory / "original")
    change(base)
    resume = {"options": ["--resume", trained.name]}
    for ranks in (None, 2):
        ended = job.run("train.max_steps=3", ranks=ranks, **resume)
        assert ended.code == 78, ended.err
        assert f"base model {base}: '" in ended.err and "' has changed since the checkpoint was written" in ended.err
        assert ranks or len(ended.err.splitlines()) == 1
    out = export_error(job, trained.name, "--out", job.directory / "merged", "--merge")
    assert "has changed since the checkpoint was written" in out and not (job.directory / "merged").exists()
    ckpt(job, "export", trained.name, "--out", job.directory / "adapter")  # does not need it
    # The original, where model.path says.
    ended = job.run("train.max_steps=3", f"model.path={job.directory}/original", **resume)
    assert (ended.code, checkpoints(trained)[-1]) == (0, 3), ended.err


def write_manifest(run, manifest):
    text = json.dumps(manifest["content"], separators=(",", ":"))
    manifest["crc32c"] = crc32c(text.encode())
    manifest_of(run).write_text(json.dumps(manifest))


def test_adapters_are_not_dropped_when_merged(job, trained):
    """If the base model has no weight that they change, as with embeddings that are also the last layer."""
    manifest = json.loads(manifest_of(trained).read_text())
    name = "model.layers.0.self_attn.q_proj.weight"
    del manifest["content"]["base"]["checksums"][name]
    write_manifest(trained, manifest)
    err = ckpt(job, "export", trained.name, "--out", job.directory / "merged", "--merge", code=78).err
    assert f"--merge: the base model has no '{name}'" in err and not (job.directory / "merged").exists()


def test_a_checkpoint_of_a_later_version_is_refused(job, trained):
    manifest = json.loads(manifest_of(trained).read_text())
    manifest["content"]["format"] += 1
    write_manifest(trained, manifest)
    for command in ("list", "verify"):
        assert "OTHER VERSION: " in ckpt(job, command, trained.name, code=78).out
    assert "written by a later version" in job.run(options=["--resume", trained.name]).err


def test_runs_without_adapters_are_exported(job, base):
    hf.configure(job, base, max_steps=1)
    run_dir = job.train("checkpoint.writers=all", ranks=2)
    ckpt(job, "export", run_dir.name, "--out", "model")
    out = job.directory / "model"
    assert len(list(out.glob("model-0000*.safetensors"))) == 2 and (out / "tokenizer.json").exists()
    ours = read_base(out).state_dict()
    assert all(torch.equal(ours[name], tensor) for name, tensor in weights_of(run_dir).items())
    assert "'model' is not empty" in export_error(job, run_dir.name, "--out", "model")
    assert "has no adapters" in export_error(job, run_dir.name, "--out", "x", "--merge")
    assert "expected --out PATH" in export_error(job, run_dir.name)
    assert "is not a directory" in export_error(job, run_dir.name, "--out", job.file)
    assert "unknown option '--merg'; did you mean '--merge'?" in export_error(job, run_dir.name, "--merg")
    mlp = Job(job.directory / "runs")
    mlp.runs = job.runs
    mlp.config["run"]["dir"] = str(job.runs)
    mlp.config["train"]["max_steps"] = 1
    mlp.write()
    assert "--format safetensors exports any model" in export_error(job, mlp.train().name, "--out", "x", "--format", "hf")


def test_averaged_weights_are_exported(job, base):
    """As they are evaluated: of an adapter, of a model with it, and of a model without adapters."""
    adapter = job.directory / "adapter"
    adapt(base, adapter, "dora")
    train = {"max_steps": 4, "ema": {"decay": 0.9}}
    for lora in ({"path": str(adapter)}, None):
        batch = configure(job, base, lora, **train) if lora else hf.configure(job, base, **train)
        run_dir = job.train()
        ended = job.run(options=["--predict", job.directory / "logits", "--resume", run_dir.name])
        assert ended.code == 0, ended.err
        expected = load_file(job.directory / "logits")["predictions"]
        out = job.directory / run_dir.name
        ckpt(job, "export", run_dir.name, "--out", out)
        found = [peft.PeftModel.from_pretrained(read_base(base), out) if lora else read_base(out)]
        if lora:
            ckpt(job, "export", run_dir.name, "--out", job.directory / "merged", "--merge")
            found.append(read_base(job.directory / "merged"))
        for model in found:
            assert (hf.logits_of(model.eval(), batch[0]) - expected).abs().max() < 1e-5
        trained = load_file(last_weights(run_dir))
        assert not all(torch.equal(trained[name], tensor) for name, tensor in load_file(last_weights(run_dir).parent / "ema.safetensors").items())

    # Without a stored base model, the averages are of all weights.
    configure(job, base, {"rank": 2}, **train)
    run_dir = job.train("model.weights=false")
    ckpt(job, "export", run_dir.name, "--out", job.directory / "whole")
    checkpoint = last_weights(run_dir).parent
    averages, found = load_file(checkpoint / "ema.safetensors"), load_file(job.directory / "whole" / "adapter_model.safetensors")
    assert found.keys() == load_file(checkpoint / "adapter_model.safetensors").keys() and len(found) < len(averages)
    assert all(torch.equal(tensor, averages[name.removeprefix("base_model.model.")]) for name, tensor in found.items())


@pytest.mark.parametrize("lora, text", [
    ({"alpha": 8}, "model.lora.alpha"),
    ({"rank": 2, "modules_to_save": ["head"]}, "lora.modules_to_save: no module without adapter is called 'head'; there are "),
    ({"rank": 2, "targets": ["lm_head"]}, "lora.targets: no projection is called 'lm_head'; there are "),
    ({"path": "nowhere"}, "lora.path: nowhere has no adapter_config.json: expected a directory written by PEFT's save_pretrained()"),
    ({"path": "adapter", "rank": 8}, "lora.rank is 8, but adapter/adapter_config.json has 4; remove it"),
    ({"path": "adapter", "alpha": 4}, "lora.alpha is 4, but adapter/adapter_config.json has 8; remove it"),
    ({"path": "adapter", "dora": True}, "lora.dora is true, but adapter/adapter_config.json has false; remove it"),
    ({"path": "adapter", "targets": ["k_proj"]}, "lora.targets is [k_proj], but adapter/adapter_config.json has ["),
])
def test_settings_that_do_not_fit_are_rejected(job, base, lora, text):
    adapt(base, job.directory / "adapter", "lora")
    configure(job, base, lora)
    refuse(job, [], [text], None)


@pytest.mark.parametrize("values, text", [
    ({"peft_type": "IA3"}, "peft_type 'IA3' is not supported, only LORA"),
    ({"rank_pattern": {"q_proj": 2}}, "'rank_pattern' is not supported"),
    ({"bias": "all"}, "'bias' is 'all'; only 'none' is supported"),
    ({"target_modules": ".*proj"}, "'target_modules' is the pattern '.*proj'; a list of names and 'all-linear' are supported"),
    ({"init_lora_weights": "pissa_niter_4"}, "'init_lora_weights' is 'pissa_niter_4', with which PEFT changes the weights of the base model"),
    ({"r": "4"}, "'r' is \"4\", expected an integer from 1 to "),
    ({"r": 8}, "[4,32] in the file and [8,32] in the model: is it an adapter of another base model?"),
    ({"target_modules": ["q_proj"]}, "which the model does not have: is it an adapter of another base model?"),
    ({"target_modules": ["q_proj", "v_proj", "k_proj"]}, "k_proj.lora_A.weight', which the model needs: is it an adapter of another base model?"),
])
def test_adapters_of_other_kinds_and_models_are_rejected(job, base, values, text):
    adapter = job.directory / "adapter"
    adapt(base, adapter, "lora")
    settings = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**settings, **values}))
    configure(job, base, {"path": str(adapter)})
    refuse(job, [], [str(adapter), text], None)


def test_adapters_that_cannot_be_read_are_rejected(job, base):
    adapter = job.directory / "adapter"
    adapt(base, adapter, "lora")
    configure(job, base, {"path": str(adapter)})
    refuse(job, [f"train.init_from={base}/model.safetensors"], ["remove train.init_from, or lora.path of the model"], None)
    refuse(job, ["model.weights=false"], ["remove weights: false"], None)
    (adapter / "adapter_config.json").write_text("{")
    refuse(job, [], [str(adapter / "adapter_config.json"), "not valid JSON"], None)
    (adapter / "adapter_model.safetensors").unlink()
    refuse(job, [], ["has no adapter_model.safetensors"], None)


def test_tied_embeddings_are_not_trained_in_full(job):
    hf.make("llama 3", job.directory / "hf")
    configure(job, job.directory / "hf", {"rank": 2, "modules_to_save": ["embed_tokens"]})
    refuse(job, [], ["lora.modules_to_save: 'embed_tokens' is also the output projection (tied embeddings)"], None)


def test_a_base_model_that_lacks_a_weight(job, base):
    """The message names the model, not train.init_from, which the run file does not have."""
    shutil.copytree(base, job.directory / "hf")
    file = job.directory / "hf" / "model.safetensors"
    save_file({name: tensor for name, tensor in load_file(file).items() if name != "model.norm.weight"}, file, {"format": "pt"})
    configure(job, job.directory / "hf", {"rank": 2})
    refuse(job, [], [f"model: {file}: has no 'model.norm.weight'"], None)
