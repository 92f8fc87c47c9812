"""Builds the model of a directory, with settings that can be exported, and loads its weights."""

import difflib
from typing import TYPE_CHECKING, Callable

import torch
from torch import nn

from lockstep.compile.errors import one_line, quiet
from lockstep.compile.hf.directory import INDEX, TIMM, WEIGHTS, ModelDirectory
from lockstep.compile.hf.tasks import TASKS, task_of
from lockstep.compile.sources import Refused

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Report = Callable[[str], None]

# Not part of a graph of tensors: caches for generation, layers that Python skips at random, masks that numpy draws.
SETTINGS = {"use_cache": False, "return_dict": True, "output_attentions": False, "output_hidden_states": False,
            "layerdrop": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "apply_spec_augment": False}
TRAINING_CHANGES = ("layerdrop", "encoder_layerdrop", "decoder_layerdrop", "apply_spec_augment")
EXPERTS = "batched_mm"  # the others call operators that are not part of LibTorch, or branch on tensors
MAY_LACK = ("pooler",)  # layers below the head that a checkpoint of another task may lack


def read_config(directory: ModelDirectory, changes: dict[str, object], report: Report) -> "PretrainedConfig":
    """`changes`: NAME=VALUE of the command line."""
    path = directory.path / "config.json"
    transformers = import_transformers()
    model_type = TIMM if directory.is_of_timm else directory.config.get("model_type")
    verify_model_type(model_type, path)
    if "quantization_config" in directory.config:
        raise Refused(f"{path}: quantization_config: quantized weights cannot be trained; use the original weights")
    try:
        with quiet():
            config, unknown = transformers.AutoConfig.from_pretrained(directory.path, local_files_only=True,
                                                                      return_unused_kwargs=True, **changes)
    except Exception as error:
        raise Refused(f"{path}: {type(error).__name__}: {last_line(error)}") from error
    for name in unknown:
        near = difflib.get_close_matches(name, config.to_dict(), 1)
        raise Refused(f"{name}={changes[name]}: the config of a model of type '{model_type}' has no '{name}'"
                      + (f"; did you mean '{near[0]}'?" if near else ""))
    if directory.is_of_timm and config.model_args:  # timm 1.0.31 writes num_classes there too, which transformers passes twice
        config.model_args = {name: value for name, value in config.model_args.items() if name != "num_classes"}
    for name, value in SETTINGS.items():
        before = getattr(config, name, value)
        if name not in TRAINING_CHANGES:
            setattr(config, name, value)
        elif before != value:
            setattr(config, name, value)
            report(f"warning: {name} of config.json is {before}, which cannot be compiled: it is {value}")
    return config


def import_transformers():  # type: ignore[no-untyped-def]
    """Without its log messages and progress bars."""
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise missing_transformers() from error
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def missing_transformers() -> Refused:
    return Refused("hf: models need the Python package transformers, which is not installed: "
                   "pip install 'lockstep[hf]', or pip install transformers==5.23.0")


def verify_model_type(model_type: object, path: object) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if not isinstance(model_type, str):
        raise Refused(f"{path}: model_type is missing: it names the architecture, e.g. \"llama\" or \"bert\"")
    if model_type not in CONFIG_MAPPING_NAMES:
        import transformers

        near = difflib.get_close_matches(model_type, CONFIG_MAPPING_NAMES, 1)
        raise Refused(f"{path}: model_type '{model_type}' is not an architecture of transformers {transformers.__version__}"
                      + (f"; did you mean '{near[0]}'?" if near else "; models with their own code are not supported"))


def last_line(error: BaseException) -> str:
    """transformers' validation errors give the reason last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines and type(error).__name__.startswith("StrictDataclass") else one_line(error)


def load_model(directory: ModelDirectory, wanted: str | None, changes: dict[str, object], seed: int, report: Report) -> tuple[nn.Module, str]:
    """The model with its weights, in fp32, and its task."""
    config = read_config(directory, changes, report)
    task = task_of(config, wanted, directory.path / "config.json")
    auto = getattr(import_transformers(), TASKS[task].auto)
    attention = "sdpa" if supports(auto, config, "_supports_sdpa") else "eager"
    torch.manual_seed(seed)
    try:
        with quiet():
            if directory.weights:
                model, info = auto.from_pretrained(
                    directory.path, config=config, dtype=torch.float32, attn_implementation=attention, experts_implementation=EXPERTS,
                    use_safetensors=True, local_files_only=True, output_loading_info=True, ignore_mismatched_sizes=True)
            else:
                model, info = auto.from_config(config, dtype=torch.float32, attn_implementation=attention,
                                               experts_implementation=EXPERTS), None
    except Exception as error:
        place = directory.path if directory.weights else directory.path / "config.json"
        raise Refused(f"{place}: {type(error).__name__}: {last_line(error)}") from error
    if info is None:
        report(f"{directory.path} has no weights: the model starts from random ones")
    else:
        verify_weights(directory, model, info, "num_labels" in changes, report)
    return model, task


def supports(auto: type, config: "PretrainedConfig", what: str) -> bool:
    classes = auto._model_mapping[type(config)]  # type: ignore[attr-defined]
    return all(getattr(each, what, False) for each in (classes if isinstance(classes, (list, tuple)) else [classes]))


def verify_weights(directory: ModelDirectory, model: nn.Module, info: dict, other_labels: bool, report: Report) -> None:
    """Only the layers of a task may start from random weights. `info`: of from_pretrained."""
    path = directory.path / (WEIGHTS if directory.weights == [WEIGHTS] else INDEX)
    missing, mismatched = sorted(info["missing_keys"]), sorted(info["mismatched_keys"])
    unexpected = sorted(info["unexpected_keys"])
    named = dict(model.named_parameters(remove_duplicate=False))
    body = f"{getattr(model, 'base_model_prefix', '')}."
    for name, in_file, in_model in mismatched:
        if not (other_labels and is_of_labels(model, in_model)):
            raise Refused(f"{path}: '{name}' has the shape {list(in_file)}, but the model of config.json needs {list(in_model)}")
    if len(missing) == len(named):
        raise Refused(f"{path}: has none of the tensors of {type(model).__name__}, such as '{missing[0]}'"
                      + (f"; it has '{unexpected[0]}'" if unexpected else ""))
    same_task = type(model).__name__ in (directory.config.get("architectures") or [])
    lacking = [name for name in missing if same_task or name.startswith(body) and not any(part in name for part in MAY_LACK)]
    if lacking:
        raise Refused(f"{path}: lacks '{lacking[0]}'{more(lacking)}, which the model of config.json needs")
    random = [*missing, *(name for name, _, _ in mismatched)]
    if random:
        report(f"not in the weights, start from random ones: {names(random)}")
    if unexpected:
        report(f"warning: in the weights, but not in the model: {names(unexpected)}")


def is_of_labels(model: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether a tensor of this shape may be the last layer, which has one row for each label."""
    return len(shape) > 0 and shape[0] == model.config.num_labels


def names(found: list[str]) -> str:
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")


def more(found: list[str]) -> str:
    return f" and {len(found) - 1} more" if len(found) > 1 else ""


def num_parameters(model: nn.Module) -> str:
    """In thousands or millions."""
    count = sum(parameter.numel() for parameter in model.parameters())
    return f"{count / 1e6:.1f} M" if count >= 1e5 else f"{count / 1e3:.1f} k"
