"""Compares training of adapters (LoRA) with transformers, PEFT and DistributedDataParallel, on two ranks with one thread each.

    .venv/bin/python bench/lora.py [--rounds 3] [--quick] [--out bench/results/lora.json]

A Llama shape of 30 million parameters from a file, 2 samples of 256 tokens per rank, adapters of rank 8 of q, k, v and o, AdamW; all
sides continue the same adapter of PEFT. Lockstep is eager (`model: hf`), also with `train.matmul: onednn`, and compiled; the peer has its
defaults, then gradient_as_bucket_view, static_graph and a fused optimizer. The time from the command to the end of the first step is
compared with transformers' Trainer under torchrun. Memory is the peak resident set of a rank. --quick: a small model, one round: no
measurement.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

import measuring
import start_up
from measuring import BIN, SOURCE, newest_records, newest_run, output_of, print_table
from rows_collectives import TORCHRUN, last_json
from rows_steps import write_text

RANKS = 2
JOB = {"sizes": {"vocab_size": 8192, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8,
                 "max_position_embeddings": 256, "tie_word_embeddings": True}, "batch": 2, "steps": 24}
QUICK = {"sizes": {**JOB["sizes"], "vocab_size": 257, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                   "num_attention_heads": 2, "max_position_embeddings": 32}, "batch": 2, "steps": 16}
ADAPTER = {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"], "task_type": "CAUSAL_LM"}
LEARNING_RATE = 1e-4
# Required: speedup of a step, of the first step; factor of memory.
GOALS = {"lockstep": 1.5, "lockstep, oneDNN": 1.5, "lockstep compiled": 2, "first step": 20, "memory": 3}


def write_model(sizes, directory):
    """In `directory`/base and /adapter, in the layouts of transformers and PEFT."""
    import peft
    import torch
    import transformers
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    model.save_pretrained(directory / "base")
    adapted = peft.get_peft_model(model, peft.LoraConfig(**ADAPTER))
    adapted.save_pretrained(directory / "adapter")
    return model.num_parameters()


def text_of(job, directory):
    return write_text(directory, {"vocab_size": job["sizes"]["vocab_size"], "context": job["sizes"]["max_position_embeddings"]})


def write_run_file(job, directory, steps, package=None, matmul="torch"):
    file = directory / "lora.yaml"
    own = {"name": "hf", "path": str(directory / "base"), "lora": {"path": str(directory / "adapter")}}
    file.write_text(json.dumps({
        "run": {"name": "bench", "dir": str(directory / "runs")},
        "model": {"name": "compiled", "package": str(package)} if package else own,
        "data": {"train": {"name": "tokens", "path": str(text_of(job, directory)), "length": job["sizes"]["max_position_embeddings"]},
                 "per_rank_batch_size": job["batch"], "drop_last": True},
        "optimizer": {"name": "adamw", "lr": LEARNING_RATE, "weight_decay": 0.01},
        "train": {"epochs": 1000, "max_steps": steps, "log_every": f"{max(1, steps // 8)} steps", "matmul": matmul},
        "checkpoint": {"every": "1000 epochs", "keep_last": 1},
        "tracking": {"sinks": []}}))
    return file


def compile_package(job, directory):
    package = directory / "lora.ls2"
    begin = time.monotonic()
    output_of([sys.executable, "-m", "lockstep.compile.command_line", f"hf:{directory / 'base'}", "--adapter", directory / "adapter",
               "--ranks", RANKS, "--batch", write_run_file(job, directory, 1), "-o", package], directory, 1200,
              PATH=f"{BIN}:{os.environ['PATH']}", PYTHONPATH=str(SOURCE / "python"))
    return package, round(time.monotonic() - begin, 1)


def launch(file):
    return [BIN / "lockstep", "launch", "-n", RANKS, file]


def steps_here(job, directory, how):
    output_of(launch(write_run_file(job, directory, job["steps"], **how)), directory, 1200, OMP_NUM_THREADS="1")
    values = newest_run(directory / "runs")
    return {"seconds": [job["batch"] * RANKS / speed for speed in values["train/samples_per_s"]], "loss": values["train/loss"][-1]}


def peer(job, directory, *options):
    return [*TORCHRUN, SOURCE / "bench" / "step_peer.py", "--hf", directory / "base", "--adapter", directory / "adapter",
            "--data", text_of(job, directory), "--length", job["sizes"]["max_position_embeddings"], "--optimizer", "adamw",
            "--lr", LEARNING_RATE, "--batch-size", job["batch"], "--steps", job["steps"], "--interval", job["steps"] // 8, *options]


def first_step_here(job, directory, how):
    """Seconds from the command to the end of the first step."""
    shutil.rmtree(directory / "runs", ignore_errors=True)
    file = write_run_file(job, directory, 1, **how)
    begin = time.time()
    output_of(launch(file), directory, 600, OMP_NUM_THREADS="1")
    (record,) = [each for each in newest_records(directory / "runs") if each["metric"] == "train/loss"]
    return record["time"] - begin


def trainer_peer(job, directory):
    return [*TORCHRUN, SOURCE / "bench" / "lora.py", "--trainer", json.dumps({"job": job, "directory": str(directory)})]


def first_step_of_trainer(job, directory):
    begin = time.time()
    return last_json(output_of(trainer_peer(job, directory), directory, 600, OMP_NUM_THREADS="1"))["first_step_at"] - begin


def run_trainer(job, directory):
    """In a rank of torchrun: one step of transformers' Trainer. Rank 0 prints the time of day at its end."""
    sys.path.insert(0, str(SOURCE / "tests" / "golden"))
    import peft
    import tokens
    import transformers
    inputs, _ = tokens.load_windows(text_of(job, directory), job["sizes"]["max_position_embeddings"])

    ended = []

    class Ends(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            ended.append(time.time())

    model = transformers.AutoModelForCausalLM.from_pretrained(directory / "base", attn_implementation="sdpa")
    model = peft.PeftModel.from_pretrained(model, directory / "adapter", is_trainable=True)
    arguments = transformers.TrainingArguments(
        output_dir=str(directory / "trainer"), max_steps=1, per_device_train_batch_size=job["batch"], learning_rate=LEARNING_RATE,
        use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, ddp_find_unused_parameters=False)
    transformers.Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in inputs[:64]],
                         callbacks=[Ends()]).train()
    if os.environ["RANK"] == "0":
        print(json.dumps({"first_step_at": ended[0]}), flush=True)


def compared(name, unit, ours, other, goal):
    middle, against = statistics.median(ours), statistics.median(other)
    return {"row": name, "unit": unit, "lockstep": round(middle, 3), "peer": round(against, 3), "ratio": round(against / middle, 2),
            "goal": goal, "rounds": {"lockstep": ours, "peer": other}}


def measure(job, rounds, directory, package):
    """{side: seconds of a step}, {side: seconds of the first step}, {side: MB}, {side: loss}"""
    ours = {"lockstep": {}, "lockstep, oneDNN": {"matmul": "onednn"}, "lockstep compiled": {"package": package}}
    others = {"PEFT and DDP": [], "tuned PEFT and DDP": ["--tuned"]}
    sides = {**{side: lambda h=how: steps_here(job, directory, h) for side, how in ours.items()},
             **{side: lambda o=options: last_json(output_of(peer(job, directory, *o), directory, 1200, OMP_NUM_THREADS="1",
                                                            PYTHONPATH=str(SOURCE / "python")))
                for side, options in others.items()}}
    starts = {**{side: lambda h=how: first_step_here(job, directory, h) for side, how in ours.items()},
              "Trainer": lambda: first_step_of_trainer(job, directory)}
    steps, first, losses = {side: [] for side in sides}, {side: [] for side in starts}, {}
    for _ in range(rounds):
        for side, run in sides.items():
            result = run()
            steps[side].append(statistics.median(result["seconds"][1:]))  # the first part warms up
            losses[side] = result["loss"]
            print(f"{side}: {1e3 * steps[side][-1]:.1f} ms, loss {losses[side]:.5f}", file=sys.stderr, flush=True)
        for side, run in starts.items():
            first[side].append(run())
            print(f"{side}: first step after {first[side][-1]:.2f} s", file=sys.stderr, flush=True)
    assert max(losses.values()) - min(losses.values()) <= 1e-3, losses
    memory = {side: start_up.largest_process_mb(launch(write_run_file(job, directory, job["steps"], **how))) for side, how in ours.items()}
    memory |= {side: start_up.largest_process_mb(peer(job, directory, *options)) for side, options in others.items()}
    return steps, first, memory, losses


def rows(steps, first, memory):
    for side in ("lockstep", "lockstep, oneDNN", "lockstep compiled"):
        for other in ("PEFT and DDP", "tuned PEFT and DDP"):
            yield compared(f"step, {side} against {other}", "s", steps[side], steps[other], GOALS[side])
        yield compared(f"command to end of the first step, {side} against Trainer", "s", first[side], first["Trainer"], GOALS["first step"])
        for other in ("PEFT and DDP", "tuned PEFT and DDP"):
            yield compared(f"peak resident set of a rank, {side} against {other}", "MB", [memory[side]], [memory[other]], GOALS["memory"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small model, one round: no measurement")
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    parser.add_argument("--trainer", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trainer:
        return run_trainer(arguments.trainer["job"], pathlib.Path(arguments.trainer["directory"]))
    job, rounds = (QUICK, 1) if arguments.quick else (JOB, arguments.rounds)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        machine = measuring.machine(directory)
        parameters = write_model(job["sizes"], directory)
        package, compile_seconds = compile_package(job, directory)
        steps, first, memory, losses = measure(job, rounds, directory, package)
    found = list(rows(steps, first, memory))
    print_table(f"adapters of {parameters / 1e6:.1f} M parameters", [{key: value for key, value in row.items() if key != "rounds"} for row in found])
    measuring.save({"command": "bench/lora.py " + " ".join(sys.argv[1:]), "commit": measuring.commit(), "machine": machine,
                    "load_after": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d"), "parameters": parameters,
                    "compile_seconds": compile_seconds, "losses": losses, "rows": found}, arguments.out)


if __name__ == "__main__":
    main()
