"""The tracking agent of this node, `lockstep track`: feeds sinks, samples the system, records the end of a killed run."""

import contextlib
import os
import signal
import time
from pathlib import Path


class Agent:
    """Starts the agent in a new session. Raises OSError."""

    def __init__(self, command: str, run_dir: Path, node_rank: int, num_logs: int) -> None:
        (run_dir / "sinks").mkdir(exist_ok=True)
        read_end, self._pipe = os.pipe()
        self._output = output = str(run_dir / "sinks" / f"agent-{node_rank:05}.log")
        self._begin = os.path.getsize(output) if os.path.exists(output) else 0  # of the lines of this agent
        words = [command, "track", str(run_dir), "--node-rank", str(node_rank), "--logs", str(num_logs), "--attached", f"--pid={os.getpid()}"]
        if "LOCKSTEP_PROGRESS_FD" in os.environ:  # started by `lockstep launch`
            words.append(f"--launcher={os.getppid()}")
        actions = [(os.POSIX_SPAWN_DUP2, read_end, 0), (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                   (os.POSIX_SPAWN_DUP2, 1, 2)]
        try:
            self._process = os.posix_spawn(command, words, os.environ, file_actions=actions, setsid=True, setsigmask=[],
                                           setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(read_end)

    def finish(self, timeout_s: float) -> str | None:
        """This process records no more. Returns why the sinks do not have everything: empty if they do, None if the agent continues."""
        self.abandon()
        deadline = time.monotonic() + timeout_s
        pause = 0.001
        while True:
            try:
                process, status = os.waitpid(self._process, os.WNOHANG)
                if process:
                    return self._problem(os.waitstatus_to_exitcode(status))
            except ChildProcessError:
                return ""
            if time.monotonic() >= deadline:
                return None
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _problem(self, exit_code: int) -> str:
        if exit_code == 0:
            return ""
        with contextlib.suppress(OSError), open(self._output, "rb") as file:
            file.seek(self._begin)
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
            if exit_code > 0 and lines:
                return lines[-1].removeprefix("lockstep: error: ")
        return f"it ended with exit code {exit_code}; see {self._output}"

    def abandon(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
