"""The place of this process in its job, from the environment of torchrun, MPI, Slurm or `lockstep launch`, and whether it logs."""

import os
from typing import Mapping, NamedTuple, Sequence

Policy = str | Sequence[int]

# Names of rank, world size, local rank, local world size and node rank.
_SOURCES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", ""),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ""),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", "SLURM_NODEID"),
)


class Place(NamedTuple):
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "") if name else ""
    return int(text) if text.isdigit() else None


def place_of_process(environment: Mapping[str, str] = os.environ) -> Place:
    for rank_name, size_name, local_name, local_size_name, node_name in _SOURCES:
        rank, size = _number(environment, rank_name), _number(environment, size_name)
        if rank is None or size is None or rank >= size:
            continue
        local = _number(environment, local_name)
        local_size = _number(environment, local_size_name)
        node = _number(environment, node_name)
        if local is None:  # one process on each host
            return Place(rank, size, 0, 1, rank)
        return Place(rank, size, local, local_size or 1, node if node is not None else (rank - local) // (local_size or 1))
    return Place()


def logs(policy: Policy, place: Place) -> bool:
    """Raises ValueError for an unknown policy."""
    if policy == "main":
        return place.rank == 0
    if policy == "node":
        return place.local_rank == 0
    if policy == "all":
        return True
    if isinstance(policy, str) or not policy or not all(isinstance(rank, int) and rank >= 0 for rank in policy):
        raise ValueError(f"ranks={policy!r}: expected 'main', 'node', 'all', or a list of ranks such as [0, 3]")
    return place.rank in policy


def number_logging(policy: Policy, place: Place) -> int:
    """How many ranks of this node log."""
    first = place.rank - place.local_rank
    if policy == "main":
        return 1 if first == 0 else 0
    if policy == "node":
        return 1
    if policy == "all":
        return place.local_world_size
    return sum(first <= rank < first + place.local_world_size for rank in policy if isinstance(rank, int))


class Entry(NamedTuple):
    """A row of the list of runs."""

    id: str
    name: str
    group: str | None = None
    job_type: str | None = None



def entry_of(policy: Policy, place: Place, job: str, name: str, group: str | None, job_type: str | None) -> Entry:
    if policy == "main":
        return Entry(job, name, group, job_type)
    kind = "node" if policy == "node" else "rank"
    return Entry(f"{job}-rank-{place.rank}", f"{name}-rank-{place.rank}", group or job, job_type or kind)
