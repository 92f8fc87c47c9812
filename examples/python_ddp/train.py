"""A plain script of PyTorch's DistributedDataParallel, recorded and restarted by Lockstep:

    lockstep launch -n 2 --max-restarts 3 -- python examples/python_ddp/train.py

After a failure all ranks continue from the last checkpoint, and in the same run.
"""

import os
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

import lockstep

STEPS = 20

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
run = lockstep.init(name="ddp", config={"lr": 0.05}, ranks="all")
checkpoint = os.path.join(run.dir, "checkpoint.pt")

torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
first = 0
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    first = saved["step"]

for step in range(first, STEPS):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(16, 8, generator=generator)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    run.log({"train/loss": loss.item()}, step=step + 1)
    if (step + 1) % 5 == 0:
        if rank == 0:
            torch.save({"model": model.state_dict(), "step": step + 1}, checkpoint + ".part")
            os.replace(checkpoint + ".part", checkpoint)
        torch.distributed.barrier()
    lockstep.progress(step + 1, STEPS)
    if "--fail-at" in sys.argv and first == 0 and rank == 1 and step + 1 == int(sys.argv[sys.argv.index("--fail-at") + 1]):
        raise RuntimeError("rank 1 fails on purpose")

run.finish()
torch.distributed.destroy_process_group()
