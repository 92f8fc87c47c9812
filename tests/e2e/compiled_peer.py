"""The eager Python peer of compiled runs: data-parallel training of any number of ranks, in one process.

Each rank's batch goes through the module by itself and the gradients are averaged, as DistributedDataParallel does it;
buffers are rank 0's.
"""

import torch
from torch.utils.data import DistributedSampler


def batches(fields, world_size, batch_size, seed, steps):
    """[[batch of rank 0, batch of rank 1, ...], ...], one list per step, in the order of lockstep-trainer."""
    size = len(next(iter(fields.values())))
    chosen, epoch = [], 0
    while len(chosen) < steps:
        ranks = []
        for rank in range(world_size):
            sampler = DistributedSampler(range(size), num_replicas=world_size, rank=rank, shuffle=True, seed=seed)
            sampler.set_epoch(epoch)
            ranks.append([part for part in torch.tensor(list(sampler)).split(batch_size) if len(part) == batch_size])
        chosen += list(zip(*ranks))
        epoch += 1
    return [[{name: value[part] for name, value in fields.items()} for part in ranks] for ranks in chosen[:steps]]


def train(module, loss, data, lr, momentum):
    """`data`: of batches(). Returns the mean loss of each step."""
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=lr, momentum=momentum)
    losses = []
    for ranks in data:
        optimizer.zero_grad()
        before = {name: buffer.clone() for name, buffer in module.named_buffers()}
        after, total = {}, 0.0
        for rank, batch in enumerate(ranks):
            for name, buffer in module.named_buffers():
                buffer.copy_(before[name])
            result = loss(module, batch)
            (result / len(ranks)).backward()
            total += result.item()
            if rank == 0:
                after = {name: buffer.clone() for name, buffer in module.named_buffers()}
        for name, buffer in module.named_buffers():
            buffer.copy_(after[name])
        optimizer.step()
        losses.append(total / len(ranks))
    return losses
