"""Python peer of bench/loader.py: runs one setting of torch's DataLoader for a few seconds, in a separate process.

    python bench/loader_peers.py memory|jpeg|tars|tokens|parquet|arrow SETTING SECONDS DATA     prints one line of JSON

SETTING ends with "workers N". "gathered" datasets return whole batches, without per-sample work in Python; with "threads
N", torch uses N threads for it.
"""

import json
import os
import pathlib
import re
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

BATCH = {"memory": 64, "jpeg": 32, "tars": 32, "tokens": 8, "parquet": 256, "arrow": 256}
LENGTH = 1024  # tokens per sample


def mnist(directory):
    images = np.fromfile(f"{directory}/train-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 784)
    labels = np.fromfile(f"{directory}/train-labels-idx1-ubyte", np.uint8)[8:]
    return torch.from_numpy(images), torch.from_numpy(labels).long()


class Shuffled:
    """Samples whole batches as tensors: faster than BatchSampler, which yields Python integers."""

    def __init__(self, size, batch):
        self.size, self.batch = size, batch

    def __len__(self):
        return -(-self.size // self.batch)

    def __iter__(self):
        return iter(torch.randperm(self.size).split(self.batch))


class Gathered(Dataset):
    """Returns whole batches of tensors."""

    def __init__(self, *tensors):
        self.tensors = tensors

    def __len__(self):
        return len(self.tensors[0])

    def __getitem__(self, indices):
        return [tensor.index_select(0, indices) for tensor in self.tensors]


class GatheredBytes(Gathered):
    """Stores the first tensor as bytes and converts it to floats: reads a quarter of the memory."""

    def __getitem__(self, indices):
        images, labels = super().__getitem__(indices)
        return images.float().div_(255), labels


def whole_batches(dataset, batch, setting):
    return DataLoader(dataset, sampler=Shuffled(len(dataset), batch), batch_size=None, num_workers=workers_of(setting))


def memory_loader(setting, directory):
    images, labels = mnist(directory)
    batch = BATCH["memory"]
    if setting.startswith("gathered bytes"):
        return whole_batches(GatheredBytes(images, labels), batch, setting)
    images = images.float().div(255)
    if setting.startswith("gathered"):
        return whole_batches(Gathered(images, labels), batch, setting)
    return DataLoader(TensorDataset(images, labels), batch, shuffle=True, num_workers=workers_of(setting))


def training_steps():
    from torchvision import transforms

    return transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])


def jpeg_loader(setting, directory):
    from torchvision import datasets

    steps = training_steps()
    loader = datasets.folder.default_loader
    if setting.startswith("torchvision decoder"):
        from torchvision.io import ImageReadMode, decode_jpeg, read_file
        from torchvision.transforms import v2

        def loader(path):
            return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)

        steps = v2.Compose([
            v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    workers = workers_of(setting)
    dataset = datasets.ImageFolder(directory, steps, loader=loader)
    return DataLoader(dataset, BATCH["jpeg"], shuffle=True, num_workers=workers, persistent_workers=workers > 0)


def tars_loader(setting, directory):
    import webdataset

    urls = sorted(map(str, pathlib.Path(directory).glob("*.tar")))
    samples = webdataset.WebDataset(urls, shardshuffle=len(urls)).shuffle(100).decode("pil").to_tuple("jpg", "cls")
    samples = samples.map_tuple(training_steps(), int)
    workers = workers_of(setting)
    return DataLoader(samples, BATCH["tars"], num_workers=workers, persistent_workers=workers > 0)


class Windows(Dataset):
    """Like nanoGPT: converts a window of a memory map."""

    def __init__(self, file):
        self.tokens = np.memmap(file, np.uint16, "r")

    def __len__(self):
        return (len(self.tokens) - 1) // LENGTH

    def __getitem__(self, index):
        window = torch.from_numpy(self.tokens[index * LENGTH : (index + 1) * LENGTH + 1].astype(np.int64))
        return window[:-1], window[1:]


class GatheredWindows(Windows):
    """Reads all windows of a batch with one gather and one conversion."""

    def __init__(self, file):
        super().__init__(file)
        step = self.tokens.itemsize
        self.windows = np.lib.stride_tricks.as_strided(self.tokens, (len(self), LENGTH + 1), (step * LENGTH, step))

    def __getitem__(self, indices):
        windows = torch.from_numpy(self.windows[indices.numpy()].astype(np.int64))
        return windows[:, :-1], windows[:, 1:]


def tokens_loader(setting, directory):
    if setting.startswith("gathered"):
        return whole_batches(GatheredWindows(f"{directory}/tokens.bin"), BATCH["tokens"], setting)
    return DataLoader(Windows(f"{directory}/tokens.bin"), BATCH["tokens"], shuffle=True, num_workers=workers_of(setting))


def tensors_of(table):
    features = np.stack([table[name].to_numpy() for name in table.column_names if name != "label"], 1).astype(np.float32)
    return torch.from_numpy(features), torch.from_numpy(table["label"].to_numpy().astype(np.float32))


class RowGroups(IterableDataset):
    """Reads row groups in random order, shuffles each, and returns whole batches: for files larger than memory."""

    def __init__(self, file):
        self.file, self.epoch = file, 0

    def __iter__(self):
        import pyarrow.parquet

        worker = get_worker_info()
        self.epoch += 1
        file = pyarrow.parquet.ParquetFile(self.file)
        order = np.random.default_rng(self.epoch).permutation(file.num_row_groups)
        for group in order[worker.id :: worker.num_workers] if worker else order:
            features, labels = tensors_of(file.read_row_group(group, use_threads=False))
            for rows in torch.randperm(len(labels)).split(BATCH["parquet"]):
                yield features.index_select(0, rows), labels.index_select(0, rows)


def parquet_loader(setting, directory):
    """Reads row groups as Lockstep does, or keeps all rows in memory; loading them is not timed."""
    import pyarrow.parquet

    if setting.startswith("row groups"):
        return DataLoader(RowGroups(f"{directory}/table.parquet"), batch_size=None, num_workers=workers_of(setting))
    tensors = tensors_of(pyarrow.parquet.read_table(f"{directory}/table.parquet"))
    if setting.startswith("gathered"):
        return whole_batches(Gathered(*tensors), BATCH["parquet"], setting)
    return DataLoader(TensorDataset(*tensors), BATCH["parquet"], shuffle=True, num_workers=workers_of(setting))


class TakenRows(Dataset):
    """Takes the rows of a batch from the record batches of a mapped file, which have the same size but for the last one."""

    def __init__(self, file):
        import pyarrow

        mapped = pyarrow.ipc.open_file(pyarrow.memory_map(file))
        self.batches = [mapped.get_batch(i) for i in range(mapped.num_record_batches)]

    def __len__(self):
        return sum(map(len, self.batches))

    def __getitem__(self, indices):
        import pyarrow

        numbers, rows = np.divmod(np.sort(indices.numpy()), len(self.batches[0]))
        taken = [self.batches[number].take(pyarrow.array(rows[numbers == number])) for number in np.unique(numbers)]
        return tensors_of(pyarrow.Table.from_batches(taken))


def arrow_loader(setting, directory):
    import pyarrow

    rows = TakenRows(f"{directory}/table.arrow")
    if setting.startswith("taken"):
        return whole_batches(rows, BATCH["arrow"], setting)
    return whole_batches(Gathered(*tensors_of(pyarrow.Table.from_batches(rows.batches))), BATCH["arrow"], setting)


def workers_of(setting):
    return int(re.search(r"workers (\d+)", setting)[1])


def threads_of(setting):
    found = re.search(r"threads (\d+)", setting)
    return int(found[1]) if found else 1


def processes():
    """This process and its workers."""
    children = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [os.getpid(), *map(int, children)]


def memory_mb():
    """Memory of all processes; shared pages count once."""
    total = 0
    for pid in processes():
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) / 1024
    return total


def main():
    what, setting, seconds, directory = sys.argv[1:]
    torch.set_num_threads(threads_of(setting))
    make = {"memory": memory_loader, "jpeg": jpeg_loader, "tars": tars_loader, "tokens": tokens_loader, "parquet": parquet_loader,
            "arrow": arrow_loader}[what]
    loader = make(setting, directory)
    samples, peak, begin, busy = 0, 0, time.monotonic(), time.process_time()
    end, looked = begin + float(seconds), begin
    while time.monotonic() < end:
        for images, _ in loader:
            samples += len(images)
            now = time.monotonic()
            if now > looked + 0.5:
                peak, looked = max(peak, memory_mb()), time.monotonic()
            if now > end:
                elapsed = now - begin
                # Processor time of this process: without workers, independent of other load.
                cpu_us = (time.process_time() - busy) * 1e6 / samples
                print(json.dumps({"samples_per_s": samples / elapsed, "cpu_us_per_sample": cpu_us, "peak_mb": peak}), flush=True)
                os._exit(0)  # workers exit when their pipes close


if __name__ == "__main__":
    main()
