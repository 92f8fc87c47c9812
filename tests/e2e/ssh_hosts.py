"""Two hosts that are reached over real OpenSSH: one sshd on 127.0.0.2 and 127.0.0.3, with its own keys, accounts and port,
all below one directory.

Server and clients run in mount namespaces with private /etc/passwd, /etc/shadow and /run: ssh reads the configuration in
the home directory of the account, not of $HOME, and sshd requires its own user and directory. Needs root. `stop` removes
everything.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import processes
from processes import TIMEOUT_S, SOURCE

HOSTS = ["127.0.0.2", "127.0.0.3"]
SSHD = [Path("/usr/sbin/sshd"), SOURCE / ".data" / "openssh-server" / "usr" / "sbin" / "sshd"]

SERVER = """
{listen}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
PidFile none
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
MaxStartups 100
"""

CLIENT = """
Host first
  HostName 127.0.0.2
Host *
  Port {port}
  IdentityFile {directory}/key
  IdentitiesOnly yes
  UserKnownHostsFile {directory}/known_hosts
  StrictHostKeyChecking yes
"""

NAMESPACE = """
set -e
mount --bind "$0/passwd" /etc/passwd
mount --bind "$0/shadow" /etc/shadow
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
exec "$@"
"""


def make_key(path):
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S)
    return path.with_suffix(".pub").read_text()


def parent_of(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


class SshHosts:
    def __init__(self):
        sshd = next((path for path in SSHD if path.exists()), None)
        assert sshd, "sshd is missing: run cmake/setup.sh --peers"
        for program in ("ssh", "ssh-keygen", "unshare"):
            assert shutil.which(program), f"{program} is missing"
        assert os.geteuid() == 0, "an SSH server with its own account needs root"
        self.directory = Path(tempfile.mkdtemp(prefix="lockstep-ssh-"))
        self.port = processes.free_port()
        self.server = None
        try:
            self._start(sshd)
        except BaseException:
            self.stop()
            raise

    def _start(self, sshd):
        here = self.directory
        here.chmod(0o755)
        host_key = make_key(here / "host_key")
        (here / "authorized_keys").write_text(make_key(here / "key"))
        known = ",".join(f"[{host}]:{self.port}" for host in HOSTS)
        (here / "known_hosts").write_text(f"{known} {host_key}")
        (here / ".ssh").mkdir(mode=0o700)
        (here / ".ssh" / "config").write_text(CLIENT.format(directory=here, port=self.port))
        # root with its home directory here, and without a password, so that the account is not locked.
        kept = [
            line
            for line in Path("/etc/passwd").read_text().splitlines()
            if not line.startswith(("root:", "sshd:"))
        ]
        root, sshd_user = f"root:x:0:0:root:{here}:/bin/sh", "sshd:x:65500:65534::/:/bin/false"
        (here / "passwd").write_text("\n".join([root, *kept, sshd_user]) + "\n")
        (here / "shadow").write_text("root:*:19000:0:99999:7:::\n")
        listen = "\n".join(f"ListenAddress {host}:{self.port}" for host in HOSTS)
        (here / "sshd_config").write_text(SERVER.format(listen=listen, directory=here))
        with open(here / "sshd.log", "wb") as log:
            self.server = subprocess.Popen(
                self.command([sshd, "-D", "-e", "-f", here / "sshd_config"]),
                env=processes.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        processes.wait_until(self._responds, TIMEOUT_S, f"sshd responds: {self.log()}")

    def _responds(self):
        assert self.server.poll() is None, f"sshd exited: {self.log()}"
        return all(self.run(["ssh", host, "true"], self.directory).code == 0 for host in HOSTS)

    def log(self):
        return (self.directory / "sshd.log").read_text()

    def command(self, command):
        """`command` in a namespace in which root's home is our directory."""
        unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", NAMESPACE]
        return [str(part) for part in [*unshare, self.directory, *command]]

    def start(self, command, cwd, **changes):
        return processes.start(self.command(command), cwd, processes.environment(**changes))

    def run(self, command, cwd, timeout=TIMEOUT_S, **changes):
        return processes.finish(self.start(command, cwd, **changes), timeout)

    def sessions(self):
        """The pids of the processes of this sshd (and no other) that serve a connection each."""
        titled = [pid for pid, line in processes.find("sshd").items() if line.startswith(("sshd: ", "sshd-session: "))]
        return [pid for pid in titled if parent_of(pid) == self.server.pid]

    def stop(self):
        if self.server:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(timeout=TIMEOUT_S)
        for pid in processes.find(self.directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
