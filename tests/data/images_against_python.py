"""image_folder returns the pixels of PIL and torchvision, for every kind of file that PIL writes."""

import io
import json
import random
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torchvision import datasets, transforms

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "printer")]
import datasets_against_python  # noqa: E402
import printer  # noqa: E402

TYPES = {"Float": np.float32, "Long": np.int64}


def start(path, parts, out, *key, **more):
    config = {"name": "image_folder", "path": str(path), "transforms": parts, **more}
    return printer.run("dataset", json.dumps(config), out, *key)


def load(path, parts, out, *key, **more):
    ended = start(path, parts, out, *key, **more)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    fields = json.loads(ended.stdout)
    return {name: np.fromfile(out / name, TYPES[field["dtype"]]).reshape(field["shape"]) for name, field in fields.items()}


def picture(width, height, seed=0):
    """Smooth colors with some noise and sharp edges, like a photo."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 100 * np.sin((x * (i + 1) + y * (3 - i)) / (17 + 5 * i)) for i in range(3)]
    pixels = np.stack(planes, 2) + rng.normal(0, 8, (height, width, 3))
    pixels[height // 4 : height // 2, width // 3 : width // 2] = [250, 10, 120]
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def jpeg(image, **options):
    stream = io.BytesIO()
    image.save(stream, "JPEG", **options)
    return stream.getvalue()


def png(image, **options):
    stream = io.BytesIO()
    image.save(stream, "PNG", **options)
    return stream.getvalue()


def webp(image, **options):
    stream = io.BytesIO()
    image.save(stream, "WEBP", **options)
    return stream.getvalue()


def kinds_of_files():
    base = picture(97, 61)
    palette = base.quantize(40)
    alpha = base.copy()
    alpha.putalpha(Image.linear_gradient("L").resize(base.size))
    return {
        "baseline.jpg": jpeg(base, quality=90),
        "upper.JPEG": jpeg(base, quality=75),
        "full_chroma.jpg": jpeg(base, quality=95, subsampling=0),
        "half_chroma.jpg": jpeg(base, quality=95, subsampling=1),
        "progressive.jpg": jpeg(base, quality=85, progressive=True),
        "restart_markers.jpg": jpeg(base, restart_marker_blocks=3),
        "gray.jpg": jpeg(base.convert("L")),
        "cmyk.jpg": jpeg(base.convert("CMYK")),
        "one_pixel.jpg": jpeg(base.crop((0, 0, 1, 1))),
        "rgb.png": png(base),
        "gray.png": png(base.convert("L")),
        "bits.png": png(base.convert("1")),
        "palette.png": png(palette),
        "transparent_palette.png": png(palette, transparency=3),
        "alpha.png": png(alpha),
        "gray_alpha.png": png(alpha.convert("LA")),
        "wide.png": png(picture(300, 20)),
        "lossy.webp": webp(base, quality=80),
        "lossless.webp": webp(base, lossless=True),
        "alpha.webp": webp(alpha, lossless=True, exact=True),
        "lossy_alpha.webp": webp(alpha, quality=60),
        "animated.webp": webp(base, save_all=True, append_images=[palette.convert("RGB")], lossless=True),
        "really_a_webp.png": webp(base),
        "really_a_png.jpg": png(base),
        "really_a_jpeg.png": jpeg(base),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    names = list(kinds_of_files().items())
    for number, (name, content) in enumerate(names):
        directory = root / ["zebra", "ant", "Bee"][number % 3] / ("deeper" if number % 4 == 0 else ".")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    (root / "ant" / "notes.txt").write_text("not an image")
    (root / "a file.jpg").write_bytes(b"not in a class")
    return root


def expected(folder, *parts):
    """The output of torchvision for the same files."""
    dataset = datasets.ImageFolder(folder, transforms.Compose([*parts, transforms.ToTensor()]))
    images, labels = zip(*dataset)
    return torch.stack(images).numpy(), np.array(labels)


PIPELINES = {
    "resize to a square": ([{"name": "resize", "size": [40, 48]}], [transforms.Resize((40, 48))]),
    "enlarge": ([{"name": "resize", "size": [150, 170]}], [transforms.Resize((150, 170))]),
    "shorter edge, then the middle": (
        [{"name": "resize", "size": [33]}, {"name": "center_crop", "size": [28]}],
        [transforms.Resize(33), transforms.CenterCrop(28)],
    ),
    "a middle larger than some images": (
        [{"name": "center_crop", "size": [70, 90]}],
        [transforms.CenterCrop((70, 90))],
    ),
}


@pytest.mark.parametrize("ours,theirs", PIPELINES.values(), ids=PIPELINES.keys())
def test_equal_to_torchvision(folder, tmp_path, ours, theirs):
    images, labels = expected(folder, *theirs)
    batch = load(folder, ours, tmp_path)
    assert batch["label"].tolist() == labels.tolist()
    assert batch["image"].shape == images.shape
    for image, wanted in zip(batch["image"], images):
        assert np.abs(image - wanted).max() <= 1 / 255 + 1e-6
    assert np.mean(batch["image"] == images) > 0.999


def test_normalize_has_the_bits_of_torchvision(folder, tmp_path):
    parts = [{"name": "resize", "size": [40, 48]}, {"name": "normalize"}]
    dataset = datasets.ImageFolder(folder, transforms.Compose([
        transforms.Resize((40, 48)), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))
    images = torch.stack([image for image, _ in dataset]).numpy()
    assert np.mean(load(folder, parts, tmp_path)["image"] == images) > 0.999


def one_image(tmp_path, content, name="image.jpg"):
    directory = tmp_path / "data" / "class"
    directory.mkdir(parents=True)
    (directory / name).write_bytes(content)
    return tmp_path / "data"


def whole(size):
    return [{"name": "center_crop", "size": [size[1], size[0]]}]


def pixels_of(batch):
    return (batch["image"][0] * 255).round().astype(int).transpose(1, 2, 0)


def jpeg_with_xmp(image, exif):
    content = jpeg(image, exif=exif, quality=95)
    xmp = b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta/>"
    return content[:2] + b"\xff\xe1" + struct.pack(">H", len(xmp) + 2) + xmp + content[2:]


def png_with_late_exif(image, exif):
    content = png(image)
    data = b"eXIf" + exif.removeprefix(b"Exif\0\0")
    return content[:-12] + struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data)) + content[-12:]


ORIENTED = {
    "jpeg": lambda image, exif: jpeg(image, exif=exif, quality=95),
    "jpeg with XMP before": jpeg_with_xmp,
    "png": lambda image, exif: png(image, exif=exif),
    "png, behind the pixels": png_with_late_exif,
    "webp": lambda image, exif: webp(image, exif=exif, lossless=True),
}


@pytest.mark.parametrize("kind, orientation", [("jpeg", n) for n in range(1, 9)] + [(kind, 6) for kind in list(ORIENTED)[1:]])
def test_exif_orientation(tmp_path, kind, orientation):
    from PIL import ImageOps

    base = picture(60, 40)
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = ORIENTED[kind](base, exif.tobytes())
    stored = Image.open(io.BytesIO(content))
    stored.load()
    upright = ImageOps.exif_transpose(stored)
    root = one_image(tmp_path, content)
    as_stored = load(root, whole(stored.size), tmp_path)
    assert np.array_equal(pixels_of(as_stored), np.asarray(stored).astype(int))
    turned = load(root, whole(upright.size), tmp_path, exif_orientation=True)
    assert np.array_equal(pixels_of(turned), np.asarray(upright).astype(int))


def test_16_bits_are_truncated_to_8(tmp_path):
    gray = (np.arange(48 * 64).reshape(48, 64) * 21 % 65536).astype(np.uint16)
    root = one_image(tmp_path, png(Image.fromarray(gray)), "deep.png")
    image = pixels_of(load(root, whole((64, 48)), tmp_path))
    assert np.array_equal(image[:, :, 0], gray >> 8)
    assert np.array_equal(image[:, :, 1], image[:, :, 0])


@pytest.mark.parametrize("kind", ["progressive", "no smoothing"])
def test_partial_decoding_returns_the_same_pixels(tmp_path, kind):
    big = picture(640, 480)
    content = {"baseline": lambda: jpeg(big, quality=95), "progressive": lambda: jpeg(big, progressive=True),
               "cmyk": lambda: jpeg(big.convert("CMYK")), "no smoothing": lambda: jpeg(big, subsampling=0)}[kind]()
    root = one_image(tmp_path, content)
    for seed in range(8):
        part = {"name": "random_resized_crop", "size": [24, 24], "scale": [0.02, 0.9]}
        # An identity transform first, without random numbers, forces decoding of the full image.
        all_of_it = load(root, [*whole(big.size), part], tmp_path, seed, 0)["image"]
        assert np.array_equal(load(root, [part], tmp_path, seed, 0)["image"], all_of_it)
        scaled = load(root, [part], tmp_path, seed, 0, scaled_decoding=True)["image"]
        assert np.abs(scaled - all_of_it).mean() < 0.06  # the image has fine stripes


def test_flips_and_crops_follow_seed_and_epoch(folder, tmp_path):
    parts = [{"name": "random_resized_crop", "size": [20]}, {"name": "random_horizontal_flip"},
             {"name": "color_jitter", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}]
    first = load(folder, parts, tmp_path, 1, 0)["image"]
    assert np.array_equal(first, load(folder, parts, tmp_path, 1, 0)["image"])
    assert not np.array_equal(first, load(folder, parts, tmp_path, 1, 1)["image"])
    assert not np.array_equal(first, load(folder, parts, tmp_path, 2, 0)["image"])


def test_flip_mirrors_the_image(tmp_path):
    base = picture(31, 20)
    root = one_image(tmp_path, png(base), "image.png")
    mirrored = pixels_of(load(root, [*whole(base.size), {"name": "random_horizontal_flip", "p": 1}], tmp_path))
    assert np.array_equal(mirrored, np.asarray(base)[:, ::-1])


JITTER = {"brightness": ImageEnhance.Brightness, "contrast": ImageEnhance.Contrast, "saturation": ImageEnhance.Color}


@pytest.mark.parametrize("change", JITTER)
def test_color_jitter_matches_pil(tmp_path, change):
    """The factor is random; with the same factor, PIL must return the same image."""
    base = picture(50, 40)
    root = one_image(tmp_path, png(base), "image.png")
    parts = [*whole(base.size), {"name": "color_jitter", change: 0.7}]
    factors = set()
    for seed in range(6):
        image = pixels_of(load(root, parts, tmp_path, seed, 0))
        fits = [f for f in np.arange(0.3, 1.7, 0.002)
                if np.abs(np.asarray(JITTER[change](base).enhance(float(f))).astype(int) - image).max() <= 1]
        assert fits, f"PIL returns the image of seed {seed} for no factor"
        factors.add(round(float(np.mean(fits)), 1))
    assert len(factors) > 1


def test_hue_matches_torchvision(tmp_path):
    base = picture(50, 40)
    root = one_image(tmp_path, png(base), "image.png")
    for seed in range(4):
        image = pixels_of(load(root, [*whole(base.size), {"name": "color_jitter", "hue": 0.5}], tmp_path, seed, 0))
        # torchvision truncates to multiples of 1/255; the halves avoid the boundaries.
        factors = [step / 255 for step in np.arange(-127.5, 128)]
        distance = min(np.abs(np.asarray(transforms.functional.adjust_hue(base, float(factor))).astype(int) - image).max()
                       for factor in factors)
        assert distance <= 1


GOOD = jpeg(picture(64, 48))
GOOD_PNG = png(picture(64, 48))
GOOD_WEBP = webp(picture(64, 48))
HUGE_PNG = GOOD_PNG[:16] + struct.pack(">II", 500_000, 500_000) + GOOD_PNG[24:]


def corrupt_middle(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]


BAD = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello, world", "not an image of a known format"),
    "html": (b"<html>404</html>", "is text"),
    "gif": (b"GIF89a" + bytes(50), "is a GIF"),
    "avif": (b"\0\0\0\x20ftypavif" + bytes(50), "is an AVIF"),
    "truncated webp": (GOOD_WEBP[:-100], "corrupt WebP"),
    "webp header only": (GOOD_WEBP[:20], "corrupt WebP"),
    "truncated jpeg": (GOOD[: len(GOOD) * 2 // 3], "corrupt JPEG"),
    "jpeg header only": (GOOD[:30], "corrupt JPEG"),
    "truncated progressive": (jpeg(picture(64, 48), progressive=True)[:-200], "corrupt JPEG"),
    "truncated png": (GOOD_PNG[:-500], "corrupt PNG: truncated file"),
    "png header only": (GOOD_PNG[:20], "corrupt PNG"),
    "png with a wrong bit": (corrupt_middle(GOOD_PNG), "corrupt PNG"),
    "png with a wrong size in its header": (HUGE_PNG, "corrupt PNG"),
}


@pytest.mark.parametrize("content,reason", BAD.values(), ids=BAD.keys())
def test_bad_files_are_named(tmp_path, content, reason):
    root = one_image(tmp_path, content)
    ended = start(root, [{"name": "resize", "size": [8, 8]}], tmp_path)
    assert ended.returncode == 78, ended.stdout + ended.stderr
    assert "sample 0 (" in ended.stdout and "class/image.jpg" in ended.stdout
    assert reason in ended.stdout


def test_images_over_the_limit_are_rejected(tmp_path):
    root = one_image(tmp_path, jpeg(picture(200, 100)))
    ended = start(root, [{"name": "resize", "size": [8, 8]}], tmp_path, max_pixels=19_999)
    assert ended.returncode == 78 and "200 x 100 pixels are more than the limit of 19999" in ended.stdout


def refused(tmp_path, parts=({"name": "resize", "size": [8, 8]},), **more):
    ended = start(tmp_path / "data", list(parts), tmp_path, **more)
    assert ended.returncode == 78, ended.stdout + ended.stderr
    assert ended.stdout.count("\n") == 1
    return ended.stdout


def test_directories_that_are_not_image_folders(tmp_path):
    assert "cannot read directory" in refused(tmp_path)
    (tmp_path / "data").mkdir()
    assert "has no directories" in refused(tmp_path)
    (tmp_path / "data" / "empty").mkdir()
    for name in (".DS_Store", "notes.txt", "labels.CSV"):
        (tmp_path / "data" / "empty" / name).write_bytes(b"x")
    assert "has no JPEG, PNG or WebP images" in refused(tmp_path)


@pytest.mark.parametrize("name", ["x.avif", "x.HEIC", "x.gif", "x.jxl", "x.npy", "without an ending"])
def test_files_that_are_not_read_are_named(tmp_path, name):
    root = one_image(tmp_path, GOOD)
    (root / "class" / name).write_bytes(b"x")
    ended = start(root, [{"name": "resize", "size": [8, 8]}], tmp_path)
    assert ended.returncode == 78
    assert f"class/{name}: only JPEG, PNG and WebP images are supported" in ended.stdout and "convert this file or move it" in ended.stdout


def test_hidden_files_are_not_read(tmp_path):
    root = one_image(tmp_path, GOOD)
    (root / "class" / "._image.jpg").write_bytes(b"what macOS writes into archives")
    assert load(root, [{"name": "resize", "size": [8, 8]}], tmp_path)["image"].shape == (1, 3, 8, 8)


def classes_of(tmp_path, part, names):
    for name in names:
        (tmp_path / part / name).mkdir(parents=True)
        (tmp_path / part / name / "image.png").write_bytes(GOOD_PNG)
    return {"name": "image_folder", "path": str(tmp_path / part), "transforms": [{"name": "resize", "size": [8, 8]}]}


def test_an_evaluation_set_has_the_classes_of_the_training_set(tmp_path):
    train = classes_of(tmp_path, "train", ["cat", "dog", "owl"])
    data = {"train": train, "eval": classes_of(tmp_path, "eval", ["cat", "owl"])}
    batches = datasets_against_python.load(tmp_path, data)
    assert batches["train", 0][0]["label"].tolist() == [0, 1, 2]
    assert batches["eval", 0][0]["label"].tolist() == [0, 2]
    other = {"train": train, "eval": classes_of(tmp_path, "other", ["cat", "dogs"])}
    message = datasets_against_python.refused(tmp_path, other)
    assert f"{tmp_path}/other: class 'dogs' does not occur in {tmp_path}/train, the training data; did you mean 'dog'? valid: cat, dog, owl" in message


def test_unusual_names_are_found(tmp_path):
    directory = tmp_path / "data" / "a class\nof 'two' lines — ü"
    directory.mkdir(parents=True)
    (directory / "ümlaut $(x) 'q'.png").write_bytes(GOOD_PNG)
    assert load(tmp_path / "data", [{"name": "resize", "size": [8, 8]}], tmp_path)["image"].shape == (1, 3, 8, 8)
    (directory / "b\nad.png").write_bytes(b"")
    assert "b\\nad.png" in refused(tmp_path)


def test_invalid_pipelines(tmp_path):
    one_image(tmp_path, GOOD)
    assert "would not all have the same size" in refused(tmp_path, [])
    assert "would not all have the same size" in refused(tmp_path, [{"name": "resize", "size": [8]}])
    crop = {"name": "center_crop", "size": [8]}
    assert "must be the last" in refused(tmp_path, [crop, {"name": "normalize"}, {"name": "random_horizontal_flip"}])
    assert "unknown image transform 'centre_crop'; did you mean 'center_crop'?" in refused(tmp_path, [{"name": "centre_crop"}])
    assert "smaller than" in refused(tmp_path, [{"name": "random_crop", "size": [200]}])
    assert "[side] or [height, width]" in refused(tmp_path, [{"name": "center_crop", "size": [1, 2, 3]}])


def test_random_changes_of_files_never_crash(tmp_path):
    """A fuzz target does this with sanitizers; this test runs the complete path."""
    rng = random.Random(4)
    root = one_image(tmp_path, GOOD)
    file = root / "class" / "image.jpg"
    for _ in range(40):
        content = bytearray(rng.choice([GOOD, GOOD_PNG]))
        for _ in range(rng.randint(1, 6)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        file.write_bytes(content)
        assert start(root, [{"name": "resize", "size": [8, 8]}], tmp_path).returncode in (0, 78)
