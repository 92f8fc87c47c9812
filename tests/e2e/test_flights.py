"""Training on tables: the recipes against scikit-learn on the same split, regression against PyTorch."""

import numpy as np
import pyarrow.parquet
import pytest
import torch
import yaml
from safetensors.torch import load_file
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch.utils.data import random_split

from conftest import long
from processes import SOURCE, TRAINER, run
from safetensors_file import last_weights

FLIGHTS = SOURCE / ".data" / "flights" / "flights.parquet"
NUMBERS, WORDS = ["month", "hour", "dep_delay", "distance"], ["carrier", "origin"]


@pytest.fixture(scope="module")
def baseline():
    """Accuracy of logistic regression on the held-out flights of the recipe."""
    table = pyarrow.parquet.read_table(FLIGHTS, columns=[*NUMBERS, *WORDS, "arr_delay"])
    table = table.drop_null()
    late = table["arr_delay"].to_numpy() > 15
    numbers = np.stack([table[name].to_numpy() for name in NUMBERS], 1)
    words = np.stack([table[name].to_numpy(zero_copy_only=False) for name in WORDS], 1)
    train, held_out = random_split(range(len(late)), [0.8, 0.2], torch.Generator().manual_seed(0))
    train, held_out = np.array(train.indices), np.array(held_out.indices)
    scaler, encoder = StandardScaler().fit(numbers[train]), OneHotEncoder(sparse_output=False).fit(words[train])
    features = np.concatenate([scaler.transform(numbers), encoder.transform(words)], 1)
    model = LogisticRegression(max_iter=300).fit(features[train], late[train])
    return {"accuracy": model.score(features[held_out], late[held_out]), "train": len(train)}


@pytest.mark.parametrize("ranks", [long(None, id="one rank"), pytest.param(2, id="two ranks")])
def test_recipe_matches_scikit_learn(job, baseline, ranks, capsys):
    job.config = yaml.safe_load((SOURCE / "configs" / "flights.yaml").read_text())
    job.config["run"]["dir"] = str(job.runs)
    job.config["data"]["train"]["path"] = str(FLIGHTS)
    job.write()
    run = job.train(ranks=ranks, timeout=300)
    accuracy = job.series(run.name, "eval/accuracy")[-1][1]
    with capsys.disabled():
        print(f"\naccuracy {accuracy:.4f}, logistic regression {baseline['accuracy']:.4f}")
    assert accuracy >= baseline["accuracy"] - 0.002


def test_file_has_20_row_groups():
    assert pyarrow.parquet.ParquetFile(FLIGHTS).num_row_groups == 20


def inspected(job):
    ended = run([TRAINER, "--inspect-data", job.file], job.directory)
    assert ended.code == 0, ended.err
    return ended.out


def test_inspect_data_of_tables(job, baseline):
    """Classes of a Parquet file, classes of csv shards, values."""
    job.config = yaml.safe_load((SOURCE / "configs" / "flights.yaml").read_text())
    job.config["data"]["train"]["path"] = str(FLIGHTS)
    job.write()
    out = inspected(job)
    assert str(baseline["train"]) in out and "features Float [23] per sample" in out and "2, with " in out, out
    job.config["data"] = {"train": {"name": "csv", "path": str(job.directory / "shards"), "label": "y"}, "batch_size": 4}
    (job.directory / "shards").mkdir()
    for labels, text in ((["cat", "dog", "cat", "cow"], "3, with 3 to 6 samples"), ([0.5, 1, 1, 2.5], "values from 0.5 to 2.5")):
        for number in range(3):
            rows = [f"{number},{label}" for label in labels]
            (job.directory / "shards" / f"{number}.csv").write_text("\n".join(["x,y", *rows]) + "\n")
        job.write()
        assert text in inspected(job)


def use_diabetes(job):
    """The recipe of diabetes.yaml on scikit-learn's table, and that table."""
    table = load_diabetes()
    columns = ",".join([*table.feature_names, "target"])
    rows = np.column_stack([table.data, table.target])
    np.savetxt(job.directory / "diabetes.csv", rows, "%.9g", ",", header=columns, comments="")
    job.config = yaml.safe_load((SOURCE / "configs" / "diabetes.yaml").read_text())
    job.config["run"]["dir"] = str(job.runs)
    job.config["data"]["train"]["path"] = str(job.directory / "diabetes.csv")
    job.write()
    return table.data.astype("float32"), table.target.astype("float32")


def test_regression_recipe_matches_scikit_learn(job, capsys):
    inputs, target = use_diabetes(job)
    run = job.train(ranks=2)
    loss = job.series(run.name, "eval/loss")[-1][1]
    train, held_out = random_split(range(len(target)), [0.8, 0.2], torch.Generator().manual_seed(0))
    model = LinearRegression().fit(inputs[train.indices], target[train.indices])
    linear = np.square(model.predict(inputs[held_out.indices]) - target[held_out.indices]).mean()
    with capsys.disabled():
        print(f"\nmean squared error {loss:.0f}, linear regression {linear:.0f}")
    assert loss <= 1.1 * linear


@pytest.mark.parametrize("ranks", [None, 2], ids=["one rank", "two ranks"])
def test_regression_matches_pytorch(job, ranks):
    inputs, target = (torch.from_numpy(array) for array in use_diabetes(job))
    data = {**job.config["data"]["train"], "standardize": False}
    job.config["data"] = {"train": data, "eval": data, "batch_size": 34, "shuffle": False}  # of 442
    job.write()
    run = job.train("train.epochs=3", "schedule.name=constant", ranks=ranks)

    torch.manual_seed(0)
    nn = torch.nn
    layers = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.003)
    for step in range(3 * 13):
        batch = slice(step % 13 * 34, step % 13 * 34 + 34)
        optimizer.zero_grad()
        nn.functional.mse_loss(layers(inputs[batch]), target[batch, None]).backward()
        optimizer.step()

    weights = load_file(last_weights(run))
    for name, tensor in layers.state_dict().items():
        torch.testing.assert_close(weights[f"layers.{name}"], tensor, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        error = layers(inputs)[:, 0] - target
    assert job.series(run.name, "eval/loss")[-1][1] == pytest.approx(error.square().mean().item(), rel=1e-5)
    assert job.series(run.name, "eval/mae")[-1][1] == pytest.approx(error.abs().mean().item(), rel=1e-5)
