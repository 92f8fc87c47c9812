"""The schema accepts valid run files and all recipes, and a run's config.yaml can be run again."""

import copy
import json
import re
import subprocess

import jsonschema
import pytest
import yaml

from processes import BIN, LOCKSTEP, SOURCE, TRAINER, run
from safetensors_file import assert_same_bits, last_weights

# Sweep files: test_sweep.py.
RECIPES = sorted(file for file in (SOURCE / "configs").glob("*.yaml") if not file.name.startswith("sweep_"))
# Recipes for the user's own data: the tests that create such data and train on it.
TESTED_ELSEWHERE = {
    "bible_bytes.yaml": "test_gpt.py",
    "diabetes.yaml": "test_flights.py",
    "digits.yaml": "test_images.py",
    "gpt2_124m.yaml": "test_gpt.py",
    "gpt_bible.yaml": "test_gpt.py",
    "imagenet_resnet50.yaml": "test_images.py",
    "images.yaml": "test_images.py",
    "preferences.yaml": "test_dpo.py",
    "preferences_base.yaml": "test_dpo.py",
}
HERE = [recipe for recipe in RECIPES if recipe.name not in TESTED_ELSEWHERE]

# As a user would write it, with every section.
RUN_FILE = """
run:         {name: mnist, seed: 0, dir: runs}
plugins:     []
model:       {name: mlp, hidden: [256, 128]}
data:
  train:     {name: idx, path: .data/mnist, split: train}
  eval:      {name: idx, path: .data/mnist, split: test}
  batch_size: 128
  workers:   2
  shuffle:   true
  drop_last: false
optimizer:   {name: sgd, lr: 0.1, momentum: 0.9}
schedule:    {name: constant}
train:       {epochs: 3, accumulate: 1, precision: fp32, clip_grad_norm: null, eval_every: 1 epoch,
              log_every: 10 steps}
distributed: {backend: auto, bucket_cap_mb: 25, find_unused_parameters: false, timeout: 30 min}
checkpoint:  {every: 1 epoch, keep_last: 2, resume: auto}
tracking:    {ranks: main, group: null, sinks: [console]}
"""


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    ended = run([LOCKSTEP, "schema"], tmp_path_factory.mktemp("schema"))
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.fixture(scope="module")
def validator(schema):
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    return validator(schema)


@pytest.mark.parametrize("command", ["schema", "train"])
def test_the_help_of_a_command_of_the_trainer_is_its_own(command, tmp_path):
    ended = run([LOCKSTEP, command, "--help"], tmp_path)
    assert ended.code == 0 and ended.err == "" and ended.out.startswith(f"lockstep {command}: ")
    assert f"\n  lockstep {command} " in ended.out and ended.out.count("\n") < 16, ended.out


def test_declares_its_json_schema_draft(schema):
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_accepts_a_complete_run_file(validator):
    validator.validate(yaml.safe_load(RUN_FILE))


@pytest.mark.parametrize("recipe", RECIPES, ids=[recipe.name for recipe in RECIPES])
def test_accepts_every_recipe(validator, recipe):
    validator.validate(yaml.safe_load(recipe.read_text()))


@pytest.mark.parametrize("steps, is_valid", [(100, True), ("100-105", True), (0, False), ("first", False)])
def test_steps_of_a_profile(validator, steps, is_valid):
    assert validator.is_valid(broken(("train", "profile"), {"steps": steps})) == is_valid


def broken(path, value):
    """RUN_FILE with `value` at `path`."""
    config = copy.deepcopy(yaml.safe_load(RUN_FILE))
    section = config
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] = value
    return config


MISTAKES = [
    (("optimiser",), {}),
    (("model", "hiden"), [3]),
    (("model", "name"), "mpl"),
    (("data", "train", "pth"), "x"),
    (("train", "epochs"), "many"),
    (("train", "epochs"), 0),
    (("train", "log_every"), "soon"),
    (("distributed", "device"), "gpu"),
    (("optimizer", "lr"), "fast"),
    (("checkpoint", "keep_last"), 1.5),
    (("tracking", "ranks"), "some"),
]


@pytest.mark.parametrize("path, value", MISTAKES, ids=[".".join(p) for p, _ in MISTAKES])
def test_rejects_what_the_trainer_rejects(validator, job, path, value):
    config = broken(path, value)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(config)
    job.file.write_text(yaml.safe_dump(config))
    ended = job.run(f"run.dir={job.runs}")
    assert ended.code == 78
    assert not job.runs.exists()


def test_the_trainer_accepts_the_whole_run_file(job):
    job.file.write_text(RUN_FILE.replace(".data/mnist", str(SOURCE / ".data" / "mnist")))
    job.train("data.train.limit=256", "data.eval.limit=100", "distributed.device=cpu", ranks=2)


def test_schema_is_the_same_from_both_programs(schema, tmp_path):
    ended = run([TRAINER, "--schema"], tmp_path)
    assert json.loads(ended.out) == schema


@pytest.mark.parametrize("evaluation", [[], ["data.eval=null", "data.eval_batch_size=500"]], ids=["", "without evaluation"])
def test_the_resolved_config_runs_again_and_resolves_to_itself(job, validator, evaluation):
    first = job.train("optimizer.lr=0.05", "train.clip_grad_norm=2.5", "checkpoint.every=10 steps", *evaluation)
    resolved = first / "config.yaml"
    text = resolved.read_text()
    validator.validate(yaml.safe_load(text))
    job.file.write_text(text)
    second = job.train()
    assert (second / "config.yaml").read_text() == text
    assert_same_bits(last_weights(first), last_weights(second))


@pytest.mark.parametrize("recipe", HERE, ids=[recipe.name for recipe in HERE])
def test_every_recipe_trains(job, recipe):
    """From the root of the checkout, as described in its comments."""
    config = yaml.safe_load(recipe.read_text())
    overrides = [f"run.dir={job.runs}", "train.max_steps=2", "data.batch_size=32", "distributed.device=cpu"]
    if config["data"]["train"]["name"] != "parquet":
        overrides += ["data.train.limit=512"]
    if "eval" in config["data"]:
        overrides += ["data.eval.limit=100"]
    if "warmup_steps" in config.get("schedule", {}):
        overrides += ["schedule.warmup_steps=1"]
    command = [LOCKSTEP, "launch", "-n", 2, recipe, *overrides]
    ended = run(command, SOURCE)
    assert ended.code == 0, ended.err
    (entry,) = job.list()
    assert entry["state"] == "finished"
    assert 0 <= entry["summary"]["eval/accuracy"] <= 1


@pytest.mark.parametrize("recipe, file", TESTED_ELSEWHERE.items())
def test_the_other_recipes_are_trained_by_their_own_tests(recipe, file):
    assert recipe in (SOURCE / "tests" / "e2e" / file).read_text()


def test_the_reference_page_is_up_to_date():
    script = SOURCE / "cmake" / "run_file_reference.py"
    ended = run(["python3", script, TRAINER, SOURCE / "docs" / "run_file.md", "--check"], SOURCE)
    assert ended.code == 0, f"docs/run_file.md is out of date: run `make run-file-reference`\n{ended.err}"


def test_what_a_plugin_prints_at_the_end_is_complete(tmp_path):
    """Although the trainer skips LibTorch's static destructors."""
    stamp = re.search(rb"lockstep-plugin-stamp\{.*?\}", (BIN.parent / "tests" / "bin" / "start_probe.so").read_bytes())[0]
    (tmp_path / "late.cpp").write_text(f"""
        #include <iostream>
        extern "C" __attribute__((used)) const char stamp[] = "{stamp.decode()}";
        struct Late {{
          Late() {{ std::ios::sync_with_stdio(false); }}
          ~Late() {{ std::cout << "late result"; std::clog << "late log"; }}
        }} late;""")
    subprocess.run(["c++", "-shared", "-fPIC", "-o", "late.so", "late.cpp"], cwd=tmp_path, check=True, timeout=60)
    ended = run([TRAINER, "--schema", tmp_path / "late.so"], tmp_path)
    assert ended.code == 0 and ended.out.endswith("late result") and ended.err == "late log", ended.err
