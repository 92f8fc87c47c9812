"""A script that runs compiled code in the same environment as lockstep-trainer: LibTorch and its operators.

Therefore it imports only torch, and nothing that a model needs in Python. Started by lockstep.compile.running.
"""

import ctypes
import io
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS


def prepare() -> None:
    for operator in OPDEFS.values():
        operator._lib._destroy()  # defined in Python by torch, not available in LibTorch
    # The libraries require LibTorch's symbols to be globally visible in the process.
    ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)


def load(directory: Path, on_gpu: bool) -> Any:
    """Loads a graph like models/compiled/graph.cpp."""
    (library,) = directory.rglob("*.so")
    if not on_gpu:
        return torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), 1)
    return torch._C._aoti.AOTIModelContainerRunnerCuda(str(library), 1, "cuda", str(library.parent), True)


def serve(caller: Connection, directory: str) -> None:
    """Receives graph names with inputs: tensors to keep, then for each input its number among all of these, or None, and the inputs
    with None. Sends outputs or an error message."""
    loaded: dict[str, Any] = {}
    kept: list[torch.Tensor] = []
    while True:
        try:
            name, content = caller.recv()
        except EOFError:
            return
        try:
            new, numbers, others = torch.load(io.BytesIO(content))
            kept += new
            inputs = [others.pop(0) if number is None else kept[number] for number in numbers]
            outputs = io.BytesIO()
            if name not in loaded:
                loaded[name] = load(Path(directory, name), inputs[0].is_cuda)
            with torch.no_grad():
                torch.save(loaded[name].run(inputs), outputs)
            caller.send((outputs.getvalue(), ""))
        except Exception as error:
            caller.send((b"", f"{error}".partition("\n")[0][:300] or type(error).__name__))


if __name__ == "__main__":
    prepare()
    serve(Connection(int(sys.argv[1])), sys.argv[2])
