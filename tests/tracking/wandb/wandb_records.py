"""An independent reader of .wandb files, with W&B's own message classes."""
import struct
import zlib

from wandb.proto import wandb_internal_pb2

BLOCK = 32768


def payloads(content):
    assert content[:7] == b":W&B\xe1\xbe\x00"
    at, record = 7, b""
    while at < len(content):
        left = BLOCK - at % BLOCK
        if left < 7:
            assert not any(content[at:at + left]), "padding is not zero"
            at += left
            continue
        crc, length, kind = struct.unpack_from("<IHB", content, at)
        data = content[at + 7:at + 7 + length]
        assert len(data) == length and length + 7 <= left and zlib.crc32(bytes([kind]) + data) == crc
        record = data if kind in (1, 2) else record + data
        if kind in (1, 4):
            yield record
        at += 7 + length


def records(path):
    parsed = [wandb_internal_pb2.Record.FromString(payload) for payload in payloads(path.read_bytes())]
    assert [record.num for record in parsed] == list(range(1, len(parsed) + 1))
    return parsed


def kinds(path):
    return [record.WhichOneof("record_type") for record in records(path)]


def rows(path):
    return [{item.nested_key[0]: item.value_json for item in record.history.item}
            for record in records(path) if record.WhichOneof("record_type") == "history"]
