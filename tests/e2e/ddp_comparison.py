"""The same training by Lockstep and by Python's DistributedDataParallel: any difference is an error.

Parts of a job are pairs: overrides of the run file, arguments of tests/golden/ddp_peer.py.
"""

from safetensors_file import assert_same_bits, last_weights

SGD = (
    ["optimizer.name=sgd", "optimizer.lr=0.1", "optimizer.momentum=0.9"],
    ["--optimizer", "sgd", "--lr", "0.1", "--momentum", "0.9"],
)
ADAMW = (
    ["optimizer={name: adamw, lr: 0.01}"],
    ["--optimizer", "adamw", "--lr", "0.01", "--weight-decay", "0.01"],
)
MLP = (["model={name: mlp, hidden: [32]}"], ["--model", "mlp", "--config", '{"hidden": [32]}'])
CNN = (["model={name: cnn, hidden: 16}"], ["--model", "cnn", "--config", '{"hidden": 16}'])
# 1003 and 301 samples are not multiples of 2 or 3: the last batch is smaller and the sampler pads.
MANY = (["data.train.limit=1003", "data.batch_size=48"], ["--limit", "1003", "--batch-size", "48"])
FEW = (["data.train.limit=301", "data.batch_size=12"], ["--limit", "301", "--batch-size", "12"])


def compare(job, peers, world_size, *parts):
    """Trains both and compares. `parts`: pairs of (our overrides, the peer's arguments)."""
    ours = [override for part in parts for override in part[0]]
    theirs = [argument for part in parts for argument in part[1]]
    run_dir = job.train(*ours, ranks=world_size)
    peer_file = job.directory / "peer.safetensors"
    peers.train(world_size, peer_file, "--seed", "7", "--eval-limit", "301", *theirs)
    assert_same_bits(last_weights(run_dir), peer_file)
    return run_dir
