"""A real Slurm cluster of two nodes on this machine: munged, slurmctld and two slurmd, all below one directory.

Needs root and a mount namespace: its nodes are called n1 and n2, which resolve only in that namespace. `stop`
removes everything.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import processes

PROGRAMS = ["munged", "munge", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "unshare"]
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
NODES = ["n1", "n2"]

CONFIGURATION = """
ClusterName=lockstep
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/builtin
SelectType=select/linear
ReturnToService=2
KillWait=20
FirstJobId={first_job_id}
{nodes}
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def _configuration(directory):
    lines = [
        f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1"
        f" Port={processes.free_port()} CPUs=4"
        for node in NODES
    ]
    return CONFIGURATION.format(
        host=socket.gethostname(),
        directory=directory,
        controller_port=processes.free_port(),
        first_job_id=random.randrange(1000, 1_000_000),
        nodes="\n".join(lines),
    )


class SlurmCluster:
    def __init__(self):
        missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
        assert not missing, f"Slurm is not installed ({', '.join(missing)}): run cmake/setup.sh --peers"
        assert os.geteuid() == 0, "a private Slurm cluster needs root"
        # A short path: the path of a socket is limited to 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="lockstep-slurm-"))
        self.daemons = []
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self):
        here = self.directory
        here.chmod(0o755)
        (here / "state").mkdir()
        for node in NODES:
            (here / f"spool-{node}").mkdir()
        (here / "slurm.conf").write_text(_configuration(here))
        (here / "hosts").write_text(Path("/etc/hosts").read_text() + "\n127.0.0.1 n1 n2\n")
        key = here / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._daemon("munged", "--foreground", "--force", f"--key-file={key}",
                     f"--socket={here}/munge.socket", f"--pid-file={here}/munged.pid",
                     f"--log-file={here}/munged.log", f"--seed-file={here}/munged.seed")  # fmt: skip
        processes.wait_until((here / "munge.socket").exists, processes.TIMEOUT_S, "munged listens")
        self._daemon("slurmctld", "-D", "-f", here / "slurm.conf")
        for node in NODES:
            self._daemon("slurmd", "-D", "-N", node, "-f", here / "slurm.conf")
        processes.wait_until(self._is_idle, processes.TIMEOUT_S, f"both nodes are idle; logs in {here}")

    def _daemon(self, name, *arguments):
        """`name` in a separate mount namespace, with our /etc/hosts."""
        command = [str(part) for part in (shutil.which(name, path=PATH), *arguments)]
        script = 'mount --bind "$0" /etc/hosts && exec "$@"'
        with open(self.directory / f"{name}.out", "ab") as out:
            self.daemons.append(
                subprocess.Popen(
                    ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
                    + [str(self.directory / "hosts"), *command],
                    env=self.environment(),
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            )

    def environment(self, **changes):
        changes = {"PATH": PATH, "SLURM_CONF": self.directory / "slurm.conf", **changes}
        return processes.environment(**changes)

    def _is_idle(self):
        for daemon in self.daemons:
            assert daemon.poll() is None, f"{daemon.args[7]} exited: {self.logs()}"
        ended = self.run(["sinfo", "--noheader", "--Node", "--format=%N %T"], self.directory)
        return ended.out.split() == ["n1", "idle", "n2", "idle"]

    def logs(self):
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}"
            for path in sorted(self.directory.glob("*.log")) + sorted(self.directory.glob("*.out"))
        )

    def start(self, command, cwd, **changes):
        return processes.start(command, cwd, self.environment(**changes))

    def run(self, command, cwd, timeout=processes.TIMEOUT_S, **changes):
        return processes.finish(self.start(command, cwd, **changes), timeout)

    def _descendants(self):
        """Processes of daemons and jobs: the command line of slurmstepd has no directory, but its environment has."""
        own = f"SLURM_CONF={self.directory}/".encode()
        found = set(processes.find(self.directory))
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and own in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                pass
        return found

    def stop(self):
        """Stops all jobs and daemons, and removes the directory."""
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(timeout=5)
        for pid in self._descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.directory, ignore_errors=True)
