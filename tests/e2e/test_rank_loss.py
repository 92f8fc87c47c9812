"""A rank is killed or leaves, and the others continue (--on-rank-loss continue): the same processes, the bits of an undisturbed run."""

import json
import os
import re
import signal

import pytest

import processes
from conftest import Job, long
from processes import TIMEOUT_S, TRAINER, wait_until
from safetensors_file import assert_same_bits, checkpoints, last_weights
from test_recompute import use_model

STEPS = 2000
SETTINGS = ["distributed.virtual_shards=4", f"train.max_steps={STEPS}", "train.epochs=1000", "train.log_every=1 step"]
SETTINGS += ["tracking.sinks=[console, jsonl]", "train.eval_every=1000 epochs", "train.ema.decay=0.9", "optimizer={name: adamw, lr: 0.001}"]
LONG_STEPS = 8000  # for a second loss while the first is already recorded
LONG = [setting.replace(f"max_steps={STEPS}", f"max_steps={LONG_STEPS}") for setting in SETTINGS]
NO_CHECKPOINT = "checkpoint.every=1000 epochs"  # only the last one: none to restart from
CONTINUE = ["--on-rank-loss", "continue", "--rank-restarts", 0]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    job = Job(tmp_path_factory.mktemp("undisturbed"))
    return job.train(*SETTINGS, NO_CHECKPOINT, ranks=1, timeout=600)


def trainers_of(job):
    """{pid: whether it is a spare}"""
    return {pid: processes.variables_of(pid).get("LOCKSTEP_SPARE") == "1" for pid in processes.trainers(job.directory)}


def by_rank(pids):
    """{rank in the first group: pid}, without processes that are exiting."""
    ranks = {pid: processes.variables_of(pid).get("RANK") for pid in pids}
    return {int(rank): pid for pid, rank in ranks.items() if rank is not None}


def ranks_of(job):
    """{rank: pid} of the first group."""
    return by_rank(pid for pid, is_spare in trainers_of(job).items() if not is_spare)


def start(job, ranks, options=(), settings=SETTINGS):
    with open(job.directory / "launch.err", "w") as log:
        return job.start(*settings, NO_CHECKPOINT, ranks=ranks, options=[*CONTINUE, *options], stderr=log)


def said(job):
    return (job.directory / "launch.err").read_text()


def last_step(job):
    """The last step that the sink of the run has received."""
    text = "".join(file.read_text() for file in job.runs.glob("*/sinks/jsonl/*/records.jsonl"))
    return max(map(int, re.findall(r'"step":([0-9]+)', text[-5000:])), default=0)


def wait_for_step(job, started, step):
    def has_step():
        assert started.poll() is None, said(job)
        return last_step(job) >= step

    wait_until(has_step, TIMEOUT_S, f"step {step}")


def kill(job, victim, count):
    """Kills a process and waits until the others have continued, for the `count`-th time."""
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: said(job).count("continuing with") == count, TIMEOUT_S, "the others continue")


def recorded_losses(job):
    return json.loads(job.query("show", job.only_run().name, "--json"))["rank_losses"]


def shown_losses(job):
    """The entries of `runs show --json`; its text has a line for each."""
    name = job.only_run().name
    losses = recorded_losses(job)
    lines = [line for line in job.query("show", name).splitlines() if line.startswith("lost ranks")]
    assert len(lines) == len(losses)
    for line, loss in zip(lines, losses):
        for lost in loss["lost"]:
            assert f"rank {lost['rank']} (of {loss['ranks_before']}) was lost, {lost['how']}" in line
        assert f"continued after step {loss['step']} with {loss['ranks_after']} rank" in line
    return losses


def assert_whole(job, started, undisturbed, last_step=STEPS):
    ended = processes.finish(started, 600)
    assert ended.code == 0, said(job)
    assert [step for step, _ in job.series(job.only_run().name, "eval/loss")] == [last_step]
    assert_same_run(job, undisturbed, last_step)
    return ended


def assert_same_run(job, undisturbed, last_step):
    run_dir = job.only_run()
    assert checkpoints(run_dir) == [last_step]
    for name in ("model", "optimizer", "ema"):
        file = f"{name}.safetensors"
        assert_same_bits(last_weights(run_dir).parent / file, last_weights(undisturbed).parent / file)
    assert [step for step, _ in job.series(run_dir.name, "train/loss")] == list(range(1, last_step + 1))
    assert [entry["state"] for entry in job.list()] == ["finished"]
    sink = run_dir / "sinks" / "jsonl" / run_dir.name / "records.jsonl"
    records = [json.loads(line) for line in sink.read_text().splitlines()]
    steps = [record["step"] for record in records if record["type"] == "scalars" and "train/loss" in record["values"]]
    assert steps == list(range(1, last_step + 1)), "each step once, in every sink"
    warnings = [record["line"] for record in records if record["type"] == "text" and "was lost" in record["line"]]
    assert len(warnings) == len(re.findall("was lost.*continuing with", said(job))) and all("; continued after step " in line for line in warnings)


@pytest.mark.parametrize("ranks, victim", [long(2, 0), (2, 1), (4, 0), long(4, 2)])
def test_the_others_continue(job, undisturbed, ranks, victim):
    started = start(job, ranks)
    wait_for_step(job, started, 50)
    before = ranks_of(job)
    assert len(before) == ranks
    kill(job, before.pop(victim), 1)
    assert ranks_of(job) == before, "the others keep their processes"
    ended = assert_whole(job, started, undisturbed)
    waiting = ", 1 waiting as spare" if ranks == 4 else ""
    left = "2 ranks" if ranks == 4 else "1 rank"
    assert re.search(rf"^lockstep: rank {victim} \(of {ranks}\) was lost, killed by SIGKILL [^\n]*: continuing with {left}{waiting}$",
                     said(job), re.MULTILINE)
    assert "restart" not in said(job)
    assert "done: " in ended.out, "rank 0 reports the result, whichever process it is"
    after = 2 if ranks == 4 else 1
    assert json.loads((job.only_run() / "run.json").read_text())["world_size"] == after
    assert [entry["world_size"] for entry in job.list()] == [after]
    (loss,) = shown_losses(job)
    assert (loss["ranks_before"], loss["ranks_after"], loss["spares"]) == (ranks, after, [])
    assert [lost["rank"] for lost in loss["lost"]] == [victim] and "SIGKILL" in loss["lost"][0]["how"]
    assert 50 <= loss["step"] < STEPS


def test_spares_and_waiting_ranks_take_the_places_of_lost_ones(job, tmp_path_factory):
    """Rank 0, then its successor, then the ranks of the group until one process is left."""
    undisturbed = Job(tmp_path_factory.mktemp("long")).train(*LONG, NO_CHECKPOINT, ranks=1, timeout=600)
    started = start(job, 2, ["--spares", 1], LONG)
    wait_for_step(job, started, 50)
    spare = next(pid for pid, is_spare in trainers_of(job).items() if is_spare)
    wait_until(lambda: "lockstep: a spare is ready" in said(job), TIMEOUT_S, "the spare")
    first = ranks_of(job)
    kill(job, first[0], 1)
    assert "continuing with 2 ranks\n" in said(job)
    lost_at = wait_until(lambda: recorded_losses(job), TIMEOUT_S, "the record of the loss")[0]["step"]
    wait_for_step(job, started, lost_at + 2)  # in the second step of the new rank 0, the spare has done the first
    assert set(trainers_of(job)) == {first[1], spare}
    kill(job, first[1], 2)
    assert set(trainers_of(job)) == {spare}
    assert_whole(job, started, undisturbed, LONG_STEPS)
    losses = shown_losses(job)
    assert [(loss["ranks_before"], loss["ranks_after"], loss["spares"]) for loss in losses] == [(2, 2, [2]), (2, 1, [])]
    assert losses[0]["step"] < losses[1]["step"]
    assert "with 2 ranks, with spare 2\n" in job.query("show", job.only_run().name)
    assert [entry["world_size"] for entry in job.list()] == [1]


@pytest.mark.parametrize("killed", [0, long(1)])
def test_the_others_wait_for_one_that_is_stopped(job, undisturbed, killed):
    started = start(job, 2, ["--spares", 1])
    wait_for_step(job, started, 50)
    wait_until(lambda: "lockstep: a spare is ready" in said(job), TIMEOUT_S, "the spare")
    before = ranks_of(job)
    os.kill(before[1 - killed], signal.SIGSTOP)
    os.kill(before[killed], signal.SIGKILL)
    wait_until(lambda: before[killed] not in trainers_of(job), TIMEOUT_S, "the process ends")
    assert "continuing with" not in said(job)
    os.kill(before[1 - killed], signal.SIGCONT)
    assert_whole(job, started, undisturbed)
    assert f"lockstep: rank {killed} (of 2) was lost, killed by SIGKILL" in said(job) and "continuing with 2 ranks\n" in said(job)


def test_batch_norm_is_not_lost_with_rank_0(job, tmp_path_factory):
    """Its statistics are those of the first shard, which rank 0 computes."""
    settings = ["distributed.virtual_shards=2", "data.batch_size=8", "train.max_steps=24", "train.log_every=1 step"]
    settings += ["tracking.sinks=[jsonl]"]
    whole = Job(tmp_path_factory.mktemp("whole"))
    for each in (job, whole):
        use_model(each, "resnet")
    undisturbed = whole.train(*settings, NO_CHECKPOINT, ranks=1)
    started = start(job, 2, settings=settings)
    wait_for_step(job, started, 2)
    kill(job, ranks_of(job)[0], 1)
    assert processes.finish(started).code == 0, said(job)
    assert_same_bits(last_weights(job.only_run()), last_weights(undisturbed))


@pytest.mark.parametrize("ranks, leaving, options, left", [
    long(2, 1, [], "1 rank"),
    (4, 0, [], "2 ranks, 1 waiting as spare"),
    (2, 0, ["--spares", 1], "2 ranks"),
])
def test_a_rank_that_gets_sigterm_leaves_between_two_steps(job, undisturbed, ranks, leaving, options, left):
    """The others keep their processes; no step is computed twice, and the rank is not reported as lost."""
    started = start(job, ranks, options)
    wait_for_step(job, started, 50)
    if options:
        wait_until(lambda: "lockstep: a spare is ready" in said(job), TIMEOUT_S, "the spare")
    before = ranks_of(job)
    os.kill(before.pop(leaving), signal.SIGTERM)
    wait_until(lambda: "continuing with" in said(job), TIMEOUT_S, "the others continue")
    assert before.items() <= ranks_of(job).items(), "the others keep their processes"
    assert_whole(job, started, undisturbed)
    assert f"lockstep: rank {leaving} (of {ranks}) left after SIGTERM: continuing with {left}\n" in said(job)
    (loss,) = recorded_losses(job)
    assert loss["lost"] == [{"rank": leaving, "how": "SIGTERM", "has_left": True}]
    assert 50 <= loss["step"] < STEPS
    records = map(json.loads, (job.only_run() / "sinks" / "jsonl" / job.only_run().name / "records.jsonl").read_text().splitlines())
    lines = [record["line"] for record in records if record["type"] == "text" and "left after SIGTERM" in record["line"]]
    assert len(lines) == 1 and lines[0].startswith(f"rank {leaving} (of {ranks}) left after SIGTERM; continued after step {loss['step']}")


@pytest.mark.parametrize("ranks, options", [pytest.param(2, ["--spares", 1], id="spare"), long(4, [], id="rank without a place")])
def test_a_waiting_process_that_gets_sigterm_ends_at_once(job, undisturbed, ranks, options):
    started = start(job, ranks, options)
    wait_for_step(job, started, 50)
    if options:
        wait_until(lambda: "lockstep: a spare is ready" in said(job), TIMEOUT_S, "the spare")
        (waiting,) = [pid for pid, is_spare in trainers_of(job).items() if is_spare]
    else:
        kill(job, ranks_of(job)[0], 1)
        waiting = ranks_of(job)[3]
    os.kill(waiting, signal.SIGTERM)
    wait_until(lambda: waiting not in trainers_of(job), TIMEOUT_S, "the process ends")
    assert started.poll() is None, "the others train"
    ended = processes.finish(started, 600)
    assert ended.code == 0, said(job)
    assert "lockstep: a spare left after SIGTERM\n" in said(job)
    assert_same_bits(last_weights(job.only_run()), last_weights(undisturbed))


def test_if_all_ranks_get_sigterm_the_run_is_preempted_with_a_checkpoint(job):
    started = start(job, 2)
    wait_for_step(job, started, 50)
    for pid in ranks_of(job).values():
        os.kill(pid, signal.SIGTERM)
    assert processes.finish(started).code == 128 + signal.SIGTERM, said(job)
    assert [entry["state"] for entry in job.list()] == ["preempted"]
    assert len(checkpoints(job.only_run())) == 1


def test_a_stopped_rank_is_killed_after_the_loss_of_another(job, undisturbed):
    """It does not ask for a place: the others do not wait for it longer than for a step."""
    started = start(job, 4, settings=[*SETTINGS, "distributed.step_timeout=10s"])
    wait_for_step(job, started, 50)
    ranks = ranks_of(job)
    os.kill(ranks[1], signal.SIGSTOP)
    kill(job, ranks[3], 1)
    assert re.search(r"^lockstep: rank 1 \(of 4\) is killed: the others have waited for it for [0-9]+ s to form a new group$", said(job), re.MULTILINE)
    assert "rank 1 (of 4) was lost, killed because the others waited for it" in said(job)
    assert_whole(job, started, undisturbed)
    assert shown_losses(job)[0]["ranks_after"] == 2


def test_a_rank_that_is_killed_before_the_ranks_train_stops_the_job(job):
    """The others would wait for it to connect."""
    job.config["plugins"] = [str(processes.BIN.parent / "tests" / "bin" / "faulty_model.so")]
    job.config["model"] = {"name": "faulty_model", "fault": "kills rank 1"}
    job.write()
    ended = processes.finish(start(job, 2, settings=["distributed.virtual_shards=2"]))
    assert ended.code == 75, said(job)
    assert "rank 1 (of 2) failed first: killed by SIGKILL" in said(job)
    assert "continuing with" not in said(job)


def phase_of(pid):
    """Of core/system/progress_page.h."""
    page = processes.variables_of(pid)["LOCKSTEP_PROGRESS_FD"]
    with open(f"/proc/{pid}/fd/{page}", "rb") as memory:
        return int.from_bytes(memory.read(20)[16:], "little")


def test_a_rank_that_is_killed_after_the_training_is_not_missed(job, undisturbed):
    """Rank 0 still waits for the tracking agent."""
    finishing = 11
    started = start(job, 2, settings=[*SETTINGS, "tracking.finish_timeout=1 min"])
    wait_for_step(job, started, 50)
    ranks = ranks_of(job)
    (agent,) = [pid for pid, line in processes.find(job.directory).items() if " track " in line]
    os.kill(agent, signal.SIGSTOP)
    wait_until(lambda: all(phase_of(pid) == finishing for pid in ranks.values()), TIMEOUT_S, "the end of the training")
    os.kill(ranks[1], signal.SIGKILL)
    wait_until(lambda: ranks[1] not in trainers_of(job), TIMEOUT_S, "the process ends")
    os.kill(agent, signal.SIGCONT)
    assert processes.finish(started).code == 0, said(job)
    assert "failed" not in said(job)
    assert_same_run(job, undisturbed, STEPS)


@pytest.mark.parametrize("options, settings, message", [
    ([], ["distributed.virtual_shards=null"], "--on-rank-loss continue needs distributed.virtual_shards"),
    ([], ["distributed.shard=full"], "--on-rank-loss continue cannot be combined with distributed.shard: full and train.ema"),
    ([], ["distributed.backend=gloo"], "--on-rank-loss continue needs ranks that share memory"),
    ([], ["tracking.ranks=all"], "--on-rank-loss continue needs tracking.ranks: main"),
    (["--on-rank-loss", "restart", "--spares", 1], [], "--spares has no effect without --on-rank-loss continue"),
    (["--on-rank-loss", "wait"], [], "--on-rank-loss wait: expected 'restart' or 'continue'"),
])
def test_what_cannot_continue_is_refused(job, options, settings, message):
    ended = job.run(*SETTINGS, *settings, ranks=2, options=[*([] if options[:1] == ["--on-rank-loss"] else CONTINUE), *options])
    assert ended.code == 78, ended.err
    assert message in ended.err
    assert not job.runs.exists()


@pytest.mark.parametrize("shard", [long("none"), "gradients"])
def test_a_spare_that_is_ready_after_the_loss_joins(job, tmp_path_factory, shard):
    """After a step, with the state of the rank that is left; however long the machine takes for it."""
    def of(num_steps):
        kept = [setting for setting in SETTINGS if not setting.startswith(("train.max_steps", "train.epochs"))]
        return [*kept, f"train.max_steps={num_steps}", "train.epochs=10000000", f"distributed.shard={shard}"]

    loads_itself = ["--program", TRAINER]  # not forked: there is time to stop it before it is ready
    with open(job.directory / "launch.err", "w") as log:
        started = job.start(*of(10**7), "checkpoint.every=1000000 epochs", ranks=2, options=[*CONTINUE, "--spares", 1, *loads_itself], stderr=log)
    spare = wait_until(lambda: [pid for pid, is_spare in trainers_of(job).items() if is_spare], TIMEOUT_S, "the spare")[0]
    os.kill(spare, signal.SIGSTOP)
    wait_for_step(job, started, 20)
    kill(job, ranks_of(job)[1], 1)
    assert "a spare is ready" not in said(job)
    os.kill(spare, signal.SIGCONT)
    wait_until(lambda: "lockstep: 1 rank joined: continuing with 2 ranks\n" in said(job), TIMEOUT_S, "the spare to join")
    joined = wait_until(lambda: recorded_losses(job)[1:], TIMEOUT_S, "its record")[0]
    assert (joined["ranks_before"], joined["ranks_after"], joined["lost"], joined["spares"]) == (1, 2, [], [2])
    wait_for_step(job, started, joined["step"] + 2)
    job.query("stop", job.only_run().name)
    assert processes.finish(started, 600).code == 0, said(job)
    (last,) = checkpoints(job.only_run())
    assert_same_run(job, Job(tmp_path_factory.mktemp("undisturbed")).train(*of(last), NO_CHECKPOINT, ranks=1, timeout=600), last)
