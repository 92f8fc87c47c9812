"""Starting, watching and stopping ranks: with lockstep launch, and under torchrun."""

import os
import signal
import sys

import pytest

import processes
from processes import TIMEOUT_S, TRAINER, find, ranks_of, wait_until
from safetensors_file import assert_same_bits, checkpoints, last_weights

# Hours of training, with a checkpoint every few steps.
ENDLESS = ["train.epochs=100000", "checkpoint.every=20 steps", "train.log_every=1 step"]
STOP_S = 10  # limit for every process to exit after a kill -9; it takes about one
GRACE_S = 30  # --stop-grace


def start_endless(job, *overrides, ranks=2, options=()):
    """A launch whose ranks are training and have written their first checkpoint."""
    process = job.start(*ENDLESS, *overrides, ranks=ranks, options=options)
    try:
        wait_until(lambda: list(job.runs.glob("*/checkpoints/[0-9]*")), TIMEOUT_S, "a first checkpoint")
        assert process.poll() is None
        assert sorted(ranks_of(job.directory)) == list(range(ranks))
    except AssertionError:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process


def assert_nothing_is_left(job):
    """No rank is left when the launcher has exited; the tracking agent exits a moment after it has released its lock."""
    assert not ranks_of(job.directory)
    wait_until(lambda: not find(job.directory), STOP_S, "every process is gone")


def assert_resumable(job, ranks=2):
    """The last checkpoint loads, and the run resumes and finishes."""
    run_dir = job.only_run()
    step = checkpoints(run_dir)[-1]
    overrides = ["train.epochs=100000", f"train.max_steps={step + 5}"]
    ended = job.run(*overrides, ranks=ranks, options=["--resume", run_dir.name])
    assert ended.code == 0, ended.err
    assert "cannot be used" not in ended.out
    assert checkpoints(run_dir)[-1] == step + 5
    assert [entry["state"] for entry in job.list()] == ["finished"]


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_killed_rank_stops_the_others(job, victim):
    launcher = start_endless(job, ranks=3)
    os.kill(ranks_of(job.directory)[victim], signal.SIGKILL)
    wait_until(lambda: not find(job.directory), STOP_S, "every process is gone")
    ended = processes.finish(launcher)
    assert ended.code == 75
    assert f"lockstep: rank {victim} (of 3) failed first: killed by SIGKILL" in ended.err
    entry = job.list()[0]
    assert (entry["state"], entry["exit"]) == ("killed", 75)
    shown = job.query("show", entry["id"])
    assert f"rank {victim}" in shown and "SIGKILL" in shown
    assert_resumable(job)


def test_killed_launcher_terminates_its_ranks(job):
    launcher = start_endless(job)
    os.kill(launcher.pid, signal.SIGKILL)
    assert processes.finish(launcher).code == -signal.SIGKILL
    wait_until(lambda: not find(job.directory), STOP_S, "every process is gone")
    # The tracking agent is the last to exit, and the only process that can record it.
    assert [entry["state"] for entry in job.list()] == ["killed"]
    assert_resumable(job)


def test_ranks_are_forked_from_a_template(job):
    """Which loads LibTorch once for all starts; without it, ranks load it themselves."""
    launcher = start_endless(job, options=["--max-restarts", "3", "--restart-delay", "0 s"])
    (template,) = processes.templates(job.directory)
    assert processes.parent_of(template) == launcher.pid
    address = processes.first_address(template)

    def restart():
        before = set(ranks_of(job.directory).values())
        os.kill(ranks_of(job.directory)[1], signal.SIGKILL)
        others = lambda: set(ranks_of(job.directory).values()) - before
        wait_until(lambda: len(others()) == 2, TIMEOUT_S, "the restart")

    def are_forked():
        ranks = ranks_of(job.directory).values()
        assert all(processes.parent_of(rank) == launcher.pid for rank in ranks)
        return [processes.first_address(rank) == address for rank in ranks]

    assert are_forked() == [True, True]
    restart()
    assert are_forked() == [True, True]
    os.kill(template, signal.SIGKILL)
    restart()
    assert are_forked() == [False, False]
    os.kill(launcher.pid, signal.SIGTERM)
    assert processes.finish(launcher, GRACE_S).code == 128 + signal.SIGTERM
    assert_nothing_is_left(job)


def test_forked_ranks_have_the_bits_of_others(job):
    forked = job.train("train.max_steps=10", ranks=3)
    others = job.train("train.max_steps=10", ranks=3, options=["--program", TRAINER])
    assert_same_bits(last_weights(forked), last_weights(others))


@pytest.mark.parametrize("stream", [1, 2])
def test_a_closed_stream_of_the_launcher_is_not_that_of_the_template(job, stream):
    command = ["sh", "-c", f'exec "$@" {stream}>&-', "sh", *job.command(*ENDLESS, ranks=2)]
    launcher = processes.start(command, job.directory)
    wait_until(lambda: len(ranks_of(job.directory)) == 2, TIMEOUT_S, "both ranks")
    assert os.readlink(f"/proc/{launcher.pid}/fd/{stream}") == "/dev/null"
    os.kill(launcher.pid, signal.SIGTERM)
    assert processes.finish(launcher).code == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_to_the_launcher_stops_all_ranks(job, number):
    launcher = start_endless(job)
    os.kill(launcher.pid, number)
    ended = processes.finish(launcher, GRACE_S)
    assert ended.code == 128 + number
    assert f"stopped by {number.name}" in ended.err
    recorded = "SIGINT" if number == signal.SIGINT else "SIGTERM"  # ranks treat the others as SIGTERM
    assert f"preempted by {recorded} after step" in ended.out
    assert_nothing_is_left(job)
    assert [entry["state"] for entry in job.list()] == ["preempted"]
    assert_resumable(job)


def test_the_exit_code_survives_a_second_signal(job):
    """srun sends SIGTERM once more while the launcher reports."""
    launcher = start_endless(job)
    os.kill(launcher.pid, signal.SIGTERM)
    wait_until(lambda: not ranks_of(job.directory), TIMEOUT_S, "the ranks' end")
    while launcher.poll() is None:
        os.kill(launcher.pid, signal.SIGTERM)
    assert processes.finish(launcher).code == 128 + signal.SIGTERM


def test_control_c_signals_the_whole_process_group(job):
    """A terminal signals every process of the launcher's group."""
    launcher = start_endless(job)
    os.killpg(launcher.pid, signal.SIGINT)
    ended = processes.finish(launcher, GRACE_S)
    assert ended.code == 128 + signal.SIGINT
    assert "stopped by SIGINT" in ended.err
    assert_nothing_is_left(job)


def test_stopped_rank_is_killed_after_the_grace_period(job):
    """SIGSTOP simulates a rank that does not react; SIGKILL ends it."""
    launcher = start_endless(job, options=["--stop-grace", "1s"])
    stuck = ranks_of(job.directory)[1]
    os.kill(stuck, signal.SIGSTOP)
    os.kill(launcher.pid, signal.SIGTERM)
    ended = processes.finish(launcher)
    assert ended.code == 128 + signal.SIGTERM
    assert_nothing_is_left(job)


def test_logs_contain_the_output_of_ranks(job):
    ended = job.run("train.max_steps=3", "tracking.ranks=all", ranks=2)
    assert ended.code == 0, ended.err
    logs = job.only_run() / "logs" / "attempt_0"
    shown = {rank: [] for rank in (0, 1)}
    for line in ended.out.splitlines():
        assert line.startswith(("[rank 0] ", "[rank 1] "))
        shown[int(line[6])].append(line[len("[rank 0] ") :])
    for rank, lines in shown.items():
        assert (logs / str(rank) / "stdout.log").read_text().splitlines() == lines
        assert (logs / str(rank) / "stderr.log").read_text() == ""
    assert any("step 3" in line for line in shown[0])


def test_log_directory_option(job):
    ended = job.run("train.max_steps=1", ranks=2, options=["--log-dir", job.directory / "here"])
    assert ended.code == 0, ended.err
    assert "done:" in (job.directory / "here" / "attempt_0" / "0" / "stdout.log").read_text()
    assert not (job.only_run() / "logs").exists()


def test_nothing_is_shown_with_tee_0(job):
    ended = job.run("train.max_steps=1", ranks=2, options=["--tee", "0"])
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert "done:" in (job.only_run() / "logs" / "attempt_0" / "0" / "stdout.log").read_text()


def test_more_ranks_than_the_soft_limit_of_open_files(job):
    """The launcher opens several files per rank, and raises the soft limit as needed."""
    command = ["prlimit", "--nofile=200:4096", processes.LOCKSTEP, "launch", "-n", 50, "--program", "true"]
    ended = processes.run(command, job.directory)
    assert ended.code == 0, ended.err


CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize("ranks", sorted({1, 2, CORES + 1}))
def test_cores_are_divided_between_ranks(job, ranks):
    show = ["--program", "/bin/sh"]
    command = job.command(ranks=ranks, options=show)[:-1] + ["--", "-c", "echo $OMP_NUM_THREADS"]
    ended = processes.run(command, job.directory, processes.environment(OMP_NUM_THREADS=None))
    assert ended.code == 0, ended.err
    lines = sorted(ended.out.splitlines())
    assert lines == sorted(f"[rank {rank}] {max(1, CORES // ranks)}" for rank in range(ranks))


# As in a container: a group of cgroup v2 with a limit of 1.5 cores.
MOUNT_GROUP = """mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && touch cgroup.controllers && echo 150000 100000 >cpu.max &&
                 cd "$OLDPWD" && exec "$0" "$@\""""
LIMITED = ["unshare", "--mount", "sh", "-c", MOUNT_GROUP]


def test_the_cpu_limit_of_the_control_group_counts(tmp_path):
    launch = [processes.LOCKSTEP, "launch", "-n", "auto", "--program", "/bin/sh", "--", "-c", "echo $WORLD_SIZE $OMP_NUM_THREADS"]
    ended = processes.run([*LIMITED, *launch], tmp_path,
                          processes.environment(OMP_NUM_THREADS=None, CUDA_VISIBLE_DEVICES="-1"))
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == ["[rank 0] 1 1"]


def test_the_cpu_limit_counts_without_a_launcher(job):
    """There are as many threads as with OMP_NUM_THREADS=1, apart from those that end soon, such as of the start."""
    settings = ["train.epochs=100000", "checkpoint.every=100000 epochs", "train.log_every=100 steps"]
    starts = {"limited": (LIMITED, None), "one": ([], 1)}
    trainers = {name: processes.start([*prefix, *job.command(f"run.name={name}", *settings)], job.directory,
                                      processes.environment(OMP_NUM_THREADS=omp)) for name, (prefix, omp) in starts.items()}

    def num_threads(name):
        assert trainers[name].poll() is None
        return len(os.listdir(f"/proc/{trainers[name].pid}/task"))

    try:
        job.runs.mkdir(exist_ok=True)
        wait_until(lambda: sum("train/loss" in run["summary"] for run in job.list()) == 2, TIMEOUT_S, "step 100 of both")
        wait_until(lambda: num_threads("limited") == num_threads("one"), STOP_S, "the same number of threads")
    finally:
        for process in trainers.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_omp_num_threads_of_the_user_is_kept(job):
    command = job.command(ranks=2, options=["--program", "/bin/sh"])[:-1]
    command += ["--", "-c", "echo $OMP_NUM_THREADS"]
    ended = processes.run(command, job.directory, processes.environment(OMP_NUM_THREADS=5))
    assert sorted(ended.out.splitlines()) == ["[rank 0] 5", "[rank 1] 5"]


@pytest.mark.parametrize(
    "selection, entries",
    [("main", [0]), ("node", [0]), ("all", [0, 1, 2]), ("[0,2]", [0, 2]), ("[1]", [1])],
)
def test_entries_of_a_job(job, selection, entries):
    run_dir = job.train("train.max_steps=2", f"tracking.ranks={selection}", ranks=3)
    listed = job.list()
    assert sorted(entry["rank"] for entry in listed) == entries
    assert {entry["state"] for entry in listed} == {"finished"}
    assert len({entry["id"] for entry in listed}) == len(entries)
    groups = {entry["group"] for entry in listed}
    assert groups == ({None} if selection == "main" else {run_dir.name})
    for entry in listed:
        assert [step for step, _ in job.series(entry["id"], "train/loss")] == [2]


def test_orphans_are_reaped_by_a_launcher_that_is_process_1(tmp_path):
    # No event tells when a process has been reaped.
    script = "mkfifo pid; (sh -c 'echo $$ >pid' &); read pid <pid; while [ -e /proc/$pid ]; do sleep 0.01; done"
    command = ["unshare", "--pid", "--fork", "--mount-proc", processes.LOCKSTEP, "launch", "--", "sh", "-c", script]
    ended = processes.run(command, tmp_path)
    assert ended.code == 0, ended.err


def test_what_a_python_program_has_printed_when_it_is_killed_is_shown(tmp_path):
    script = "import os; print('last words'); os.kill(os.getpid(), 9)"
    command = [processes.LOCKSTEP, "launch", "--", sys.executable, "-c", script]
    ended = processes.run(command, tmp_path, processes.environment(PYTHONUNBUFFERED=None))
    assert (ended.code, ended.out) == (75, "[rank 0] last words\n")


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--standalone"]


def test_torchrun_is_bit_identical(job):
    ours = job.train("train.max_steps=10", ranks=2)
    command = [*TORCHRUN, "--nproc-per-node", 2, TRAINER, job.file, "train.max_steps=10"]
    ended = processes.run(command, job.directory)
    assert ended.code == 0, ended.err
    assert ended.out.count("done:") == 1
    (theirs,) = set(job.runs.iterdir()) - {ours}
    assert_same_bits(last_weights(ours), last_weights(theirs))
    assert [entry["world_size"] for entry in job.list()] == [2, 2]


def test_torchrun_reports_our_error(job):
    command = [*TORCHRUN, "--nproc-per-node", 2, TRAINER, job.file, "model.name=mpl"]
    ended = processes.run(command, job.directory)
    assert ended.code != 0
    summary = ended.err[ended.err.index("Root Cause") :]
    assert "unknown model 'mpl'; did you mean 'mlp'?" in summary
    assert not job.runs.exists()


def test_torchrun_restarts_and_the_run_continues(job):
    """A rank dies once; torchrun restarts all, and they resume from the last checkpoint."""
    limits = ["train.max_steps=2500", "train.epochs=1000", "train.eval_every=1000 epochs", "checkpoint.every=20 steps"]
    command = [*TORCHRUN, "--max-restarts", 1, "--nproc-per-node", 2, TRAINER, job.file, *limits]
    torchrun = processes.start(command, job.directory)
    wait_until(lambda: list(job.runs.glob("*/checkpoints/[0-9]*")), TIMEOUT_S, "a first checkpoint")
    os.kill(ranks_of(job.directory)[1], signal.SIGKILL)
    ended = processes.finish(torchrun)
    assert ended.code == 0, ended.err
    run_dir = job.only_run()
    assert checkpoints(run_dir)[-1] == 2500
    steps = [step for step, _ in job.series(run_dir.name, "train/loss")]
    assert steps == sorted(set(steps)) and steps[-1] == 2500
    whole = job.train(*limits, ranks=2)
    assert_same_bits(last_weights(run_dir), last_weights(whole))
