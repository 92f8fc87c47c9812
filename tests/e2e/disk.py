"""A small disk for tests that fill it: a tmpfs, which needs root."""

import os
import subprocess

import processes


class Disk:
    """A small separate file system in memory."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        self.mounted = False

    def mount(self, *options):
        flags = ",".join((*(["remount"] if self.mounted else []), *options))
        command = ["mount", "-t", "tmpfs", "-o", flags, "tmpfs", str(self.path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=processes.TIMEOUT_S)
        assert done.returncode == 0, f"this test needs root to mount: {done.stderr}"
        self.mounted = True

    def unmount(self):
        if self.mounted:
            processes.wait_until(lambda: not processes.find(self.path), processes.TIMEOUT_S, "nothing uses the disk")
            # An exiting process has no command line, but may still have files open.
            processes.wait_until(self._unmount_once, processes.TIMEOUT_S, f"{self.path} can be unmounted")

    def _unmount_once(self):
        command = ["umount", str(self.path)]
        return subprocess.run(command, capture_output=True, timeout=processes.TIMEOUT_S).returncode == 0

    def fill(self, name="filler"):
        """Writes until the disk is full; repeats if another process has freed space in the meantime."""
        filler = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            while True:
                os.write(filler, bytes(64 << 10))
        except OSError as error:
            assert "No space left" in str(error), error
        finally:
            os.close(filler)

    def make_room(self, name="filler"):
        (self.path / name).unlink()
