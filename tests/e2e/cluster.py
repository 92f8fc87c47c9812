"""One job on several hosts of a network: a launcher on each, with the rendezvous on the first."""

import os
import signal
import time

import processes
from processes import LOCKSTEP, TIMEOUT_S, wait_until
from safetensors_file import checkpoints

TOKEN = "a secret of the tests, long enough"
PORT = 29400
GONE_S = 60  # limit for every process to exit
RUN_S = 360  # limit for a run; some take a minute


class Cluster:
    def __init__(self, job, network, num_hosts=2, ranks=1):
        self.job = job
        self.network = network
        self.hosts = network.hosts[:num_hosts]
        self.ranks = ranks  # on each host
        self.launchers = {}
        self.streams = {}  # of launchers, instead of pipes

    def start(self, host, *overrides, nodes=None, ranks=None, options=(), rest=None, conf="", token=TOKEN):
        """A launcher on `host`; `rest` replaces the run file and its overrides."""
        timing = "last_call_timeout=1,keep_alive_interval=1" + (conf and "," + conf)
        command = [LOCKSTEP, "launch", "-n", ranks or self.ranks, "--nnodes", nodes or len(self.hosts)]
        command += ["--rdzv-endpoint", f"{self.hosts[0].address}:{PORT}", "--rdzv-conf", timing]
        command += [*options, *(rest or [self.job.file, *overrides])]
        env = processes.environment(LOCKSTEP_RDZV_TOKEN=token)
        process = host.start(command, self.job.directory, env, **self.streams)
        self.launchers[host.name] = process
        return process

    def start_all(self, *overrides, **how):
        for host in self.hosts:
            self.start(host, *overrides, **how)

    def finish(self, host, timeout=RUN_S):
        return processes.finish(self.launchers[host.name], timeout)

    def train(self, *overrides, **how):
        """Trains successfully on every host; returns the run directory."""
        self.start_all(*overrides, **how)
        for host in self.hosts:
            ended = self.finish(host)
            assert ended.code == 0, ended.err
        return self.run_dir()

    def run_dir(self):
        (run,) = self.job.runs.glob("*/run.json")
        return run.parent

    def has_checkpoint(self, after=0):
        found = [path for path in self.job.runs.glob("*/checkpoints") if path.is_dir()]
        return any(step > after for path in found for step in checkpoints(path.parent))

    def wait_for_checkpoint(self, after=0):
        wait_until(lambda: self.has_checkpoint(after), TIMEOUT_S, f"a checkpoint after step {after}")

    def ranks_on(self, host):
        """{rank: pid} of the trainers there."""
        here = set(host.pids())
        return {r: pid for r, pid in processes.ranks_of(self.job.directory).items() if pid in here}

    def kill_rank(self, host, number=signal.SIGKILL):
        os.kill(max(self.ranks_on(host).items())[1], number)

    def kill_launcher(self, host, number=signal.SIGKILL):
        os.kill(self.launchers[host.name].pid, number)

    def stop(self):
        """Cleanup after a test, also if it failed."""
        for process in self.launchers.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=GONE_S)
        deadline = time.monotonic() + GONE_S
        for host in self.hosts:
            while host.pids() and time.monotonic() < deadline:
                time.sleep(0.02)
