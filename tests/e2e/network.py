"""Hosts for tests: network namespaces connected by a bridge, each with its own name and addresses.

They are invisible outside, and close() removes them. They share the file system, except for Host.mounts.
"""

import os
import signal
import subprocess

import processes

_SERIAL = iter(range(1000))


def _ip(*words):
    ended = subprocess.run(["ip", *map(str, words)], capture_output=True, text=True)
    assert ended.returncode == 0, (
        f"hosts need network namespaces (iproute2, root, a kernel with veth and bridges), but "
        f"'ip {' '.join(map(str, words))}' failed: {ended.stderr.strip()}"
    )
    return ended.stdout


class Host:
    def __init__(self, name, namespace, number):
        self.name = name
        self.namespace = namespace
        self.address = f"10.99.0.{number}"
        self.address6 = f"fd99::{number}"
        self.mounts = {}  # private files and directories: {path: source}
        self.shares_memory = True  # with the other hosts: as one machine, whose processes can map each other's memory

    def command(self, command):
        """The command line that executes `command` on this host, in the same process unless it has its own PIDs."""
        if not self.shares_memory:
            command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
        if self.mounts:
            mounts = [f"mount --bind '{what}' '{where}'" for where, what in self.mounts.items()]
            script = " && ".join(["mount --make-rprivate /", *mounts, 'exec "$0" "$@"'])
            command = ["unshare", "--mount", "sh", "-c", script, *command]
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name]
        return ["ip", "netns", "exec", self.namespace, *named, *command]

    def add_interface(self, name, address):
        """Adds an interface with an address; it is not connected to anything."""
        _ip("-n", self.namespace, "link", "add", name, "type", "bridge")
        _ip("-n", self.namespace, "link", "set", name, "up")
        _ip("-n", self.namespace, "address", "add", f"{address}/24", "dev", name)

    def remove_interface(self, name):
        _ip("-n", self.namespace, "link", "delete", name)

    def start(self, command, cwd, env=None, **streams):
        return processes.start(self.command(command), cwd, env, **streams)

    def pids(self):
        return [int(pid) for pid in _ip("netns", "pids", self.namespace).split()]

    def crash(self):
        """Kills all processes at the same time, like a power failure; their last messages may be lost."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in self.pids():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass


class Network:
    """`count` hosts called alpha, beta, gamma, ..."""

    NAMES = ("alpha", "beta", "gamma", "delta")

    def __init__(self, count):
        stem = f"lst{os.getpid()}n{next(_SERIAL)}"
        self._switch = f"{stem}s"
        self._namespaces = []
        self.hosts = []
        try:
            self._add_namespace(self._switch)
            self._in_switch("add", "bridge0", "type", "bridge")
            self._in_switch("set", "bridge0", "up")
            for number, name in enumerate(self.NAMES[:count], 1):
                self._add_host(Host(name, f"{stem}{name[0]}", number))
        except BaseException:
            self.close()
            raise

    def _add_namespace(self, name):
        _ip("netns", "add", name)
        self._namespaces.append(name)

    def _in_switch(self, *words):
        _ip("-n", self._switch, "link", *words)

    def _add_host(self, host):
        self._add_namespace(host.namespace)
        self._in_switch(
            "add", f"to_{host.name}", "type", "veth", "peer", "name", "eth0", "netns", host.namespace
        )
        self._in_switch("set", f"to_{host.name}", "master", "bridge0", "up")
        for device in ("lo", "eth0"):
            _ip("-n", host.namespace, "link", "set", device, "up")
        _ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
        _ip("-n", host.namespace, "-6", "address", "add", f"{host.address6}/64", "dev", "eth0", "nodad")
        self.hosts.append(host)

    def write_hosts_files(self, directory):
        """/etc/hosts of each host as on Debian: its own name at 127.0.1.1, and the addresses of the others."""
        for host in self.hosts:
            lines = ["127.0.0.1 localhost", f"127.0.1.1 {host.name}"]
            lines += [f"{other.address} {other.name}" for other in self.hosts if other is not host]
            file = directory / f"hosts-{host.name}"
            file.write_text("\n".join(lines) + "\n")
            host.mounts["/etc/hosts"] = file

    def cut(self, host):
        self._in_switch("set", f"to_{host.name}", "down")

    def restore(self, host):
        self._in_switch("set", f"to_{host.name}", "up")

    def close(self):
        for host in self.hosts:
            host.crash()
        for name in reversed(self._namespaces):
            _ip("netns", "delete", name)
        self._namespaces, self.hosts = [], []
