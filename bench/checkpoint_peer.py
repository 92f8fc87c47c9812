"""Python peer of bench/checkpoint.py: saves checkpoints of the same model and optimizer.

    checkpoint_peer.py DIRECTORY WIDTH STEPS ROUNDS save|synced|async

save: torch.save, which leaves the data in the page cache. synced: torch.save followed by fsync.
async: torch.distributed.checkpoint.async_save with one rank. Prints the same line of JSON as the driver.
"""

import json
import os
import shutil
import sys
import time

import torch


def save(state, path):
    torch.save(state, path)


def save_synced(state, path):
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def async_saver(directory):
    import torch.distributed
    import torch.distributed.checkpoint as checkpoints

    torch.distributed.init_process_group("gloo", init_method=f"file://{directory}/store", rank=0, world_size=1)
    before = []

    def begin(state, path):
        for future in before:
            future.result()
        before[:] = [checkpoints.async_save(state, checkpoint_id=path)]
        return before[0]

    return begin


def main():
    directory, width, steps, rounds, how = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
    torch.set_num_threads(1)
    layers = torch.nn
    model = layers.Sequential(layers.Linear(784, width), layers.ReLU(), layers.Linear(width, width), layers.ReLU(),
                              layers.Linear(width, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs, labels = torch.rand(4, 784), torch.arange(4)
    writer = {"save": lambda: save, "synced": lambda: save_synced, "async": lambda: async_saver(directory)}[how]()

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad()
        layers.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        return (time.perf_counter() - begin) * 1e3

    step()
    result = {"stall_ms": [], "written_ms": [], "idle_step_ms": [step() for _ in range(steps)], "writing_step_ms": []}
    for number in range(rounds):
        path = f"{directory}/{number}.pt"
        begin = time.perf_counter()
        pending = writer({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        result["stall_ms"].append((time.perf_counter() - begin) * 1e3)
        written = result["stall_ms"][-1]
        for _ in range(steps):
            was_writing = pending is not None and not pending.done()
            step_ms = step()
            if not was_writing:
                result["idle_step_ms"].append(step_ms)
            else:
                written = (time.perf_counter() - begin) * 1e3
                if not pending.done():
                    result["writing_step_ms"].append(step_ms)
        if pending is not None and not pending.done():
            pending.result()
            written = (time.perf_counter() - begin) * 1e3
        result["written_ms"].append(written)
        if number:
            old = f"{directory}/{number - 1}.pt"
            shutil.rmtree(old) if os.path.isdir(old) else os.remove(old)
    state = [*model.state_dict().values()]
    state += [tensor for values in optimizer.state.values() for tensor in values.values()]
    result["bytes"] = sum(tensor.nbytes for tensor in state)
    print(json.dumps(result))
    if how == "async":
        torch.distributed.destroy_process_group()


main()
