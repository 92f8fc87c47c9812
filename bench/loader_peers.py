"""The Python side of bench/loader.py: one setting of torch's DataLoader for some seconds, in a process of its own.

    python bench/loader_peers.py memory|jpeg SETTING SECONDS DATA     prints one line of JSON
"""

import json
import os
import pathlib
import sys
import time

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

BATCH = {"memory": 64, "jpeg": 32}


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
    workers = int(setting.removeprefix("workers "))
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
    workers = int(setting.rsplit(" ", 1)[1])
    dataset = datasets.ImageFolder(directory, steps, loader=loader)
    return DataLoader(dataset, BATCH["jpeg"], shuffle=True, num_workers=workers, persistent_workers=workers > 0)


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
    loader = (memory_loader if what == "memory" else jpeg_loader)(setting, directory)
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
