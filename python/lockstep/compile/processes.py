"""Calls functions in other processes: forked ones, which have all objects of this one without copying them, or, because a forked process
cannot use a GPU, new ones."""

import contextlib
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TypeVar

import torch
import torch._inductor.compile_fx  # takes a second, which each process would need otherwise

from lockstep.compile.errors import CompilerFault, one_line

TIMEOUT_S = 3600  # until the next process ends
PACKAGES = str(Path(__file__).parents[2])
Result = TypeVar("Result")
# Starts the process of a call: the pipe gets its result and its exception; the function waits for its end.
Start = Callable[[int], tuple[Connection, Callable[[], object]]]


def number_of_cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def variables(changed: Mapping[str, str]) -> Iterator[None]:
    """Changes the environment of this process, which the processes that it starts inherit."""
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def results_of(start: Start, count: int, limit: int, progress: Callable[[int], None]) -> list:
    """The results of `count` calls, in order, with at most `limit` processes. Results must be picklable. Calls `progress` with the number
    of calls that have ended. Raises an exception of a call after all running processes have ended, so that they leave no temporary
    files."""
    results: dict[int, object] = {}
    errors: list[Exception] = []
    todo = list(range(count))
    running: dict[Connection, tuple[int, Callable[[], object]]] = {}
    while todo or running:
        while todo and len(running) < limit:
            pipe, end = start(todo[0])
            running[pipe] = todo.pop(0), end
        ended = wait(list(running), TIMEOUT_S)
        if not ended:
            raise CompilerFault(f"no graph was compiled within {TIMEOUT_S} s")
        for pipe in ended:
            i, end = running.pop(pipe)
            results[i], error = received(pipe)
            end()
            if error is not None:
                errors.append(error)
                todo.clear()
            progress(len(results))
    if errors:
        raise errors[0]
    return [results[i] for i in range(count)]


def in_forks(call: Callable[[int], object]) -> Start:
    def start(i: int) -> tuple[Connection, Callable[[], object]]:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)

        def in_fork() -> None:
            ours.close()  # otherwise it would wait forever for a reader if this process is killed
            run(lambda: call(i), theirs)

        process = context.Process(target=in_fork, daemon=True)
        process.start()
        theirs.close()
        return ours, lambda: process.join(TIMEOUT_S)

    return start


def in_new_processes(function: Callable[..., object], arguments: Sequence[tuple], added: Mapping[str, str]) -> Start:
    """function(*arguments[i]) of a module of this package; both must be picklable. `added`: to the environment.
    multiprocessing's own new processes would run the program of the user again."""
    def start(i: int) -> tuple[Connection, Callable[[], object]]:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        places = [PACKAGES, os.environ.get("PYTHONPATH", "")]
        with theirs:
            process = subprocess.Popen([sys.executable, "-m", __name__, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.PIPE,
                                       env={**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(None, places)), **added})
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:  # then it has ended, and so has its end of the pipe
            process.stdin.write(pickle.dumps((function, arguments[i])))
        return ours, lambda: process.wait(TIMEOUT_S)

    return start


def received(pipe: Connection) -> tuple[object, Exception | None]:
    with pipe:
        try:
            return pipe.recv()
        except EOFError:
            return None, CompilerFault("a process of the compiler was killed: is there enough memory?")


def run(call: Callable[[], object], pipe: Connection) -> None:
    torch.set_num_threads(1)  # the threads of a forked process are gone; waiting for them would not end
    try:
        pipe.send((call(), None))
    except (OSError, CompilerFault) as error:
        pipe.send((None, error))
    except KeyboardInterrupt:
        pass  # the command reports it
    except Exception as error:  # may not be picklable
        pipe.send((None, CompilerFault(f"{type(error).__name__}: {one_line(error)}")))


def main() -> None:
    function, arguments = pickle.load(sys.stdin.buffer)
    run(lambda: function(*arguments), Connection(int(sys.argv[1]), readable=False))


if __name__ == "__main__":
    main()
