"""Calls a function in forked processes, which have all objects of this one without copying them."""

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar

import torch
import torch._inductor.compile_fx  # takes a second, which each process would need otherwise

from lockstep.compile.errors import CompilerFault, one_line

TIMEOUT_S = 3600  # until the next process ends
Result = TypeVar("Result")


def number_of_cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def results_of(call: Callable[[int], Result], count: int, progress: Callable[[int], None]) -> list[Result]:
    """[call(0), ..., call(count - 1)], with at most one process per core. Results must be picklable. Calls `progress` with the number
    of calls that have ended. Raises an exception of a call after all running processes have ended, so that they leave no temporary
    files."""
    results: dict[int, Result] = {}
    errors: list[Exception] = []
    todo = list(range(count))
    running: dict[Connection, tuple[int, BaseProcess]] = {}
    while todo or running:
        while todo and len(running) < number_of_cores():
            pipe, process = start(call, todo[0])
            running[pipe] = todo.pop(0), process
        ended = wait(list(running), TIMEOUT_S)
        if not ended:
            raise CompilerFault(f"no graph was compiled within {TIMEOUT_S} s")
        for pipe in ended:
            i, process = running.pop(pipe)
            results[i], error = received(pipe)
            process.join(TIMEOUT_S)
            if error is not None:
                errors.append(error)
                todo.clear()
            progress(len(results))
    if errors:
        raise errors[0]
    return [results[i] for i in range(count)]


def start(call: Callable[[int], Result], i: int) -> tuple[Connection, BaseProcess]:
    """The pipe gets the result and the exception of call(i)."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(call, i, theirs), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def received(pipe: Connection) -> tuple[Result | None, Exception | None]:
    with pipe:
        try:
            return pipe.recv()
        except EOFError:
            return None, CompilerFault("a process of the compiler was killed: is there enough memory?")


def run(call: Callable[[int], Result], i: int, pipe: Connection) -> None:
    torch.set_num_threads(1)  # the threads of the forked process are gone; waiting for them would not end
    try:
        pipe.send((call(i), None))
    except (OSError, CompilerFault) as error:
        pipe.send((None, error))
    except Exception as error:  # may not be picklable
        pipe.send((None, CompilerFault(f"{type(error).__name__}: {one_line(error)}")))
