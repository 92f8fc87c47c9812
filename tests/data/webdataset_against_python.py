"""webdataset returns the samples of the Python package webdataset, from archives that it, Python and GNU tar write."""

import io
import json
import subprocess
import tarfile

import numpy as np
import pytest
import webdataset
from images_against_python import TYPES, jpeg, picture, png, printer, webp
from PIL import Image

CROP = [{"name": "center_crop", "size": [20, 24]}]
CLASSES = ["ant", "bee", "cat", "dog"]
ENCODERS = {"jpg": jpeg, "PNG": png, "webp": lambda image: webp(image, lossless=True)}


def start(path, out, **more):
    return printer.run("dataset", json.dumps({"name": "webdataset", "path": str(path), "transforms": CROP, **more}), out)


def load(path, out, **more):
    ended = start(path, out, **more)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    fields = json.loads(ended.stdout)
    return {name: np.fromfile(out / name, TYPES[field["dtype"]]).reshape(field["shape"]) for name, field in fields.items()}


def refused(path, out, **more):
    ended = start(path, out, **more)
    assert ended.returncode == 78 and ended.stdout.count("\n") == 1, ended.stdout + ended.stderr
    return ended.stdout


def samples(count, first=0):
    """(key, {extension: content}) of samples of every kind."""
    for number in range(first, first + count):
        extension, encode = list(ENCODERS.items())[number % 3]
        label = number * 7 % 4
        meta = json.dumps({"label": label, "name": CLASSES[label], "nested": {"label": 9}})
        yield f"part{number // 4}/{number:05}", {extension: encode(picture(30 + number % 5, 26, number)), "cls": f"{label}\n".encode(),
                                                "json": meta.encode(), "txt": CLASSES[label].encode()}


def assert_equals_webdataset(paths, batch, extension="cls"):
    """The samples of the package, decoded by PIL and cut by numpy."""
    theirs = list(webdataset.WebDataset([str(path) for path in paths], shardshuffle=False, empty_check=False))
    labels, images = [], []
    for sample in theirs:
        labels.append(CLASSES.index(sample["txt"].decode()) if extension == "txt" else int(sample[extension]))
        content = next(sample[name] for name in ("jpg", "png", "webp") if name in sample)
        pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
        top, left = round((pixels.shape[0] - 20) / 2), round((pixels.shape[1] - 24) / 2)
        images.append(pixels[top : top + 20, left : left + 24].transpose(2, 0, 1).astype(np.float32) / 255)
    assert len(labels) > 0
    assert batch["label"].tolist() == labels
    assert np.abs(batch["image"] - np.stack(images)).max() <= 1 / 255 + 1e-6
    assert np.mean(batch["image"] == np.stack(images)) > 0.999


@pytest.fixture
def shards(tmp_path):
    """Written by the package: 3 shards of 5 samples."""
    folder = tmp_path / "shards"
    folder.mkdir()
    with webdataset.ShardWriter(str(folder / "set-%03d.tar"), maxcount=5, verbose=0) as writer:
        for key, members in samples(15):
            writer.write({"__key__": key, **members})
    (folder / "notes.md").write_text("not an archive")
    return folder


def test_a_folder_a_file_and_a_range(tmp_path, shards):
    files = sorted(shards.glob("*.tar"))
    assert len(files) == 3
    assert_equals_webdataset(files, load(shards, tmp_path))
    assert_equals_webdataset(files[1:2], load(files[1], tmp_path))
    assert_equals_webdataset(files[1:], load(shards / "set-{001..002}.tar", tmp_path))
    for number, file in enumerate(files):
        file.rename(shards / f"b{number + 8}.tar")
    assert_equals_webdataset([shards / f"b{number}.tar" for number in (8, 9, 10)], load(shards / "b{8..10}.tar", tmp_path))
    assert "b11.tar: no such file" in refused(shards / "b{8..11}.tar", tmp_path)
    assert "the range 3 to 2 has no numbers" in refused(shards / "b{3..2}.tar", tmp_path)
    assert "more than 100000 files" in refused(shards / "b{0..999999}.tar", tmp_path)
    assert load(shards, tmp_path, limit=7)["label"].shape == (7,)
    assert "limit 99 is larger than the number of samples, 15" in refused(shards, tmp_path, limit=99)


def test_an_index_of_wids(tmp_path, shards):
    """The same samples; archives that are not used are not opened."""
    files = sorted(shards.glob("*.tar"))
    entries = [{"url": f"https://example.org/{file.name}", "nsamples": 5, "md5sum": "0"} for file in files]

    def write(shardlist):
        (shards / "index.json").write_text(json.dumps({"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shardlist}))

    write(entries)
    assert_equals_webdataset(files, load(shards, tmp_path))
    assert_equals_webdataset(files[1:], load(shards / "set-{001..002}.tar", tmp_path))
    assert load(shards, tmp_path, limit=7)["label"].shape == (7,)
    assert "limit 99 is larger than the number of samples, 15" in refused(shards, tmp_path, limit=99)
    index = f"{shards}/index.json"
    for bad, text in ((entries[:2], f"{index}: it does not name set-002.tar"), (entries + entries[:1], f"{index}: it names set-000.tar twice"),
                      (entries + [{"url": "b.tar", "nsamples": 1}], f"{index}: it names b.tar, which is missing"),
                      ([{**entries[0], "nsamples": -5}], f"{index}: shard 1, set-000.tar, has no 'nsamples'"),
                      ([{**entries[0], "nsamples": 0}] + entries[1:], f"{index}: shard 1, set-000.tar, has 'nsamples' 0"),
                      ([{**entries[0], "filesize": 9}] + entries[1:], f"set-000.tar: it has {files[0].stat().st_size} bytes, but 9 in {index}"),
                      ([{"url": "..", "nsamples": 5}], f"{index}: shard 1 has no 'url' with the name of its file"),
                      ([{**entries[0], "nsamples": 6}] + entries[1:], f"set-000.tar: it has 5 samples, but 6 in {index}")):  # fmt: skip
        write(bad)
        assert text in refused(shards, tmp_path)
    write(entries)
    files[2].write_bytes(b"")
    assert_equals_webdataset(files[:2], load(shards, tmp_path, limit=10))
    assert "set-002.tar: it is empty" in refused(shards, tmp_path)


def test_labels_from_json_and_names(tmp_path, shards):
    expected = load(shards, tmp_path)["label"].tolist()
    files = sorted(shards.glob("*.tar"))
    for label in ({"label": "json", "label_key": "label"}, {"label": "json", "label_key": "name", "classes": CLASSES},
                  {"label": "txt", "classes": CLASSES}):
        batch = load(shards, tmp_path, **label)
        assert batch["label"].tolist() == expected
        if label["label"] == "txt":
            assert_equals_webdataset(files, batch, "txt")
    text = refused(shards, tmp_path, label="json", label_key="lable")
    assert "set-000.tar: part0/00000.json: no key 'lable'; did you mean 'label'?" in text
    assert "key 'nested' is neither the number nor the name of a class" in refused(shards, tmp_path, label="json", label_key="nested")
    assert "label: json needs label_key" in refused(shards, tmp_path, label="json")
    assert "label_key has no effect" in refused(shards, tmp_path, label_key="x")
    assert "part0/00001.txt: 'dog' is not one of classes" in refused(shards, tmp_path, label="txt", classes=["ant", "cat"])
    assert "'ant' occurs twice" in refused(shards, tmp_path, label="txt", classes=["ant", "ant"])
    text = refused(shards, tmp_path, label="txt")
    assert "set-000.tar: part0/00000.txt: 'ant' is not the number of a class; for names, set classes" in text
    assert "part0/00001.cls: class 3 is not below 3, the number of classes" in refused(shards, tmp_path, classes=CLASSES[:3])


LONG = "x" * 60 + "/" + "y" * 90 + "/"  # more than a V7 header has
LONGER = "z" * 200 + "/" + LONG  # more than a ustar header has


def write_with_python(file, form, prefix, more=()):
    with tarfile.open(file, "w", format=form) as archive:
        for key, members in samples(4):
            for extension, content in members.items():
                info = tarfile.TarInfo(f"{prefix}{key}.{extension}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info)


@pytest.mark.parametrize("form, prefix", [
    (tarfile.USTAR_FORMAT, LONG), (tarfile.GNU_FORMAT, LONGER), (tarfile.PAX_FORMAT, LONGER), (tarfile.PAX_FORMAT, "ümlaut \n/"),
    (tarfile.GNU_FORMAT, "ümlaut \n/")])  # fmt: skip
def test_archives_of_python(tmp_path, form, prefix):
    file = tmp_path / "a.tar"
    folder = tarfile.TarInfo("folder.jpg")
    folder.type = tarfile.DIRTYPE
    write_with_python(file, form, prefix, [folder, tarfile.TarInfo("README"), tarfile.TarInfo("__meta__/a.jpg"), tarfile.TarInfo(".hidden.jpg")])
    assert_equals_webdataset([file], load(file, tmp_path))


def write_files(folder, prefix):
    for key, members in samples(4):
        for extension, content in members.items():
            place = folder / f"{prefix}{key}.{extension}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


@pytest.mark.parametrize("form, prefix", [("v7", ""), ("oldgnu", LONGER), ("gnu", LONGER), ("ustar", LONG), ("pax", LONGER)])
def test_archives_of_gnu_tar(tmp_path, form, prefix):
    write_files(tmp_path / "files", prefix)
    file = tmp_path / "a.tar"
    subprocess.run(["tar", "--sort=name", f"--format={form}", "-C", tmp_path / "files", "-cf", file, "."], check=True, timeout=60)
    assert_equals_webdataset([file], load(file, tmp_path))


def header(name, size, kind=b"0", magic=b"ustar\x0000"):
    """A header block; `size`: the bytes of its field."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b"0000644\0"
    block[124 : 124 + len(size)] = size
    block[156:157] = kind
    block[257:265] = magic
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def member(name, content, size=None, kind=b"0"):
    size = b"%011o\0" % len(content) if size is None else size
    return header(name.encode(), size, kind) + content + bytes(-len(content) % 512)


def base256(number):
    return b"\x80" + number.to_bytes(11, "big")


def pax(**records):
    lines = b""
    for key, value in records.items():
        line = f" {key.replace('__', '.')}={value}\n".encode()
        length = len(line) + 2
        lines += str(length).encode() + line
    return member("pax", lines, kind=b"x")


IMAGE, END = png(picture(30, 26)), bytes(1024)
LABEL = member("a.cls", b"1")
GOOD = member("a.png", IMAGE) + LABEL


@pytest.mark.parametrize("content", [
    GOOD + END, GOOD + bytes(512), GOOD + bytes(10240),
    member("a.png", IMAGE, base256(len(IMAGE))) + LABEL + END,
    member("a.png", IMAGE, b"%11o " % len(IMAGE)) + LABEL + END,
    pax(path="a.png", size=len(IMAGE)) + member("b", IMAGE, b"77777777777\0") + LABEL + END,
])  # fmt: skip
def test_sizes_in_every_notation(tmp_path, content):
    (tmp_path / "a.tar").write_bytes(content)
    assert_one(load(tmp_path / "a.tar", tmp_path))
    with tarfile.open(tmp_path / "a.tar") as archive:
        assert archive.extractfile("a.png").read() == IMAGE


def assert_one(batch):
    assert batch["label"].tolist() == [1]
    assert np.array_equal(batch["image"][0], np.asarray(picture(30, 26))[3:23, 3:27].transpose(2, 0, 1).astype(np.float32) / 255)


def corrupt(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


BAD = {
    "empty": (b"", "a.tar: it is empty"),
    "other": (b"hello" * 200, "a.tar: it is not a tar archive"),
    "gzip": (b"\x1f\x8b" + GOOD, "a.tar: it is compressed with gzip; decompress it"),
    "zstd": (b"\x28\xb5\x2f\xfd" + GOOD, "a.tar: it is compressed with zstd; decompress it"),
    "xz": (b"\xfd7zXZ\0" + GOOD, "a.tar: it is compressed with xz, not a tar archive; decompress it"),
    "no end": (GOOD, "a.tar: it is truncated: the archive has no end mark"),
    "no complete header": (GOOD + END[:100], "a.tar: it is truncated"),
    "in a member": (GOOD[:700], f"a.tar: a.png: it is truncated: {len(IMAGE)} bytes, but 188 bytes of the archive are left"),
    "corrupt header": (GOOD + corrupt(GOOD, 30) + END, f"the header at byte {len(GOOD)} has a wrong checksum"),
    "joined by cat": (GOOD + END + GOOD, f"there are data after the end of the archive, at byte {len(GOOD) + 1024}"),
    "negative size": (member("a.png", b"", b"\xff" * 12) + END, "the header at byte 0 has a size that is not a number"),
    "huge size": (member("a.png", b"", base256(2**64 - 1)) + END, "a.png: it is truncated: 18446744073709551615 bytes"),
    "larger size": (member("a.png", b"", base256(2**80)) + END, "a size that is not a number"),
    "no octal size": (member("a.png", b"", b"00000000009\0") + END, "a size that is not a number"),
    "pax size": (pax(size="-1") + GOOD + END, "a size that is not a number"),
    "huge pax size": (pax(size=2**63) + GOOD + END, "a.png: it is truncated: 9223372036854775808 bytes"),
    "pax record": (member("pax", b"99 path=x\n", kind=b"x") + GOOD + END, "an invalid pax record"),
    "long extension": (member("pax", bytes(1 << 21), kind=b"x") + GOOD + END, "an extension of 2097152 bytes"),
    "sparse": (pax(GNU__sparse__major=1) + GOOD + END, "is a sparse file: only regular files are supported"),
    "hard link": (GOOD + member("b.png", b"", kind=b"1") + END, "b.png: it is a hard link: only regular files are supported"),
    "symbolic link": (GOOD + member("b.png", b"", kind=b"2") + END, "b.png: it is a symbolic link"),
    "no samples": (member("README", b"x") + END, "a.tar: it has no samples"),
    "no members": (END, "a.tar: it has no samples"),
    "no label": (member("a.png", IMAGE) + member("a.id", b"") + END, "sample 'a': it has no label (cls); its members are png, id"),
    "no image": (member("a.gif", b"x") + LABEL + END, "sample 'a': it has no image (jpg, png or webp); its members are gif, cls"),
    "two images": (GOOD + member("a.Right.JPG", IMAGE) + END, "two images, 'png' and 'right.jpg': choose with image: png"),
    "same extension": (GOOD + member("a.CLS", b"2") + END, "sample 'a': it has two members 'cls'"),
    "same key apart": (GOOD + member("b.png", IMAGE) + member("b.cls", b"1") + LABEL + END, "sample 'a': it occurs twice"),
    "empty label": (member("a.png", IMAGE) + member("a.cls", b"") + END, "a.cls: '' is not the number of a class"),
    "negative label": (member("a.png", IMAGE) + member("a.cls", b"-1") + END, "a.cls: class -1 is negative"),
    "corrupt image": (member("a.png", IMAGE[:-300]) + LABEL + END, "sample 0 (", "a.tar: a.png): corrupt PNG"),
}


@pytest.mark.parametrize("content, text, more", [(*case, "")[:3] for case in BAD.values()], ids=BAD.keys())
def test_bad_archives_are_named(tmp_path, content, text, more):
    (tmp_path / "a.tar").write_bytes(content)
    message = refused(tmp_path / "a.tar", tmp_path)
    assert text in message and more in message


def test_the_image_is_chosen(tmp_path):
    (tmp_path / "a.tar").write_bytes(member("a.right.jpg", jpeg(picture(9, 9))) + GOOD + END)
    assert_one(load(tmp_path / "a.tar", tmp_path, image="png"))
    assert "it has no image (left.jpg); its members are right.jpg, png, cls" in refused(tmp_path / "a.tar", tmp_path, image="left.jpg")


def test_folders_without_usable_archives(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    assert "no *.tar files in this directory" in refused(folder, tmp_path)
    (folder / "a.tar").write_bytes(GOOD + END)
    assert_one(load(folder, tmp_path))
    (folder / "b.tar.gz").write_bytes(b"")
    assert "b.tar.gz: compressed archives are not supported" in refused(folder, tmp_path)
