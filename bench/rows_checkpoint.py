"""Row of the checkpoint stall, compared with torch.save. See checkpoint.py for more."""

import argparse
import statistics

import checkpoint
from measuring import SOURCE, copy_speed
from rows_collectives import compared


def rows(settings):
    """Saves 512 MiB (an MLP with AdamW) to the disk of the sources; 64 MiB with --quick."""
    options = argparse.Namespace(width=6300 if settings["scale"] == 1 else 2040, steps=4)
    stalls, size = {"lockstep": [], "torch.save": []}, 0
    for _ in range(min(3, settings["rounds"])):  # each writes the checkpoint six times
        for name, found in stalls.items():
            result = checkpoint.measure(checkpoint.SETTINGS[name], SOURCE, options)
            found.append(statistics.median(result["stall_ms"]))
            size = result["bytes"] if name == "lockstep" else size
    speed = copy_speed(size, 1) / 2
    yield compared(f"checkpoint of {size >> 20} MiB, stall", "ms", stalls["lockstep"], stalls["torch.save"],
                   "torch.save", goal=6, limit=f"copying it: {size / speed * 1e3:.0f} ms at {speed / 1e9:.1f} GB/s")
