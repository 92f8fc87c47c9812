"""Tests of every dataset: resumed anywhere, it returns the same samples, and it is split by fraction and seed."""

import io
import json
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from datasets_against_python import ON_RANKS, assert_equals_torch, load, printer, write_csv, write_tokens
from mds_against_python import write as write_mds
from PIL import Image
from safetensors.numpy import save_file
from torch.utils.data import DataLoader, DistributedSampler, random_split

N, BATCH = 120, 6  # 20 complete steps on 1, 2 and 3 ranks


def numbers():
    rng = np.random.default_rng(4)
    return {"x": rng.normal(size=(N, 3)).astype(np.float32), "label": np.arange(N) * 7 % 4}


def cut(arrays, ends=(50, 51, 90, N)):
    return [{name: array[begin:end] for name, array in arrays.items()} for begin, end in zip((0, *ends), ends)]


def table():
    return pa.table({"a": numbers()["x"][:, 0], "b": [["x", "y", "z"][i % 3] for i in range(N)], "label": numbers()["label"]})


def idx_file(path, array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(header + array.tobytes())


def idx_arrays():
    rng = np.random.default_rng(5)
    return rng.integers(0, 256, (N, 4, 5), dtype=np.uint8), (np.arange(N) * 3 % 10).astype(np.uint8)


def make_idx(folder):
    for name, array in zip(("train-images-idx3-ubyte", "train-labels-idx1-ubyte"), idx_arrays()):
        idx_file(folder / name, array)
    return {"name": "idx"}


def make_csv(folder):
    return {**write_csv(folder, table()), "label": "label"}


def make_csv_shards(folder):
    for number, part in enumerate((table()[:31], table()[31:32], table()[32:])):
        write_csv(folder, part)
        (folder / "table.csv").rename(folder / f"{number}.csv")
    return {"name": "csv", "label": "label"}


def make_jsonl(folder):
    (folder / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table().to_pylist()))
    return {"name": "jsonl", "path": str(folder / "table.jsonl"), "label": "label"}


def make_parquet(folder):
    pq.write_table(table()[:70], folder / "a.parquet", row_group_size=17)
    pq.write_table(table()[70:], folder / "b.parquet", row_group_size=20)
    return {"name": "parquet", "label": "label"}


def make_kept_parquet(folder):
    return {**make_parquet(folder), "keep_row_groups": 5}


def make_arrow(folder, codec=None):
    options = pa.ipc.IpcWriteOptions(compression=codec)
    for name, part in (("a", table()[:70]), ("b", table()[70:71]), ("c", table()[71:])):
        with pa.ipc.new_stream(str(folder / f"{name}.arrow"), part.schema, options=options) as stream:
            stream.write_table(part, max_chunksize=17)
    return {"name": "arrow", "label": "label"}


def make_compressed_arrow(folder):
    return make_arrow(folder, "zstd")


def make_mds(folder, **stored):
    samples = [{"b": row["b"], "x": np.float32(row["a"]), "label": row["label"]} for row in table().to_pylist()]
    return {**write_mds(folder, {"b": "str", "x": "float32", "label": "int"}, samples, 4, **stored), "label": "label"}


def make_compressed_mds(folder):
    return make_mds(folder, compression="zstd", keep_raw=False)


def make_transforms():
    jitter = {"name": "color_jitter", "brightness": 0.4, "hue": 0.1}
    crop = {"name": "random_resized_crop", "size": [8]}
    return {"transforms": [crop, {"name": "random_horizontal_flip"}, jitter, {"name": "normalize"}]}


def make_images(folder):
    rng = np.random.default_rng(6)
    for number in range(N):
        place = folder / f"class{number % 4}"
        place.mkdir(exist_ok=True)
        pixels = rng.integers(0, 256, (12 + number % 3, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{number:03}.{'png' if number % 2 else 'jpg'}")
    return {**make_transforms(), "name": "image_folder"}


def make_webdataset(folder):
    rng = np.random.default_rng(6)
    for number, (begin, end) in enumerate(((0, 50), (50, 51), (51, N))):
        with tarfile.open(folder / f"{number}.tar", "w") as archive:
            for index in range(begin, end):
                stream = io.BytesIO()
                Image.fromarray(rng.integers(0, 256, (12 + index % 3, 16, 3), dtype=np.uint8)).save(stream, "PNG")
                for extension, content in (("png", stream.getvalue()), ("cls", str(index % 4).encode())):
                    info = tarfile.TarInfo(f"{index:03}.{extension}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
    return {**make_transforms(), "name": "webdataset"}


def make_arrow_images(folder):
    rng = np.random.default_rng(6)
    for number, (begin, end) in enumerate(((0, 50), (50, 51), (51, N))):
        images = []
        for index in range(begin, end):
            stream = io.BytesIO()
            Image.fromarray(rng.integers(0, 256, (12 + index % 3, 16, 3), dtype=np.uint8)).save(stream, "PNG")
            images.append({"bytes": stream.getvalue(), "path": None})
        rows = pa.table({"image": pa.array(images, pa.struct({"bytes": pa.binary(), "path": pa.string()})), "label": np.arange(begin, end) % 4})
        with pa.ipc.new_stream(str(folder / f"{number}.arrow"), rows.schema) as stream:
            stream.write_table(rows, max_chunksize=20)
    return {**make_transforms(), "name": "arrow_images"}


def make_tokens(folder):
    rng = np.random.default_rng(7)
    for number, size in enumerate((801, 401)):
        write_tokens(folder / f"{number}.bin", rng.integers(0, 9000, size).astype(np.uint16))
    return {"name": "tokens", "length": 10}


def make_documents(folder):
    rng = np.random.default_rng(8)
    documents = [np.append(rng.integers(1, 99, 2 + number * 5 % 13), 0) for number in range(N)]
    write_tokens(folder / "a.bin", np.concatenate(documents).astype(np.uint16))
    return {"name": "tokens", "length": 20, "separator": 0}


def make_padded(folder):
    return {**make_documents(folder), "pad_to": "longest"}


def make_npy(folder):
    for name, array in numbers().items():
        np.save(folder / f"{name}.npy", array)
    return {"name": "npy"}


def make_npz_shards(folder):
    for number, shard in enumerate(cut(numbers())):
        np.savez(folder / f"{number}.npz", **shard)
    return {"name": "npy"}


def make_safetensors(folder):
    for number, shard in enumerate(cut(numbers())):
        save_file(shard, folder / f"{number}.safetensors")
    return {"name": "safetensors"}


def make_synthetic(folder):
    fields = {"x": {"shape": [3, 2]}, "label": {"dtype": "int64", "values": "uniform", "high": 4}}
    return {"name": "synthetic", "samples": N, "fields": fields}


KINDS = {
    "idx": make_idx, "csv": make_csv, "csv shards": make_csv_shards, "jsonl": make_jsonl, "parquet": make_parquet, "kept parquet": make_kept_parquet,
    "arrow": make_arrow, "compressed arrow": make_compressed_arrow, "mds": make_mds, "compressed mds": make_compressed_mds, "arrow images": make_arrow_images,
    "image_folder": make_images, "webdataset": make_webdataset, "tokens": make_tokens, "documents": make_documents, "padded documents": make_padded, "npy": make_npy,
    "npz shards": make_npz_shards, "safetensors shards": make_safetensors, "synthetic": make_synthetic,
}  # fmt: skip
SHARDS = ("csv shards", "parquet", "kept parquet", "arrow", "compressed arrow", "mds", "compressed mds", "arrow images", "tokens", "npz shards", "safetensors shards", "webdataset")
LABELS = ("idx", "csv", "csv shards", "parquet", "arrow", "compressed arrow", "mds", "compressed mds", "arrow images", "image_folder", "webdataset", "npy", "npz shards", "safetensors shards")
TABLES = ("csv", "csv shards", "jsonl", "parquet", "kept parquet", "arrow", "compressed arrow", "mds", "compressed mds")
LENGTHS = ("tokens", "documents", "padded documents")
ORDERS = [
    *((kind, {}) for kind in KINDS),
    *((kind, {"shuffle_buffer": 30}) for kind in SHARDS),
    *((kind, {"sampling": "class_balanced"}) for kind in LABELS),
    *((kind, {"sampling": "class_balanced", "shuffle_buffer": 30}) for kind in SHARDS if kind in LABELS),
    *((kind, {"bucket_batches": 4}) for kind in LENGTHS),
]


def name_of(value):
    return value if isinstance(value, str) else " ".join(map(str, value.values())) or "shuffled"


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """The `data.train` config for a kind of files, which are created once."""
    made = {}

    def of(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind.replace(" ", "-"))
            made[kind] = KINDS[kind](folder)
            if made[kind]["name"] != "synthetic":
                made[kind] = {"path": str(folder), **made[kind]}
        return made[kind]

    return of


@pytest.mark.parametrize("kind, order", ORDERS, ids=name_of)
def test_resume_at_20_random_steps_with_other_ranks_and_workers(tmp_path, train, kind, order):
    file = tmp_path / "data.yaml"
    file.write_text(json.dumps({"train": train(kind), "batch_size": 2 * BATCH, **order}))
    ended = printer.run("resume", file)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) == 3 * N


def rows_of(batches):
    """{field: rows} of batches that may be padded to different lengths."""
    return {name: [row for batch in batches for row in batch[name]] for name in batches[0]}


@ON_RANKS
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in TABLES + ("padded documents",)])
def test_split_matches_random_split(tmp_path, train, kind, world):
    """Tables, which are fitted to the training part, and padded documents are tested in datasets_against_python.py."""
    whole = rows_of(load(tmp_path, {"train": train(kind)}, 1, BATCH)["train", 0])
    split = {"eval": 0.25, "seed": 2}
    parts = load(tmp_path, {"train": train(kind), "split": split}, world, BATCH)
    theirs = random_split(range(N), [0.75, 0.25], torch.Generator().manual_seed(2))
    for part, subset in zip(("train", "eval"), theirs):
        members = sorted(subset.indices)
        for rank in range(world):
            local_rows = rows_of(parts[part, rank])
            for name in whole.keys() - {"indices"}:
                assert np.array_equal(local_rows[name], [whole[name][i] for i in members[rank::world]], equal_nan=True), name


@ON_RANKS
def test_idx_matches_torch(tmp_path, train, world):
    images, labels = idx_arrays()
    pixels = torch.tensor(images).float().div(255).sub(0.1307).div(0.3081)
    expected = {"image": pixels[:, None].numpy(), "label": labels.astype(np.int64)}
    assert_equals_torch(tmp_path, {"train": {**train("idx"), "mean": 0.1307, "std": 0.3081}}, expected, world)


@ON_RANKS
def test_images_have_the_pixels_of_torchvision(tmp_path, train, world):
    from torchvision import datasets, transforms

    steps = [transforms.Resize(9), transforms.CenterCrop(8), transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.25] * 3)]
    theirs = datasets.ImageFolder(train("image_folder")["path"], transforms.Compose(steps))
    ours = [{"name": "resize", "size": [9]}, {"name": "center_crop", "size": [8]},
            {"name": "normalize", "mean": [0.5] * 3, "std": [0.25] * 3}]  # fmt: skip
    parts = load(tmp_path, {"train": {**train("image_folder"), "transforms": ours}}, world, BATCH, workers=world)
    for rank in range(world):
        batches = DataLoader(theirs, BATCH, sampler=DistributedSampler(theirs, world, rank, shuffle=False))
        for (images, labels), batch in zip(batches, parts["train", rank], strict=True):
            assert np.array_equal(batch["label"], labels.numpy())
            assert np.abs(batch["image"] - images.numpy()).max() <= 4 / 255 + 1e-6  # 1/255 before the normalization


def test_class_balanced_sampling_of_shards_has_the_classes_of_all_files(tmp_path):
    for number, labels in enumerate((["cat"] * 70, ["dog"] * 10, ["cow"] * 40)):
        rows = [f"{number},{label}" for label in labels]
        (tmp_path / f"{number}.csv").write_text("\n".join(["n,label", *rows]) + "\n")
    file = tmp_path / "data.yaml"
    train = {"name": "csv", "path": str(tmp_path), "label": "label"}
    file.write_text(json.dumps({"train": train, "batch_size": 12, "sampling": "weighted", "class_weights": [1, 1]}))
    ended = printer.run("resume", file)
    assert ended.returncode == 78 and "2 weights for 3 classes" in ended.stderr, ended.stderr
