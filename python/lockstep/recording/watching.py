"""Histograms of the gradients and parameters of models of torch, and tables of their modules. torch is not imported: only methods of the
models and tensors are used."""

import weakref
from typing import Any, Callable

from lockstep.recording.values import DEFAULT_BINS, Histogram, Table, edges_between

KINDS = {"gradients": ("gradients",), "parameters": ("parameters",), "all": ("gradients", "parameters")}
_PIECE = 1 << 22  # histc counts in float32, which is exact up to 2**24


class Watch:
    """Hooks on the parameters of `model` that record every `every`-th gradient.

    `put` gets names and histograms, in a thread of autograd. `warn` gets one line for an error: none is raised into the training.
    Between records a hook costs about a microsecond per parameter and backward pass.
    """

    def __init__(self, model: Any, prefix: str, kinds: tuple[str, ...], every: int, put: Callable[[str, Histogram], None],
                 warn: Callable[[str], None]) -> None:
        self._model = weakref.ref(model)
        self._kinds, self._every, self._put, self._warn = kinds, every, put, warn
        self._handles = [parameter.register_hook(self._hook(prefix + name, parameter))
                         for name, parameter in model.named_parameters() if parameter.requires_grad]

    def is_of(self, model: Any) -> bool:
        return self._model() is model

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _hook(self, name: str, parameter: Any) -> Callable[[Any], None]:
        found = weakref.ref(parameter)  # the parameter owns its hooks
        count = 0

        def on_gradient(gradient: Any) -> None:
            nonlocal count
            count += 1
            if count < self._every:
                return
            count = 0
            try:
                for kind in self._kinds:
                    histogram = histogram_of(gradient if kind == "gradients" else found())
                    if histogram is not None:
                        self._put(f"{kind}/{name}", histogram)
            except Exception as error:
                self._warn(f"watch(): {name}: {type(error).__name__}: {error}")

        return on_gradient


def tables_of(model: Any) -> dict[str, Table]:
    """The modules of a model, those inside a module after it, and its parameters. Shared ones are listed and counted once."""
    modules = Table(columns=["module", "type", "settings", "parameters", "own parameters", "trainable", "bytes"])
    for name, module in model.named_modules():
        found = list(module.parameters())
        modules.add_data(name or "(the model)", type(module).__name__, module.extra_repr(), sum(one.numel() for one in found),
                         sum(one.numel() for one in module.parameters(recurse=False)), sum(one.numel() for one in found if one.requires_grad),
                         sum(one.numel() * one.element_size() for one in found))
    parameters = Table(columns=["parameter", "shape", "dtype", "elements", "bytes", "trainable"])
    for name, one in model.named_parameters():
        parameters.add_data(name, " × ".join(map(str, one.shape)) or "1", str(one.dtype).removeprefix("torch."), one.numel(),
                            one.numel() * one.element_size(), one.requires_grad)
    return {"modules": modules, "parameters": parameters}


def histogram_of(tensor: Any) -> Histogram | None:
    """Of the finite values of a tensor, computed on its device. None if there are none."""
    if tensor.is_complex():
        raise TypeError("complex numbers have no histogram")
    values, zeros = tensor.detach(), 0
    if values.is_sparse:
        values = values.coalesce()
        zeros = values.numel() - values.values().numel()
        values = values.values()
    values = values.reshape(-1)
    values = values if values.is_floating_point() and values.element_size() >= 4 else values.float()
    finite = values.isfinite()
    if not finite.all():
        values = values[finite]
    if values.numel() == 0:
        return Histogram(np_histogram=([float(zeros)], [-0.5, 0.5])) if zeros else None
    low, high = (float(bound) for bound in values.aminmax())
    if zeros:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        margin = max(0.5, abs(low) * 1e-6)
        return Histogram(np_histogram=([float(values.numel() + zeros)], [low - margin, low + margin]))
    counts = [0.0] * DEFAULT_BINS
    for piece in values.split(_PIECE):
        counts = [count + more for count, more in zip(counts, piece.histc(DEFAULT_BINS, low, high).tolist())]
    counts[min(int(-low / (high - low) * DEFAULT_BINS), DEFAULT_BINS - 1) if zeros else 0] += zeros
    return Histogram(np_histogram=(counts, edges_between(low, high, DEFAULT_BINS)))
