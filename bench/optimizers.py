"""Compares the time of a step of each optimizer with its Python peer: 10 million parameters, one thread, alternating rounds.

    .venv/bin/python bench/optimizers.py [--rounds 5] [--steps 10] [--only NAME] [--out bench/results/optimizers.json]

The peer is the fastest implementation that the package has: fused where there is one, else foreach. `adamw` in bf16 and int8
is compared with torch's fused AdamW in float32.
Needs: cmake --build build --target lockstep_optimizer_driver
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from measuring import BIN, SOURCE, commit, machine, print_table, row

DRIVER = BIN.parent / "tests" / "bin" / "lockstep_optimizer_driver"
PYTHON = SOURCE / ".venv" / "bin" / "python"
# 10.0 M parameters, as of three blocks of a transformer that is 512 wide.
SHAPES = {f"{block}.{name}": sizes for block in range(3)
          for name, sizes in {"qkv": [1536, 512], "out": [512, 512], "up": [2048, 512], "down": [512, 2048],
                              "norm": [512], "bias": [1536]}.items()} | {"embedding": [1024, 512]}
MATRICES_ONLY = {"torch.optim.Muon"}
CASES = {
    "adamw": ({"name": "adamw"}, "torch.optim.AdamW", {"fused": True}),
    "adamw bf16": ({"name": "adamw", "state": "bf16"}, "torch.optim.AdamW", {"fused": True}),
    "adamw int8": ({"name": "adamw", "state": "int8"}, "torch.optim.AdamW", {"fused": True}),
    "nadam": ({"name": "nadam"}, "torch.optim.NAdam", {"foreach": True}),
    "radam": ({"name": "radam"}, "torch.optim.RAdam", {"foreach": True}),
    "rmsprop": ({"name": "rmsprop", "momentum": 0.9}, "torch.optim.RMSprop", {"foreach": True, "momentum": 0.9}),
    "adagrad": ({"name": "adagrad"}, "torch.optim.Adagrad", {"fused": True}),
    "lion": ({"name": "lion", "weight_decay": 0.1}, "lion_pytorch.Lion", {"weight_decay": 0.1}),
    "schedule-free": ({"name": "adamw_schedule_free"}, "schedulefree.AdamWScheduleFree", {"foreach": True}),
    "adafactor": ({"name": "adafactor"}, "torch.optim.Adafactor", {"foreach": True}),
    "muon": ({"name": "muon", "adamw": {"match": []}}, "torch.optim.Muon", {}),
}


def peer(job):
    """Runs in a separate process; prints the seconds of each step."""
    import importlib
    import time

    import torch

    torch.set_num_threads(1)
    parameters = [torch.nn.Parameter(torch.randn(sizes)) for sizes in job["shapes"].values()]
    for parameter in parameters:
        parameter.grad = parameter.detach() * 0.5 + torch.randn(parameter.shape)
    package, name = job["class"].rsplit(".", 1)
    make = getattr(importlib.import_module(package), name)
    optimizers = [make([p for p in parameters if p.dim() == 2 or not job["matrices"]], **job["settings"])]
    if job["matrices"]:
        optimizers.append(torch.optim.AdamW([p for p in parameters if p.dim() != 2], fused=True))
    for optimizer in optimizers:
        getattr(optimizer, "train", lambda: None)()
    seconds = []
    for _ in range(job["steps"]):
        begin = time.perf_counter()
        for optimizer in optimizers:
            optimizer.step()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds))


def median_of(command, job):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(job, file)
        file.flush()
        out = subprocess.run([*command, file.name], check=True, capture_output=True, text=True).stdout
    return statistics.median(json.loads(out)[2:]) * 1000  # the first steps allocate


def measure(name, rounds, steps):
    ours, peer_class, settings = CASES[name]
    job = {"shapes": SHAPES, "steps": steps}
    times = {"ours": [], "peer": []}
    for _ in range(rounds):
        times["ours"].append(median_of([DRIVER], [{**job, "optimizer": json.dumps(ours), "timed": True}]))
        times["peer"].append(median_of([PYTHON, __file__, "--peer"], {
            **job, "class": peer_class, "settings": settings, "matrices": peer_class in MATRICES_ONLY}))
    theirs = statistics.median(times["peer"])
    return row(f"{name}, step", "ms", times["ours"], peer=peer_class, peer_median=round(theirs, 3),
               ratio=round(theirs / statistics.median(times["ours"]), 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--out", type=pathlib.Path, default=SOURCE / "bench" / "results" / "optimizers.json")
    options = parser.parse_args()
    rows = [measure(name, options.rounds, options.steps) for name in CASES if options.only in (None, name)]
    print_table("10 M parameters, one thread", rows)
    options.out.write_text(json.dumps({"commit": commit(), "machine": machine(tempfile.gettempdir()), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(json.loads(pathlib.Path(sys.argv[2]).read_text()))
    else:
        main()
