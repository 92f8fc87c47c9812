"""Random faults on three hosts, one after another: no run is corrupted, and no process or file is left.

LOCKSTEP_SOAK_FAULTS (default 10, one of each kind) sets their number, LOCKSTEP_SOAK_SEED (1) their choice. Each fault depends
only on the seed and its number; all are printed, and LOCKSTEP_SOAK_FIRST=N starts again at the N-th. A launcher that exits
is replaced by a new one with the same command, as by a scheduler.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import processes
from cluster import GONE_S, PORT, Cluster
from conftest import Job
from disk import Disk
from network import Network
from processes import wait_until
from safetensors_file import assert_same_bits, assert_usable, checkpoints, last_weights

pytestmark = pytest.mark.long

FAULTS = int(os.environ.get("LOCKSTEP_SOAK_FAULTS", "10"))
SEED = int(os.environ.get("LOCKSTEP_SOAK_SEED", "1"))
FIRST = int(os.environ.get("LOCKSTEP_SOAK_FIRST", "0"))
HOSTS = 3
STEPS = 1500
FAULTS_OF_A_RUN = 5
RUN_S = 120  # limit for each part of a run: progress to the next fault, and the end
FULL = "No space left on device"
OVERRIDES = [f"train.max_steps={STEPS}", "train.epochs=1000", "checkpoint.every=10 steps"]
OVERRIDES += ["train.eval_every=1000 epochs", "distributed.timeout=10 s",
              "distributed.step_timeout=10 s", "train.log_every=1 step", "tracking.ranks=all"]
OPTIONS = ["--max-restarts", 1000, "--stop-grace", "3s", "--run-id", "soak", "--tee", 0]


def wait(seconds):
    moment = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= moment, seconds + 5, "time passes")


def kill_unless_gone(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def worker_killed(cluster, host, rng):
    pids = list(cluster.ranks_on(host).values())
    if pids:
        kill_unless_gone(rng.choice(pids), signal.SIGKILL)


def worker_stopped(cluster, host, rng):
    """It makes no progress; its peers time out after distributed.step_timeout."""
    pids = list(cluster.ranks_on(host).values())
    if pids:
        kill_unless_gone(rng.choice(pids), signal.SIGSTOP)


def launcher_killed(cluster, host, rng):
    cluster.kill_launcher(host)


def launcher_stopped(cluster, host, rng):
    process = cluster.launchers[host.name]
    os.kill(process.pid, signal.SIGSTOP)
    wait(rng.uniform(0.2, 2.5))
    os.kill(process.pid, signal.SIGCONT)


def host_crashed(cluster, host, rng):
    cluster.network.cut(host)
    host.crash()
    wait(rng.uniform(0, 2))
    cluster.network.restore(host)


def host_stopped(cluster, host, rng):
    """Like a live migration of a virtual machine: all its processes pause."""
    pids = host.pids()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids:
            kill_unless_gone(pid, number)
        if number == signal.SIGSTOP:
            wait(rng.uniform(0.2, 2.5))


def disk_filled(cluster, host, rng):
    """The disk is full for the next checkpoint, until a launcher has reported it and space is freed."""
    already = cluster.supervised.output().count(FULL)

    def is_named():
        cluster.disk.fill()
        cluster.supervised.is_over()
        return cluster.supervised.output().count(FULL) > already

    try:
        wait_until(is_named, RUN_S, "a launcher names the full disk")
        wait(rng.uniform(0, 2))
    finally:
        cluster.disk.make_room()


def link_cut(cluster, host, rng):
    cluster.network.cut(host)
    wait(rng.uniform(0.2, 2.5))
    cluster.network.restore(host)


def bit_flipped(cluster, host, rng):
    """In a file of the last checkpoint, which is read next: the previous one is used."""
    number, place = rng.random(), rng.random()
    found = cluster.job.runs / "soak" / "checkpoints"
    cluster.supervised.wait_for(lambda: len(checkpoints(found.parent)) >= 2, "two checkpoints")
    pids = list(processes.ranks_of(cluster.job.directory).values())
    for pid in pids:  # so that nothing is written
        kill_unless_gone(pid, signal.SIGSTOP)
    steps = checkpoints(found.parent)
    if len(steps) >= 2:
        files = sorted(path for path in (found / str(steps[-1])).iterdir() if path.stat().st_size > 0)
        file = files[int(number * len(files))]
        content = bytearray(file.read_bytes())
        content[int(place * len(content))] ^= 1
        file.write_bytes(content)
    for pid in pids:
        kill_unless_gone(pid, signal.SIGKILL)


GARBAGE = """
import random, socket, sys
rng, address = random.Random(sys.argv[1]), (sys.argv[2], int(sys.argv[3]))
sockets = []
for _ in range(20):
    try:
        sockets.append(socket.create_connection(address, timeout=1))
        sockets[-1].sendall(rng.randbytes(rng.choice([1, 4, 100, 5000])))
        if rng.random() < 0.5:
            sockets.pop().close()
    except OSError:  # no server at the moment, or it has closed the connection
        pass
"""


def garbage_sent(cluster, host, rng):
    """Sends invalid data to the rendezvous port."""
    command = [sys.executable, "-c", GARBAGE, str(rng.random()), cluster.hosts[0].address, PORT]
    ended = processes.finish(host.start(command, cluster.job.directory))
    assert ended.code == 0, ended.err


KINDS = [worker_killed, worker_stopped, launcher_killed, launcher_stopped, host_crashed, host_stopped]
KINDS += [link_cut, disk_filled, bit_flipped, garbage_sent]


def fault(number):
    """The kind of the fault (all equally often, in random order), and the random generator for its details."""
    order = random.Random(f"{SEED} {number // len(KINDS)}").sample(KINDS, len(KINDS))
    return order[number % len(KINDS)], random.Random(f"{SEED} fault {number}")


class Supervised:
    """A job whose launchers are restarted when they exit before it ends."""

    def __init__(self, cluster, history):
        self.cluster = cluster
        self.done = set()
        self.history = history
        self.errors = {}  # output of each launcher, in a file: it can be read while they run

    def start(self, host):
        file = self.cluster.job.directory / f"{host.name}-{len(self.history)}.err"
        self.errors[host.name] = file
        with open(file, "w") as err:
            self.cluster.streams = {"stderr": err}
            self.cluster.start(host, *OVERRIDES, options=OPTIONS, conf="keep_alive_interval=0.4")

    def output(self):
        """The output of all launchers so far."""
        return "\n".join([*self.history, *(file.read_text() for file in self.errors.values())])

    def is_over(self):
        """Checks every launcher once."""
        for host in self.cluster.hosts:
            process = self.cluster.launchers[host.name]
            if host.name in self.done or process.poll() is None:
                continue
            code, err = processes.finish(process, GONE_S).code, self.errors.pop(host.name).read_text()
            self.history.append(f"{host.name}: {code}: {err}")
            if code == 0:
                assert last_checkpoint(self.cluster.job) == STEPS, f"{host.name} exited before the run was over; {self.history}"
                self.done.add(host.name)
                continue
            assert code in (75, -signal.SIGKILL), self.history
            if code == 75:  # it names a rank, a node, the coordinator, or the disk
                named = ("rank ", "node ", "which serves the rendezvous", "the rendezvous at", FULL)
                assert any(word in err for word in named), self.history
            self.start(host)
        return len(self.done) == len(self.cluster.hosts)

    def wait_for(self, condition, what):
        wait_until(lambda: self.is_over() or condition(), RUN_S, f"{what}; {self.history}")


def last_checkpoint(job):
    if not (job.runs / "soak" / "checkpoints").is_dir():
        return 0
    return max(checkpoints(job.runs / "soak"), default=0)


def listening(host):
    """The listening ports of `host`."""
    shown = subprocess.run(["ip", "netns", "exec", host.namespace, "cat", "/proc/net/tcp", "/proc/net/tcp6"],
                           capture_output=True, text=True, check=True).stdout
    return [line.split()[1] for line in shown.splitlines() if line.split()[3] == "0A"]


def shared_memory():
    return set(Path("/dev/shm").iterdir())


def run_with_faults(job, network, first, last, history):
    """Appends the events to `history`; returns the number of the next fault."""
    segments = shared_memory()
    cluster = Cluster(job, network, HOSTS)
    cluster.disk = Disk(job.directory / "disk")
    cluster.disk.mount("size=64m")
    job.runs = cluster.disk.path / "runs"
    job.config["run"]["dir"] = str(job.runs)
    # Test hosts share memory, through which ranks could communicate without the network, with the same bits.
    job.config["distributed"]["backend"] = backend = ("gloo", "shm")[first // FAULTS_OF_A_RUN % 2]
    history.append(f"backend {backend}")
    job.write()
    supervised = cluster.supervised = Supervised(cluster, history)
    number = first
    try:
        for host in cluster.hosts:
            supervised.start(host)
        while number < last:
            reached = last_checkpoint(job)
            supervised.wait_for(lambda: last_checkpoint(job) > reached, f"progress after step {reached}")
            if supervised.done:
                break
            kind, rng = fault(number)
            host = rng.choice(cluster.hosts)
            wait(rng.uniform(0, 0.2))
            history.append(f"fault {number}: {kind.__name__} on {host.name} at step {last_checkpoint(job)}")
            kind(cluster, host, rng)
            number += 1
        supervised.wait_for(lambda: False, "the end")
        wait_until(lambda: not any(host.pids() for host in cluster.hosts), GONE_S, "every process is gone")
        assert not any(listening(host) for host in cluster.hosts)
        assert shared_memory() <= segments
        verify(job)
    finally:
        cluster.stop()
        cluster.disk.unmount()
    return number


def verify(job):
    """The run is complete, as if nothing had happened, and can be resumed."""
    run_dir = job.runs / "soak"
    assert last_checkpoint(job) == STEPS
    assert_same_bits(last_weights(run_dir), job.undisturbed)
    assert_usable(run_dir)
    assert [path.name for path in (run_dir / "checkpoints").iterdir() if not path.name.isdigit()] == []
    entries = job.list()
    assert [entry["state"] for entry in entries] == ["finished"] * HOSTS
    for entry in entries:
        steps = [step for step, _ in job.series(entry["id"], "rank/loss")]
        assert steps == list(range(1, STEPS + 1)), f"{entry['id']}: {differences(steps)}"


def differences(steps):
    missing = sorted(set(range(1, STEPS + 1)) - set(steps))
    again = sorted(step for step in set(steps) if steps.count(step) > 1)
    return f"{len(missing)} steps are missing ({missing[:5]} ...), {len(again)} are there again ({again[:5]} ...)"


def test_random_faults(tmp_path):
    (tmp_path / "undisturbed").mkdir()
    expected = last_weights(Job(tmp_path / "undisturbed").train(*OVERRIDES, ranks=HOSTS, timeout=3 * RUN_S))
    network = Network(HOSTS)
    number, last = FIRST, FIRST + FAULTS
    try:
        while number < last:
            directory = tmp_path / f"run{number}"
            directory.mkdir()
            job = Job(directory)
            job.undisturbed = expected
            begin, history = time.monotonic(), []
            try:
                number = run_with_faults(job, network, number, min(last, number + FAULTS_OF_A_RUN), history)
            finally:
                seconds = time.monotonic() - begin
                print(f"seed {SEED}, up to fault {number} of {last}, {seconds:.0f} s:", *history, sep="\n  ", flush=True)
    finally:
        network.close()
