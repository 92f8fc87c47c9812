"""Model hf: open language models from a directory in Hugging Face's layout, and back, compared with transformers."""

import json
import sys

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from conftest import long
from processes import SOURCE
from refusals import refuse
from safetensors_file import last_weights

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import tokens  # noqa: E402

torch.set_num_threads(1)  # these models are small
CONTEXT = 24
VOCABULARY = 97
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN_ROPE = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}


def many_headed():
    """The sizes of families without grouped-query attention."""
    return {name: value for name, value in SIZES.items() if name != "num_key_value_heads"}


def family(config, **more):
    return lambda: config(**{**SIZES, **more})


FAMILIES = {
    "llama 2": family(transformers.LlamaConfig, num_key_value_heads=4),
    "llama 3": family(transformers.LlamaConfig, rope_parameters=LLAMA3_ROPE, tie_word_embeddings=True),
    "llama with biases": family(transformers.LlamaConfig, attention_bias=True, mlp_bias=True, head_dim=16),
    "linear rope": family(transformers.LlamaConfig, rope_parameters=LINEAR_ROPE),
    "yarn": family(transformers.LlamaConfig, rope_parameters=YARN_ROPE),
    "mistral": family(transformers.MistralConfig, sliding_window=8),
    "qwen 2": family(transformers.Qwen2Config, tie_word_embeddings=True),
    "qwen 2 with windows": family(transformers.Qwen2Config, use_sliding_window=True, sliding_window=8, max_window_layers=1),
    "qwen 3": family(transformers.Qwen3Config, head_dim=16),
    "gemma 2": family(transformers.Gemma2Config, head_dim=16, query_pre_attn_scalar=16, sliding_window=8),
    "gemma 3": family(
        transformers.Gemma3TextConfig, head_dim=16, query_pre_attn_scalar=24, sliding_window=8, num_hidden_layers=7
    ),
    "phi 3": family(transformers.Phi3Config, pad_token_id=0),
    "olmo 2": family(transformers.Olmo2Config),
    "gpt-neox": lambda: transformers.GPTNeoXConfig(**many_headed()),
    "gpt-neox, sequential": lambda: transformers.GPTNeoXConfig(**many_headed(), use_parallel_residual=False),
    "mixtral": family(transformers.MixtralConfig, num_local_experts=4, num_experts_per_tok=2),
    "qwen 2 moe": family(
        transformers.Qwen2MoeConfig, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
        shared_expert_intermediate_size=40, router_aux_loss_coef=0.1, output_router_logits=True,
    ),
    "qwen 3 moe": family(
        transformers.Qwen3MoeConfig, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=16
    ),
    "qwen 3 moe with windows": family(
        transformers.Qwen3MoeConfig, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=16,
        use_sliding_window=True, sliding_window=8, max_window_layers=3,
    ),
}


def make(name, directory):
    """A model with random weights, of norms and biases too, saved in `directory`."""
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(FAMILIES[name](), attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(directory)
    return model


def configure(job, directory, **train):
    text = job.directory / "text.bin"
    tokens.write_tokens(text, np.random.default_rng(1).integers(0, VOCABULARY, 48 * CONTEXT + 1))
    data = {"name": "tokens", "path": str(text), "length": CONTEXT}
    job.config.update(
        model={"name": "hf", "path": str(directory)},
        data={"train": data, "eval": data, "batch_size": 8, "eval_batch_size": 8, "shuffle": False},
        optimizer={"name": "adamw", "lr": 1e-3, "weight_decay": 0.1},
        train={"epochs": 100, **train},
    )
    job.write()
    return tokens.load_windows(text, CONTEXT)


def logits_here(job, *overrides):
    out = job.directory / "logits.safetensors"
    ended = job.run(*overrides, options=["--predict", out])
    assert (ended.code, ended.err) == (0, ""), ended.err
    return load_file(out)["predictions"]


def logits_of(model, inputs):
    with torch.no_grad():
        return torch.cat([model(part).logits for part in inputs.split(8)])


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_transformers(job, name):
    model = make(name, job.directory / "hf")
    inputs, _ = configure(job, job.directory / "hf")
    expected = logits_of(model, inputs)
    assert expected.std() > 0.1
    assert (logits_here(job) - expected).abs().max() < 1e-5


@pytest.mark.parametrize("family", ["Mistral", "Qwen3", long("Gemma2"), long("Gemma3Text"), long("Phi3"), long("Olmo2"), "Mixtral"])
def test_missing_keys_have_the_defaults_of_transformers(job, monkeypatch, family):
    keys = ["num_key_value_heads", "head_dim", "rms_norm_eps", "sliding_window", "attn_logit_softcapping", "final_logit_softcapping", "rope_parameters"]
    kind = getattr(transformers, family + "Config")
    sizes = {**many_headed(), "hidden_size": 64, "num_attention_heads": 32, "num_hidden_layers": 6, "pad_token_id": 0}
    monkeypatch.setitem(FAMILIES, family, lambda: kind(**sizes))
    directory = job.directory / "hf"
    model = make(family, directory)
    inputs, _ = configure(job, directory)
    usual = kind().to_dict()
    values = json.loads((directory / "config.json").read_text())
    missing = [key for key in keys if key in values and values[key] == usual[key]]
    assert "rms_norm_eps" in missing
    (directory / "config.json").write_text(json.dumps({key: value for key, value in values.items() if key not in missing}))
    assert (logits_here(job) - logits_of(model, inputs)).abs().max() < 1e-5


@pytest.mark.parametrize("name", [long("llama 3"), long("gemma 2"), "mixtral"])
def test_logits_under_bf16_autocast(job, name):
    """As close to fp32 as transformers under the same autocast."""
    model = make(name, job.directory / "hf")
    inputs, _ = configure(job, job.directory / "hf")
    exact = logits_of(model, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = logits_of(model, inputs).float()
    ours = logits_here(job, "train.precision=bf16")
    assert 0 < (ours - exact).abs().mean() < 1.5 * (rounded - exact).abs().mean()


def loss_in_python(model, inputs, targets, parts):
    """With experts that are balanced, each part of the batch has its own loss for it."""
    if not getattr(model.config, "output_router_logits", False):
        return F.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten())
    losses = []
    for rows in range(parts):
        out = model(inputs[rows::parts])
        losses.append(F.cross_entropy(out.logits.flatten(0, 1), targets[rows::parts].flatten()) + model.router_aux_loss_coef * out.aux_loss)
    return sum(losses) / parts


def train_in_python(directory, batch, steps, parts=1):
    """Full training with transformers: the losses, and the model."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    inputs, targets = (part.split(8) for part in batch)
    losses = []
    for step in range(steps):
        number = step % len(inputs)
        loss = loss_in_python(model, inputs[number], targets[number], parts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


# With experts, a difference in the last bit can change which expert is chosen: from there on, curves differ.
@pytest.mark.parametrize("name, ranks, steps", [long("llama 3", None, 200), ("llama 3", 2, 200), long("gemma 2", None, 200), long("qwen 3 moe", 2, 100),
                                                long("qwen 2 moe", None, 60), ("qwen 2 moe", 2, 60)])
def test_steps_have_the_losses_of_transformers(job, name, ranks, steps):
    make(name, job.directory / "hf")
    batch = configure(job, job.directory / "hf", max_steps=steps, log_every="1 step", eval_every="1000 epochs")
    run_dir = job.train(ranks=ranks)
    expected, model = train_in_python(job.directory / "hf", batch, steps, ranks or 1)
    losses = [value for _, value in job.series(run_dir.name, "train/loss")]
    assert losses == pytest.approx(expected, abs=1e-4)
    assert expected[0] - expected[-1] > 1
    # A checkpoint is a directory for from_pretrained(), with the weights of the last step.
    read = transformers.AutoModelForCausalLM.from_pretrained(last_weights(run_dir).parent, attn_implementation="eager").eval()
    job.config["model"]["path"] = str(last_weights(run_dir).parent)
    job.write()
    assert (logits_here(job) - logits_of(read, batch[0])).abs().max() < 1e-5
    assert (logits_of(read, batch[0]) - logits_of(model.eval(), batch[0])).abs().max() < 1e-2


def test_weights_return_unchanged(job):
    """Read and written without training: byte-equal tensors, and the files that belong to them."""
    directory = job.directory / "hf"
    make("qwen 2", directory)
    (directory / "tokenizer.json").write_text('{"version": "1.0"}')
    configure(job, directory, max_steps=1)
    run_dir = job.train("optimizer.lr=1e-30", "optimizer.weight_decay=0", ranks=2)
    before, after = load_file(directory / "model.safetensors"), load_file(last_weights(run_dir))
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    for file in ("config.json", "generation_config.json", "tokenizer.json"):
        assert (last_weights(run_dir).parent / file).read_bytes() == (directory / file).read_bytes()


def test_sharded_files_and_other_types_are_read(job):
    directory = job.directory / "hf"
    model = make("llama 2", directory)
    (directory / "model.safetensors").unlink()
    model.to(torch.bfloat16).save_pretrained(directory, max_shard_size="20KB")
    assert (directory / "model.safetensors.index.json").exists()
    inputs, _ = configure(job, directory)
    read = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    assert (logits_here(job) - logits_of(read, inputs)).abs().max() < 1e-5
    assert json.loads((directory / "config.json").read_text())["dtype"] == "bfloat16"
    saved = last_weights(job.train("train.max_steps=1")).parent
    assert transformers.AutoModelForCausalLM.from_pretrained(saved).dtype == torch.float32  # as its weights are


@pytest.mark.parametrize("shard, backend", [("full", "auto"), ("full", "gloo")])
def test_sharded_ranks_have_the_same_bits(job, shard, backend):
    make("llama 3", job.directory / "hf")
    configure(job, job.directory / "hf", max_steps=5)
    runs = [job.train(f"distributed.shard={choice}", f"distributed.backend={backend}", ranks=2) for choice in ("none", shard)]
    whole, sharded = (load_weights(run_dir) for run_dir in runs)
    assert all(torch.equal(whole[name], sharded[name]) for name in whole)


def load_weights(run_dir):
    tensors = {}
    for file in sorted(last_weights(run_dir).parent.glob("model*.safetensors")):
        tensors |= load_file(file)
    return tensors


@pytest.mark.parametrize("name", ["gemma 2", "qwen 2 moe"])
def test_recomputation_has_the_same_bits(job, name):
    make(name, job.directory / "hf")
    configure(job, job.directory / "hf", max_steps=5)
    plain, recomputed = (load_weights(job.train(f"train.recompute={what}")) for what in ("none", "blocks"))
    assert all(torch.equal(plain[name], recomputed[name]) for name in plain)


def test_random_weights_for_pretraining(job):
    directory = job.directory / "hf"
    make("llama 2", directory)
    (directory / "model.safetensors").unlink()
    configure(job, directory, max_steps=60)
    job.config["model"]["weights"] = False
    job.write()
    run_dir = job.train("train.log_every=1 step")
    losses = [value for _, value in job.series(run_dir.name, "train/loss")]
    assert losses[0] == pytest.approx(np.log(VOCABULARY), abs=0.2)
    assert losses[-1] < losses[0] - 0.2


def test_the_decoder_of_a_run_file(job):
    """Model decoder: the same parts, chosen in the run file."""
    configure(job, ".", max_steps=60, log_every="1 step")
    sizes = {"vocab_size": VOCABULARY, "context": CONTEXT, "layers": 2, "width": 32, "heads": 4, "kv_heads": 2}
    for more in ({}, {"experts": 4, "qk_norm": True}, {"gated": False, "activation": "gelu", "window": 8, "dropout": 0.1}):
        job.config["model"] = {"name": "decoder", **sizes, **more}
        job.write()
        run_dir = job.train()
        losses = [value for _, value in job.series(run_dir.name, "train/loss")]
        assert losses[-1] < losses[0] - 0.2


def change(directory, **values):
    file = directory / "config.json"
    config = json.loads(file.read_text())
    config.update(values)
    file.write_text(json.dumps(config))


@pytest.mark.parametrize(
    "values, text",
    [
        ({"model_type": "mamba"}, "model_type 'mamba' is not supported; these are: llama, mistral"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "'rope_type' is 'longrope'; default, linear, llama3 and yarn"),
        (
            {"model_type": "phi3", "rope_parameters": {"type": "yarn", "short_factor": [1.0], "long_factor": [2.0]}},
            "'rope_type': phi3 has default and longrope, as which transformers also reads yarn; only default is supported",
        ),
        ({"quantization_config": {"bits": 4}}, "quantized weights ('quantization_config') are not supported"),
        ({"hidden_act": "xielu"}, "'hidden_act' is 'xielu'; silu, gelu, gelu_pytorch_tanh and relu are supported"),
        ({"num_hidden_layers": "three"}, "'num_hidden_layers' is \"three\", expected an integer from 1 to"),
        ({"hidden_size": None}, "'hidden_size' is missing"),
        ({"num_key_value_heads": 3}, "4 heads cannot share 3 key-value heads"),
        ({"num_hidden_layers": 4}, "has no 'model.layers.3"),
        ({"num_hidden_layers": 2}, "has 'model.layers.2"),
        ({"intermediate_size": 40}, "is [48,32] in the file and [40,32] in the model"),
    ],
)
def test_models_that_do_not_fit_are_rejected(job, values, text):
    make("llama 2", job.directory / "hf")
    configure(job, job.directory / "hf")
    change(job.directory / "hf", **values)
    refuse(job, [], [str(job.directory / "hf"), text] if "heads cannot" not in text else [text], None)


EXTRA = {
    "llama 3": {
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4),
        "lm_head.weight": "model.embed_tokens.weight",
    },
    "gpt-neox": {
        "gpt_neox.layers.0.attention.bias": torch.ones(1, 1, 64, 64, dtype=torch.bool).tril(),
        "gpt_neox.layers.0.attention.masked_bias": torch.tensor(-1e9),
        "gpt_neox.layers.2.attention.rotary_emb.inv_freq": torch.ones(1),
    },
}


@pytest.mark.parametrize("name", EXTRA)
def test_tensors_that_transformers_does_not_use(job, name):
    """Those of earlier versions, as in Pythia and Llama 2, and a copy of tied embeddings, as in Qwen3-0.6B."""
    directory = job.directory / "hf"
    model = make(name, directory)
    file = directory / "model.safetensors"
    weights = load_file(file)
    extra = {key: weights[value].clone() if isinstance(value, str) else value for key, value in EXTRA[name].items()}
    save_file({**weights, **extra}, file, {"format": "pt"})
    inputs, _ = configure(job, directory, max_steps=1)
    assert (logits_here(job) - logits_of(model, inputs)).abs().max() < 1e-5
    read = transformers.AutoModelForCausalLM.from_pretrained(directory)
    assert (logits_of(read.eval(), inputs) - logits_of(model, inputs)).abs().max() < 1e-5
    assert not load_file(last_weights(job.train())).keys() & extra.keys()


def test_another_head_than_the_tied_embeddings_is_rejected(job):
    directory = job.directory / "hf"
    make("llama 3", directory)
    file = directory / "model.safetensors"
    weights = load_file(file)
    save_file({**weights, "lm_head.weight": weights["model.embed_tokens.weight"] + 1}, file)
    configure(job, directory)
    refuse(job, [], [str(file), "'lm_head.weight' differs from 'model.embed_tokens.weight'"], None)


def test_directories_without_a_model_are_rejected(job):
    directory = job.directory / "hf"
    configure(job, directory)
    refuse(job, [], ["model hf: ", f"{directory} is not a directory"], None)
    directory.mkdir()
    refuse(job, [], ["model hf: ", str(directory), "has no config.json"], None)
    (directory / "config.json").write_text("{")
    refuse(job, [], [str(directory / "config.json"), "not valid JSON"], None)
    make("llama 2", directory)
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    refuse(job, [], ["has neither model.safetensors nor model.safetensors.index.json", "weights: false"], None)


def test_tokens_outside_the_vocabulary_are_rejected(job):
    make("llama 2", job.directory / "hf")
    configure(job, job.directory / "hf")
    save = {"tokens": torch.full((8, 4), VOCABULARY), "targets": torch.zeros(8, 4, dtype=torch.int64)}
    save_file(save, job.directory / "outside.safetensors")
    data = json.dumps({"name": "safetensors", "path": str(job.directory / "outside.safetensors")})
    refuse(job, [f"data.train={data}"], [f"has token {VOCABULARY}", f"tokens 0 to {VOCABULARY - 1} are valid"], None)


def adapted_in_python(directory, targets, rslora):
    import peft

    base = transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager")
    torch.manual_seed(1)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=targets, use_rslora=rslora, task_type="CAUSAL_LM")
    model = peft.get_peft_model(base, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.02)  # so that the first steps train A too
    return model


def names_here(model):
    """The state of a model of PEFT, with the names of the checkpoints here."""
    tied = model.config.tie_word_embeddings
    names = {name: name.removeprefix("base_model.model.").replace(".base_layer", "").replace(".default", "") for name in model.state_dict()}
    return {names[name]: value.clone() for name, value in model.state_dict().items() if not (tied and names[name] == "lm_head.weight")}


@pytest.mark.parametrize(
    "name, targets, rslora, ranks",
    [long("llama 3", ["q_proj", "v_proj"], False, None), ("qwen 2", ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], True, 2),
     long("phi 3", ["qkv_proj", "down_proj"], False, 2)],
)
def test_adapters_have_the_losses_of_peft(job, name, targets, rslora, ranks):
    import peft

    directory = job.directory / "hf"
    make(name, directory)
    model = adapted_in_python(directory, targets, rslora).train()
    save_file(names_here(model), job.directory / "start.safetensors")
    inputs, targets_BT = configure(job, directory, max_steps=200, log_every="1 step", eval_every="1000 epochs")
    job.config["model"]["lora"] = {"rank": 4, "alpha": 8, "targets": targets, "rslora": rslora}
    job.write()
    run_dir = job.train(f"train.init_from={job.directory}/start.safetensors", ranks=ranks)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, weight_decay=0.1)
    expected = []
    for step in range(200):
        rows = slice(step % 6 * 8, step % 6 * 8 + 8)
        loss = F.cross_entropy(model(inputs[rows]).logits.flatten(0, 1), targets_BT[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    losses = [value for _, value in job.series(run_dir.name, "train/loss")]
    assert losses == pytest.approx(expected, abs=1e-4)
    assert expected[0] - expected[-1] > 0.1
    # The checkpoint is an adapter that PEFT reads.
    base = transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager")
    read = peft.PeftModel.from_pretrained(base, last_weights(run_dir).parent).eval()
    out = job.directory / "logits.safetensors"
    ended = job.run(options=["--predict", out, "--resume", run_dir.name])
    assert ended.code == 0, ended.err
    assert (load_file(out)["predictions"] - logits_of(read, inputs)).abs().max() < 1e-5
    assert (logits_of(read, inputs) - logits_of(model.eval(), inputs)).abs().max() < 1e-2


def test_adapters_start_at_the_base_model_and_leave_it_unchanged(job):
    directory = job.directory / "hf"
    model = make("mixtral", directory)
    inputs, targets = configure(job, directory, max_steps=3, log_every="1 step")
    job.config["model"]["lora"] = {"rank": 2, "dropout": 0.1}
    job.write()
    assert (logits_here(job) - logits_of(model, inputs)).abs().max() < 1e-5
    run_dir = job.train(ranks=2)
    after = load_weights(run_dir)
    added = set(after)
    assert all(".lora_A.weight" in name or ".lora_B.weight" in name for name in added)
    assert "model.layers.0.block_sparse_moe.experts.0.w1.lora_A.weight" in added
    assert not any(".gate.lora" in name or "lm_head" in name for name in added)
    assert any(after[name].abs().max() > 0 for name in added if "lora_B" in name)


def test_targets_that_do_not_exist_are_rejected(job):
    make("llama 2", job.directory / "hf")
    configure(job, job.directory / "hf")
    job.config["model"]["lora"] = {"rank": 2, "targets": ["query"]}
    job.write()
    refuse(job, [], ["model hf: lora.targets: no projection is called 'query'; there are ", "q_proj"], None)
