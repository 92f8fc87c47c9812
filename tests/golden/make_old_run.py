"""Writes tests/golden/0.1-run: a run in the formats of version 0.1 (commit 0a58ec3), for tests/e2e/test_old_run.py.

Trains 0.1-run/run.yaml with the built programs, preempts the run, and removes from its files what was added since: the facts of
witnesses (ends/), the planned length, and keys of the run file. Only needed again if the test needs another run.

Usage: LOCKSTEP_BIN=build/bin .venv/bin/python tests/golden/make_old_run.py
"""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent
sys.path.insert(0, str(GOLDEN.parent / "e2e"))
from safetensors_file import crc32c  # noqa: E402

OUT = GOLDEN / "0.1-run"
IDENTITY, CONFIG = 1, 2  # types of frames (docs/event_log.md)
HEADER = 16
# Keys of the run file that version 0.1 did not have.
NEW_KEYS = {"model.loss", "model.outputs", "data.batch_remainder", "train.non_finite", "train.recompute", "train.hooks",
            "distributed.shard", "tracking.media"}


def unpack(data, at=0):
    """(value, end) of the MessagePack at `at`: the types that a run's identity and config use."""
    def sized(width):
        return int.from_bytes(data[at + 1:at + 1 + width], "big"), at + 1 + width

    def items(count, begin, size=1):
        found = []
        for _ in range(count * size):
            value, begin = unpack(data, begin)
            found.append(value)
        return found, begin

    code = data[at]
    if code <= 0x7F:
        return code, at + 1
    if code >= 0xE0:
        return code - 256, at + 1
    if code in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[code], at + 1
    if code in (0xCA, 0xCB):
        form, size = (">f", 4) if code == 0xCA else (">d", 8)
        return struct.unpack_from(form, data, at + 1)[0], at + 1 + size
    if 0xCC <= code <= 0xCF:
        return sized(1 << (code - 0xCC))
    if code <= 0x9F:
        count, begin = code & 0x0F, at + 1
        kind = "map" if code <= 0x8F else "list"
    elif code <= 0xBF:
        count, begin, kind = code & 0x1F, at + 1, "text"
    else:
        width, kind = {0xD9: (1, "text"), 0xDA: (2, "text"), 0xDC: (2, "list"), 0xDE: (2, "map")}[code]
        count, begin = sized(width)
    if kind == "text":
        return data[begin:begin + count].decode(), begin + count
    found, end = items(count, begin, 2 if kind == "map" else 1)
    return (dict(zip(found[::2], found[1::2])) if kind == "map" else found), end


def pack(value):
    if value is None or value is True or value is False:
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int):
        return bytes([value]) if 0 <= value <= 0x7F else b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, str):
        return b"\xda" + struct.pack(">H", len(value.encode())) + value.encode()
    if isinstance(value, list):
        return b"\xdc" + struct.pack(">H", len(value)) + b"".join(map(pack, value))
    return b"\xde" + struct.pack(">H", len(value)) + b"".join(pack(key) + pack(item) for key, item in value.items())


def old_config(config):
    config = without_new_keys(config)
    config["checkpoint"]["writers"] = "main"  # "auto" came later
    return config


def without_new_keys(config, prefix=""):
    return {key: without_new_keys(value, f"{prefix}{key}.") if isinstance(value, dict) else value
            for key, value in config.items() if prefix + key not in NEW_KEYS}


def old_yaml(text):
    """Without the new keys and what is below them."""
    kept, path, skipping = [], [], None
    for line in text.splitlines(keepends=True):
        depth = (len(line) - len(line.lstrip())) // 2
        if skipping is not None and depth > skipping:
            continue
        path[depth:] = [line.strip().split(":")[0]]
        skipping = depth if ".".join(path) in NEW_KEYS else None
        if skipping is None:
            kept.append(line)
    return "".join(kept).replace('writers: "auto"', 'writers: "main"')


def old_identity(info):
    """Without the planned length and the paths of this machine."""
    info.pop("planned", None)
    return {**info, "host": "host", "command": ["lockstep-trainer", "run.yaml"]}


def old_log(data):
    """The frames up to the reserved space, with an identity and a config as they were."""
    out, at = data[:HEADER], HEADER
    while at + 8 <= len(data) and (length := int.from_bytes(data[at:at + 4], "little")):
        kind, payload = data[at + 8], data[at + 9:at + 8 + length]
        if kind == IDENTITY:
            payload = pack(old_identity(unpack(payload)[0]))
        elif kind == CONFIG:
            payload = pack(old_config(unpack(payload)[0]))
        body = bytes([kind]) + payload
        out += struct.pack("<II", len(body), crc32c(body)) + body
        at += 8 + length
    return out


def preempted_run(directory):
    """The directory of a run that ended by SIGTERM after its first epoch."""
    shutil.copy(OUT / "run.yaml", directory)
    process = subprocess.Popen([str(Path(os.environ["LOCKSTEP_BIN"]).resolve() / "lockstep"), "launch", "-n", "1", "run.yaml"],
                               cwd=directory, env=dict(os.environ, OMP_NUM_THREADS="1"))
    while process.poll() is None and not list(directory.glob("runs/*/checkpoints/8/manifest.json")):
        time.sleep(0.0005)
    process.send_signal(signal.SIGTERM)
    process.wait()
    (run,) = directory.glob("runs/*")
    assert json.loads((run / "end.json").read_text())["state"] == "preempted"
    return run


def is_usable(run):
    """Whether it ended within an epoch, at a step whose metrics are logged anyway."""
    (checkpoint,) = (run / "checkpoints").iterdir()
    return int(checkpoint.name) % 8 != 0 and int(checkpoint.name) % 2 == 0


def main():
    with tempfile.TemporaryDirectory() as temporary:
        runs = (preempted_run(Path(tempfile.mkdtemp(dir=temporary))) for _ in range(50))
        run = next(run for run in runs if is_usable(run))
        for old in OUT.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
        out = OUT / run.name
        shutil.copytree(run / "checkpoints", out / "checkpoints")
        (out / "events").mkdir()
        shutil.copy(run / "end.json", out)
        (out / "config.yaml").write_text(old_yaml((run / "config.yaml").read_text()))
        job = json.loads((run / "run.json").read_text())
        (out / "run.json").write_text(json.dumps(old_identity(job), indent=2) + "\n")
        log = (run / "events/rank-00000.lsev").read_bytes()
        (out / "events/rank-00000.lsev").write_bytes(old_log(log))


if __name__ == "__main__":
    main()
