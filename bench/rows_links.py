"""Rows of communication that needs a network: overlap over a simulated network, and the link model."""

import os

import link_model
from measuring import BIN
from rows_collectives import compared, run

OVERLAP = BIN / "lockstep_bench_overlap"
EXTRAPOLATION = {"ranks": (8, 64, 256, 1024, 16384, 100_000), "bytes": 500e6, "per_host": 8}


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
                       goal=0.95, limit=f"without overlap: {links[0]['sequential_ms']:.1f} ms, "
                                        f"without communication {rounds[0]['alone_ms']:.1f} ms")


def model_rows(settings):
    """Calibrates the model in the first round; errors are over all rounds."""
    measured = {ranks: [link_model.measure(ranks, settings["scale"] / 2) for _ in range(settings["rounds"])]
                for ranks in (2, 4)}
    host = link_model.Host(link_model.medians(measured[2]))
    for ranks, found in measured.items():
        for size in link_model.CHECKED:
            predicted = host.all_reduce(ranks, size, os.cpu_count())
            times = [rows[size] for rows in found]
            yield compared(f"link model, {ranks} ranks, {size:,} B: predicted over measured", "µs", times,
                           [predicted] * len(times), "predicted")
    for ranks in EXTRAPOLATION["ranks"]:
        flat, levels = link_model.predict_all_reduce(host, ranks, EXTRAPOLATION["bytes"], EXTRAPOLATION["per_host"])
        yield compared(f"modeled, not measured: all-reduce of 500 MB, {ranks:,} ranks, 8 per host", "ms", [flat], [levels],
                       "a leader per host, ring or tree between them (not built)",
                       limit="Gloo's ring over all ranks; network of 5 µs and 12.5 GB/s")


def rows(settings):
    yield from overlap_rows(settings)
    yield from model_rows(settings)
