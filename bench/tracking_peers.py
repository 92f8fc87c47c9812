"""tracking_peers.py LIBRARY DIRECTORY NUM_SCALARS: logs scalars with each API of LIBRARY.

Prints a JSON list of {way, per_call, scalars, calling_s, closed_s}: seconds in the calls, and until all data is on disk.
Creating the run is not timed.
"""

import json
import pathlib
import sys
import time


def timed(way, per_call, num_scalars, log, close):
    """`log(step)` logs `per_call` scalars."""
    num_calls = max(num_scalars // per_call, 1)
    begin = time.perf_counter()
    for step in range(num_calls):
        log(step)
    calling = time.perf_counter() - begin
    close()
    return {"way": way, "per_call": per_call, "scalars": num_calls * per_call, "calling_s": calling,
            "closed_s": time.perf_counter() - begin}


def names(count):
    return [f"bench/metric-{i}" for i in range(count)]


def tensorboard(directory, num_scalars):
    from torch.utils.tensorboard import SummaryWriter

    ways = {"tensorboard add_scalar": {}, "tensorboard add_scalar, queue of 100,000": {"max_queue": 100_000}}
    for way, options in ways.items():
        for per_step in (1, 10):
            writer = SummaryWriter(directory / f"{way}-{per_step}", **options)
            tags = names(per_step)

            def log(step):
                for tag in tags:
                    writer.add_scalar(tag, 1 / (step + 1), step)

            yield timed(way, per_step, num_scalars, log, writer.close)


def wandb(directory, num_scalars):
    import wandb as library

    for per_call in (1, 10):
        run = library.init(project="bench", mode="offline", dir=directory, settings=library.Settings(console="off"))
        tags = names(per_call)
        yield timed("wandb offline run.log", per_call, num_scalars,
                    lambda step: run.log({tag: 1 / (step + 1) for tag in tags}), run.finish)


def mlflow(directory, num_scalars):
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    client = MlflowClient(tracking_uri=f"sqlite:///{directory}/mlflow.db")
    found = client.get_experiment_by_name("bench")
    experiment = found.experiment_id if found else client.create_experiment("bench", str(directory / "artifacts"))
    last = []

    def log_later(step):
        last[:] = [client.log_metric(run, "bench/metric-0", 1 / (step + 1), step=step, synchronous=False)]

    run = client.create_run(experiment).info.run_id
    yield timed("mlflow log_metric", 1, num_scalars,
                lambda step: client.log_metric(run, "bench/metric-0", 1 / (step + 1), step=step), lambda: None)
    run = client.create_run(experiment).info.run_id
    yield timed("mlflow log_metric, asynchronous", 1, num_scalars, log_later, lambda: last[0].wait())
    for per_call in (10, 1000):  # the maximum is 1000
        run = client.create_run(experiment).info.run_id
        tags = names(per_call)
        yield timed("mlflow log_batch", per_call, max(num_scalars, 5 * per_call), lambda step: client.log_batch(
            run, [Metric(tag, 1 / (step + 1), int(time.time() * 1000), step) for tag in tags]), lambda: None)


if __name__ == "__main__":
    library = {"tensorboard": tensorboard, "wandb": wandb, "mlflow": mlflow}[sys.argv[1]]
    print(json.dumps(list(library(pathlib.Path(sys.argv[2]), int(sys.argv[3])))))
