"""A metrics processor of torchtitan: metrics=LockstepMetricsProcessor.Config(lockstep_name="demo") in the config of its trainer."""

import os
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torchtitan.components.metrics import BaseLogger, LoggerContainer, MetricsProcessor, _get_metrics_rank

from lockstep.recording import run_files
from lockstep.recording.api import init
from lockstep.recording.run import Run


class LockstepLogger(BaseLogger):
    """Records what the processor of a rank logs. `tag`: comes before all names. `run`: one that is already open, which stays open."""

    def __init__(self, run: Run | None = None, tag: str | None = None, **init_arguments: Any) -> None:
        self._is_own = run is None
        self._tag = tag
        self.run = init(**init_arguments) if run is None else run

    def log(self, metrics: dict[str, Any], step: int) -> None:
        self.run.log({name if self._tag is None else f"{self._tag}/{name}": value for name, value in metrics.items()}, step=step)

    def close(self) -> None:
        if not self._is_own:
            return
        failure = sys.exc_info()[1]  # torchtitan closes its loggers while it handles what ended the training
        if failure is None:
            self.run.finish()
        else:
            self.run.finish(1, reason=f"{type(failure).__name__}: {failure}".split("\n")[0])


class LockstepMetricsProcessor(MetricsProcessor):
    """Records in addition to TensorBoard and W&B, on the rank that has the loss, or on all with save_for_all_ranks."""

    @dataclass(kw_only=True, slots=True)
    class Config(MetricsProcessor.Config):
        lockstep_name: str | None = None
        """Name of the run, by default torchtitan"""

        lockstep_dir: str | None = None
        """Folder of runs, by default runs"""

        lockstep_group: str | None = None
        """Group of the run"""

        lockstep_sinks: list[str] | None = None
        """Names of sinks"""

    def _build_metric_logger(self, *, config: Any, parallel_dims: Any, pp_schedule: str, config_dict: dict[str, Any] | None = None,
                             tag: str | None = None, **more: Any) -> BaseLogger:
        others = super()._build_metric_logger(config=config, parallel_dims=parallel_dims, pp_schedule=pp_schedule, config_dict=config_dict,
                                              tag=tag, **more)
        name = config.lockstep_name or "torchtitan"
        run_id = _run_id(name, config.save_for_all_ranks)
        chosen = _get_metrics_rank(parallel_dims=parallel_dims, pp_schedule=pp_schedule)
        if not config.save_for_all_ranks and torch.distributed.get_rank() != chosen:
            return others
        ranks = "all" if config.save_for_all_ranks else "main" if chosen == 0 else [chosen]
        container = LoggerContainer()
        container.add_logger(others)
        container.add_logger(LockstepLogger(tag=tag, name=name, config=config_dict, dir=config.lockstep_dir, group=config.lockstep_group,
                                            sinks=config.lockstep_sinks, ranks=ranks, id=run_id))
        return container


def _run_id(name: str, is_shared: bool) -> str | None:
    """Under `lockstep launch` that of the job (None), else a new one, on all ranks the same if they share it."""
    if os.environ.get("LOCKSTEP_RUN_ID"):
        return None
    ids = [run_files.new_run_id(name)]
    if is_shared and torch.distributed.get_world_size() > 1:
        torch.distributed.broadcast_object_list(ids)
    return ids[0]
