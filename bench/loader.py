"""Compares the throughput of Lockstep's loader and torch's DataLoader on the same files, in alternating rounds.

    .venv/bin/python bench/loader.py [--rounds 3] [--seconds 4] [--only memory|jpeg|tars|tokens|parquet|arrow] [--out bench/results/loader.json]

memory: the 60,000 training images of MNIST as 784 floats each, shuffled, batches of 64, stored as bytes; "floats": stored as floats.
jpeg:   300 JPEG files of 500 x 375 pixels, randomly cropped to 224 x 224, mirrored, normalized, batches of 32.
tars:   the same files in four tar archives; the peer is DataLoader with the webdataset package.
tokens: windows of 1,024 tokens from 50 million uint16 tokens, shuffled, batches of 8.
parquet: 400,000 rows of 12 columns in 20 row groups, shuffled by group, batches of 256. The peer either does the same ("row groups")
         or keeps all rows in memory.
arrow:   the same rows in an uncompressed Arrow file, whose rows are shuffled together. The peer maps the file and takes the rows of a batch
         with pyarrow ("taken"), or keeps all rows in memory.
The peer's "gathered" settings are datasets that return whole batches for a tensor of indices: the fastest use of DataLoader.
`limit` is the machine's limit for any loader: memcpy of batches of that size, or libjpeg-turbo alone on as many threads.
Needs: cmake --build build --target lockstep_bench_loader
"""

import argparse
import io
import json
import pathlib
import tempfile

from measuring import BIN, SOURCE, commit, machine, output_of, print_table, row, save

DRIVER = BIN / "lockstep_bench_loader"
PEERS = pathlib.Path(__file__).with_name("loader_peers.py")
PYTHON = SOURCE / ".venv" / "bin" / "python"
MNIST = SOURCE / ".data" / "mnist"
MEMORY_BATCH, JPEG_BATCH, TOKENS_BATCH, PARQUET_BATCH = 64, 32, 8, 256
LENGTH = 1024
PARTS = ["memory", "jpeg", "tars", "tokens", "parquet", "arrow"]
CROP = [{"name": "random_resized_crop", "size": [224]}, {"name": "random_horizontal_flip"}, {"name": "normalize"}]


def make_images(directory, count):
    """Synthetic photos for decoding: smooth areas, edges and noise."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:375, 0:500]
    for number in range(count):
        phase, step = rng.uniform(0, 6, 3), rng.uniform(9, 60, 3)
        planes = [127 + 90 * np.sin(x / step[i] + phase[i]) * np.cos(y / step[2 - i]) for i in range(3)]
        pixels = np.stack(planes, 2) + rng.normal(0, 6, (375, 500, 3))
        place = directory / f"class{number % 10}"
        place.mkdir(exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(place / f"{number:04}.jpg", quality=87)
    return sorted(str(path) for path in directory.glob("*/*.jpg"))


def make_tars(directory):
    """Images of make_images() and their labels, in four archives."""
    import tarfile

    files = sorted(directory.glob("*/*.jpg"), key=lambda path: path.name)
    for shard in range(4):
        with tarfile.open(directory / f"{shard}.tar", "w") as archive:
            for file in files[shard::4]:
                archive.add(file, file.name)
                label = tarfile.TarInfo(f"{file.stem}.cls")
                label.size = 1
                archive.addfile(label, io.BytesIO(file.parent.name[-1].encode()))


def make_floats(directory):
    import numpy as np

    images = np.fromfile(MNIST / "train-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 784)
    np.save(directory / "image.npy", (images / np.float32(255)).astype(np.float32))
    np.save(directory / "label.npy", np.fromfile(MNIST / "train-labels-idx1-ubyte", np.uint8)[8:].astype(np.int64))


def make_tokens(directory):
    import numpy as np

    (np.random.default_rng(0).integers(0, 50_000, 50_000_000, np.uint16)).tofile(directory / "tokens.bin")


def make_table(directory, kind):
    import numpy as np
    import pyarrow
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.normal(size=400_000).astype(np.float32) for i in range(12)}
    columns["label"] = rng.normal(size=400_000).astype(np.float32)
    table = pyarrow.table(columns)
    if kind == "parquet":
        return pyarrow.parquet.write_table(table, directory / "table.parquet", row_group_size=20_000)
    with pyarrow.ipc.new_file(directory / "table.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=20_000)


def driver(directory, *words):
    return json.loads(output_of([DRIVER, *words], directory, 120))


def peer(directory, *words):
    return json.loads(output_of([PYTHON, PEERS, *words], directory, 120))


def memory_settings(scratch, seconds, place):
    idx = json.dumps({"name": "idx", "path": str(MNIST)})
    for workers in (0, 1, 2):
        yield f"lockstep, workers {workers}", lambda w=workers: driver(scratch, "load", idx, MEMORY_BATCH, w, seconds)
    floats = json.dumps({"name": "npy", "path": str(place)})
    for workers in (0, 2):
        yield f"lockstep, floats, workers {workers}", lambda w=workers: driver(scratch, "load", floats, MEMORY_BATCH, w, seconds)
    gathered = ("gathered, workers 0", "gathered, workers 0, threads 2", "gathered bytes, workers 0",
                "gathered bytes, workers 0, threads 2", "gathered, workers 2")
    for setting in ("workers 0", "workers 2", *gathered):
        yield f"torch, {setting}", lambda s=setting: peer(scratch, "memory", s, seconds, MNIST)


def jpeg_settings(scratch, seconds, images):
    for name, more in (("lockstep", {}), ("lockstep scaled decoding", {"scaled_decoding": True})):
        folder = json.dumps({"name": "image_folder", "path": str(images), "transforms": CROP, **more})
        yield f"{name}, workers 2", lambda f=folder: driver(scratch, "load", f, JPEG_BATCH, 2, seconds)
    for setting in ("PIL workers 0", "PIL workers 2", "torchvision decoder workers 2"):
        yield f"torch, {setting}", lambda s=setting: peer(scratch, "jpeg", s, seconds, images)


def tars_settings(scratch, seconds, place):
    tars = json.dumps({"name": "webdataset", "path": str(place), "transforms": CROP})
    for workers in (0, 2):
        yield f"lockstep, workers {workers}", lambda w=workers: driver(scratch, "load", tars, JPEG_BATCH, w, seconds)
    for setting in ("workers 0", "workers 2"):
        yield f"torch, {setting}", lambda s=setting: peer(scratch, "tars", s, seconds, place)


def tokens_settings(scratch, seconds, place):
    config = json.dumps({"name": "tokens", "path": f"{place}/tokens.bin", "length": LENGTH})
    for workers in (0, 1, 2):
        yield f"lockstep, workers {workers}", lambda w=workers: driver(scratch, "load", config, TOKENS_BATCH, w, seconds)
    for setting in ("workers 0", "workers 2", "gathered, workers 0", "gathered, workers 2"):
        yield f"torch, {setting}", lambda s=setting: peer(scratch, "tokens", s, seconds, place)


def parquet_settings(scratch, seconds, place):
    config = json.dumps({"name": "parquet", "path": f"{place}/table.parquet", "label": "label"})
    for workers in (0, 1, 2):
        yield f"lockstep, workers {workers}", lambda w=workers: driver(scratch, "load", config, PARQUET_BATCH, w, seconds)
    kept = json.dumps({"name": "parquet", "path": f"{place}/table.parquet", "label": "label", "keep_row_groups": 20})
    for workers in (0, 2):
        yield f"lockstep, kept in memory, workers {workers}", lambda w=workers: driver(scratch, "load", kept, PARQUET_BATCH, w, seconds)
    for setting in ("workers 0", "workers 2", "row groups, workers 0", "row groups, workers 2", "gathered, workers 0"):
        yield f"torch, {setting}", lambda s=setting: peer(scratch, "parquet", s, seconds, place)


def arrow_settings(scratch, seconds, place):
    config = json.dumps({"name": "arrow", "path": f"{place}/table.arrow", "label": "label"})
    for workers in (0, 1, 2):
        yield f"lockstep, workers {workers}", lambda w=workers: driver(scratch, "load", config, PARQUET_BATCH, w, seconds)
    for setting in ("taken, workers 0", "taken, workers 2", "gathered, workers 0"):
        yield f"torch, {setting}", lambda s=setting: peer(scratch, "arrow", s, seconds, place)


def measure(settings, limit, rounds):
    """Alternates rounds, so that other load affects all variants."""
    rates, peaks, limits = {}, {}, []
    for _ in range(rounds):
        for name, run in settings:
            result = run()
            rates.setdefault(name, []).append(result["samples_per_s"])
            peaks.setdefault(name, []).append(result["peak_mb"])
        limits.append(limit())
    rows = [row(name, "samples/s", values, digits=0, peak_mb=round(max(peaks[name]), 1)) for name, values in rates.items()]
    return [*rows, row("limit of the machine", "samples/s", limits, digits=0)]


def compare(rows):
    """Compares each variant of Lockstep, with its best number of workers, with each setting of the peer."""
    median = {line["row"]: line["median"] for line in rows}
    theirs = {name: value for name, value in median.items() if name.startswith("torch")}
    ways = {}
    for name, value in median.items():
        if name.startswith("lockstep"):
            way = name.split(", workers")[0]
            ways[way] = max(value, ways.get(way, 0))
    return {way: {**{f"times {name}": round(ours / value, 1) for name, value in theirs.items()},
                  "times the best of torch": round(ours / max(theirs.values()), 1),
                  "share of the limit": round(ours / median["limit of the machine"], 2)}
            for way, ours in ways.items()}


def copies(scratch, bytes_per_sample, batch):
    """Samples per second of memcpy."""
    return lambda: driver(scratch, "copy", bytes_per_sample * batch, 1)["mb_per_s"] * 1e6 / bytes_per_sample


def measure_part(name, scratch, arguments):
    seconds, rounds = arguments.seconds, arguments.rounds
    place = pathlib.Path(scratch) / name
    place.mkdir()
    if name == "memory":
        make_floats(place)
        return measure(list(memory_settings(scratch, seconds, place)), copies(scratch, 784 * 4, MEMORY_BATCH), rounds)
    if name == "tokens":
        make_tokens(place)
        return measure(list(tokens_settings(scratch, seconds, place)), copies(scratch, 2 * 8 * LENGTH, TOKENS_BATCH), rounds)
    if name in ("parquet", "arrow"):
        make_table(place, name)
        settings = parquet_settings if name == "parquet" else arrow_settings
        return measure(list(settings(scratch, seconds, place)), copies(scratch, 13 * 4, PARQUET_BATCH), rounds)
    files = make_images(place, 300)
    limit = lambda: driver(scratch, "decode", 2, 2, *files)["samples_per_s"]
    if name == "tars":
        make_tars(place)
        return measure(list(tars_settings(scratch, seconds, place)), limit, rounds)
    return measure(list(jpeg_settings(scratch, seconds, place)), limit, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    result = {"commit": commit(), "parts": {}, "compared": {}}
    with tempfile.TemporaryDirectory() as scratch:
        result["machine"] = machine(scratch)
        for part in [arguments.only] if arguments.only else PARTS:
            rows = result["parts"][part] = measure_part(part, scratch, arguments)
            result["compared"][part] = compare(rows)
            print_table(part, rows)
            print(json.dumps(result["compared"][part], indent=2))
    result["command"] = f"bench/loader.py --rounds {arguments.rounds} --seconds {arguments.seconds}"
    save(result, arguments.out)


if __name__ == "__main__":
    main()
