"""Writes the shards in tests/golden/mds with MosaicML Streaming 0.13.0: make_mds.py FOLDER"""

import io
import sys

import numpy as np
from PIL import Image
from streaming import MDSWriter
from streaming.base.util import merge_index

COLUMNS = {"class": "int", "f16": "float16", "free": "ndarray", "image": "png", "json": "json", "shaped": "ndarray:int16:2,3", "typed": "ndarray:float32",
           "u8": "uint8", "value": "str_float", "word": "str"}  # fmt: skip


def image_of(row):
    stream = io.BytesIO()
    Image.fromarray(np.full((3, 4, 3), row * 20, np.uint8)).save(stream, "PNG")
    return Image.open(stream)


def sample(row):
    return {"class": row % 3, "f16": np.float16(row / 8), "free": np.arange(4.0).reshape(2, 2) + row, "image": image_of(row),
            "json": {"row": row}, "shaped": np.arange(6, dtype=np.int16).reshape(2, 3) - row, "typed": np.array([row, row / 4, -row], np.float32),
            "u8": np.uint8(row + 200), "value": row / 16, "word": ["red", "grün", ""][row % 3]}  # fmt: skip


for name, compression in (("raw", None), ("zstd", "zstd:9")):
    for part in range(2):
        with MDSWriter(out=f"{sys.argv[1]}/{name}/{part}", columns=COLUMNS, compression=compression, size_limit=1200, hashes=["sha1"]) as out:
            for row in range(part * 6, part * 6 + 6):
                out.write(sample(row))
    merge_index(f"{sys.argv[1]}/{name}")
