"""Runs the program that reads files through the cache of objects. No LibTorch: each start is cheap."""

import os
import re
import subprocess

from object_server import TIMEOUT_S

DRIVER = os.environ["LOCKSTEP_OBJECT_STORE_DRIVER"]
MB = 1_000_000


class StoreReader:
    env = {}

    def __init__(self, directory):
        self.cache = directory / "cache"

    def start(self, *paths, max_mb=100, timeout_ms=60_000, rounds=1, env=None):
        command = [DRIVER, self.cache, max_mb * MB, timeout_ms, rounds, *paths]
        return subprocess.Popen([str(part) for part in command], env=os.environ | self.env | (env or {}), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process):
        out, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, out, err

    def read(self, *paths, **how):
        """The lines about the files, and what they cost."""
        code, out, err = self.finish(self.start(*paths, **how))
        assert (code, err) == (0, ""), err
        *lines, cost = out.splitlines()
        numbers = {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", cost)}
        return lines, numbers

    def refused(self, code, *texts, path, **how):
        ended = self.finish(self.start(path, **how))
        assert ended[0] == code, ended
        assert ended[2].count("\n") == 1 and all(text in ended[2] for text in texts), ended
        return ended[2]

    def copies(self):
        return {path.name.split("-", 1)[1]: path for path in self.cache.iterdir() if path.name != ".lock"}
