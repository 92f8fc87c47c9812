"""Training on the plugin of odd_rank_dataset.cpp. Of two ranks rank 1 gets sample 51, in step 26 of 50."""

from processes import BIN

PLUGIN = BIN.parent / "tests" / "bin" / "odd_rank_dataset.so"


def use_odd_rank(job, **settings):
    """Two samples per step. `settings` are those of the dataset."""
    job.config["plugins"] = [str(PLUGIN)]
    job.config["model"] = {"name": "mlp", "inputs": 3, "hidden": [], "classes": 2}
    job.config["data"] = {"train": {"name": "odd_rank", **settings}, "batch_size": 2, "shuffle": False, "workers": 1}
    job.write()
