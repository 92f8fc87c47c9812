"""Python peer of the step rows: runs the job of lockstep-trainer with DistributedDataParallel and Gloo.

Batches are indexed from tensors in memory, without a DataLoader, and the loss is accumulated without synchronization: the
fastest way to write it in Python. Rank 0 prints one JSON object: seconds per step, one number per interval,
seconds of the first step, the time of day at its end, and the mean loss of the last interval.
"""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"))

import idx
import tokens
import torch
import torch.distributed as dist
from lockstep import models
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--inputs", type=int)
    parser.add_argument("--hidden")
    parser.add_argument("--gpt", type=json.loads, help="sizes of a GPT, in the place of --inputs and --hidden")
    parser.add_argument("--hf", help="folder of a language model of transformers, in the place of --gpt")
    parser.add_argument("--adapter", help="folder of an adapter of PEFT for --hf: only it is trained")
    parser.add_argument("--base-dtype", choices=["fp32", "bf16"], default="fp32", help="of the weights of --hf")
    parser.add_argument("--length", type=int, help="tokens per sample, for --hf")
    parser.add_argument("--optimizer", choices=["sgd", "adamw"], required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--batch-size", type=int, required=True, help="per rank")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--interval", type=int, required=True)
    parser.add_argument("--tuned", action="store_true", help="gradient_as_bucket_view, static_graph, fused optimizer; "
                        "with --fsdp, one unit that is not resharded after the forward pass")
    parser.add_argument("--fsdp", action="store_true", help="FSDP2 (fully_shard of each layer) instead of DDP")
    parser.add_argument("--compile", action="store_true", help="torch.compile around DDP; prints seconds of the first step")
    parser.add_argument("--compile-mode", default="default", help="of torch.compile")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: all data are on it; one rank only")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="bf16: autocast")
    return parser.parse_args()


def load(args):
    """(module, inputs, targets, loss of the module's outputs)"""
    torch.manual_seed(0)
    if args.hf:
        import transformers  # takes seconds
        module = transformers.AutoModelForCausalLM.from_pretrained(args.hf, attn_implementation="sdpa",
                                                                   dtype=torch.bfloat16 if args.base_dtype == "bf16" else torch.float32)
        if args.adapter:
            import peft
            module = peft.PeftModel.from_pretrained(module, args.adapter, is_trainable=True)
        return (module.train(), *tokens.load_windows(args.data, args.length),
                lambda output, targets: F.cross_entropy(output.logits.flatten(0, 1), targets.flatten()))
    if args.gpt:
        return (models.build("gpt", 0, **args.gpt), *tokens.load_windows(args.data, args.gpt["context"]),
                lambda logits, targets: F.cross_entropy(logits.flatten(0, 1), targets.flatten()))
    module = models.Mlp(hidden=[int(width) for width in args.hidden.split(",")], inputs=args.inputs)
    return (module, *idx.load_split(args.data, "train"), F.cross_entropy)


def wrap(args, module, world):
    if world == 1:
        return module
    if args.fsdp:
        return shard(args, module, world)
    if args.tuned:
        return DistributedDataParallel(module, gradient_as_bucket_view=True, static_graph=True)
    return DistributedDataParallel(module)


def shard(args, module, world):
    mesh = init_device_mesh("cpu", (world,))
    layers = module.transformer.h if args.gpt else module.model.layers if args.hf else None
    if layers is not None and not args.tuned:
        for layer in layers:
            fully_shard(layer, mesh=mesh)
    elif not args.tuned:
        for child in module.modules():
            if child is not module and next(child.parameters(recurse=False), None) is not None:
                fully_shard(child, mesh=mesh)
    return fully_shard(module, mesh=mesh, reshard_after_forward=not args.tuned)


def make_optimizer(args, parameters):
    if args.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=args.lr, fused=True if args.tuned else None)
    return torch.optim.AdamW(parameters, lr=args.lr, weight_decay=0.01, fused=True if args.tuned else None)


def batches(args, images, labels, rank, world):
    sampler = DistributedSampler(labels, num_replicas=world, rank=rank, shuffle=True, seed=0)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        for chosen in torch.tensor(list(sampler)).split(args.batch_size):
            chosen = chosen.to(images.device)
            yield images[chosen], labels[chosen]
        epoch += 1


def mean_loss(total, interval, world):
    if world > 1:
        dist.all_reduce(total)
    return total.item() / interval / world


def main():
    args = parse_arguments()
    torch.set_num_threads(1)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        dist.init_process_group("gloo")
    module, images, labels, loss_of = load(args)
    module, images, labels = (part.to(args.device) for part in (module, images, labels))
    model = wrap(args, module, world)
    model = torch.compile(model, mode=args.compile_mode) if args.compile else model
    optimizer = make_optimizer(args, [each for each in module.parameters() if each.requires_grad])
    source = batches(args, images, labels, rank, world)
    seconds, loss, first, first_at = [], None, None, None
    total = torch.zeros((), dtype=torch.float64, device=args.device)
    begin = time.perf_counter()
    for step in range(1, args.steps + 1):
        image, label = next(source)
        optimizer.zero_grad(set_to_none=args.compile or not args.tuned)  # CUDA graphs of torch.compile own their gradients
        if args.compile:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16"):
            result = loss_of(model(image), label)
        result.backward()
        optimizer.step()
        total += result.detach()
        if step == 1:
            result.item()  # waits for a GPU
            first, first_at = time.perf_counter() - begin, time.time()
        if step % args.interval == 0:
            loss = mean_loss(total, args.interval, world)
            seconds.append((time.perf_counter() - begin) / args.interval)
            total.zero_()
            begin = time.perf_counter()
    if rank == 0:
        print(json.dumps({"seconds": seconds, "loss": loss, "first_step": first, "first_step_at": first_at}),
              flush=True)
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
