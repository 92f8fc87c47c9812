"""A callback of the Hugging Face Trainer: Trainer(..., callbacks=[LockstepCallback(name="demo")])."""

from typing import Any

from transformers import TrainerCallback

from lockstep.recording.api import init
from lockstep.recording.run import Run

_EVAL, _TEST = "eval_", "test_"


def renamed(name: str) -> str:
    """As the other integrations do: "eval_loss" is "eval/loss", and "loss" is "train/loss"."""
    for prefix in (_EVAL, _TEST):
        if name.startswith(prefix):
            return f"{prefix[:-1]}/{name[len(prefix):]}"
    return name if name == "epoch" else f"train/{name}"


class LockstepCallback(TrainerCallback):
    """Records on the main process. `init_arguments`: those of lockstep.init(). `run`: one that is already open, which stays open."""

    def __init__(self, run: Run | None = None, **init_arguments: Any) -> None:
        self.run = run
        self._is_own = run is None
        self._arguments = init_arguments

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_more: Any) -> None:
        if state.is_hyper_param_search and self._is_own and self.run is not None:  # each trial is a run
            self.run.finish()
            self.run = None
        self._start(args, state, model)

    def _start(self, args: Any, state: Any, model: Any) -> None:
        if not state.is_world_process_zero:
            return
        if self.run is None:
            self.run = init(**{"name": getattr(args, "run_name", None), **self._arguments})
        config = {"args": args.to_sanitized_dict()}
        if getattr(model, "config", None) is not None:
            config["model"] = model.config.to_dict() if hasattr(model.config, "to_dict") else dict(model.config)
        self.run.config.update(config)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, model: Any = None, **_more: Any) -> None:
        if self.run is None:  # evaluation without training
            self._start(args, state, model)
        if self.run is not None and state.is_world_process_zero and logs:
            self.run.log({renamed(name): value for name, value in logs.items()}, step=state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        pass  # evaluations may follow; the run ends with finish() or the process

    def finish(self) -> None:
        if self.run is not None and self._is_own:
            self.run.finish()
