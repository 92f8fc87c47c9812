"""Files for schedulers, containers and Grafana: they parse, and the names in them exist."""
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = sorted([*(ROOT / "examples" / "kubernetes").glob("*.yaml"), *(ROOT / "examples" / "skypilot").glob("*.yaml")])
SCRIPTS = sorted((ROOT / "examples" / "slurm").glob("*.sbatch"))
LAUNCH_OPTIONS = set(re.findall(r'add\("([^"]+)"', (ROOT / "cli" / "launch" / "launch_option_list.cpp").read_text()))
NAMES = {f"-{name}" if len(name) == 1 else f"--{name}" for names in LAUNCH_OPTIONS for name in names.split(",")}


def words_of(node):
    """All texts of a document."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from words_of(key)
            yield from words_of(value)
    elif isinstance(node, list):
        for value in node:
            yield from words_of(value)
    elif isinstance(node, str):
        yield node


def check_launch(words):
    assert words, "lockstep launch is not started"
    for word in words:
        if word.startswith("-"):
            assert word.split("=")[0] in NAMES, f"lockstep launch has no option {word}"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_parse_and_use_existing_options(path):
    documents = list(yaml.safe_load_all(path.read_text()))
    text = " ".join(" ".join(words_of(document)) for document in documents).replace("\\\n", " ")
    check_launch(re.search(r"lockstep launch (.*?run\.dir=\S+)", text, re.S)[1].split())
    for name in set(re.findall(r"\bLOCKSTEP_\w+", text)):
        found = subprocess.run(["grep", "-rqF", f'"{name}"', *(ROOT / folder for folder in ("launch", "core", "tracking"))])
        assert found.returncode == 0, f"{name} is not read by Lockstep"
    config = re.search(r"configs/\S+\.yaml", text)[0]
    assert (ROOT / config).exists()


def node_counts(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("completions", "parallelism"):
                yield value
            if value == "NNODES":
                yield int(node["value"])
            yield from node_counts(value)
    elif isinstance(node, list):
        for value in node:
            yield from node_counts(value)


@pytest.mark.parametrize("path", [path for path in MANIFESTS if "kubernetes" in str(path)], ids=lambda path: path.name)
def test_numbers_of_nodes_agree(path):
    counts = [count for document in yaml.safe_load_all(path.read_text()) for count in node_counts(document)]
    assert len(counts) == 3 and len(set(counts)) == 1
    assert "[78]" in path.read_text(), "wrong input must not be retried"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_batch_scripts(path):
    text = path.read_text()
    assert subprocess.run(["bash", "-n", path]).returncode == 0
    assert "#SBATCH --requeue" in text
    if "lockstep sweep" in text:  # the signal is for the process of the script, and other tasks continue its trial
        assert re.search(r"#SBATCH --signal=B:TERM@\d+", text) and "exec lockstep sweep --join" in text
        return
    assert re.search(r"#SBATCH --signal=TERM@\d+", text) and "scontrol requeue" in text
    check_launch(re.search(r"launch (-n \S+)", text)[1].split()[:1])


def families():
    """The families of the prometheus sink: its own, and those of the documented metrics."""
    own = set(re.findall(r'"(lockstep_[a-z_]+)"', (ROOT / "tracking/sinks/prometheus/exposition.cpp").read_text()))
    names = {name for page in (ROOT / "docs").rglob("*.md") for name in re.findall(r"`((?:train|eval|rank|system)/[a-zA-Z_./]+)`", page.read_text())}
    for row in (ROOT / "docs/system_metrics.md").read_text().splitlines():
        found = re.match(r"\| `(system/[\w.]+)`((?:, `\.\w+`)*)", row)
        if found:
            names |= {found[1]} | {found[1].rsplit(".", 1)[0] + ending for ending in re.findall(r"`(\.\w+)`", found[2])}
    names = {name.replace("gpu.N.", "gpu.") for name in names}
    return own | {"lockstep_" + re.sub(r"[^a-zA-Z0-9]", "_", name) for name in names}


def test_dashboard_uses_existing_metrics():
    dashboard = json.loads((ROOT / "packaging" / "grafana.json").read_text())
    known = families()
    used = {name for panel in dashboard["panels"] for target in panel["targets"] for name in re.findall(r"\blockstep_\w+", target["expr"])}
    used |= {name for variable in dashboard["templating"]["list"] for name in re.findall(r"\blockstep_\w+", str(variable.get("definition", "")))}
    assert len(used) >= 8 and used <= known, used - known
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


def test_images_install_the_wheel_in_two_stages():
    container = (ROOT / "packaging" / "Containerfile").read_text()
    assert len(re.findall(r"^FROM ", container, re.M)) == 2 and "COPY --from=build" in container and "USER 1000" in container
    definition = (ROOT / "packaging" / "lockstep.def").read_text()
    assert len(re.findall(r"^Stage: ", definition, re.M)) == 2 and "%files from build" in definition
    for text in (container, definition):
        for device in re.findall(r"DEVICE=(\w+)", text):
            assert (ROOT / "cmake" / f"requirements-{device}.txt").exists()
