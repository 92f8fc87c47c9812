"""Compares training steps on one GPU: Lockstep (eager, compiled, CUDA graphs) and PyTorch (eager, fused, torch.compile), in one run.

    bench/gpu.sh --bench [--rounds 2] [--only gpt2 mlp qwen3 ...] [--sides lockstep eager ...]
    .venv/bin/python bench/gpu.py --device cpu --quick         # tests the harness with small models, without a GPU

gpt2: GPT-2 124M with autocast to bfloat16, 32 samples of 1,024 tokens. qwen3: the sizes of Qwen3-0.6B, 8 samples of 1,024 tokens.
llama-lora: the sizes of Llama-3.1-8B in bfloat16, 4 samples of 1,024 tokens, adapters of rank 16 of all projections of the layers.
mlp: three layers of width 256, 64 samples: bound by kernel launches. Python's batches are tensors on the GPU; Lockstep uses its
loader. Everything is compiled before the first round. "first step" is the time from the command to the end of the first step, with
warm caches.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import measuring
from measuring import BIN, SOURCE, newest_records, newest_run, output_of, print_table
from rows_collectives import last_json
from rows_steps import SIDE, write_images, write_text

GPT2 = {"vocab_size": 50257, "context": 1024, "layers": 12, "heads": 12, "width": 768}
SMALL_GPT = {"vocab_size": 257, "context": 32, "layers": 2, "heads": 2, "width": 64}
QWEN3 = {"vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
         "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rope_theta": 1000000, "tie_word_embeddings": True}
LLAMA = {"vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "max_position_embeddings": 8192, "rope_theta": 500000, "tie_word_embeddings": False}
SMALL_LLAMA = {**LLAMA, "vocab_size": 257, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
               "num_key_value_heads": 1}
ADAPTER = {"r": 16, "lora_alpha": 32, "task_type": "CAUSAL_LM",
           "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}
SMALL_QWEN3 = {**QWEN3, "vocab_size": 257, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
               "num_key_value_heads": 1, "head_dim": 32}
MLP = {"hidden": [256] * 3, "inputs": SIDE * SIDE}
PEERS = {"eager": [], "fused": ["--tuned"], "torch.compile": ["--tuned", "--compile"]}
MODES = {"gpt2": "max-autotune-no-cudagraphs", "mlp": "reduce-overhead"}
# Required speedup over each peer.
GOALS = {"gpt2": {"eager": 1.05, "torch.compile": 1}, "mlp": {"eager": 5, "torch.compile, reduce-overhead": 1.2}, "qwen3": {},
         "llama-lora": {"torch.compile": 1}}
MFU_GOAL = {"qwen3": 0.45}
COMPILING = 0.6  # the share of the time in which packages must be compiled
WAYS = [way + graph for way in ("lockstep", "lockstep compiled") for graph in ("", ", CUDA graph")]


def jobs(quick):
    """Jobs by name. tolerance: of the mean loss of the last steps."""
    return {
        "gpt2": {"kind": "gpt", "model": SMALL_GPT if quick else GPT2, "batch": 4 if quick else 32, "lr": 6e-4,
                 "steps": 16 if quick else 48, "precision": "bf16", "unit": "tokens/s", "length": (SMALL_GPT if quick else GPT2)["context"],
                 "tolerance": 0.05},
        "mlp": {"kind": "mlp", "model": MLP, "batch": 64, "lr": 1e-3, "steps": 80 if quick else 3200, "precision": "fp32",
                "unit": "samples/s", "length": 1, "tolerance": 1e-3},
        "qwen3": {"kind": "hf", "architecture": "Qwen3", "model": SMALL_QWEN3 if quick else QWEN3, "batch": 2 if quick else 8, "lr": 1e-4,
                  "steps": 16 if quick else 32, "precision": "bf16", "unit": "tokens/s", "length": 32 if quick else 1024, "tolerance": 0.05},
        "llama-lora": {"kind": "hf", "architecture": "Llama", "model": SMALL_LLAMA if quick else LLAMA, "adapter": ADAPTER,
                       "batch": 2 if quick else 4, "lr": 1e-4, "steps": 16, "precision": "bf16", "unit": "tokens/s",
                       "length": 32 if quick else 1024, "tolerance": 0.05},
    }


def data_of(job, directory):
    if job["kind"] == "mlp":
        return write_images(directory)
    own = directory / job.get("architecture", job["kind"])
    own.mkdir(exist_ok=True)
    return write_text(own, {"vocab_size": job["model"]["vocab_size"], "context": job["length"]})


WRITE_MODEL = """
import json, sys, torch, transformers
name, sizes, adapter, device, folder = sys.argv[1:]
torch.set_default_dtype(torch.bfloat16 if adapter != "null" else torch.float32)
with torch.device(device):
    model = getattr(transformers, name + "ForCausalLM")(getattr(transformers, name + "Config")(**json.loads(sizes)))
model.save_pretrained(folder)
if adapter != "null":
    import peft
    peft.get_peft_model(model, peft.LoraConfig(**json.loads(adapter))).save_pretrained(folder + "/adapter")
"""


def write_model(job, directory):
    """A folder in Hugging Face's layout with random weights; in bfloat16 and with an adapter if the job has one."""
    folder = directory / job["architecture"] / "model"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        output_of([sys.executable, "-c", WRITE_MODEL, job["architecture"], json.dumps(job["model"]), json.dumps(job.get("adapter")),
                   "cpu" if job["model"]["hidden_size"] < 1024 else "cuda", folder], directory, 600)
    return folder


def hf_model(job, directory):
    folder = str(write_model(job, directory))
    adapter = {"base_dtype": "bf16", "lora": {"path": f"{folder}/adapter"}} if "adapter" in job else {}
    return {"name": "hf", "path": folder, **adapter}


def write_run_file(job, settings, steps, package=None, graph=False):
    path = str(data_of(job, settings.directory))
    data = {"name": "idx", "path": path, "split": "train"} if job["kind"] == "mlp" \
        else {"name": "tokens", "path": path, "length": job["length"]}
    model = hf_model(job, settings.directory) if job["kind"] == "hf" else {"name": job["kind"], **job["model"]}
    file = settings.directory / f"{job.get('architecture', job['kind'])}.yaml"
    file.write_text(json.dumps({
        "run": {"name": "bench", "dir": str(settings.directory / "runs")},
        "model": {"name": "compiled", "package": str(package)} if package else model,
        "data": {"train": data, "per_rank_batch_size": job["batch"], "drop_last": True, "workers": 1},
        "optimizer": {"name": "adamw", "lr": job["lr"]},
        "train": {"epochs": 1000, "max_steps": steps, "log_every": f"{max(1, steps // 8)} steps",
                  "precision": "fp32" if package else job["precision"], **({"cuda_graph": True} if graph else {})},
        "distributed": {"device": settings.device},
        "checkpoint": {"every": "1000 epochs", "keep_last": 1},
        "tracking": {"sinks": []}}))
    return file


def compile_package(name, job, settings):
    package = settings.directory / f"{name}.ls2"
    if job["kind"] == "hf":
        folder = write_model(job, settings.directory)
        adapter = ["--adapter", folder / "adapter", "--base-dtype", "bf16"] if "adapter" in job else []
        model = [f"hf:{folder}", "--segments", "blocks", *adapter]  # equal blocks are compiled once
    else:
        arguments = [f"{key}={json.dumps(value)}" for key, value in job["model"].items()]
        model = [f"lockstep.models:{job['kind']}", *arguments, "--loss", "cross_entropy"]
    begin = time.monotonic()
    output_of([sys.executable, "-m", "lockstep.compile.command_line", *model, "--precision", job["precision"], "--device", settings.device,
               "--batch", write_run_file(job, settings, 1), "-o", package], settings.directory, time_left(settings, COMPILING),
              PATH=f"{BIN}:{os.environ['PATH']}", PYTHONPATH=str(SOURCE / "python"))
    print(f"{name}: compiled in {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    return package


def lockstep(job, settings, package=None, graph=False):
    file = write_run_file(job, settings, job["steps"], package, graph)
    begin = time.time()
    output_of([BIN / "lockstep-trainer", file], settings.directory, time_left(settings))
    runs = settings.directory / "runs"
    values = newest_run(runs)
    seconds = [job["batch"] / speed for speed in values["train/samples_per_s"]]
    logged = next(each["time"] for each in newest_records(runs) if each["metric"] == "train/loss")  # after the first eighth
    return {"seconds": seconds, "loss": values["train/loss"][-1], "mfu": values.get("train/mfu", [None])[-1],
            "first_step": logged - begin - (job["steps"] // 8 - 1) * statistics.median(seconds[1:])}


def peer(job, settings, *options, steps=None):
    steps = steps or job["steps"]
    model = {"gpt": lambda: ["--gpt", json.dumps(job["model"])],
             "mlp": lambda: ["--inputs", job["model"]["inputs"], "--hidden", ",".join(map(str, job["model"]["hidden"]))],
             "hf": lambda: ["--hf", write_model(job, settings.directory), "--length", job["length"],
                            *(["--adapter", write_model(job, settings.directory) / "adapter", "--base-dtype", "bf16"]
                              if "adapter" in job else [])]}[job["kind"]]()
    begin = time.time()
    result = last_json(output_of(
        [sys.executable, SOURCE / "bench" / "step_peer.py", "--data", data_of(job, settings.directory), *model, "--optimizer", "adamw",
         "--lr", job["lr"], "--batch-size", job["batch"], "--steps", steps, "--interval", steps // 8,
         "--device", settings.device, "--precision", job["precision"], *options], settings.directory, time_left(settings),
        PYTHONPATH=str(SOURCE / "python"), TORCHINDUCTOR_CACHE_DIR=settings.directory / "inductor"))
    return {**result, "first_step": result["first_step_at"] - begin}


def peers_of(name):
    """{name: options of step_peer.py}"""
    return {**PEERS, **({f"torch.compile, {MODES[name]}": ["--tuned", "--compile", "--compile-mode", MODES[name]]} if name in MODES else {})}


def time_left(settings, share=1):
    """Seconds until this share of the time of --seconds has passed."""
    return max(1, settings.begin + share * settings.seconds - time.monotonic())


def attempt(what, run, settings):
    """None if it fails or does not end in time. Then the result lacks it, and says so."""
    try:
        return run()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        reason = "no time left" if isinstance(error, subprocess.TimeoutExpired) else str(error).strip().splitlines()[-1]
        settings.missing.append(f"{what}: {reason}")
        print(f"{what}: {error}", file=sys.stderr, flush=True)
        return None


def compile_all(chosen, settings):
    """{job: package}. Fills the cache of torch.compile with all that rounds will use. All at once."""
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        packages = {}
        for name, job in chosen.items():
            data_of(job, settings.directory)
            if job["kind"] == "hf":
                write_model(job, settings.directory)
            if wanted(settings, "lockstep compiled") or wanted(settings, "lockstep compiled, CUDA graph"):
                packages[name] = pool.submit(attempt, f"{name}: package", lambda n=name, j=job: compile_package(n, j, settings), settings)
            for side, options in peers_of(name).items():
                if "--compile" in options and wanted(settings, side):
                    pool.submit(attempt, f"{name}: {side}, compiling", lambda j=job, o=options: peer(j, settings, *o, steps=8), settings)
        return {name: package.result() for name, package in packages.items()}


def wanted(settings, side):
    return not settings.sides or side in settings.sides


def sides_of(name, job, settings, package):
    """({side of Lockstep: function that measures it}, the same of its peers)"""
    ways = {"lockstep": {}, **({"lockstep compiled": {"package": package}} if package else {})}
    if settings.device == "cuda":
        ways |= {f"{way}, CUDA graph": {**how, "graph": True} for way, how in ways.items()}
    ours = {way: lambda h=how: lockstep(job, settings, **h) for way, how in ways.items() if wanted(settings, way)}
    others = {side: lambda o=options: peer(job, settings, *o) for side, options in peers_of(name).items() if wanted(settings, side)}
    return ours, others


def rows(name, job, settings, package):
    """Compares each variant of Lockstep with each of Python, including the first step."""
    ours, others = sides_of(name, job, settings, package)
    speed, first, loss, mfu = (collections.defaultdict(list) for _ in range(4))
    for _ in range(settings.rounds):
        for side, run in {**ours, **others}.items():
            result = attempt(f"{name}: {side}", run, settings)
            if result is None:
                continue
            seconds = statistics.median(result["seconds"][1:])  # the first part warms up
            speed[side].append(job["batch"] * job["length"] / seconds)
            first[side].append(result["first_step"])
            loss[side].append(result["loss"])
            mfu[side].append(result.get("mfu"))
            print(f"{name}: {side}: {speed[side][-1]:,.0f} {job['unit']}, first step {first[side][-1]:.1f} s, loss {loss[side][-1]:.4f}"
                  f", mfu {mfu[side][-1]}", file=sys.stderr, flush=True)
    expected = next(iter(loss.values()), [])
    wrong = {side: values for side, values in loss.items() if abs(values[-1] - expected[-1]) > job["tolerance"]}
    assert not wrong, f"{name}: the loss of {wrong} differs from {expected}"
    for way in filter(speed.__contains__, ours):
        if None not in mfu[way]:
            yield {"row": f"{name}: MFU of {way}", "unit": "of the peak", "lockstep": round(statistics.median(mfu[way]), 3),
                   "peer": None, "ratio": None, "goal": MFU_GOAL.get(name), "rounds": {"lockstep": mfu[way]}}
        for other in filter(speed.__contains__, others):
            yield compared(f"{name}: {way} against {other}", job["unit"], speed[way], speed[other],
                           statistics.median(speed[way]) / statistics.median(speed[other]), GOALS[name].get(other))
            yield compared(f"{name}: first step, {way} against {other}", "s", first[way], first[other],
                           statistics.median(first[other]) / statistics.median(first[way]), None)


def compared(name, unit, ours, other, ratio, goal):
    return {"row": name, "unit": unit, "lockstep": round(statistics.median(ours), 3), "peer": round(statistics.median(other), 3),
            "ratio": round(ratio, 2), "goal": goal, "rounds": {"lockstep": ours, "peer": other}}


def gpu_name(device):
    if device == "cpu":
        return "none: the harness was tried on a CPU"
    return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                          check=True, capture_output=True, text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3600, help="end by then: what is not compiled in 60 %% of them is not measured")
    parser.add_argument("--only", nargs="+", choices=jobs(True), help="run only these jobs, in this order")
    parser.add_argument("--sides", nargs="+", choices=[*WAYS, *PEERS, *(f"torch.compile, {mode}" for mode in MODES.values())], help="run only these")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="small models, few steps: no measurement")
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    settings = parser.parse_args()
    settings.begin, settings.missing, found = time.monotonic(), [], []
    with tempfile.TemporaryDirectory() as name:
        settings.directory = pathlib.Path(name)
        machine = {**measuring.machine(name), "gpu": gpu_name(settings.device)}
        chosen = {name: jobs(settings.quick)[name] for name in settings.only or jobs(settings.quick)}
        packages = compile_all(chosen, settings)
        for name, job in chosen.items():
            found += rows(name, job, settings, packages.get(name))
            measuring.save({"command": "bench/gpu.py " + " ".join(sys.argv[1:]), "commit": measuring.commit(), "machine": machine,
                            "date": time.strftime("%Y-%m-%d"), "rows": found, "missing": settings.missing}, settings.out)
    if not found and not settings.missing:
        sys.exit("bench/gpu.py: --sides has nothing to compare: name one of Lockstep's and one of its peers")
    print_table("one GPU", [{key: value for key, value in row.items() if key != "rounds"} for row in found])
    if settings.missing:
        sys.exit("\n".join(["missing:", *settings.missing]))


if __name__ == "__main__":
    main()
