"""The same training job in Python: DistributedDataParallel over Gloo, with defaults.

One process is one rank. Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as every launcher sets
them; with INIT_METHOD ranks meet there. Rank 0 writes the weights and prints one JSON line with the evaluation. The end-to-end test
compares the weights with those of lockstep-trainer, bit for bit.
"""

import argparse
import contextlib
import json
import os

import torch
import torch.distributed as dist
from lockstep import models
from safetensors.torch import save_file
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import idx
import tokens

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
HOOKS = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["mlp", "cnn", "resnet", "vit", "gpt"], default="mlp")
    parser.add_argument("--config", type=json.loads, default={}, help='of the model, as JSON: {"hidden": [64, 32]}')
    parser.add_argument(
        "--data", required=True, help="directory of the IDX files, for a gpt a file of tokens"
    )
    parser.add_argument(
        "--mean", type=float, help="subtracted from the pixels; together with --std"
    )
    parser.add_argument("--std", type=float)
    parser.add_argument("--limit", type=int, help="use only the first N training samples")
    parser.add_argument("--eval-limit", type=int, help="use only the first N test samples")
    parser.add_argument("--optimizer", choices=["sgd", "adam", "adamw"], default="sgd")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--weight-decay", type=float, default=0.0)
    parser.add_argument("--decay-matrices", action="store_true", help="no decay of biases and norms")
    parser.add_argument(
        "--batch-size", type=int, default=128, help="samples per forward pass over all ranks"
    )
    parser.add_argument(
        "--accumulate", type=int, default=1, help="forward passes per optimizer step"
    )
    parser.add_argument("--precision", choices=["fp32", *TYPES], default="fp32", help="of autocast")
    parser.add_argument("--clip-grad-norm", type=float, help="longest norm of all gradients")
    parser.add_argument("--bucket-cap-mb", type=float, help="DistributedDataParallel's own default")
    parser.add_argument("--gradient-as-bucket-view", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: over NCCL, with one rank")
    parser.add_argument("--deterministic", action="store_true", help="operators give the same bits each time")
    parser.add_argument("--gradient-compression", choices=HOOKS, help="how DistributedDataParallel sends gradients")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--max-steps", type=int, help="stop after this many optimizer steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drop-last", action="store_true")
    parser.add_argument("--ema-decay", type=float, help="average the weights")
    parser.add_argument("--ema-every", type=int, default=1, help="steps between two updates of it")
    parser.add_argument("--ema-warmup", action="store_true", help="(1 + n) / (10 + n) at first")
    parser.add_argument("--ema-out", help="safetensors file of the averaged weights")
    parser.add_argument("--out", required=True, help="safetensors file of the weights")
    return parser.parse_args()


def make_optimizer(args, parameters):
    """SGD with Python's default implementation; Adam and AdamW with their fused ones."""
    if args.decay_matrices:
        parameters = list(parameters)
        parameters = [
            {"params": [p for p in parameters if p.dim() >= 2]},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
    if args.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=args.lr, momentum=args.momentum, weight_decay=args.weight_decay
        )
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[args.optimizer]
    return kind(parameters, lr=args.lr, weight_decay=args.weight_decay, fused=True)


def load_train(args):
    if args.model == "gpt":
        return [part[: args.limit] for part in tokens.load_windows(args.data, args.config["context"])]
    return idx.load_split(args.data, "train", args.limit, args.mean, args.std)


def make_loader(args, rank, world):
    dataset = TensorDataset(*load_train(args))
    sampler = DistributedSampler(
        dataset,
        num_replicas=world,
        rank=rank,
        shuffle=True,
        seed=args.seed,
        drop_last=args.drop_last,
    )
    return sampler, DataLoader(
        dataset,
        batch_size=args.batch_size // world,
        sampler=sampler,
        num_workers=0,
        drop_last=args.drop_last,
    )


def steps_of(loader, accumulate):
    """The batches of an epoch in groups of `accumulate`; the last group may be smaller."""
    group = []
    for batch in loader:
        group.append(batch)
        if len(group) == accumulate:
            yield group
            group = []
    if group:
        yield group


def autocast(args):
    return torch.autocast(args.device, TYPES.get(args.precision), enabled=args.precision in TYPES)


def train_step(args, model, optimizer, scaler, group):
    """One optimizer step on the mean over all samples of `group`.

    Only the last backward pass synchronizes gradients. Gradients that live in the buckets are set
    to zero there: without them DistributedDataParallel would copy new ones in after every step.
    """
    optimizer.zero_grad(set_to_none=not args.gradient_as_bucket_view)
    num_samples = sum(len(label) for _, label in group)
    for i, (image, label) in enumerate(group):
        is_last = i + 1 == len(group)
        with contextlib.nullcontext() if is_last else model.no_sync():
            with autocast(args):
                loss = F.cross_entropy(model(image).flatten(0, -2), label.flatten())
            loss = loss if len(group) == 1 else loss * (len(label) / num_samples)
            scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if args.clip_grad_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad_norm)
    scaler.step(optimizer)
    scaler.update()


def make_average(args, module):
    """Python's own, with its own arithmetic but for the decay of --ema-warmup."""
    if args.ema_decay is None:
        return None

    def with_warmup(averages, current, num_averaged):
        decay = min(args.ema_decay, (1 + num_averaged.item()) / (10 + num_averaged.item()))
        get_ema_multi_avg_fn(decay)(averages, current, num_averaged)

    average = with_warmup if args.ema_warmup else get_ema_multi_avg_fn(args.ema_decay)
    return AveragedModel(module, multi_avg_fn=average, use_buffers=True)


def train(args, model, averaged, rank, world):
    optimizer = make_optimizer(args, model.parameters())
    scaler = torch.amp.GradScaler(args.device, enabled=args.precision == "fp16")
    sampler, loader = make_loader(args, rank, world)
    step = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for group in steps_of(loader, args.accumulate):
            group = [[part.to(args.device) for part in batch] for batch in group]
            if args.max_steps is not None and step == args.max_steps:
                return
            train_step(args, model, optimizer, scaler, group)
            step += 1
            if averaged is not None and step % args.ema_every == 0:
                averaged.update_parameters(model.module)


def evaluate(args, model):
    """Loss and accuracy over the whole test set, summed in float64."""
    images, labels = idx.load_split(args.data, "test", args.eval_limit, args.mean, args.std)
    loss_sum, correct = 0.0, 0
    model.eval()
    with torch.no_grad(), autocast(args):
        for image, label in zip(images.to(args.device).split(1000), labels.to(args.device).split(1000)):
            logits = model(image)
            loss_sum += F.cross_entropy(logits, label, reduction="none").double().sum().item()
            correct += (logits.argmax(1) == label).sum().item()
    return {
        "loss": loss_sum / len(labels),
        "accuracy": correct / len(labels),
        "num_samples": len(labels),
    }


def save(module, path):
    save_file({name: tensor.contiguous() for name, tensor in module.state_dict().items()}, path)


def main():
    """Returns the model, for callers that end the process without its destructor: with a hook in Python it may wait for a
    thread of Gloo that waits for the interpreter's lock."""
    args = parse_arguments()
    torch.set_num_threads(1)
    if args.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if args.batch_size % world:
        raise SystemExit(f"--batch-size {args.batch_size} does not divide over {world} ranks")
    gpu = torch.device("cuda", 0) if args.device == "cuda" else None
    dist.init_process_group("nccl" if gpu else "gloo", init_method=os.environ.get("INIT_METHOD"), rank=rank, world_size=world, device_id=gpu)
    module = models.build(args.model, args.seed, **args.config).to(args.device)
    parallel = DistributedDataParallel(
        module,
        bucket_cap_mb=args.bucket_cap_mb,
        gradient_as_bucket_view=args.gradient_as_bucket_view,
    )
    if args.gradient_compression:
        parallel.register_comm_hook(None, HOOKS[args.gradient_compression])
    averaged = make_average(args, module)
    train(args, parallel, averaged, rank, world)
    if rank == 0:
        save(module, args.out)
        if averaged is not None:
            save(averaged.module, args.ema_out)
        evaluated = module if averaged is None else averaged.module
        print(json.dumps({} if args.model == "gpt" else evaluate(args, evaluated)), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return parallel


if __name__ == "__main__":
    main()
