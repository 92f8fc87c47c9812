"""A tracker of Accelerate: Accelerator(log_with=LockstepTracker(name="demo"))."""

from typing import Any

from accelerate.tracking import GeneralTracker, on_main_process

from lockstep.recording.api import init
from lockstep.recording.run import Run
from lockstep.recording.values import Image, Table


class LockstepTracker(GeneralTracker):
    """Records on the main process. `init_arguments`: those of lockstep.init()."""

    name = "lockstep"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, run_name: str | None = None, **init_arguments: Any) -> None:
        super().__init__()
        self.run: Run | None = None
        self._arguments = {"name": run_name, **init_arguments}

    @on_main_process
    def start(self) -> None:  # by Accelerator.init_trackers()
        if self.run is None:
            self.run = init(**self._arguments)

    @property
    def tracker(self) -> Run | None:
        return self.run

    @on_main_process
    def store_init_configuration(self, values: dict[str, Any]) -> None:
        if self.run is not None:
            self.run.config.update(values)

    @on_main_process
    def log(self, values: dict[str, Any], step: int | None = None, **_more: Any) -> None:
        if self.run is not None:
            self.run.log(values, step=step)

    @on_main_process
    def log_images(self, values: dict[str, Any], step: int | None = None, **_more: Any) -> None:
        self.log({name: [Image(image) for image in images] for name, images in values.items()}, step=step)

    @on_main_process
    def log_table(self, table_name: str, columns: list[str] | None = None, data: Any = None, dataframe: Any = None, step: int | None = None,
                  **_more: Any) -> None:
        self.log({table_name: Table(columns, data, dataframe=dataframe)}, step=step)

    @on_main_process
    def finish(self) -> None:
        if self.run is not None:
            self.run.finish()
