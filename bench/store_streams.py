"""Measures epochs of images and of tokens that are streamed from a bucket, through a simulated link with 20 ms latency and 1 Gbit/s.

    .venv/bin/python bench/store_streams.py [--rounds 3] [--quick] [--only images|tokens] [--out bench/results/store_streams.json]

images: 8,000 JPEG files of 256 x 256 pixels (48 KB each), randomly cropped to 224 x 224, mirrored, normalized, batches of 32.
tokens: 250 million uint16 tokens, windows of 2,048, batches of 16.
One shuffled epoch through an empty cache, two workers on each side, in shards of 32 MiB: tar archives with an index (also MDS) and files of
tokens for Lockstep, images with a shuffle buffer of two shards; MDS for mosaicml-streaming, optimized chunks for litdata, and
Lockstep's own shards for s3torchconnector. Peers run in their default and in a tuned form (bench/store_streams_peers.py). The server and
the link are those of bench/store.py, on the same cores.

samples/s: of the whole epoch, from opening the dataset (after imports) to the last batch. after the first batch: without the time to it.
cpu_us: processor time of all processes per sample, with starting them: does not depend on other load.
of_link: the bytes of the samples' shards, relative to what the link sends in the time of the epoch. pss_mb: peak of the proportional set
size of all processes; own_mb: the same without pages of mapped files, which the kernel can drop (programs and, of Lockstep, shards that
are open; peers that read files instead of mapping them leave the same pages in the kernel's cache, which this does not count).
limit: decoding alone, two threads without a server. failed_runs: of a peer that ended with an exception, and was started again.
With --only, the other part is kept from --out.
Needs: make peers; cmake/setup.sh --streaming; cmake --build build --target lockstep_bench_loader
"""

import argparse
import collections
import contextlib
import io
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

from measuring import BIN, SOURCE, commit, environment, machine, output_of, print_table, row, save

sys.path.insert(0, str(SOURCE / "tests"))

from object_server import BUCKET, CREDENTIALS, ObjectServer  # noqa: E402

DRIVER = BIN / "lockstep_bench_loader"
PEERS = pathlib.Path(__file__).with_name("store_streams_peers.py")
PYTHON = SOURCE / ".venv-streaming" / "bin" / "python"
LATENCY_S, LINK = 0.02, 125e6
SHARD, LENGTH = 32 << 20, 2048
BATCH = {"images": 32, "tokens": 16}
BUFFER = {"images": [1000], "tokens": [16_000]}  # data.shuffle_buffer: two shards
MAX_FAILURES = 5  # of a peer: its run is repeated
STEPS = [{"name": "random_crop", "size": [224]}, {"name": "random_horizontal_flip"}, {"name": "normalize"}]
DATASETS = {"images": {"tars": {"name": "webdataset", "path": "images", "transforms": STEPS},
                       "MDS": {"name": "mds_images", "path": "images-mds", "transforms": STEPS}},
            "tokens": {"files": {"name": "tokens", "path": "tokens", "length": LENGTH}}}
LIBRARIES = ("litdata", "mosaicml", "s3torchconnector")


def make_images(directory, count):
    """Tar archives of photos: random places of a large synthetic one, with smooth areas, edges and noise."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:2048, 0:2048]
    planes = [127 + 90 * np.sin(x / (20 + 9 * i)) * np.cos(y / (33 - 7 * i)) for i in range(3)]
    photo = (np.stack(planes, 2) + rng.normal(0, 20, (2048, 2048, 3))).clip(0, 255).astype(np.uint8)
    archive, shard = None, 0
    for number in range(count):
        if archive is None or archive.offset > SHARD:
            if archive:
                archive.close()
            archive, shard = tarfile.open(directory / f"{shard:04}.tar", "w"), shard + 1
        top, left = rng.integers(0, 2048 - 256, 2)
        image = io.BytesIO()
        Image.fromarray(photo[top : top + 256, left : left + 256]).save(image, "JPEG", quality=95)
        for ending, content in (("jpg", image.getvalue()), ("cls", b"%d" % rng.integers(10))):
            member = tarfile.TarInfo(f"{number:06}.{ending}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    archive.close()


def make_tokens(directory, count):
    """Files of tokens without a header."""
    import numpy as np

    rng = np.random.default_rng(0)
    in_file = SHARD // 2
    for number in range(-(-count // in_file)):
        rng.integers(0, 50_000, min(in_file, count - number * in_file), np.uint16).tofile(directory / f"{number:04}.bin")


def memory_of(pid):
    """Of a process and its descendants, in bytes: (PSS, PSS without mapped files)."""
    total = own = 0
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            total += int(line.split()[1]) * 1024 if line.startswith("Pss:") else 0
            own += int(line.split()[1]) * 1024 if line.startswith(("Pss_Anon:", "Pss_Shmem:")) else 0
        children = [child for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return total, own
    for child in children:
        more = memory_of(child)
        total, own = total + more[0], own + more[1]
    return total, own


def run(command, scratch):
    """The command's line of JSON, with the peak of memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(pathlib.Path(scratch) / "errors", "w+") as errors:
        process = subprocess.Popen([str(word) for word in command], cwd=scratch, stdout=subprocess.PIPE, stderr=errors, text=True,
                                   env=environment(scratch, **CREDENTIALS), start_new_session=True)
        peak, latest = (0, 0), time.monotonic() + 300
        try:
            while process.poll() is None:
                if time.monotonic() > latest:
                    raise TimeoutError(f"{command} takes more than 300 s")
                peak = tuple(map(max, peak, memory_of(process.pid)))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.25)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
        errors.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"{command} ended with {process.returncode}: {errors.read()[-3000:]}")
        result = json.loads(process.stdout.read().splitlines()[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**result, "cpu_s": cpu_s, "pss_mb": peak[0] / 1e6, "own_mb": peak[1] / 1e6}


def ways(what, port, scratch, cache):
    """The commands by their names."""
    for name, config in DATASETS[what].items():
        config = {**config, "path": f"s3://{BUCKET}/{config['path']}?endpoint_override=127.0.0.1:{port}&scheme=http"}
        yield f"lockstep, {name}", [DRIVER, "stream", json.dumps(config), BATCH[what], 2, cache, *BUFFER[what]]
    for library in LIBRARIES:
        for setting in ("default", "tuned"):
            yield f"{library}, {setting}", [PYTHON, PEERS, "read", what, library, setting, f"http://127.0.0.1:{port}", cache]


def measure(what, proxy, size, scratch, rounds):
    """Alternates rounds, so that other load affects all variants."""
    proxy.latency_s, proxy.bytes_per_s = LATENCY_S, LINK
    cache = pathlib.Path(scratch) / "cache"
    results, failures = {}, collections.Counter()
    for _ in range(rounds):
        for name, command in ways(what, proxy.port, scratch, cache):
            while failures[name] < MAX_FAILURES:
                shutil.rmtree(cache, ignore_errors=True)
                try:
                    results.setdefault(name, []).append(run(command, scratch))
                except RuntimeError as error:
                    if name.startswith("lockstep"):
                        raise
                    failures[name] += 1
                    print(name, error, file=sys.stderr, flush=True)
                    continue
                print(name, results[name][-1], file=sys.stderr, flush=True)
                break
    shutil.rmtree(cache, ignore_errors=True)

    def later(result):
        return (result["samples"] - result["first_batch"]) / (result["seconds"] - result["first_batch_s"])

    return [row(name, "samples/s", [result["samples"] / result["seconds"] for result in several], digits=0,
                after_the_first_batch=round(middle(map(later, several))),
                first_batch_s=round(middle(result["first_batch_s"] for result in several), 2),
                cpu_us=round(middle(result["cpu_s"] * 1e6 / result["samples"] for result in several)),
                of_link=round(middle(size / result["seconds"] / LINK for result in several), 3),
                pss_mb=round(max(result["pss_mb"] for result in several)),
                own_mb=round(max(result["own_mb"] for result in several)), failed_runs=failures[name])
            for name, several in results.items() if several]


def middle(values):
    values = sorted(values)
    return values[len(values) // 2]


def limit_of(what, scratch, source):
    """Decoding alone."""
    if what != "images":
        return []
    files = []
    with tarfile.open(source / "0000.tar") as archive:
        for member in archive.getmembers()[:400]:
            if member.name.endswith(".jpg"):
                archive.extract(member, scratch, filter="data")
                files.append(pathlib.Path(scratch) / member.name)
    rate = json.loads(output_of([DRIVER, "decode", 2, 2, *files], scratch, 60))["samples_per_s"]
    return [row("limit: decoding", "samples/s", [rate], digits=0)]


def compare(rows):
    """Each variant of Lockstep with the best, and with the smallest, of the peers."""
    peers = [line for line in rows if line["row"].startswith(LIBRARIES)]
    best = max(peers, key=lambda line: line["median"])
    later = max(line["after_the_first_batch"] for line in peers)
    smallest = {kind: min(line[kind] for line in peers) for kind in ("pss_mb", "own_mb")}
    return {line["row"]: {"of the link": line["of_link"], f"times {best['row']}, the best": round(line["median"] / best["median"], 2),
                          "times the best after the first batch": round(line["after_the_first_batch"] / later, 2),
                          **{f"{kind}, of the best": round(line[kind] / best[kind], 2) for kind in smallest},
                          **{f"{kind}, of the smallest": round(line[kind] / least, 2) for kind, least in smallest.items()}}
            for line in rows if line["row"].startswith("lockstep")}


def upload(what, server, scratch, count):
    """The shards in all formats. Returns the directory of Lockstep's and their bytes."""
    source = pathlib.Path(scratch) / "shards" / what
    source.mkdir(parents=True)
    (make_images if what == "images" else make_tokens)(source, count)
    output_of([PYTHON, PEERS, "write", what, source, source.parent], scratch, 600)
    if what == "images":
        output_of([BIN / "lockstep-data", "index", source], scratch, 60)
    for name in (what, f"{what}-mds", f"{what}-litdata"):
        server.put_folder(source.parent / name, name)
    for name in ("mds", "litdata"):
        shutil.rmtree(source.parent / f"{what}-{name}")
    return source, sum(path.stat().st_size for path in source.iterdir() if path.suffix != ".json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round with an eighth of the data")
    parser.add_argument("--only", choices=list(BATCH))
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    parts = [arguments.only] if arguments.only else list(BATCH)
    rounds, share = (1, 8) if arguments.quick else (arguments.rounds, 1)
    result = {"commit": commit(), "link": {"latency_ms": 1e3 * LATENCY_S, "mb_per_s": LINK / 1e6}, "parts": {}, "compared": {}}
    if arguments.only and arguments.out and arguments.out.exists():
        result.update({key: json.loads(arguments.out.read_text())[key] for key in ("parts", "compared")})
    with tempfile.TemporaryDirectory() as scratch:
        result["machine"] = machine(scratch)
        server = ObjectServer(pathlib.Path(scratch))
        try:
            sources = {what: upload(what, server, scratch, (8000 if what == "images" else 250_000_000) // share) for what in parts}
            server.restart("--keep-alive")  # only for reading: with it, this server refuses some uploads
            for what, (source, size) in sources.items():
                rows = measure(what, server.proxy, size, scratch, rounds)
                result["parts"][what] = [*rows, *limit_of(what, scratch, source)]
                result["compared"][what] = compare(rows)
                print_table(f"{what}: {size / 1e6:.0f} MB", result["parts"][what])
                print(json.dumps(result["compared"][what], indent=2))
        finally:
            server.close()
    result["command"] = f"bench/store_streams.py --rounds {rounds}" + (" --quick" if arguments.quick else "")
    save(result, arguments.out)


if __name__ == "__main__":
    main()
