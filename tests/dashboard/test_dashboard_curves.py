"""The areas of the page's ROC and precision-recall curves, and its counts at a threshold, against scikit-learn."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score, roc_curve

WEB = pathlib.Path(__file__).resolve().parents[2] / "dashboard" / "web"

SCRIPT = """
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const { build } = createRequire(process.argv[2])("esbuild");
const { outputFiles } = await build({ entryPoints: [process.argv[3]], bundle: true, write: false, format: "esm", logLevel: "silent" });
const page = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`);
const { table, threshold } = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(page.classScores(table).map((one) => ({ name: one.name, roc: page.rocCurve(one), pr: page.precisionRecallCurve(one), counts: page.countsAt(one, threshold) }))));
"""


@pytest.fixture
def curves(tmp_path):
    """Calls the page's functions on a table; one entry per class."""
    script = tmp_path / "curves.mjs"
    script.write_text(SCRIPT)

    def compute(columns, rows, threshold=0.5):
        request = {"table": {"columns": columns, "rows": rows}, "threshold": threshold}
        ended = subprocess.run(["node", script, WEB / "package.json", WEB / "src" / "run" / "classifier_curves.ts"],
                               input=json.dumps(request), capture_output=True, text=True, timeout=60, check=True)
        return json.loads(ended.stdout)

    return compute


def samples(count, num_scores, seed):
    """Labels, and scores with many equal values."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, count)
    score = np.round(1 / (1 + np.exp(-(random.normal(size=count) + label - 0.5))) * num_scores) / num_scores
    return label, score


@pytest.mark.parametrize("count, num_scores", [(20, 4), (500, 10), (5000, 10**6)])
def test_areas_and_counts_of_binary_scores(curves, count, num_scores):
    label, score = samples(count, num_scores, count)
    (own,) = curves(["label", "score"], [[int(a), float(b)] for a, b in zip(label, score)])
    assert own["roc"]["area"] == pytest.approx(roc_auc_score(label, score), abs=1e-12)
    assert own["pr"]["area"] == pytest.approx(average_precision_score(label, score), abs=1e-12)
    counts = own["counts"]
    expected = confusion_matrix(label, score >= 0.5)
    assert [counts["trueNegatives"], counts["falsePositives"], counts["falseNegatives"], counts["truePositives"]] == expected.ravel().tolist()
    # Every drawn point is one of the curve.
    false_positive, true_positive, _ = roc_curve(label, score, drop_intermediate=False)
    known = np.stack([false_positive, true_positive], 1)
    for point in zip(own["roc"]["x"], own["roc"]["y"]):
        assert np.abs(known - np.array(point)).sum(1).min() < 1e-12
    assert len(own["roc"]["x"]) <= 2100


def test_areas_of_one_class_against_the_others(curves):
    random = np.random.default_rng(3)
    names = ["cat", "dog", "bird"]
    label = random.integers(0, 3, 400)
    scores = np.round(random.normal(size=(400, 3)) + np.eye(3)[label], 1)
    rows = [[names[actual], *map(float, row)] for actual, row in zip(label, scores)]
    for i, own in enumerate(curves(["label", *[f"score/{name}" for name in names]], rows)):
        assert own["name"] == names[i]
        assert own["roc"]["area"] == pytest.approx(roc_auc_score(label == i, scores[:, i]), abs=1e-12)
        assert own["pr"]["area"] == pytest.approx(average_precision_score(label == i, scores[:, i]), abs=1e-12)
