"""pendulum.cpp in Python: the C interface of Lockstep (lockstep.h) through ctypes, with NumPy arrays.

    export LD_LIBRARY_PATH=PREFIX/lib
    python3 examples/embedding/pendulum.py examples/embedding/pendulum.yaml
    lockstep launch -n 2 -- python3 examples/embedding/pendulum.py examples/embedding/pendulum.yaml
"""
import ctypes
import sys

import numpy as np

DTYPES = {name: number for number, name in enumerate(
    ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"], 1)}
LOOP = ctypes.c_void_p


class Array(ctypes.Structure):
    """struct lockstep_array."""
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("num_dims", ctypes.c_int32), ("dtype", ctypes.c_int32)]


class LockstepError(RuntimeError):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status  # the exit code for it: 70, 75 or 78


def load():
    library = ctypes.CDLL("liblockstep.so")
    if library.lockstep_abi_version() != 1:
        raise ImportError("this program was written for version 1 of the C interface of Lockstep")
    for name in ["last_error", "metric_name", "run_dir", "run_id", "stop_reason"]:
        getattr(library, f"lockstep_{name}").restype = ctypes.c_char_p
    for name in ["steps", "total_steps"]:
        getattr(library, f"lockstep_{name}").restype = ctypes.c_int64
    library.lockstep_loss.restype = ctypes.c_double
    array, loop = ctypes.POINTER(Array), [LOOP]
    arguments = {"create": [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), array, ctypes.c_size_t, ctypes.POINTER(LOOP)],
                 "step": [LOOP, array, ctypes.c_size_t], "metric": [LOOP, ctypes.c_char_p, ctypes.POINTER(ctypes.c_double)],
                 "metric_name": [LOOP, ctypes.c_size_t]}
    for name in ["destroy", "is_done", "steps", "total_steps", "loss", "evaluate", "save", "finish", "run_dir", "run_id",
                 "stop_reason", "stop_signal"]:
        arguments[name] = loop
    for name, types in arguments.items():
        getattr(library, f"lockstep_{name}").argtypes = types
    return library


LIBRARY = load()


def check(status):
    if status:
        raise LockstepError(status, LIBRARY.lockstep_last_error().decode())


def ranks():
    """(rank of this process, number of ranks)."""
    rank, world_size = ctypes.c_int(), ctypes.c_int()
    check(LIBRARY.lockstep_ranks(ctypes.byref(rank), ctypes.byref(world_size)))
    return rank.value, world_size.value


def contiguous(name, values):
    """`values` without gaps, in the byte order of this machine."""
    values = np.asarray(values)
    if values.dtype.name not in DTYPES:
        raise TypeError(f"field '{name}' is {values.dtype.name}, expected one of {', '.join(DTYPES)}")
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


def arrays_of(batch):
    """The fields of {name: array} as C arrays, which refer to the memory of the NumPy arrays that come with them."""
    kept = [contiguous(name, values) for name, values in batch.items()]
    fields = [Array(name.encode(), values.ctypes.data, values.ctypes.shape_as(ctypes.c_int64), values.ndim, DTYPES[values.dtype.name])
              for name, values in zip(batch, kept)]
    return (Array * len(fields))(*fields), kept


class TrainingLoop:
    """`argv`: the program, the run file and overrides. `example`: {name: array} of a batch of any size."""

    def __init__(self, argv, example):
        self.loop = LOOP()
        fields, kept = arrays_of(example)
        words = (ctypes.c_char_p * len(argv))(*[word.encode() for word in argv])
        check(LIBRARY.lockstep_create(len(argv), words, fields, len(fields), ctypes.byref(self.loop)))

    def step(self, batch):
        fields, kept = arrays_of(batch)
        check(LIBRARY.lockstep_step(self.loop, fields, len(fields)))

    def evaluate(self):
        check(LIBRARY.lockstep_evaluate(self.loop))
        return self.metrics()

    def metrics(self):
        """{name: value} of the last evaluation."""
        values, index, value = {}, 0, ctypes.c_double()
        while name := LIBRARY.lockstep_metric_name(self.loop, index):
            check(LIBRARY.lockstep_metric(self.loop, name, ctypes.byref(value)))
            values[name.decode()] = value.value
            index += 1
        return values

    def save(self):
        check(LIBRARY.lockstep_save(self.loop))

    def finish(self):
        """Returns the run directory."""
        check(LIBRARY.lockstep_finish(self.loop))
        return LIBRARY.lockstep_run_dir(self.loop).decode()

    def is_done(self):
        return LIBRARY.lockstep_is_done(self.loop) == 1

    def steps(self):
        return LIBRARY.lockstep_steps(self.loop)

    def loss(self):
        return LIBRARY.lockstep_loss(self.loop)

    def close(self):
        """Without finish(), the run is recorded as failed."""
        LIBRARY.lockstep_destroy(self.loop)
        self.loop = LOOP()


def simulate(random, count):
    """Damped pendulums with random starts. "image": angle, velocity and damping; "label": whether it goes over the top."""
    start = random.uniform([-2, -4, 0], [2, 4, 0.5], (count, 3)).astype(np.float32)
    angle, velocity, damping = start.astype(np.float64).T
    over = np.zeros(count, np.int64)
    for _ in range(1000):
        velocity = velocity - 0.01 * (np.sin(angle) + damping * velocity)
        angle = angle + 0.01 * velocity
        over |= np.abs(angle) > np.pi
    return {"image": start, "label": over}


def main():
    rank, _ = ranks()
    random = np.random.default_rng(rank)
    loop = TrainingLoop(sys.argv, simulate(random, 1))
    while not loop.is_done():
        loop.step(simulate(random, 32))
    run_dir = loop.finish()
    if rank == 0:
        print(f"step {loop.steps()}, loss {loop.loss():.3f}, run directory {run_dir}")
    loop.close()


if __name__ == "__main__":
    try:
        main()
    except LockstepError as error:
        print(f"pendulum: error: {error}", file=sys.stderr)
        sys.exit(error.status)
