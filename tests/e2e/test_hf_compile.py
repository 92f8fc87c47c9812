"""`lockstep-compile hf:DIR` compiles model directories of transformers, timm and diffusers, which then train as in Python.

By default a few architectures; LOCKSTEP_COMPILE_CASES=all, or a part of the names, selects others.
"""

import numpy
import pytest
import torch
from safetensors.torch import load_file, load_model
from torch.nn import functional as F

import hf_cases
from conftest import long
from hf_cases import BATCH, CASES, CLASSES, SAMPLES, TOKENS, compile_here, save
from safetensors_file import last_weights
from test_compiled_cases import chosen, quick_compiler  # noqa: F401, a fixture

STEPS = 12
LR = 0.1
TOLERANCE = 1e-5  # of losses, relative


@pytest.fixture(autouse=True, scope="module")
def quiet_transformers():
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # these models are small


def use(job, case, package):
    path = job.directory / "data.npz"
    numpy.savez(path, **{name: tensor.numpy() for name, tensor in hf_cases.data_of(case).items()})
    data = {"name": "npy", "path": str(path)}
    job.config["model"] = {"name": "compiled", "package": str(package)}
    job.config["data"] = {"train": data, "eval": data, "per_rank_batch_size": BATCH, "eval_batch_size": SAMPLES, "shuffle": False}
    job.config["optimizer"] = {"name": "sgd", "lr": LR}
    job.config["train"] = {"epochs": 1000, "max_steps": STEPS, "log_every": "1 step", "eval_every": "1000 epochs"}
    job.config["checkpoint"] = {"every": "1000 epochs"}
    job.write()


def noisy_time_and_target(scheduler, image, noise, step):
    """Of diffusers, for `step` of the data."""
    if hasattr(scheduler, "scale_noise"):
        time = scheduler.timesteps[step]
        return scheduler.scale_noise(image, time, noise), time, noise - image
    targets = {"epsilon": noise, "sample": image, "v_prediction": scheduler.get_velocity(image, noise, step)}
    return scheduler.add_noise(image, noise, step), step, targets[scheduler.config.prediction_type]


def eager_loss(case, model, batch):
    """`targets` are the next tokens; `labels` are what transformers expects."""
    batch = dict(batch)
    if "noise" in batch:
        given = [batch.pop(name) for name in ("image", "noise", "timestep")]
        noisy, time, target = noisy_time_and_target(hf_cases.scheduler_of(case), *given)
        named = {"class_labels" if name == "label" else name: tensor for name, tensor in batch.items()}
        return F.mse_loss(model(noisy, timestep=time, **named).sample, target)
    if "targets" in batch:
        return F.cross_entropy(model(input_ids=batch["tokens"]).logits.flatten(0, 1), batch["targets"].flatten())
    if "image" in batch:
        batch = {"pixel_values": batch["image"], "labels": batch["label"]}
    return model(**batch).loss


def read_in_python(case, directory):
    import transformers

    if not case.config:
        return hf_cases.build(case).from_pretrained(directory)
    more = {"experts_implementation": "batched_mm"} if "expert" in str(case.options) else {}
    if case.config == "TimmWrapperConfig":  # transformers cannot read model_args of timm 1.0.31
        more["config"] = transformers.TimmWrapperConfig(**case.options)
    model = getattr(transformers, case.model).from_pretrained(directory, **more)
    model.config.use_cache = False
    model.config.apply_spec_augment, model.config.layerdrop = False, 0.0  # random numbers of numpy and Python
    return model


def train_in_python(case, directory):
    """The model after training, its losses and that of the evaluation."""
    torch.manual_seed(5)
    model = read_in_python(case, directory).train()
    data = hf_cases.data_of(case)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    losses = []
    for step in range(STEPS):
        begin = step * BATCH % SAMPLES
        optimizer.zero_grad()
        loss = eager_loss(case, model, {name: tensor[begin : begin + BATCH] for name, tensor in data.items()})
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        return model, losses, eager_loss(case, model.eval(), data).item()


@pytest.mark.parametrize("name", [name if name == "llama" else long(name) for name in chosen(CASES) if not CASES[name].refused])
def test_trains_like_python(job, capsys, name):
    """The example batch is that of the run file. A second call takes the package from the cache."""
    case = CASES[name]
    directory, package = save(case, job.directory / "hf"), job.directory / "model.ls2"
    use(job, case, package)
    command = [f"hf:{directory}", *case.changes, "--batch", job.file, "--out", package]
    code, lines, errors = compile_here(capsys, *command)
    assert (code, errors) == (0, [])
    assert any(line.startswith(f"{case.model}, ") for line in lines)
    assert any(line.startswith("[") and line.endswith("] exporting training") for line in lines)
    run_dir = job.train()
    model, losses, evaluation = train_in_python(case, directory)
    trained = [value for _, value in job.series(run_dir.name, "train/loss")]
    print(name, max(abs(a / b - 1) for a, b in zip(trained, losses)))
    assert trained == pytest.approx(losses, rel=TOLERANCE)
    assert job.series(run_dir.name, "eval/loss")[-1][1] == pytest.approx(evaluation, rel=TOLERANCE)
    expected = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    load_model(model, last_weights(run_dir))  # strict
    assert all((tensor - expected[key]).abs().max() < 1e-4 for key, tensor in model.state_dict().items() if tensor.is_floating_point())


@pytest.mark.parametrize("name", [name for name in chosen(CASES) if CASES[name].refused])
def test_cannot_be_compiled(job, capsys, name):
    case = CASES[name]
    use(job, case, job.directory / "model.ls2")
    command = [f"hf:{save(case, job.directory / 'hf')}", *case.changes, "--batch", job.file, "-o", job.directory / "model.ls2"]
    code, _, errors = compile_here(capsys, *command)
    assert code == 78 and len(errors) == 1, errors
    for part in case.refused:
        assert part in errors[0]


@pytest.mark.parametrize("name", [name for name in CASES if not CASES[name].refused and CASES[name].config])
def test_example_of_a_number_of_samples(name):
    """It has the fields of the task, of the sizes in config.json, and the model runs on it."""
    from lockstep.compile.hf.example import Example
    from lockstep.compile.hf.tasks import task_of

    case = CASES[name]
    model = hf_cases.build(case)
    model.config.architectures = [case.model]
    data = hf_cases.data_of(case)
    length = {"wav2vec2": 400, "whisper": None, "ast": None}.get(name, None if "image" in data else TOKENS)
    if name == "resnet" or name.startswith("timm"):  # the config has no size, or timm's own
        length = data["image"].shape[-1]
    batch = Example(model, task_of(model.config, None, "config.json"), BATCH, length).make()
    if name != "llama padded" and name != "mixtral":  # their data are not that of the dataset "tokens"
        assert {key: (value.dtype, value.shape[1:]) for key, value in batch.items()} == {
            key: (value.dtype, value.shape[1:]) for key, value in data.items()}
    assert all(len(value) == BATCH for value in batch.values())
    with torch.no_grad():
        assert eager_loss(case, model.eval(), batch).isfinite()


def test_a_new_head_starts_from_random_weights(tmp_path):
    """Of a model of the same kind with other labels, and of another task; the rest is that of the file."""
    from lockstep.compile.hf.directory import ModelDirectory
    from lockstep.compile.hf.model import load_model as load_directory

    directory = save(CASES["bert"], tmp_path / "hf")
    lines = []
    model, task = load_directory(ModelDirectory(str(directory)), None, {"num_labels": 5}, 3, lines.append)
    assert task == "sequence-classification" and model.classifier.weight.shape[0] == 5
    assert lines == ["not in the weights, start from random ones: classifier.bias, classifier.weight"]
    stored = load_file(directory / "model.safetensors")
    assert torch.equal(model.bert.pooler.dense.weight, stored["bert.pooler.dense.weight"])
    again, _ = load_directory(ModelDirectory(str(directory)), None, {"num_labels": 5}, 3, lines.append)
    assert torch.equal(again.classifier.weight, model.classifier.weight)
    model, task = load_directory(ModelDirectory(str(directory)), "token-classification", {}, 3, lines.clear and lines.append)
    assert task == "token-classification" and model.classifier.weight.shape[0] == CLASSES


@pytest.mark.parametrize("kind", ["epsilon", long("v_prediction"), long("sample"), "flow"])
def test_denoisers_are_trained_as_in_diffusers(tmp_path, kind):
    """With given noise and time steps, and with drawn ones, whose loss is compared with that of as many drawn in Python."""
    import diffusers

    from lockstep.compile.hf.denoiser import loss_of_denoiser
    from lockstep.compile.hf.directory import ModelDirectory

    case = CASES["unet"]
    if kind == "flow":
        scheduler = diffusers.FlowMatchEulerDiscreteScheduler(num_train_timesteps=50, shift=3.0)
    else:
        scheduler = diffusers.DDIMScheduler(num_train_timesteps=50, beta_schedule="squaredcos_cap_v2", prediction_type=kind)
    model, batch = hf_cases.build(case).eval(), hf_cases.data_of(case)
    model.save_pretrained(tmp_path)
    scheduler.save_pretrained(tmp_path)
    batch = {name: tensor.repeat(8, *[1] * (tensor.dim() - 1)) for name, tensor in batch.items()}
    batch |= {"noise": torch.randn_like(batch["image"]), "timestep": torch.randint(0, 50, batch["timestep"].shape)}
    noisy, time, target = noisy_time_and_target(scheduler, *(batch[name] for name in ("image", "noise", "timestep")))
    with torch.no_grad():
        expected = F.mse_loss(model(noisy, time, class_labels=batch["label"]).sample, target).item()
        given = loss_of_denoiser(ModelDirectory(str(tmp_path)), model, batch).function(model, batch).item()
        drawn = {name: batch[name] for name in ("image", "label")}
        losses = [loss_of_denoiser(ModelDirectory(str(tmp_path)), model, drawn).function(model, drawn).item() for _ in range(2)]
    assert given == pytest.approx(expected, rel=1e-6)
    assert losses[0] != losses[1] and losses == pytest.approx([expected] * 2, rel=0.1)


def test_steps_of_flow_matching_have_the_density_of_diffusers():
    import diffusers
    from diffusers.training_utils import compute_density_for_timestep_sampling

    from lockstep.compile.hf.denoiser import FlowMatching

    torch.manual_seed(0)
    count = 10_000
    steps = FlowMatching(diffusers.FlowMatchEulerDiscreteScheduler()).draw(count, torch.device("cpu"))
    places = compute_density_for_timestep_sampling("logit_normal", count, 0.0, 1.0)
    assert 0 <= steps.min() and steps.max() < 1000
    assert greatest_difference(steps.numpy(), (places * 1000).long().numpy()) < 1.63 * (2 / count) ** 0.5  # exceeded by 1 % of all samples


LEVELS = 4  # time steps of the noise schedule below
DRAWS = 200  # steps


class Blank(torch.nn.Module):
    """Predicts 0, with a gradient, as a denoiser of diffusers."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, sample, timestep, return_dict):
        return (sample * self.weight,)


@pytest.fixture(scope="module")
def blank_denoiser(tmp_path_factory):
    """A package that draws noise and time steps, and predicts 0 for images of zeros: the loss of a batch is that of the numbers drawn.
    Returns it and the loss in Python."""
    import diffusers

    from lockstep.compile import compile_step
    from lockstep.compile.hf.denoiser import loss_of_denoiser
    from lockstep.compile.hf.directory import ModelDirectory

    directory = tmp_path_factory.mktemp("blank")
    (directory / "config.json").write_text('{"_class_name": "UNet2DModel"}')
    betas = [0.1, 0.6, 0.6, 0.6]
    diffusers.DDPMScheduler(LEVELS, trained_betas=betas, prediction_type="v_prediction").save_pretrained(directory)
    model, batch, lines = Blank(), {"image": torch.zeros(2, 1, 8, 8)}, []
    loss = loss_of_denoiser(ModelDirectory(str(directory)), model, batch)
    package = compile_step(model, loss, batch, directory / "model.ls2", report=lines.append)
    assert "training draws random numbers: its results are not compared" in lines
    return package, lambda: loss.function(model, batch).item()


def drawn_losses(job, package, *options, steps=DRAWS, **how):
    path = job.directory / "zeros.npz"
    numpy.savez(path, image=numpy.zeros((SAMPLES, 1, 8, 8), numpy.float32))
    job.config["model"] = {"name": "compiled", "package": str(package)}
    job.config["data"] = {"train": {"name": "npy", "path": str(path)}, "per_rank_batch_size": 2}
    job.config["optimizer"] = {"name": "sgd", "lr": 1e-30}
    job.config["train"] = {"epochs": 1000, "max_steps": steps, "log_every": "1 step"}
    job.config["checkpoint"] = {"every": "1000 epochs"}
    job.write()
    run_dir = job.train(**how) if not options else job.run(options=options) and job.runs / options[1]
    return run_dir.name, [value for _, value in job.series(run_dir.name, "train/loss")]


def greatest_difference(a, b):
    """Of the distribution functions of two samples (Kolmogorov and Smirnov)."""
    a, b, points = numpy.sort(a), numpy.sort(b), numpy.sort([*a, *b])
    return numpy.abs(numpy.searchsorted(a, points, "right") / len(a) - numpy.searchsorted(b, points, "right") / len(b)).max()


@pytest.mark.long
def test_numbers_drawn_in_compiled_code(job, blank_denoiser):
    """They have the distribution of Python's, differ between steps and ranks, and a resumed run continues them."""
    package, loss = blank_denoiser
    torch.manual_seed(0)
    expected = [loss() for _ in range(10 * DRAWS)]
    _, losses = drawn_losses(job, package)
    assert len(set(losses)) == DRAWS
    assert greatest_difference(losses, expected) < 1.63 * (1.1 / DRAWS) ** 0.5  # exceeded by 1 % of all samples
    _, of_two = drawn_losses(job, package, ranks=2)
    means = numpy.reshape(expected, (-1, 2)).mean(1)
    assert greatest_difference(of_two, means) < 1.63 * (1 / DRAWS + 1 / len(means)) ** 0.5
    name, begun = drawn_losses(job, package, steps=DRAWS // 4)
    _, resumed = drawn_losses(job, package, "--resume", name)
    assert begun == losses[: len(begun)] and resumed == losses
