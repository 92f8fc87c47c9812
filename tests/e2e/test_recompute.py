"""train.recompute uses less memory; results are bit-identical."""

import copy
import os
import subprocess

import numpy as np
import pytest

from conftest import Job
from refusals import refuse
from safetensors_file import assert_same_bits, last_weights

pytestmark = pytest.mark.long

MODELS = {
    "gpt": {"name": "gpt", "vocab_size": 61, "context": 16, "layers": 3, "heads": 2, "width": 32, "dropout": 0.1},
    "vit": {"name": "vit", "image_size": 28, "patch_size": 7, "in_channels": 1, "classes": 10, "layers": 2, "heads": 2,
            "width": 16, "mlp_width": 32, "dropout": 0.2, "attention_dropout": 0.1},
    "resnet": {"name": "resnet", "depth": 18, "in_channels": 1, "classes": 10, "stem": "small"},
}
SETTINGS = {
    "fp32": [],
    "bf16": ["train.precision=bf16"],
    "fp16": ["train.precision=fp16"],
    "sharded": ["distributed.shard=full", "checkpoint.writers=main"],
    "gloo": ["distributed.backend=gloo"],
}


def use_model(job, name):
    job.config["model"] = copy.deepcopy(MODELS[name])
    if name == "gpt":
        numbers = np.random.default_rng(0).integers(0, 61, 400 * 16 + 1).astype(np.uint16)
        numbers.tofile(job.directory / "text.bin")
        del job.config["data"]["eval"], job.config["data"]["eval_batch_size"]
        job.config["data"]["train"] = {"name": "tokens", "path": str(job.directory / "text.bin"), "length": 16}
    if name == "resnet":
        job.config["data"]["train"]["limit"], job.config["data"]["eval"]["limit"] = 96, 10
    job.config["train"] = {"max_steps": 2 if name == "resnet" else 12}
    job.config["optimizer"] = {"name": "adamw", "lr": 0.01}
    job.write()


@pytest.fixture
def kept(tmp_path_factory):
    """A separate directory, for the run that stores its activations."""
    return Job(tmp_path_factory.mktemp("kept"))


def assert_same_weights(one, other):
    assert_same_bits(last_weights(one), last_weights(other))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("model", ["gpt", "vit"])
def test_bit_identical_to_stored_activations(job, kept, model, settings):
    use_model(job, model)
    use_model(kept, model)
    assert_same_weights(job.train("train.recompute=blocks", *settings, ranks=3), kept.train(*settings, ranks=3))


def test_running_statistics_change_once(job, kept):
    use_model(job, "resnet")
    use_model(kept, "resnet")
    assert_same_weights(job.train("train.recompute=blocks"), kept.train())


def test_one_block_and_a_frozen_embedding(job, kept):
    use_model(job, "gpt")
    use_model(kept, "gpt")
    frozen = "train.freeze=[transformer.wte, transformer.wpe]"
    assert_same_weights(job.train("train.recompute=[transformer.h.0, transformer.h.2]", frozen), kept.train(frozen))


def peak_memory(job, choice):
    """The largest resident set of a trainer, in bytes."""
    command = [str(word) for word in job.command(f"train.recompute={choice}")]
    with subprocess.Popen(command, cwd=job.directory, stdout=subprocess.DEVNULL) as trainer:
        _, status, usage = os.wait4(trainer.pid, 0)
        trainer.returncode = os.waitstatus_to_exitcode(status)
    assert trainer.returncode == 0
    return usage.ru_maxrss * 1024


def test_the_trainer_needs_less_memory(job):
    use_model(job, "vit")
    job.config["model"].update({"layers": 12, "width": 64, "mlp_width": 256})
    job.config["data"]["batch_size"] = 500
    del job.config["data"]["eval"], job.config["data"]["eval_batch_size"]
    job.config["train"]["max_steps"] = 2
    job.write()
    kept, recomputed = peak_memory(job, "none"), peak_memory(job, "blocks")
    assert recomputed < kept - 200e6, (recomputed, kept)  # 12 layers of some 25 MB


@pytest.mark.parametrize("choice, texts", [
    ("blocks", ["train.recompute: the model has no blocks (lockstep::Block) that can be recomputed; gpt, decoder, hf, hf_encoder, vit and resnet have blocks"]),
    ("some", ["train.recompute: unknown value 'some'", "valid: none, blocks"]),
    ("7", ["train.recompute: "]),
])
def test_unsupported_models_are_rejected(job, choice, texts):
    refuse(job, [f"train.recompute={choice}"], texts, None)


def test_an_unknown_block_is_rejected_with_the_nearest_name(job):
    use_model(job, "gpt")
    refuse(job, ["train.recompute=[transformer.h.7]"],
           ["train.recompute: no block is named 'transformer.h.7'; did you mean 'transformer.h.0'?"], 2)
