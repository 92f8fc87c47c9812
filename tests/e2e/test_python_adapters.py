"""Adapters of the Python client with the real frameworks: each value that the framework logs is in the run."""

import json
import os

import pytest

import lockstep
import processes
from lockstep.recording import api


@pytest.fixture(autouse=True)
def no_outer_job(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(processes._FOREIGN) and name not in ("LOCKSTEP_BIN", "LOCKSTEP_SOURCE"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    yield
    for run in list(api._runs):
        run.finish()


def values_of(tmp_path):
    (run,) = lockstep.runs(tmp_path / "runs")
    table = run.metrics(format="lists")
    return run, sorted(zip(table["metric"], table["step"], table["value"]))


def trainer_of(tmp_path, callback):
    """A trainer of transformers, of a model with three parameters."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def forward(self, x, labels=None):
            out = self.layer(x)
            return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}

    data = [{"x": torch.randn(2), "labels": torch.randn(1)} for _ in range(12)]
    args = transformers.TrainingArguments(output_dir=str(tmp_path / "out"), num_train_epochs=1, per_device_train_batch_size=2, logging_steps=2,
                                          report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no", eval_strategy="epoch")
    return transformers.Trainer(None, args, model_init=lambda: Model(), train_dataset=data, eval_dataset=data[:4], callbacks=[callback])


def test_the_trainer_of_transformers(tmp_path):
    pytest.importorskip("transformers")
    from lockstep.adapters.transformers import LockstepCallback, renamed

    callback = LockstepCallback(name="hf", dir=tmp_path / "runs", agent=False)
    trainer = trainer_of(tmp_path, callback)
    trainer.train()
    callback.finish()
    run, values = values_of(tmp_path)
    expected = sorted((renamed(name), row["step"], float(value)) for row in trainer.state.log_history for name, value in row.items() if name != "step")
    assert values == expected and any(name == "eval/loss" for name, *_ in values) and any(name == "train/loss" for name, *_ in values)
    assert run.config["args"]["num_train_epochs"] == 1 and run.state == "finished"


def test_a_trainer_of_transformers_that_only_evaluates(tmp_path):
    pytest.importorskip("transformers")
    from lockstep.adapters.transformers import LockstepCallback

    callback = LockstepCallback(name="hf", dir=tmp_path / "runs", agent=False)
    result = trainer_of(tmp_path, callback).evaluate()
    callback.finish()
    run, values = values_of(tmp_path)
    assert ("eval/loss", 0, result["eval_loss"]) in values and (run.config["args"]["num_train_epochs"], run.state) == (1, "finished")


def test_each_trial_of_transformers_is_a_run(tmp_path):
    pytest.importorskip("transformers"), pytest.importorskip("optuna")
    from lockstep.adapters.transformers import LockstepCallback

    callback = LockstepCallback(name="hf", dir=tmp_path / "runs", agent=False)
    trainer_of(tmp_path, callback).hyperparameter_search(lambda trial: {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2)},
                                                         n_trials=2, backend="optuna", direction="minimize")
    callback.finish()
    runs = lockstep.runs(tmp_path / "runs")
    assert [(run.state, run.metrics("train/loss", format="lists")["step"]) for run in runs] == [("finished", [2, 4, 6])] * 2
    assert len({run.config["args"]["learning_rate"] for run in runs}) == 2


def test_the_tracker_of_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    from lockstep.adapters.accelerate import LockstepTracker

    accelerate.state.AcceleratorState._reset_state(True)
    tracker = LockstepTracker("acc", dir=tmp_path / "runs", agent=False)
    assert not accelerate.state.PartialState._shared_state, "the settings of the process group are those of the Accelerator"
    accelerator = accelerate.Accelerator(cpu=True, log_with=tracker)
    accelerator.init_trackers("project", config={"lr": 0.1})
    for step in range(3):
        accelerator.log({"loss": step / 3}, step=step)
    assert accelerator.get_tracker("lockstep", unwrap=True) is tracker.run
    accelerator.end_training()
    run, values = values_of(tmp_path)
    assert values == [("loss", step, step / 3) for step in range(3)]
    assert (run.config, run.name, run.state) == ({"lr": 0.1}, "acc", "finished")


def test_the_logger_of_lightning(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    torch = pytest.importorskip("torch")
    from lockstep.adapters.lightning import LockstepLogger

    class Model(lightning.LightningModule):
        def __init__(self, width=2):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(width, 1)
            self.logged = []

        def training_step(self, batch, index):
            loss = self.layer(batch).square().mean()
            self.log("train/loss", loss)
            self.logged.append(("train/loss", index, float(loss.detach())))
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    logger = LockstepLogger(name="pl", dir=tmp_path / "runs", agent=False)
    model = Model()
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=logger, log_every_n_steps=1, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, torch.utils.data.DataLoader(torch.randn(6, 2), batch_size=2))
    logger.experiment.finish()
    run, values = values_of(tmp_path)
    assert [row for row in values if row[0] == "train/loss"] == model.logged
    assert run.config["width"] == 2 and json.dumps(run.config)

    class Failing(Model):
        def training_step(self, batch, index):
            raise ValueError("no loss")

    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=LockstepLogger(name="failing", dir=tmp_path / "failing", agent=False),
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    with pytest.raises(ValueError, match="no loss"):
        trainer.fit(Failing(), torch.utils.data.DataLoader(torch.randn(2, 2)))
    (run,) = lockstep.runs(tmp_path / "failing")
    shown = processes.run([processes.LOCKSTEP, "runs", "show", run.id, "--json", "--dir", tmp_path / "failing"], tmp_path)
    assert (run.state, json.loads(shown.out)["reason"]) == ("failed", "ValueError: no loss")


class OneRank:
    """The parallel dimensions of a training on one rank."""

    world_size, pp, pp_enabled, non_data_parallel_size = 1, 1, False, 1


@pytest.fixture
def process_group(tmp_path):
    torch = pytest.importorskip("torch")
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("fails", [False, True])
def test_the_metrics_processor_of_torchtitan(tmp_path, process_group, monkeypatch, fails):
    metrics = pytest.importorskip("torchtitan.components.metrics")
    from lockstep.adapters.torchtitan import LockstepMetricsProcessor

    # It measures the memory of a GPU, which this machine may not have.
    memory = metrics.DeviceMemStats(1.5, 2.5, 3.5, 4.5, 0, 0)
    monitor = type("Monitor", (), {"device_name": "A100", "get_peak_stats": lambda self: memory, "reset_peak_stats": lambda self: None})()
    monkeypatch.setattr(metrics, "build_device_memory_monitor", lambda: monitor)
    config = LockstepMetricsProcessor.Config(lockstep_name="titan", lockstep_dir=str(tmp_path / "runs"), log_freq=1)
    processor = config.build(parallel_dims=OneRank(), dump_folder=str(tmp_path / "out"), config_dict={"model": {"dim": 16}}, tag="part")
    processor.num_flops_per_token = 1000
    logged = []
    log = processor.logger.log
    processor.logger.log = lambda values, step: (logged.extend((f"part/{name}", step, float(value)) for name, value in values.items()),
                                                 log(values, step))
    for step in (1, 2):
        processor.ntokens_since_last_log = 512
        processor.data_loading_times = [0.25]
        processor.log(step, 0.1 * step, 0.2 * step, 1 / step, extra_metrics={"lr": 1e-3 / step})
    processor.log_validation(0.3, 2)
    if fails:
        with pytest.raises(RuntimeError):
            try:
                raise RuntimeError("no memory")
            except RuntimeError:
                processor.close()  # as torchtitan does
                raise
    processor.close()
    run, values = values_of(tmp_path)
    assert values == sorted(logged) and ("part/loss_metrics/global_avg_loss", 2, 0.2) in values
    assert {"part/validation_metrics/loss", "part/throughput(tps)", "part/memory/max_active(GiB)", "part/lr"} <= {name for name, *_ in values}
    assert (run.config, run.state) == ({"model": {"dim": 16}}, "failed" if fails else "finished")
