"""Adapters (LoRA) in a model of transformers, made by PEFT. Everything else in the model is frozen."""

import copy
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Callable

import torch
from torch import nn

from lockstep.compile.errors import one_line, quiet
from lockstep.compile.hf.adapter_options import CONFIG, WEIGHTS, AdapterDirectory, Lora, Returned, missing_peft
from lockstep.compile.hf.model import SETTINGS, num_parameters
from lockstep.compile.packing import Adapter
from lockstep.compile.sources import Refused

if TYPE_CHECKING:
    from peft import LoraConfig, PeftModel

Report = Callable[[str], None]

TASK_TYPES = {"causal-lm": "CAUSAL_LM", "seq2seq-lm": "SEQ_2_SEQ_LM", "sequence-classification": "SEQ_CLS",
              "token-classification": "TOKEN_CLS"}
INITIALIZATIONS = ("gaussian", "orthogonal")  # of PEFT; the others change the weights of the base model
MAX_NAMES = 12  # in a message
WRAPPER = "base_model.model."  # in names of tensors of a PeftModel
Wanted = Lora | AdapterDirectory | Returned


def add_adapters(model: nn.Module, task: str, wanted: Lora | AdapterDirectory, base: Path, seed: int, report: Report) -> Adapter:
    """Changes `model`. New adapters are initialized as PEFT does after torch.manual_seed(seed). `base`: the directory of the model."""
    peft = import_peft()
    tied, model_config = has_tied_embeddings(model), model_config_text(model, base)
    config = new_config(model, task, wanted) if isinstance(wanted, Lora) else stored_config(wanted)
    torch.manual_seed(seed)
    try:
        with quiet():
            adapted = peft.get_peft_model(model, config)
    except Exception as error:
        raise Refused(f"{wanted.source}: {one_line(error)}" + hint(wanted)) from error
    verify_layers(adapted, wanted)
    if tied:
        verify_last_layer(model, wanted)
    with quiet():
        stored = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
    if isinstance(wanted, AdapterDirectory):
        load_adapter(adapted, stored, wanted)
    unwrap_saved_modules(model)
    if tied and not has_tied_embeddings(model):
        raise Refused(f"{wanted.source}: modules_to_save has embeddings that are also the weights of the last layer: these cannot be "
                      "trained in full")
    trained = nn.ParameterList(parameter for parameter in model.parameters() if parameter.requires_grad)
    report(f"adapters of rank {config.r}: {num_parameters(trained)} parameters are trained")
    return description(model, stored, config_text(adapted, config, str(base.resolve())), model_config)


def returned_adapters(adapted: "PeftModel", report: Report) -> Adapter | None:
    """Of a model that a function returns, whose modules_to_save lose PEFT's wrapper. None: a checkpoint contains the whole model, as a
    line reports."""
    wanted, model = Returned(), adapted.get_base_model()
    try:
        verify_returned(adapted, wanted)
        with quiet():
            from peft import get_peft_model_state_dict

            stored = get_peft_model_state_dict(adapted, save_embedding_layers=False)
        in_files = {tensor.data_ptr() for tensor in stored.values()}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and parameter.data_ptr() not in in_files:
                raise Refused(f"{wanted.source}: '{name}' is trained, but is not part of PEFT's files")
    except Refused as problem:
        report(f"warning: {problem}: checkpoints contain the whole model, without PEFT's files")
        return None
    unwrap_saved_modules(model)
    config = adapted.peft_config["default"]
    text = config_text(adapted, config, base_of(config))  # type: ignore[arg-type]
    return description(adapted, stored, text, returned_config_text(model), WRAPPER)


def base_of(config: "LoraConfig") -> str | None:
    """The name of the base model; of a directory, its absolute path, with which exports find it from elsewhere."""
    name = config.base_model_name_or_path
    return str(Path(name).resolve()) if name and Path(name).is_dir() else name


def verify_returned(adapted: "PeftModel", wanted: Returned) -> None:
    from peft.tuners.lora import LoraLayer
    from peft.utils import ModulesToSaveWrapper

    configs, model = adapted.peft_config, adapted.get_base_model()
    if list(configs) != ["default"]:
        raise Refused(f"{wanted.source}: its adapters are {', '.join(configs)}; expected one, called 'default'")
    kind = str(getattr(configs["default"].peft_type, "value", configs["default"].peft_type))
    if kind != "LORA":
        raise Refused(f"{wanted.source}: peft_type '{kind}' is not LORA")
    verify_config(configs["default"], wanted.source)  # type: ignore[arg-type]
    verify_layers(adapted, wanted)
    layers = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
    if any(layer.merged or layer.disable_adapters for layer in layers):
        raise Refused(f"{wanted.source}: its adapters are merged or disabled")
    if has_tied_embeddings(model):
        verify_last_layer(model, wanted)
    if is_tied(model) and any(isinstance(layer, ModulesToSaveWrapper) for layer in ends_of(model)):
        raise Refused(f"{wanted.source}: modules_to_save has embeddings that are also the weights of the last layer")


def import_peft():  # type: ignore[no-untyped-def]
    try:
        import peft
    except ModuleNotFoundError as error:
        raise missing_peft() from error
    return peft


def hint(wanted: Wanted) -> str:
    return ": is it an adapter of another base model?" if isinstance(wanted, AdapterDirectory) else ""


def linear_layers() -> tuple[type, ...]:
    from transformers.pytorch_utils import Conv1D

    return (nn.Linear, Conv1D)


def ends_of(model: nn.Module) -> list[nn.Module]:
    """The embeddings and the last layer of a language model; none of other models."""
    try:
        ends = [model.get_input_embeddings(), model.get_output_embeddings()]  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        return []
    return [] if None in ends else ends


def has_tied_embeddings(model: nn.Module) -> bool:
    ends = ends_of(model)
    return bool(ends) and ends[0].weight is ends[1].weight


def is_tied(model: nn.Module) -> bool:
    """As its config says."""
    return bool(getattr(getattr(model, "config", None), "tie_word_embeddings", False))


def new_config(model: nn.Module, task: str, lora: Lora) -> "LoraConfig":
    layers = {name: layer for name, layer in model.named_modules() if name}
    verify_names("targets", lora.targets, "linear layer", [name for name, layer in layers.items() if isinstance(layer, linear_layers())])
    verify_names("modules_to_save", lora.modules_to_save, "module", list(layers))
    return import_peft().LoraConfig(
        task_type=TASK_TYPES.get(task), r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout,
        target_modules=list(lora.targets) or "all-linear", use_rslora=lora.rslora, use_dora=lora.dora,
        modules_to_save=list(lora.modules_to_save) or None)


def verify_names(setting: str, wanted: tuple[str, ...], kind: str, names: list[str]) -> None:
    """PEFT ignores a name that fits no layer if another one does."""
    for each in wanted:
        if not any(name == each or name.endswith(f".{each}") for name in names):
            there = sorted({name.rpartition(".")[2] for name in names if not name.rpartition(".")[2].isdigit()})
            more = f" and {len(there) - MAX_NAMES} more" if len(there) > MAX_NAMES else ""
            raise Refused(f"--lora: {setting}: no {kind} is called '{each}'; there are {', '.join(there[:MAX_NAMES])}{more}")


def stored_config(directory: AdapterDirectory) -> "LoraConfig":
    path = directory.path / CONFIG
    try:
        with quiet():
            config = import_peft().PeftConfig.from_pretrained(str(directory.path))
    except Exception as error:
        raise Refused(f"{path}: {type(error).__name__}: {one_line(error)}") from error
    verify_config(config, str(path))
    config.inference_mode = False
    return config


def verify_config(config: "LoraConfig", where: str) -> None:
    if isinstance(config.init_lora_weights, str) and config.init_lora_weights not in INITIALIZATIONS:
        raise Refused(f"{where}: init_lora_weights '{config.init_lora_weights}' changes the weights of the base model, which is not "
                      "supported; convert it with path_initial_model_for_weight_conversion of PEFT's save_pretrained()")
    if config.bias != "none":
        raise Refused(f"{where}: 'bias' is '{config.bias}'; only 'none' is supported")


def verify_layers(adapted: "PeftModel", wanted: Wanted) -> None:
    from peft.tuners.lora import LoraLayer

    for name, layer in adapted.get_base_model().named_modules():
        if isinstance(layer, LoraLayer) and not isinstance(layer.get_base_layer(), linear_layers()):
            raise Refused(f"{wanted.source}: '{name}' is of type {type(layer.get_base_layer()).__name__}: only linear layers can have "
                          "adapters")


def verify_last_layer(model: nn.Module, wanted: Wanted) -> None:
    """Of a model whose embeddings are the weights of the last layer: adapters of it could not be merged."""
    from peft.tuners.lora import LoraLayer

    last = model.get_output_embeddings()  # type: ignore[operator]
    if isinstance(last, LoraLayer):
        name = next(name for name, layer in model.named_modules() if layer is last)
        raise Refused(f"{wanted.source}: targets has '{name}', whose weights are also the embeddings (tie_word_embeddings): it cannot have "
                      "adapters")


def load_adapter(adapted: "PeftModel", expected: dict[str, torch.Tensor], directory: AdapterDirectory) -> None:
    """`expected`: the tensors of the model, with the names of the file."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    path = directory.path / WEIGHTS

    def refuse(problem: str) -> Refused:
        return Refused(f"{path}: {problem}{hint(directory)}")

    try:
        found = load_file(path)
    except Exception as error:
        raise Refused(f"{path}: {one_line(error)}") from error
    for name, tensor in expected.items():
        if name not in found:
            raise refuse(f"has no '{name}', which the model needs")
        if found[name].shape != tensor.shape:
            raise refuse(f"'{name}' is {list(found[name].shape)} in the file and {list(tensor.shape)} in the model")
    for name in found:
        if name not in expected:
            raise refuse(f"has '{name}', which the model does not have")
    with quiet():
        set_peft_model_state_dict(adapted, found)


def unwrap_saved_modules(model: nn.Module) -> None:
    """Modules that are trained in full, in the place of PEFT's wrapper, which also keeps the original."""
    from peft.utils import ModulesToSaveWrapper

    for name, layer in list(model.named_modules()):
        if isinstance(layer, ModulesToSaveWrapper):
            model.set_submodule(name, layer.modules_to_save["default"])


def name_in_package(name: str) -> str:
    """As in the base model, and of adapters as in checkpoints of the model `hf`."""
    return re.sub(r"\.(lora_\w+)\.default\b", r".\1", name.replace(".base_layer.", "."))


def description(model: nn.Module, stored: dict[str, torch.Tensor], config: str, model_config: str, prefix: str = "") -> Adapter:
    """`stored`: tensors of the model, with their names in PEFT's file. `prefix`: of all names in the model, which the package lacks."""
    files = {tensor.data_ptr(): name for name, tensor in stored.items()}
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = {name: name_in_package(name.removeprefix(prefix)) for name in state}
    tensors = {names[name]: files[tensor.data_ptr()] for name, tensor in state.items() if tensor.data_ptr() in files}
    for name, tensor in state.items():
        if tensor.requires_grad and names[name] not in tensors:
            raise Refused(f"'{names[name]}' is trained, but is not part of PEFT's files: this kind of adapter is not supported")
    return Adapter({name: new for name, new in names.items() if name != new}, config, model_config, tensors, prefix)


def config_text(adapted: "PeftModel", config: "LoraConfig", base: str | None) -> str:
    """The content of adapter_config.json in checkpoints. `base`: the model, if it has a name."""
    from peft.tuners.lora import LoraLayer
    from transformers.pytorch_utils import Conv1D

    if isinstance(config.target_modules, set):
        config.target_modules = sorted(config.target_modules)
    layers = (layer for layer in adapted.modules() if isinstance(layer, LoraLayer))
    config.fan_in_fan_out = any(isinstance(layer.get_base_layer(), Conv1D) for layer in layers)
    config.base_model_name_or_path, config.inference_mode = base, True
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        return Path(folder, CONFIG).read_text()


def model_config_text(model: nn.Module, base: Path) -> str:
    """The content of config.json of this model, as save_pretrained() writes it: the class and settings may differ from the base's."""
    from transformers import AutoConfig

    config, original = copy.deepcopy(model.config), AutoConfig.from_pretrained(base, local_files_only=True)
    for name in SETTINGS:
        if hasattr(original, name):
            setattr(config, name, getattr(original, name))
    config.architectures = [type(model).__name__]  # type: ignore[union-attr]
    return config.to_json_string()  # type: ignore[union-attr, no-any-return, operator]


def returned_config_text(model: nn.Module) -> str:
    """As above, of a model that a function returns; empty if it has no config of transformers."""
    config = copy.deepcopy(getattr(model, "config", None))
    if not hasattr(config, "to_json_string"):
        return ""
    config.architectures = [type(model).__name__]
    return config.to_json_string()  # type: ignore[no-any-return]


def freeze_in_bf16(model: nn.Module) -> None:
    """Stores the weights that are not trained in bfloat16."""
    for parameter in model.parameters():
        if not parameter.requires_grad:
            parameter.data = parameter.data.to(torch.bfloat16)
