"""Training on a folder of images: the recipe, resume on another number of ranks, corrupt files, data inspection."""

import io
import json
import math
import os
import random

import pytest
import yaml
from PIL import Image, ImageDraw

from processes import LOCKSTEP, SOURCE, TRAINER, run
from refusals import refuse
from safetensors_file import assert_same_bits, last_weights

CLASSES = ["circle", "square", "stripes"]


def draw(kind, rng):
    """A shape at a random place on a noisy background: colors are independent of the class."""
    color, ground = [tuple(rng.randrange(256) for _ in range(3)) for _ in range(2)]
    while math.dist(color, ground) < 150:
        color = tuple(rng.randrange(256) for _ in range(3))
    image = Image.new("RGB", (rng.randrange(60, 110), rng.randrange(60, 110)), ground)
    pen = ImageDraw.Draw(image)
    x, y, size = rng.randrange(5, 25), rng.randrange(5, 25), rng.randrange(25, 32)
    if kind == "circle":
        pen.ellipse([x, y, x + size, y + size], fill=color)
    elif kind == "square":
        pen.rectangle([x, y, x + size, y + size], fill=color)
    else:
        for left in range(0, image.width, 12):
            pen.rectangle([left, 0, left + 5, image.height], fill=color)
    return image


def save(image, path, number):
    path.parent.mkdir(parents=True, exist_ok=True)
    if number % 3 == 0:
        image.save(path.with_suffix(".png"))
    else:
        image.save(path.with_suffix(".jpg"), quality=90, progressive=number % 3 == 1)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    rng = random.Random(1)
    for split, count in (("train", 60), ("val", 20)):
        for kind in CLASSES:
            for number in range(count):
                save(draw(kind, rng), root / split / kind / f"{number:03}", number)
    return root


def use_recipe(job, photos, name):
    """The recipe, on three classes of small drawings."""
    recipe = yaml.safe_load((SOURCE / "configs" / name).read_text())
    recipe["run"]["dir"] = str(job.runs)
    recipe["model"] = {"name": "cnn", "in_channels": 3, "image_size": 32, "channels": [8, 16], "hidden": 32, "classes": 3}
    for split, part in (("train", "train"), ("val", "eval")):
        recipe["data"][part]["path"] = str(photos / split)
    recipe["data"]["train"]["transforms"][0].update(size=[32], scale=[0.4, 1.0])
    recipe["data"]["eval"]["transforms"] = [{"name": "resize", "size": [36]}, {"name": "center_crop", "size": [32]}, "normalize"]
    recipe["data"].pop("per_rank_batch_size", None)
    recipe["data"].update(batch_size=20, eval_batch_size=20)
    recipe["schedule"] = {"name": "constant"}
    recipe["train"] = {"epochs": 2, "log_every": "1 step"}
    job.config = recipe
    job.write()
    return job


@pytest.fixture
def images(job, photos):
    return use_recipe(job, photos, "images.yaml")


def test_the_recipe_learns(images):
    run_dir = images.train("train.epochs=25", "train.eval_every=25 epochs")
    assert images.series(run_dir.name, "eval/accuracy")[-1][1] > 0.55  # chance level is 0.33
    waited = images.series(run_dir.name, "data/wait_s")
    assert len(waited) == 225 and all(value >= 0 for _, value in waited)


def test_same_weights_for_any_number_of_workers(images):
    first = images.train("data.workers=0")
    for workers in (1, 4):
        assert_same_bits(last_weights(first), last_weights(images.train(f"data.workers={workers}")))


def test_resume_mid_epoch_on_other_ranks_loses_no_sample(images):
    """The loss of a step depends on its samples and on their augmentation: the series continue identically."""
    still = ["optimizer={name: sgd, lr: 1.0e-30}", "train.epochs=2"]  # constant weights, so that losses can be compared
    whole = images.series(images.train(*still).name, "train/loss")
    stopped = images.train(*still, "train.max_steps=5")
    ended = images.run(*still, ranks=2, options=["--resume", stopped.name])
    assert ended.code == 0, ended.err
    series = images.series(stopped.name, "train/loss")
    assert [step for step, _ in series] == [step for step, _ in whole]
    assert [loss for _, loss in series] == pytest.approx([loss for _, loss in whole], rel=1e-5)


def test_class_balanced_sampling(images):
    run_dir = images.train("data.sampling=class_balanced", ranks=2)
    assert len(images.series(run_dir.name, "train/loss")) == 18


def test_corrupt_file_is_named_in_the_error(images, tmp_path):
    folder = tmp_path / "corrupt"
    for number, kind in enumerate(CLASSES):
        save(draw(kind, random.Random(number)), folder / kind / "a", 1)
    stream = io.BytesIO()
    draw("circle", random.Random(3)).save(stream, "JPEG")
    (folder / "circle" / "cut.jpg").write_bytes(stream.getvalue()[:400])
    ended = images.run(f"data.train.path={folder}", "data.batch_size=2", "data.workers=2")
    assert ended.code == 78
    lines = [line for line in ended.err.splitlines() if line.strip()]
    assert len(lines) == 1, ended.err
    assert "data.train: batch " in lines[0] and "circle/cut.jpg" in lines[0] and "corrupt JPEG" in lines[0]


@pytest.mark.parametrize("ranks", [None, 2])
def test_corrupt_files_are_skipped_up_to_a_limit(images, tmp_path, ranks):
    folder = tmp_path / "some corrupt"
    for number in range(36):
        save(draw(CLASSES[number % 3], random.Random(number)), folder / CLASSES[number % 3] / str(number), number)
    for name in ("cut", "empty"):
        (folder / "circle" / f"{name}.jpg").write_bytes(b"" if name == "empty" else b"\xff\xd8\xff\xe0cut")
    paths = [f"data.{part}.path={folder}" for part in ("train", "eval")]
    allowed = [*paths, "data.batch_size=10", "data.workers=2", "data.max_bad_samples=4"]
    ended = images.run(*allowed, ranks=ranks)
    assert ended.code == 0, ended.err
    (entry,) = images.list()
    assert images.series(entry["id"], "data/bad_samples")[-1][1] >= 2  # of the training set; perhaps both ranks saw one
    if not ranks:
        assert [ended.out.count(f"circle/{name}.jpg") for name in ("cut", "empty")] == [2, 2]  # train and eval
    again = [LOCKSTEP, "launch", "-n", ranks or 1, "--evaluate", "--resume", entry["id"], images.file, *allowed, "--", "--out", "metrics.json"]
    evaluated = run(again, images.directory)
    assert evaluated.code == 0, evaluated.err
    found = json.loads((images.directory / "metrics.json").read_text())
    assert found["metrics"] == {name: entry["summary"][f"eval/{name}"] for name in found["metrics"]}
    assert (found["samples"], found["bad_samples"]) == (36, 2)
    assert "samples: 36, without 2 that cannot be loaded\n" in evaluated.out
    assert all(f"circle/{name}.jpg" in evaluated.out for name in ("cut", "empty"))
    ended = images.run(*allowed, "data.max_bad_samples=1", ranks=ranks)
    assert ended.code == 78
    if not ranks:
        (line,) = ended.err.splitlines()
        assert "bad sample 2, data.max_bad_samples is 1" in line and ".jpg" in line


def test_run_stores_class_names(images):
    assert json.loads((images.train("train.max_steps=1") / "data.json").read_text()) == {"classes": CLASSES}


def test_missing_or_unreadable_file_is_named(images, tmp_path):
    folder = tmp_path / "gone"
    for number, kind in enumerate(CLASSES):
        save(draw(kind, random.Random(number)), folder / kind / "a", 1)
    (folder / "circle" / "link.jpg").symlink_to(folder / "circle" / "a.jpg")
    os.chmod(folder / "square" / "a.jpg", 0)
    if os.geteuid() == 0:  # root can read every file; a directory in its place is unreadable for any user
        (folder / "square" / "a.jpg").unlink()
        (folder / "square" / "a.jpg").symlink_to("/proc/self/mem")
    ended = images.run(f"data.train.path={folder}", "data.batch_size=2")
    assert ended.code in (75, 78)
    assert "square/a.jpg" in ended.err


def inspect(images, *words):
    return run([TRAINER, "--inspect-data", *words], images.directory)


def test_inspect_data(images, tmp_path):
    sheet = tmp_path / "sheet.png"
    ended = inspect(images, "--sheet", sheet, images.file)
    assert ended.code == 0, ended.err
    for expected in ("data.train: image_folder", "180", "image Float [3, 32, 32] per sample", "label Long []",
                     "3, with 60 to 60 samples", "9 per epoch, of 20 samples: 20 on each of 1 rank",
                     "samples/s", "data.eval: image_folder", str(sheet)):
        assert expected in ended.out, ended.out
    with Image.open(sheet) as image:
        assert image.size == (8 * 34 - 2, 8 * 34 - 2)
        assert len(image.getcolors(1 << 20)) > 1000
    assert not images.runs.exists()


def test_inspect_data_of_bad_input(images):
    assert inspect(images).code == 78
    ended = inspect(images, images.file, "data.train.path=/nowhere")
    assert ended.code == 78 and "cannot read directory /nowhere" in ended.err


def test_the_recipe_of_handwritten_digits_learns(job):
    import numpy
    from sklearn.datasets import load_digits

    digits = load_digits()
    numpy.savez(job.directory / "digits.npz", image=digits.images[:, None].astype("uint8"), label=digits.target)
    job.config = yaml.safe_load((SOURCE / "configs" / "digits.yaml").read_text())
    job.config["run"]["dir"] = str(job.runs)
    job.config["data"]["train"]["path"] = str(job.directory / "digits.npz")
    job.write()
    run_dir = job.train(ranks=2)
    assert job.series(run_dir.name, "eval/accuracy")[-1][1] > 0.95


def make_torchvision_resnet(path, **arguments):
    import torch
    import torchvision
    from safetensors.torch import save_file

    torch.manual_seed(3)
    model = torchvision.models.resnet18(**arguments)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, path)
    return model.state_dict()


RESNET = "model={name: resnet, depth: 18, classes: 3}"


@pytest.mark.parametrize("ranks", [None, 2])
def test_torchvision_resnet_learns_other_classes(images, ranks):
    """Only its new last layer and the statistics of its norms differ afterwards."""
    import torch
    import torchvision
    from safetensors.torch import load_file

    begin = make_torchvision_resnet(images.directory / "resnet18.safetensors")
    images.config["train"].update(init_from=str(images.directory / "resnet18.safetensors"), init_except=["fc"],
                                  freeze=["conv1", "bn1", "layer1", "layer2", "layer3", "layer4"], epochs=1)
    images.write()
    tuned = load_file(last_weights(images.train(RESNET, ranks=ranks)))
    torchvision.models.resnet18(num_classes=3).load_state_dict(tuned, strict=True)
    for name, tensor in begin.items():
        is_the_same = tuned[name].shape == tensor.shape and torch.equal(tuned[name], tensor)
        assert is_the_same == (not name.startswith("fc.") and "running" not in name and "tracked" not in name), name


def test_invalid_freeze_and_init_except(images):
    make_torchvision_resnet(images.directory / "resnet18.safetensors")
    weights = f"train.init_from={images.directory}/resnet18.safetensors"
    refuse(images, [RESNET, weights], ["'fc.weight' is [1000,512] in the file and [3,512] in the model; train.init_except"], 2)
    refuse(images, [RESNET, weights, "train.init_except=[fd]"], ["train.init_except: no weight or module is named 'fd'", "did you mean 'fc'?"], None)
    refuse(images, [RESNET, "train.init_except=[fc]"], ["train.init_except: has no effect without train.init_from"], None)
    refuse(images, [RESNET, "train.freeze=[layer5]"], ["train.freeze: no weight or module is named 'layer5'", "did you mean 'layer"], None)
    everything = "train.freeze=[conv1, bn1, layer1, layer2, layer3, layer4, fc]"
    refuse(images, [RESNET, everything], ["train.freeze: no trainable weights remain"], 2)


def test_the_recipe_for_imagenet(job, photos):
    recipe = use_recipe(job, photos, "imagenet_resnet50.yaml")
    recipe.config["model"] = {"name": "resnet", "depth": 50, "classes": 3}
    recipe.config["data"].update(workers=2)
    recipe.write()
    run_dir = recipe.train("train.epochs=1", "train.precision=bf16", ranks=2)
    assert len(recipe.series(run_dir.name, "train/loss")) == 9
