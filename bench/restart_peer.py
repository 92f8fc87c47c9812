"""A typical torchrun script that supports restarts: an MLP with DistributedDataParallel that saves its state every 20 steps
and loads it at startup. Rank 0 prints "step N" after each optimizer step.

Reads the IDX file of MNIST's training set once, as Lockstep does.
"""

import os
import sys

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

IMAGES, LABELS, STATE, STEPS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    images = numpy.fromfile(IMAGES, numpy.uint8, offset=16).reshape(-1, 784)
    labels = numpy.fromfile(LABELS, numpy.uint8, offset=8)
    layers = [torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = 0
    if os.path.exists(STATE):
        state = torch.load(STATE)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    model = DistributedDataParallel(model)
    while step < STEPS:
        begin = (step * 128) % 50000 + 64 * rank
        inputs = torch.from_numpy(images[begin : begin + 64]).float() / 255
        loss = torch.nn.functional.cross_entropy(model(inputs), torch.from_numpy(labels[begin : begin + 64]).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if rank == 0:
            print("step", step, flush=True)
        if rank == 0 and step % 20 == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, STATE + ".new")
            os.replace(STATE + ".new", STATE)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
