"""Python peers of bench/store_streams.py, in .venv-streaming: each reads one shuffled epoch from a bucket, in a separate process.

    python bench/store_streams_peers.py write images|tokens SOURCE OUT     the shards of SOURCE in the peers' formats
    python bench/store_streams_peers.py read images|tokens LIBRARY SETTING ENDPOINT CACHE     prints one line of JSON

LIBRARY: litdata, mosaicml or s3torchconnector. SETTING: "default", or "tuned": more is downloaded ahead. Both have two workers. Images are
decoded by torchvision (libjpeg-turbo), which is faster than Pillow.
"""

import io
import json
import os
import pathlib
import random
import sys
import tarfile
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

BUCKET, REGION = "data", "us-east-1"
BATCH = {"images": 32, "tokens": 16}
LENGTH = 2048  # tokens per sample
SHARD = 32 << 20
WORKERS = 2


def samples_of_tar(file):
    """Of an open archive: pairs of an encoded image and a label."""
    with tarfile.open(fileobj=file, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member).read()
            if member.name.endswith(".jpg"):
                image = content
            else:
                yield image, int(content)


def images_in(source):
    for path in sorted(source.glob("*.tar")):
        with open(path, "rb") as file:
            yield from samples_of_tar(file)


def windows_in(source):
    for path in sorted(source.glob("*.bin")):
        tokens = np.fromfile(path, np.uint16)
        yield from tokens[: len(tokens) // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1)


def write_mds(what, source, out):
    from streaming import MDSWriter

    columns = {"image": "bytes", "label": "int"} if what == "images" else {"tokens": f"ndarray:uint16:{LENGTH + 1}"}
    with MDSWriter(out=str(out), columns=columns, size_limit=SHARD) as writer:
        if what == "images":
            for image, label in images_in(source):
                writer.write({"image": image, "label": label})
        else:
            for window in windows_in(source):
                writer.write({"tokens": window})


def write_litdata(what, source, out):
    from litdata.streaming import Cache, TokensLoader

    if what == "images":
        cache = Cache(str(out), chunk_bytes=SHARD)
        samples = ({"image": image, "label": label} for image, label in images_in(source))
    else:
        cache = Cache(str(out), chunk_size=SHARD // (2 * (LENGTH + 1)) * (LENGTH + 1), item_loader=TokensLoader(LENGTH + 1))
        samples = (torch.from_numpy(window) for window in windows_in(source))
    for i, sample in enumerate(samples):
        cache[i] = sample
    cache.done()
    cache.merge()


def steps():
    from torchvision.transforms import v2

    return v2.Compose([v2.RandomCrop(224), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True),
                       v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])


class Images:
    """From an encoded image and a label to what a model takes."""

    def __init__(self):
        self.steps = steps()

    def __call__(self, image, label):
        from torchvision.io import ImageReadMode, decode_jpeg

        return self.steps(decode_jpeg(torch.frombuffer(bytearray(image), dtype=torch.uint8), mode=ImageReadMode.RGB)), label


def tokens_and_targets(window):
    window = torch.from_numpy(np.asarray(window).astype(np.int64))
    return window[:-1], window[1:]


def mosaicml(what, setting, endpoint, cache):
    from streaming import StreamingDataset

    os.environ["S3_ENDPOINT_URL"] = endpoint
    images = Images()

    class Samples(StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return images(sample["image"], sample["label"]) if what == "images" else tokens_and_targets(sample["tokens"])

    more = {"predownload": 1 << 14, "num_canonical_nodes": 1} if setting == "tuned" else {}
    dataset = Samples(remote=f"s3://{BUCKET}/{what}-mds", local=cache, shuffle=True, batch_size=BATCH[what], **more)
    for stream in dataset.streams:
        # Workers inherit the connection that fetched the index: their answers would be mixed up (wrong samples, or waiting forever).
        stream._downloader._s3_client = None
    return DataLoader(dataset, BATCH[what], num_workers=WORKERS)


def litdata(what, setting, endpoint, cache):
    from litdata import StreamingDataLoader, StreamingDataset, TokensLoader
    from litdata.streaming import downloader

    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # no option sets it: its client of chunks refuses http
    images = Images()

    class Samples(StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return images(sample["image"], sample["label"]) if what == "images" else tokens_and_targets(sample)

    storage = {"endpoint_url": endpoint, "region_name": REGION, "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
               "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"]}
    more = {"max_pre_download": 8} if setting == "tuned" else {}
    dataset = Samples(f"s3://{BUCKET}/{what}-litdata", cache_dir=cache, shuffle=True, storage_options=storage,
                      item_loader=TokensLoader(LENGTH + 1) if what == "tokens" else None, **more)
    return StreamingDataLoader(dataset, batch_size=BATCH[what], num_workers=WORKERS)


def shuffled(samples, size):
    """As webdataset does: the next sample takes the place of a random one of `size`."""
    kept = []
    for sample in samples:
        if len(kept) < size:
            kept.append(sample)
            continue
        place = random.randrange(size)
        yield kept[place]
        kept[place] = sample
    random.shuffle(kept)
    yield from kept


class Connector(IterableDataset):
    """Shards of S3IterableDataset, each read as a stream (or, tuned, whole), and its samples shuffled in a buffer."""

    def __init__(self, what, setting, endpoint):
        self.what, self.setting, self.endpoint = what, setting, endpoint
        self.images = Images()

    def shards(self):
        from s3torchconnector import S3ClientConfig, S3IterableDataset

        return S3IterableDataset.from_prefix(
            f"s3://{BUCKET}/{self.what}/", region=REGION, endpoint=self.endpoint, enable_sharding=True,
            s3client_config=S3ClientConfig(force_path_style=True))

    def samples(self):
        for shard in self.shards():
            if shard.key.endswith("index.json"):  # of Lockstep
                continue
            if self.what == "images":
                yield from samples_of_tar(io.BytesIO(shard.read()) if self.setting == "tuned" else shard)
            elif self.setting == "tuned":
                tokens = np.frombuffer(shard.read(), np.uint16)
                yield from tokens[: len(tokens) // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1)
            else:
                while len(window := shard.read(2 * (LENGTH + 1))) == 2 * (LENGTH + 1):
                    yield np.frombuffer(window, np.uint16)

    def __iter__(self):
        for sample in shuffled(self.samples(), 100):
            yield self.images(*sample) if self.what == "images" else tokens_and_targets(sample)


def s3torchconnector(what, setting, endpoint, cache):
    return DataLoader(Connector(what, setting, endpoint), BATCH[what], num_workers=WORKERS)


def read(what, library, setting, endpoint, cache):
    make = {"litdata": litdata, "mosaicml": mosaicml, "s3torchconnector": s3torchconnector}[library]
    __import__("streaming" if library == "mosaicml" else library)
    steps()
    begin = time.perf_counter()
    samples = first = first_s = 0
    for batch in make(what, setting, endpoint, cache):
        samples += len(batch[0])
        if not first:
            first, first_s = samples, time.perf_counter() - begin
    print(json.dumps({"samples": samples, "seconds": time.perf_counter() - begin, "first_batch": first, "first_batch_s": first_s}),
          flush=True)


def main():
    torch.set_num_threads(1)
    if sys.argv[1] == "write":
        what, source, out = sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
        write_mds(what, source, out / f"{what}-mds")
        write_litdata(what, source, out / f"{what}-litdata")
    else:
        read(*sys.argv[2:])


if __name__ == "__main__":
    main()
