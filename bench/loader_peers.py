"""The Python side of bench/loader.py: one setting of torch's DataLoader for some seconds, in a process of its own.

    python bench/loader_peers.py memory|jpeg|tokens|parquet SETTING SECONDS DATA     prints one line of JSON
"""

import json
import os
import pathlib
import sys
import time

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

BATCH = {"memory": 64, "jpeg": 32, "tokens": 8, "parquet": 256}
LENGTH = 1024  # tokens of a sample


def mnist(directory):
    images = np.fromfile(f"{directory}/train-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 784)
    labels = np.fromfile(f"{directory}/train-labels-idx1-ubyte", np.uint8)[8:]
    return torch.from_numpy(images).float().div(255), torch.from_numpy(labels).long()


class Gathered(Dataset):
    """Gives whole batches, for a DataLoader that passes lists of indices."""

    def __init__(self, *tensors):
        self.tensors = tensors

    def __len__(self):
        return len(self.tensors[0])

    def __getitem__(self, indices):
        indices = torch.as_tensor(indices)
        return [tensor.index_select(0, indices) for tensor in self.tensors]


def memory_loader(setting, directory):
    tensors = mnist(directory)
    if setting == "gathered":
        dataset = Gathered(*tensors)
        batches = BatchSampler(RandomSampler(dataset), BATCH["memory"], drop_last=False)
        return DataLoader(dataset, sampler=batches, batch_size=None)
    workers = workers_of(setting)
    return DataLoader(TensorDataset(*tensors), BATCH["memory"], shuffle=True, num_workers=workers)


def jpeg_loader(setting, directory):
    from torchvision import datasets, transforms

    steps = transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
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


class Windows(Dataset):
    """As nanoGPT reads: a window of a memory map, converted."""

    def __init__(self, file):
        self.tokens = np.memmap(file, np.uint16, "r")

    def __len__(self):
        return (len(self.tokens) - 1) // LENGTH

    def __getitem__(self, index):
        window = torch.from_numpy(self.tokens[index * LENGTH : (index + 1) * LENGTH + 1].astype(np.int64))
        return window[:-1], window[1:]


def tokens_loader(setting, directory):
    return DataLoader(Windows(f"{directory}/tokens.bin"), BATCH["tokens"], shuffle=True, num_workers=workers_of(setting))


def parquet_loader(setting, directory):
    """All row groups read by pyarrow into memory, once, which is not counted; then rows as samples."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(f"{directory}/table.parquet")
    features = np.stack([table[name].to_numpy() for name in table.column_names if name != "label"], 1).astype(np.float32)
    tensors = torch.from_numpy(features), torch.from_numpy(table["label"].to_numpy().astype(np.float32))
    return DataLoader(TensorDataset(*tensors), BATCH["parquet"], shuffle=True, num_workers=workers_of(setting))


def workers_of(setting):
    return int(setting.rsplit(" ", 1)[1])


def processes():
    """This one and its workers."""
    children = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [os.getpid(), *map(int, children)]


def memory_mb():
    """Of all of them together; what they share counts once."""
    total = 0
    for pid in processes():
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) / 1024
    return total


def main():
    what, setting, seconds, directory = sys.argv[1:]
    torch.set_num_threads(1)
    make = {"memory": memory_loader, "jpeg": jpeg_loader, "tokens": tokens_loader, "parquet": parquet_loader}[what]
    loader = make(setting, directory)
    samples, peak, begin = 0, 0, time.monotonic()
    end, looked = begin + float(seconds), begin
    while time.monotonic() < end:
        for images, _ in loader:
            samples += len(images)
            now = time.monotonic()
            if now > looked + 0.5:
                peak, looked = max(peak, memory_mb()), time.monotonic()
            if now > end:
                elapsed = now - begin
                print(json.dumps({"samples_per_s": samples / elapsed, "peak_mb": peak}), flush=True)
                os._exit(0)  # the workers end with their pipes


if __name__ == "__main__":
    main()
