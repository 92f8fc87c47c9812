"""A logger of Lightning: Trainer(logger=LockstepLogger(name="demo"))."""

import signal
import sys
from argparse import Namespace
from typing import Any, Mapping

try:
    from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
    from lightning.pytorch.utilities.rank_zero import rank_zero_only
except ImportError:
    from pytorch_lightning.loggers.logger import Logger, rank_zero_experiment  # type: ignore[no-redef]
    from pytorch_lightning.utilities.rank_zero import rank_zero_only  # type: ignore[no-redef]

from lockstep.recording.api import init
from lockstep.recording.run import Run, describe


class LockstepLogger(Logger):
    """Records on rank zero. `init_arguments`: those of lockstep.init(). `run`: one that is already open, which stays open."""

    def __init__(self, run: Run | None = None, **init_arguments: Any) -> None:
        super().__init__()
        self._run = run
        self._is_own = run is None
        self._arguments = init_arguments

    @property
    @rank_zero_experiment
    def experiment(self) -> Run:
        if self._run is None:
            self._run = init(**self._arguments)
        return self._run

    @property
    def name(self) -> str | None:
        return self._run.name if self._run else self._arguments.get("name") or "lightning"

    @property
    def version(self) -> str | None:
        return self._run.id if self._run else None

    @property
    def save_dir(self) -> str | None:
        return str(self._arguments.get("dir") or "runs")

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.experiment.log(dict(metrics), step=step)

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *_args: Any, **_kwargs: Any) -> None:
        self.experiment.config.update(vars(params) if isinstance(params, Namespace) else params)

    @rank_zero_only
    def log_image(self, key: str, images: list[Any], step: int | None = None, **_kwargs: Any) -> None:
        from lockstep.recording.values import Image

        self.experiment.log({key: [Image(image) for image in images]}, step=step)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        if self._run is not None and self._is_own and status != "success":
            failure = sys.exc_info()[1]  # Lightning ends its loggers while it handles what ended the training
            if isinstance(failure, KeyboardInterrupt):
                self._run.finish(130, reason="interrupted", signal=int(signal.SIGINT))
            else:
                self._run.finish(1, reason=f"Lightning: {status}" if failure is None else describe(type(failure), failure))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_run": None}
