"""Rows about communication that this machine has no network for: overlap over one on paper, and the model of links."""

import os

import link_model
from measuring import BIN
from rows_collectives import compared, run

OVERLAP = BIN / "lockstep_bench_overlap"
SPELLED_OUT = {"ranks": (8, 64, 256, 1024, 16384, 100_000), "bytes": 500e6, "per_host": 8}


def overlap_rows(settings):
    rounds = []
    for number in range(settings["rounds"]):
        place = settings["directory"] / f"overlap-{number}"
        place.mkdir()
        rounds.append(run([OVERLAP, place, max(10, int(60 * settings["scale"]))], settings))
    for i, first in enumerate(rounds[0]["links"]):
        links = [round_["links"][i] for round_ in rounds]
        yield compared(f"overlap with the delay backend, 8 buckets, link busy {first['share']:g}× the backward pass", "ms",
                       [link["measured_ms"] for link in links], [link["ideal_ms"] for link in links], "the ideal schedule",
                       goal=0.95, limit=f"one after the other: {links[0]['in_turn_ms']:.1f} ms, "
                                        f"without communication {rounds[0]['alone_ms']:.1f} ms")


def model_rows(settings):
    """The model is calibrated in the first round, and its errors are those of all rounds."""
    measured = {ranks: [link_model.measure(ranks, settings["scale"] / 2) for _ in range(settings["rounds"])]
                for ranks in (2, 4)}
    host = link_model.Host(link_model.medians(measured[2]))
    for ranks, found in measured.items():
        for size in link_model.CHECKED:
            predicted = host.all_reduce(ranks, size, os.cpu_count())
            times = [rows[size] for rows in found]
            yield compared(f"link model, {ranks} ranks, {size:,} B: predicted over measured", "µs", times,
                           [predicted] * len(times), "predicted")
    for ranks in SPELLED_OUT["ranks"]:
        flat, levels = link_model.spelled_out(host, ranks, SPELLED_OUT["bytes"], SPELLED_OUT["per_host"])
        yield compared(f"modelled, not measured: all-reduce of 500 MB, {ranks:,} ranks, 8 per host", "ms", [flat], [levels],
                       "a leader per host, ring or tree between them (not built)",
                       limit="Gloo's ring over all ranks; network of 5 µs and 12.5 GB/s")


def rows(settings):
    yield from overlap_rows(settings)
    yield from model_rows(settings)
