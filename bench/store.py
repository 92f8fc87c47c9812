"""Measures how fast objects are read from a bucket, through a simulated link with 20 ms latency and 1 Gbit/s.

    .venv/bin/python bench/store.py [--rounds 3] [--out bench/results/store.json]

The server is the tests' versitygw on the same machine, which keeps connections open, as S3 does; the link is their proxy, which delays
each request by 20 ms and sends the answers of all connections together at 125 MB/s. Lockstep reads each object once through an empty
cache on the local disk. Peers read the same objects with pyarrow's S3 file system: copy_files to the local disk (its default, parallel
way), and a stream of one object after the other. "stream" is the longest set: the start matters least. "through the proxy alone": the
same with a link that is not limited, the most that this machine can measure.
Needs: make peers; cmake --build build --target lockstep_bench_store
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile

from measuring import BIN, SOURCE, commit, machine, output_of, print_table, row, save

sys.path.insert(0, str(SOURCE / "tests"))

from object_server import BUCKET, CREDENTIALS, KEY, REGION, SECRET, ObjectServer  # noqa: E402

DRIVER = BIN / "lockstep_bench_store"
PYTHON = SOURCE / ".venv" / "bin" / "python"
LATENCY_S, LINK = 0.02, 125e6
SETS = {"shards": (8, 32 << 20), "stream": (32, 32 << 20), "one object": (1, 256 << 20), "small objects": (500, 64 << 10)}
PEER = f"""
import json, sys, time
from pyarrow import fs
way, port, place, out = sys.argv[1:]
client = fs.S3FileSystem(access_key={KEY!r}, secret_key={SECRET!r}, region={REGION!r}, endpoint_override=f"http://127.0.0.1:{{port}}")
client.get_file_info(place)
begin = time.perf_counter()
if way == "copy_files":
    fs.copy_files(place, out, source_filesystem=client, destination_filesystem=fs.LocalFileSystem())
    size = sum(info.size for info in fs.LocalFileSystem().get_file_info(fs.FileSelector(out)))
else:
    size = 0
    for info in client.get_file_info(fs.FileSelector(place)):
        with client.open_input_stream(info.path) as stream:
            while part := stream.read(8 << 20):
                size += len(part)
print(json.dumps({{"bytes": size, "seconds": time.perf_counter() - begin}}))
"""


def key_of(name):
    return name.replace(" ", "-")


def lockstep(scratch, proxy, name, connections):
    cache = pathlib.Path(scratch) / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    path = f"s3://{BUCKET}/{key_of(name)}?endpoint_override=127.0.0.1:{proxy.port}&scheme=http"
    return json.loads(output_of([DRIVER, cache, connections, path], scratch, 300, **CREDENTIALS))


def peer(scratch, proxy, name, way):
    out = pathlib.Path(scratch) / "copies"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    return json.loads(output_of([PYTHON, "-c", PEER, way, proxy.port, f"{BUCKET}/{key_of(name)}", out], scratch, 300))


def measure(scratch, proxy, name, rounds):
    """Alternates rounds, so that other load affects all variants."""
    ways = {"lockstep": lambda: lockstep(scratch, proxy, name, 16),
            "pyarrow, copy_files": lambda: peer(scratch, proxy, name, "copy_files"),
            "pyarrow, stream": lambda: peer(scratch, proxy, name, "stream")}
    count, size = SETS[name]
    rates = {}

    def once(way, run):
        result = run()
        assert result["bytes"] == count * size, (way, result)
        rates.setdefault(way, []).append(result["bytes"] / 1e6 / result["seconds"])

    for _ in range(rounds):
        proxy.latency_s, proxy.bytes_per_s = LATENCY_S, LINK
        for way, run in ways.items():
            once(way, run)
        proxy.latency_s, proxy.bytes_per_s = 0, 0
        once("lockstep, through the proxy alone", ways["lockstep"])
    return [row(way, "MB/s", values, digits=1, of_link=round(sorted(values)[len(values) // 2] * 1e6 / LINK, 2))
            for way, values in rates.items()]


def compare(rows):
    median = {line["row"]: line["median"] for line in rows}
    return {"of the link": round(median["lockstep"] * 1e6 / LINK, 2),
            "times copy_files": round(median["lockstep"] / median["pyarrow, copy_files"], 2),
            "times the stream": round(median["lockstep"] / median["pyarrow, stream"], 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    result = {"commit": commit(), "link": {"latency_ms": 1e3 * LATENCY_S, "mb_per_s": LINK / 1e6},
              "objects": {name: {"count": count, "bytes": size} for name, (count, size) in SETS.items()}, "parts": {}, "compared": {}}
    with tempfile.TemporaryDirectory() as scratch:
        result["machine"] = machine(scratch)
        server = ObjectServer(pathlib.Path(scratch))
        try:
            for name, (count, size) in SETS.items():
                for i in range(count):
                    server.put(f"{key_of(name)}/{i:04}", os.urandom(size))
            server.restart("--keep-alive")  # only for reading: with it, this server refuses some uploads
            for name, (count, size) in SETS.items():
                rows = result["parts"][name] = measure(scratch, server.proxy, name, arguments.rounds)
                result["compared"][name] = compare(rows)
                print_table(f"{name}: {count} x {size / 1e6:.2f} MB", rows)
                print(json.dumps(result["compared"][name], indent=2))
        finally:
            server.close()
    result["command"] = f"bench/store.py --rounds {arguments.rounds}"
    save(result, arguments.out)


if __name__ == "__main__":
    main()
