"""Optimizers and schedules against those of Python: torch, transformers, lion-pytorch and schedulefree.

Each case trains 1,000 steps on gradients with the same bits; lockstep_optimizer_driver saves and loads the state of the
optimizer halfway. Small parameters are updated as whole tensors, "large" in blocks.
"""

import json
import math
import os
import subprocess

import lion_pytorch
import numpy
import pytest
import schedulefree
import torch
import transformers
from torch.optim import lr_scheduler

DRIVER = os.environ["LOCKSTEP_OPTIMIZER_DRIVER"]
SMALL = {"weight": [31, 17], "bias": [31], "conv": [4, 3, 3, 3], "scale": [1]}
LARGE = {"large": [150, 301], "bias": [301]}
MATRICES = {"tall": [24, 16], "wide": [16, 24], "bias": [16], "conv": [2, 3, 2, 2], "embed.weight": [12, 8]}
NUM_NOISES = 17

torch.set_num_threads(1)


JOBS = []


def job(**settings):
    """Adds a job of the driver; its number. One process does all, since loading LibTorch takes longer than a job."""
    JOBS.append(settings)
    return len(JOBS) - 1


def optimizer_job(name, settings, shapes, steps):
    return job(optimizer=json.dumps({"name": name, **settings}), shapes=shapes, steps=steps)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """The numbers that a job has written."""
    directory = tmp_path_factory.mktemp("jobs")
    file = directory / "jobs.json"
    file.write_text(json.dumps([{**each, "out": str(directory / str(i))} for i, each in enumerate(JOBS)]))
    done = subprocess.run([DRIVER, file], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return lambda number: numpy.fromfile(directory / str(number), numpy.float64 if "schedule" in JOBS[number] else numpy.float32)


def random_tensors(shapes, seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(sizes, generator=generator) for name, sizes in shapes.items()}


def train(make, shapes, steps, at_the_end=lambda optimizers: None):
    """`make(parameters)`: a list of optimizers of all of them."""
    parameters = random_tensors(shapes, 1)
    noises = [random_tensors(shapes, 2 + i) for i in range(NUM_NOISES)]
    optimizers = make(parameters)
    groups = [(group, group["lr"]) for optimizer in optimizers for group in optimizer.param_groups]
    for step in range(steps):
        for name, parameter in parameters.items():
            parameter.grad = parameter.mul(0.5).add_(noises[step % NUM_NOISES][name])
        for group, lr in groups:
            group["lr"] = lr * (1.0 / (1.0 + 0.01 * step))
        for optimizer in optimizers:
            optimizer.step()
    at_the_end(optimizers)
    return torch.cat([parameter.reshape(-1) for parameter in parameters.values()]).numpy()


def assert_same_bits(found, expected):
    assert numpy.isfinite(expected).all()
    different = numpy.flatnonzero(found.view(numpy.int32) != expected.view(numpy.int32))
    assert different.size == 0, f"{different.size} of {found.size} differ, by up to {abs(found - expected).max()}"


FOREACH = {"foreach": True}
FUSED = {"fused": True}
# name, settings of the run file, class of the peer, its settings
CASES = [
    ("sgd", {"momentum": 0.9, "nesterov": True}, torch.optim.SGD, {}),
    ("adam", {"weight_decay": 0.1}, torch.optim.Adam, FUSED),
    ("adamw", {"weight_decay": 0.1}, torch.optim.AdamW, FUSED),
    ("lion", {}, lion_pytorch.Lion, {}),
    ("lion", {"lr": 0.003, "betas": [0.95, 0.98], "weight_decay": 0.1}, lion_pytorch.Lion, {}),
    ("rmsprop", {}, torch.optim.RMSprop, FOREACH),
    ("rmsprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.01}, torch.optim.RMSprop, FOREACH),
    ("rmsprop", {"alpha": 0.9, "eps": 0.001, "momentum": 0.5}, torch.optim.RMSprop, FOREACH),
    ("adagrad", {}, torch.optim.Adagrad, FUSED),
    ("adagrad", {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.01}, torch.optim.Adagrad, FUSED),
    ("nadam", {}, torch.optim.NAdam, FOREACH),
    ("nadam", {"betas": [0.8, 0.99], "weight_decay": 0.01, "momentum_decay": 0.01}, torch.optim.NAdam, FOREACH),
    ("nadam", {"weight_decay": 0.1, "decoupled": True}, torch.optim.NAdam, FOREACH),
    ("radam", {}, torch.optim.RAdam, FOREACH),
    ("radam", {"betas": [0.8, 0.99], "weight_decay": 0.01}, torch.optim.RAdam, FOREACH),
    ("radam", {"weight_decay": 0.1, "decoupled": True}, torch.optim.RAdam, FOREACH),
    ("adafactor", {}, torch.optim.Adafactor, {}),
    ("adafactor", {"lr": 0.1, "beta2_decay": -0.5, "weight_decay": 0.01}, torch.optim.Adafactor, {}),
]


SIZES = {"small": (SMALL, 1000), "large": (LARGE, 40)}


def with_jobs(name_of, settings_of, cases):
    """Parameters of a test: each case in both sizes, with its job."""
    return [pytest.param(case, *size, optimizer_job(name_of(case), settings_of(case), *size), id=f"{name_of(case)}-{i}-{label}")
            for i, case in enumerate(cases) for label, size in SIZES.items()]


@pytest.mark.parametrize("case, shapes, steps, number", with_jobs(lambda case: case[0], lambda case: {"lr": 0.01, **case[1]}, CASES))
def test_bits_of_python(case, shapes, steps, number, output):
    _, settings, peer, its_settings = case
    theirs = {"lr": 0.01, **settings, **its_settings}
    if "decoupled" in theirs:
        theirs["decoupled_weight_decay"] = theirs.pop("decoupled")
    assert_same_bits(output(number), train(lambda parameters: [peer(parameters.values(), **theirs)], shapes, steps))


SCHEDULE_FREE = [
    {},
    {"lr": 0.02, "weight_decay": 0.1, "warmup_steps": 50},
    {"lr": 0.01, "betas": [0.95, 0.99], "r": 1.0, "weight_lr_power": 0.0},
]


@pytest.mark.parametrize("settings, shapes, steps, number", with_jobs(
    lambda settings: "adamw_schedule_free", lambda settings: settings, SCHEDULE_FREE))
def test_schedule_free_has_the_bits_of_its_package(settings, shapes, steps, number, output):
    """The averaged point x after the last step."""
    def make(parameters):
        optimizer = schedulefree.AdamWScheduleFree(parameters.values(), **settings)
        optimizer.train()
        return [optimizer]

    expected = train(make, shapes, steps, lambda optimizers: optimizers[0].eval())
    assert_same_bits(output(number), expected)


MUON = [
    ({}, {}),
    ({"lr": 0.02, "momentum": 0.9, "nesterov": False, "weight_decay": 0.01, "adjust_lr": "match_rms_adamw"},
     {"lr": 0.003, "betas": [0.8, 0.95], "weight_decay": 0.0}),
    ({"iterations": 3, "coefficients": [3.0, -4.0, 2.0]}, {"match": ["none*"], "lr": 0.001}),
]


@pytest.mark.parametrize("settings, adamw, number", [
    (settings, adamw, optimizer_job("muon", {**settings, "adamw": adamw}, MATRICES, 1000)) for settings, adamw in MUON],
    ids=["default", "rms", "iterations"])
def test_muon_has_the_bits_of_torch(settings, adamw, number, output):
    theirs = {"lr": 0.001, **settings}
    for our_key, key in [("iterations", "ns_steps"), ("coefficients", "ns_coefficients"), ("adjust_lr", "adjust_lr_fn")]:
        if our_key in theirs:
            theirs[key] = theirs.pop(our_key)
    of_adamw = {"lr": theirs["lr"], "weight_decay": 0.01, **adamw}
    embeddings = of_adamw.pop("match", ["embed.weight"])

    def make(parameters):
        hidden = [p for name, p in parameters.items() if p.dim() == 2 and name not in embeddings]
        others = [p for name, p in parameters.items() if p.dim() != 2 or name in embeddings]
        return [torch.optim.Muon(hidden, **theirs), torch.optim.AdamW(others, **of_adamw, fused=True)]

    assert_same_bits(output(number), train(make, MATRICES, 1000))


def rms(values):
    return math.sqrt(numpy.mean(numpy.square(values.astype(numpy.float64))))


ADAMW = {"lr": 0.01, "weight_decay": 0.1}


# The distance from AdamW in fp32, over the distance that the parameters move. Reached: 0.003 and 0.009.
@pytest.mark.parametrize("number, limit", [(optimizer_job("adamw", {**ADAMW, "state": state}, LARGE, 300), limit)
                                           for state, limit in (("bf16", 0.005), ("int8", 0.02))], ids=["bf16", "int8"])
def test_adamw_with_packed_state_stays_close_to_fp32(number, limit, output):
    start = torch.cat([tensor.reshape(-1) for tensor in random_tensors(LARGE, 1).values()]).numpy()
    expected = train(lambda parameters: [torch.optim.AdamW(parameters.values(), **ADAMW, fused=True)], LARGE, 300)
    reached = rms(output(number) - expected) / rms(expected - start)
    assert 0 < reached < limit


GROUPS = [{"match": "*weight", "lr": 0.003, "betas": [0.8, 0.9]}, {"match": "bias", "weight_decay": 0.0}]
OF_GROUPS = optimizer_job("adamw", {**ADAMW, "groups": GROUPS}, SMALL, 1000)


def test_groups_have_the_bits_of_parameter_groups(output):
    expected = train(lambda p: [torch.optim.AdamW([{"params": [p["weight"]], "lr": 0.003, "betas": [0.8, 0.9]},
                                                   {"params": [p["bias"]], "weight_decay": 0.0},
                                                   {"params": [p["conv"], p["scale"]]}],
                                                  **ADAMW, fused=True)], SMALL, 1000)
    assert_same_bits(output(OF_GROUPS), expected)


TOTAL, PER_EPOCH = 200, 20


def schedule_job(settings):
    return job(schedule=json.dumps(settings), total_steps=TOTAL, steps_per_epoch=PER_EPOCH)


def peer_factors(make, count=TOTAL, every=1):
    """`every`: the steps after which the schedule steps."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = make(optimizer)
    values = []
    for step in range(count):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (step + 1) % every == 0:
            schedule.step()
    return numpy.array(values)


def from_step_1(make, warmup):
    """transformers begins with a step whose learning rate is 0; Lockstep's first step is the next one of the warm-up."""
    values = peer_factors(make, TOTAL + 1)
    return numpy.concatenate([values[1:warmup + 1], values[warmup:TOTAL]])


OF_TRANSFORMERS = [
    ({"name": "constant"}, lambda warmup: lambda o: transformers.get_constant_schedule_with_warmup(o, warmup)),
    ({"name": "linear"}, lambda warmup: lambda o: transformers.get_linear_schedule_with_warmup(o, warmup, TOTAL)),
    ({"name": "cosine"}, lambda warmup: lambda o: transformers.get_cosine_schedule_with_warmup(o, warmup, TOTAL)),
    ({"name": "cosine", "final_factor": 0.1}, lambda warmup: lambda o: transformers.get_cosine_with_min_lr_schedule_with_warmup(
        o, warmup, TOTAL, min_lr_rate=0.1)),
    ({"name": "polynomial", "power": 2.5, "final_factor": 0.01},
     lambda warmup: lambda o: transformers.get_polynomial_decay_schedule_with_warmup(o, warmup, TOTAL, lr_end=0.01, power=2.5)),
    ({"name": "inverse_sqrt"}, lambda warmup: lambda o: transformers.get_inverse_sqrt_schedule(o, warmup)),
    ({"name": "inverse_sqrt", "timescale": 70}, lambda warmup: lambda o: transformers.get_inverse_sqrt_schedule(o, warmup, 70)),
    *[({"name": "wsd", "decay_steps": 50, "decay": decay}, lambda warmup, decay=decay: lambda o: transformers.get_wsd_schedule(
        o, warmup, 50, num_training_steps=TOTAL, decay_type=decay)) for decay in ("cosine", "linear", "1-sqrt")],
]


@pytest.mark.parametrize("make, warmup, number", [
    pytest.param(make, warmup, schedule_job({**settings, "warmup_steps": warmup}), id=f"{settings['name']}-{i}-{warmup}")
    for i, (settings, make) in enumerate(OF_TRANSFORMERS) for warmup in (0, 30)])
def test_schedules_equal_those_of_transformers(make, warmup, number, output):
    numpy.testing.assert_allclose(output(number), from_step_1(make(warmup), warmup), rtol=1e-14, atol=1e-16)


OF_TORCH = [
    ({"name": "one_cycle"}, lambda o: lr_scheduler.OneCycleLR(o, 1.0, TOTAL, cycle_momentum=False), 1),
    ({"name": "one_cycle", "rise": 0.2, "anneal": "linear", "div_factor": 10, "final_div_factor": 100, "three_phase": True},
     lambda o: lr_scheduler.OneCycleLR(o, 1.0, TOTAL, pct_start=0.2, anneal_strategy="linear", cycle_momentum=False,
                                       div_factor=10, final_div_factor=100, three_phase=True), 1),
    ({"name": "exponential", "gamma": 0.99, "per": "step"}, lambda o: lr_scheduler.ExponentialLR(o, 0.99), 1),
    ({"name": "exponential", "gamma": 0.9}, lambda o: lr_scheduler.ExponentialLR(o, 0.9), PER_EPOCH),
    ({"name": "step", "milestones": [3, 7], "gamma": 0.5}, lambda o: lr_scheduler.MultiStepLR(o, [3, 7], 0.5), PER_EPOCH),
    ({"name": "polynomial", "power": 2}, lambda o: lr_scheduler.PolynomialLR(o, TOTAL, 2.0), 1),
    ({"name": "constant", "warmup_steps": 40}, lambda o: lr_scheduler.LinearLR(o, 1 / 40, total_iters=39), 1),
    ({"name": "chained", "schedules": [{"name": "exponential", "per": "step", "gamma": 0.95, "steps": 30},
                                       {"name": "cosine", "steps": 70}, {"name": "polynomial", "power": 1}]},
     lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ExponentialLR(o, 0.95), lr_scheduler.CosineAnnealingLR(o, 70),
                                             lr_scheduler.PolynomialLR(o, 100, 1.0)], [30, 100]), 1),
]


@pytest.mark.parametrize("make, every, number", [
    pytest.param(make, every, schedule_job(settings), id=f"{settings['name']}-{i}")
    for i, (settings, make, every) in enumerate(OF_TORCH)])
def test_schedules_equal_those_of_torch(make, every, number, output):
    """torch multiplies the factors of successive steps, so its rounding errors add up."""
    numpy.testing.assert_allclose(output(number), peer_factors(make, every=every), rtol=1e-10, atol=1e-12)
