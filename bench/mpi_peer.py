"""Times all-reduces of Open MPI for docs/decisions/0005. Rank 0 prints one JSON object of medians in µs. Needs openmpi-bin.

    mpirun.openmpi --allow-run-as-root -n 2 .venv/bin/python bench/mpi_peer.py 1

Calls libmpi through ctypes, which needs no compiler or headers and adds about 1 µs per call.
"""

import ctypes
import json
import sys

import numpy
from collectives_peer import SIZES, median_us

mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)


def handle(name):
    return ctypes.byref(ctypes.c_char.in_dll(mpi, name))


def main():
    mpi.MPI_Init(None, None)
    world, floats, total = handle("ompi_mpi_comm_world"), handle("ompi_mpi_float"), handle("ompi_mpi_op_sum")
    rank = ctypes.c_int()
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    in_place = ctypes.c_void_p(1)  # MPI_IN_PLACE
    rows = {}
    for size in SIZES:
        data = numpy.zeros(size // 4, numpy.float32)
        address, count = ctypes.c_void_p(data.ctypes.data), ctypes.c_int(size // 4)
        rounds = max(5, int((2000 if size <= 64 << 10 else 200 if size <= 1 << 20 else 20) * float(sys.argv[1])))

        def once():
            mpi.MPI_Allreduce(in_place, address, count, floats, total, world)

        median_us(max(3, rounds // 10), once)
        rows[str(size)] = median_us(rounds, once)
    if rank.value == 0:
        print(json.dumps({"all_reduce_us": rows}), flush=True)
    mpi.MPI_Finalize()


if __name__ == "__main__":
    main()
