"""Denoisers of diffusers: a model that predicts the noise in an image, and its loss, the mean squared error.

Ho, Jain and Abbeel: Denoising Diffusion Probabilistic Models, 2020, equation 14; v-prediction: Salimans and Ho: Progressive
Distillation for Fast Sampling of Diffusion Models, 2022, appendix D; flow matching: Esser et al.: Scaling Rectified Flow Transformers for
High-Resolution Image Synthesis, 2024, sections 2 and 3.1.
"""

import difflib
import inspect
from pathlib import Path
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

from lockstep.compile.errors import CompileError, one_line, quiet
from lockstep.compile.hf.directory import ModelDirectory
from lockstep.compile.losses import Batch, Loss
from lockstep.compile.sources import Refused

Report = Callable[[str], None]

TASK = "denoising"
IMAGES = ("sample", "hidden_states")  # names of the noisy image in forward() of diffusers' models
CLEAN = ("image", "sample")  # its field
CLASSES = ("label", "labels", "class_labels")
CONDITIONS = ("encoder_hidden_states", "pooled_projections")  # of a text, in the names of forward()
DRAWN = ("noise", "timestep")  # optional fields: random numbers otherwise


def load_denoiser(directory: ModelDirectory, changes: dict[str, object], seed: int, report: Report) -> nn.Module:
    """The model with its weights, in fp32. Raises Refused."""
    path = directory.path / "config.json"
    kind = class_of(directory)
    names = inspect.signature(kind.__init__).parameters
    for name in changes:
        near = difflib.get_close_matches(name, names, 1)
        if name not in names:
            raise Refused(f"{name}={changes[name]}: {kind.__name__} has no '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    torch.manual_seed(seed)
    try:
        with quiet():
            model = kind.from_config({**directory.config, **changes}).float()  # type: ignore[attr-defined]
    except Exception as error:
        raise Refused(f"{path}: {type(error).__name__}: {one_line(error)}") from error
    without_size_branches(model)
    if directory.weights:
        load_weights(directory, model)
    else:
        report(f"{directory.path} has no weights: the model starts from random ones")
    return model


def class_of(directory: ModelDirectory) -> type[nn.Module]:
    try:
        import diffusers
    except ModuleNotFoundError as error:
        raise directory.missing_library() from error
    diffusers.utils.logging.set_verbosity_error()
    path, name = directory.path / "config.json", str(directory.config["_class_name"])
    kind = getattr(diffusers, name, None)
    if not (isinstance(kind, type) and issubclass(kind, diffusers.ModelMixin)):
        raise Refused(f"{path}: '{name}' is not a model of diffusers {diffusers.__version__}")
    takes = inspect.signature(kind.forward).parameters
    if "timestep" not in takes or not any(name in takes for name in IMAGES):
        raise Refused(f"{path}: a {name} does not predict noise: its forward() takes {', '.join(list(takes)[1:])}, not timestep and "
                      f"{' or '.join(IMAGES)}")
    return kind


def load_weights(directory: ModelDirectory, model: nn.Module) -> None:
    from safetensors.torch import load_file

    found: Batch = {}
    for name in directory.weights:
        try:
            found |= load_file(directory.path / name)
        except Exception as error:
            raise Refused(f"{directory.path / name}: {one_line(error)}") from error
    path = directory.path / directory.weights[0]
    for name, tensor in model.state_dict().items():
        if name not in found:
            raise Refused(f"{path}: lacks '{name}', which the model of config.json needs")
        if found[name].shape != tensor.shape:
            raise Refused(f"{path}: '{name}' has the shape {list(found[name].shape)}, but the model of config.json needs "
                          f"{list(tensor.shape)}")
    model.load_state_dict(found, strict=False)


def without_size_branches(model: nn.Module) -> None:
    """Replaces the forward() of layers that copy large batches, which does not change the result, but is a branch on the size."""
    from diffusers.models.upsampling import Upsample2D

    class Upsample(Upsample2D):
        def forward(self, hidden_states: torch.Tensor, output_size: tuple[int, int] | None = None) -> torch.Tensor:
            size = {"scale_factor": 2.0} if output_size is None else {"size": output_size}
            larger = F.interpolate(hidden_states, mode="nearest", **size)
            return (self.conv if self.name == "conv" else self.Conv2d_0)(larger) if self.use_conv else larger

    for layer in model.modules():
        if type(layer) is Upsample2D and layer.norm is None and layer.interpolate and not layer.use_conv_transpose:
            layer.__class__ = Upsample


class Diffusion:
    """How much noise an image has at each time step, from 0, the least."""

    def __init__(self, scheduler: Any, path: Path):
        self.predicts = scheduler.config.get("prediction_type", "epsilon")
        if self.predicts not in ("epsilon", "v_prediction", "sample"):
            raise Refused(f"{path}: prediction_type '{self.predicts}': valid: epsilon, v_prediction, sample")
        kept = scheduler.alphas_cumprod.double()
        self.signal, self.noise = kept.sqrt().float(), (1 - kept).sqrt().float()

    def draw(self, count: int, device: torch.device) -> torch.Tensor:
        return torch.randint(0, len(self.signal), (count,), device=device)

    def time(self, step: torch.Tensor) -> torch.Tensor:
        """What the model gets."""
        return step

    def noisy_and_target(self, clean: torch.Tensor, noise: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = (at_step(table, step, clean) for table in (self.signal, self.noise))
        targets = {"epsilon": noise, "sample": clean, "v_prediction": a * noise - b * clean}
        return a * clean + b * noise, targets[self.predicts]


class FlowMatching:
    """The same on a straight line from noise to image. Steps are indices into `timesteps` of the scheduler, of which 0 is pure noise, as in the
    training scripts of diffusers; they are drawn with the logit-normal density of SD3, with mean 0 and deviation 1."""

    def __init__(self, scheduler: Any):
        self.sigmas, self.times = scheduler.sigmas.float(), scheduler.timesteps.float()

    def draw(self, count: int, device: torch.device) -> torch.Tensor:
        place = torch.sigmoid(torch.randn(count, device=device))
        return (place * len(self.sigmas)).long().clamp(max=len(self.sigmas) - 1)

    def time(self, step: torch.Tensor) -> torch.Tensor:
        return self.times.to(step.device)[step]

    def noisy_and_target(self, clean: torch.Tensor, noise: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sigma = at_step(self.sigmas, step, clean)
        return (1 - sigma) * clean + sigma * noise, noise - clean


def at_step(table: torch.Tensor, step: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    return table.to(images.device)[step].reshape(-1, *[1] * (images.dim() - 1))


def schedule_of(directory: ModelDirectory) -> Diffusion | FlowMatching:
    """From scheduler_config.json; by default that of DDPMScheduler."""
    import diffusers

    path, config = directory.schedule_path, directory.schedule
    name = str(config.get("_class_name", "DDPMScheduler"))
    try:
        with quiet():
            scheduler = getattr(diffusers, name, None).from_config(config)  # type: ignore[union-attr]
    except Exception as error:
        raise Refused(f"{path}: {type(error).__name__}: {one_line(error)}") from error
    if name.startswith("FlowMatch"):
        return FlowMatching(scheduler)
    if not hasattr(scheduler, "alphas_cumprod"):
        raise Refused(f"{path}: a {name} has no table of noise for each time step (alphas_cumprod), and is not for flow matching")
    return Diffusion(scheduler, path)


def loss_of_denoiser(directory: ModelDirectory, model: nn.Module, batch: Batch) -> Loss:
    """`batch`: the image, and optionally classes, noise and time steps; other fields that forward() takes are passed on."""
    schedule, takes = schedule_of(directory), inspect.signature(model.forward).parameters
    image = next((name for name in CLEAN if name in batch), None)
    if image is None:
        raise CompileError(f"the batch has no image: it has {', '.join(batch)}; expected one of {', '.join(CLEAN)}")
    given = {name: name for name in batch if name in takes and name not in (*CLEAN, *IMAGES, *DRAWN)}
    classes = next((name for name in CLASSES if name in batch), None)
    if classes is not None and "class_labels" in takes and takes_classes(model):
        given["class_labels"] = classes
    noisy_name = next(name for name in IMAGES if name in takes)

    def function(module: nn.Module, fields: Batch) -> torch.Tensor:
        clean = fields[image]
        noise = fields["noise"] if "noise" in fields else torch.randn_like(clean)
        step = fields["timestep"] if "timestep" in fields else schedule.draw(clean.shape[0], clean.device)
        noisy, target = schedule.noisy_and_target(clean, noise, step)
        others = {name: fields[field] for name, field in given.items()}
        predicted = module(**{noisy_name: noisy}, timestep=schedule.time(step), return_dict=False, **others)[0]
        if predicted.shape != target.shape:
            raise CompileError(f"the model predicts {list(predicted.shape[1:])} for images of {list(target.shape[1:])}: models that also "
                               "predict the variance are not supported")
        return F.mse_loss(predicted, target)

    return Loss(function)


def lacking(model: nn.Module, batch: Batch) -> str:
    """What may explain that the model fails: what it takes, and the batch does not have."""
    names = [name for name in CONDITIONS if name in inspect.signature(model.forward).parameters and name not in batch]
    return f"; the batch has no {' and '.join(names)}, which the model takes: give --batch a run file or an .npz file" if names else ""


def takes_classes(model: nn.Module) -> bool:
    config = model.config  # type: ignore[attr-defined]
    return bool(config.get("num_class_embeds") or config.get("class_embed_type") or config.get("num_embeds_ada_norm"))


def example_images(model: nn.Module, samples: int, length: int | None) -> Batch:
    """Random values, independent of torch's global seed. `length`: the side of an image; None: of the config."""
    config, generator = model.config, torch.Generator().manual_seed(0)  # type: ignore[attr-defined]
    size = length or config.get("sample_size")
    if size is None:
        raise Refused("config.json has no sample_size: give the side of an image with --length")
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    batch = {"image": 2 * torch.rand((samples, config["in_channels"], height, width), generator=generator) - 1}
    classes = config.get("num_class_embeds") or config.get("num_embeds_ada_norm")
    return {**batch, "label": torch.randint(0, classes, (samples,), generator=generator)} if takes_classes(model) and classes else batch
