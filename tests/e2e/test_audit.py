"""train.audit.every finds weights that differ between ranks, to the bit, and names rank, step and tensor."""

import pytest

from processes import BIN
from safetensors_file import checkpoints

AUDIT = "train.audit.every=4"


def flip(job, rank, step, tensor):
    job.config["plugins"] = [str(BIN.parent / "tests" / "bin" / "flip_bit.so")]
    job.config["train"]["hooks"] = [{"name": "flip_bit", "rank": rank, "step": step, "tensor": tensor}]
    job.write()


@pytest.mark.parametrize("settings, ranks, found", [
    ([], 3, "rank 2 differs from the others"),
    ([], 2, "ranks 0 and 1 differ"),
    (["distributed.backend=gloo"], 3, "rank 2 differs from the others"),
])
def test_one_flipped_bit_is_found(job, settings, ranks, found):
    flip(job, rank=ranks - 1, step=5, tensor="layers.0.weight")
    ended = job.run(AUDIT, "checkpoint.every=2 steps", *settings, ranks=ranks)
    assert ended.code == 75, ended.err
    # The checkpoint of step 6 is the next after the change.
    assert f"train.audit: the weights of the ranks differ after step 6: {found}; first tensor: layers.0.weight." in ended.err
    run, = job.runs.iterdir()
    assert checkpoints(run)[-1] == 4


def test_an_audit_changes_nothing_and_finds_nothing_in_a_healthy_run(job):
    job.train("train.audit.every=1", ranks=3)
    job.train("train.audit.every=1", "distributed.shard=gradients", ranks=2)
    job.train("train.audit.every=1")  # one rank


def test_an_audit_without_replicas_is_refused(job):
    ended = job.run(AUDIT, "distributed.shard=full", ranks=2)
    assert ended.code == 78 and "with distributed.shard: full each weight exists once" in ended.err, ended.err
