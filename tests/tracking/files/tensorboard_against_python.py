"""Reads the output of the tensorboard sink with TensorBoard."""
import contextlib
import io
import json
import math
import os
import re
import select
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import wave

import numpy
import PIL.Image
import pytest
from tensorboard.backend.event_processing import data_provider, event_accumulator, plugin_event_multiplexer
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.custom_scalar import custom_scalars_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups, metadata

from feeding import (CONFIG, CREATED, CRASH, ENTRY, FLUSH, JOB, at, crash_everywhere, feed, finish, must_feed, rewind, row,
                     scalars, start, time_of)

EVERYTHING = 0
SIZES = dict.fromkeys(event_accumulator.DEFAULT_SIZE_GUIDANCE, EVERYTHING)


def wav(samples):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(numpy.array(samples, "<i2").tobytes())
    return out.getvalue()


def png(width, height):
    pixels = numpy.arange(width * height * 3, dtype=numpy.uint8).reshape(height, width, 3)
    out = io.BytesIO()
    PIL.Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


def directory_of(run_dir, entry=ENTRY):
    return run_dir / "tensorboard" / entry


def events_file(run_dir, entry=ENTRY):
    names = list(directory_of(run_dir, entry).iterdir())
    assert len(names) == 1
    return names[0]


def read(run_dir):
    return event_accumulator.EventAccumulator(str(directory_of(run_dir)), size_guidance=SIZES,
                                              purge_orphaned_data=True).Reload()


def points(board, tag):
    return [(e.step, e.wall_time, e.value) for e in board.Scalars(tag)]


def texts(board, tag):
    return [(e.step, e.wall_time, e.tensor_proto.string_val[0].decode()) for e in board.Tensors(tag)]


def same(got, expected):
    assert len(got) == len(expected)
    for (step, wall, value), (want_step, want_wall, want) in zip(got, expected):
        assert (step, wall) == (want_step, want_wall)
        assert (math.isnan(value) and math.isnan(want)) or value == numpy.float32(want)


def multiplexer(logdir):
    """The server's reader, which migrates old formats and purges."""
    found = plugin_event_multiplexer.EventMultiplexer(size_guidance=SIZES, tensor_size_guidance={
        name: EVERYTHING for name in ("scalars", "text", "images", "audio", "histograms", "hparams", "custom_scalars")})
    found.AddRunsFromDirectory(str(logdir)).Reload()
    return found


def tb_context(logdir):
    provider = data_provider.MultiplexerDataProvider(multiplexer(logdir), str(logdir))
    return base_plugin.TBContext(logdir=str(logdir), data_provider=provider, plugin_name_to_instance={})


def session_groups(logdir):
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0, slice_size=100, aggregation_type=api_pb2.AGGREGATION_AVG, include_metrics=True,
        allowed_statuses=[api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING, api_pb2.STATUS_UNKNOWN])
    return list_session_groups.Handler(RequestContext(), backend_context.Context(tb_context(logdir)), "", request).run().session_groups


PNG = png(5, 3)
WAV = wav([0, 1000, -1000])
EDGES, COUNTS = [-2.0, -1.0, 0.0, 1.0, 3.0, 9.0], [0.0, 4.0, 2.5, 1.0, 0.0]
RUN = [
    start(),
    row(1, [("train/loss", 0.1), ("lr", 1e-3)]),
    row(2, [("train/loss", math.nan), ("lr", math.inf)]),
    {"call": "text", "time": time_of(2), "level": "info", "line": "first | *line*\nand more"},
    FLUSH,
    {"call": "text", "time": time_of(2) + 0.1, "level": "warning", "line": "second"},
    row(3, [("train/loss", -math.inf), ("bad \xff name", 7.0), (b"\x80\xfe", 8.0), (b"\xc3\xa4", 9.0)]),
    {"call": "text", "time": time_of(3), "level": "error", "line": {"hex": "ff41"}},
    {"call": "console", "time": time_of(3), "rank": 0, "is_error": False, "line": "not for TensorBoard"},
    at("histogram", 3, "weights/fc1", edges=EDGES, counts=COUNTS),
    at("histogram", 4, "weights/fc1", edges=["-inf", 0.0, 1.0, "inf"], counts=[1.0, 2.0, 3.0]),
    at("histogram", 5, "weights/fc1", edges=[0.0, 1.0], counts=[0.0]),
    at("image", 4, "samples", width=5, height=3, caption="predicted 7", png={"hex": PNG.hex()}),
    at("image", 5, "samples", width=5, height=3, caption="", png={"hex": PNG.hex()}),
    at("clip", 4, "tone", media_type="audio/wav", caption="low", bytes={"hex": WAV.hex()}),
    at("clip", 4, "rollout", media_type="video/webm", caption="", bytes={"hex": "1a45dfa3"}),
    FLUSH,
    at("table", 4, "confusion", columns=["is", "a|b"], rows=[["x\ny", 1], [None, 2.5]]),
    {"call": "alert", "time": time_of(4), "level": "error", "title": "loss is NaN", "text": "at *step* 2", "step": 2},
    {"call": "alert", "time": time_of(5), "level": "warning", "title": "loss is NaN", "text": "again", "step": 2},
    {"call": "alert", "time": time_of(6), "level": "info", "title": "slow", "text": ""},
    row(6, [("eval/loss", 0.5), ("eval/loss/min", 0.25), ("eval/loss/max", 1.0), ("lone/min", 1.0)]),
    {"call": "summary", "values": {"eval/accuracy": 0.75, "best": "step 6", "epochs": 3}},
    finish(),
    FLUSH,
]


def check_run(run_dir):
    board = read(run_dir)
    t = time_of
    same(points(board, "train/loss"), [(1, t(1), 0.1), (2, t(2), math.nan), (3, t(3), -math.inf)])
    same(points(board, "lr"), [(1, t(1), 1e-3), (2, t(2), math.inf)])
    same(points(board, "bad \xff name"), [(3, t(3), 7.0)])
    same(points(board, "\\x80\\xfe"), [(3, t(3), 8.0)])
    same(points(board, "\xe4"), [(3, t(3), 9.0)])
    same(points(board, "eval/loss"), [(6, t(6), 0.5)])
    same(points(board, "summary/eval/accuracy"), [(6, t(6), 0.75)])
    same(points(board, "summary/epochs"), [(6, t(6), 3.0)])
    assert set(board.Tags()["scalars"]) == {"train/loss", "lr", "bad \xff name", "\\x80\\xfe", "\xe4", "eval/loss", "eval/loss/min",
                                           "eval/loss/max", "lone/min", "summary/eval/accuracy", "summary/epochs"}
    # a separate step for each
    assert texts(board, "log") == [(2, t(2), "first | *line*\nand more"), (3, t(2) + 0.1, "warning: second"),
                                   (4, t(3), "error: \\xffA")]
    assert texts(board, "alerts") == [(2, t(4), "**error: loss is NaN**\n\nat *step* 2"),
                                      (3, t(5), "**warning: loss is NaN**\n\nagain"), (4, t(6), "**info: slow**\n\n")]
    assert texts(board, "confusion") == [(4, t(4), "| is | a\\|b |\n| --- | --- |\n| x y | 1 |\n| null | 2.5 |")]
    assert texts(board, "samples/caption") == [(4, t(4), "predicted 7")]
    check_histograms(board)
    for event, step in zip(board.Images("samples"), (4, 5), strict=True):
        assert (event.step, event.wall_time, event.width, event.height) == (step, t(step), 5, 3)
        assert event.encoded_image_string == PNG
    (sound,) = board.Audio("tone")
    assert (sound.step, sound.wall_time, sound.encoded_audio_string, sound.content_type) == (4, t(4), WAV, "audio/wav")
    assert texts(board, "tone/caption") == [(4, t(4), "low")] and board.Tags()["audio"] == ["tone"]
    check_hparams(board, api_pb2.STATUS_SUCCESS, t(6))


def check_histograms(board):
    full, open_ended, empty = board.Histograms("weights/fc1")
    assert (full.step, full.wall_time) == (3, time_of(3))
    value = full.histogram_value
    assert (value.min, value.max, value.num) == (-1.0, 3.0, 7.5)
    assert value.bucket_limit == EDGES[1:] and value.bucket == COUNTS
    assert value.sum == 4.0 * -0.5 + 2.5 * 0.5 + 1.0 * 2.0
    assert value.sum_squares == 4.0 * 0.25 + 2.5 * 0.25 + 1.0 * 4.0
    value = open_ended.histogram_value
    assert (value.min, value.max, value.num, value.sum) == (0.0, 1.0, 6.0, 1.0 + 3.0)
    assert empty.histogram_value.num == 0 and empty.histogram_value.bucket == [0.0]


def check_hparams(board, status, ended):
    contents = board.PluginTagToContent("hparams")
    assert set(contents) == {metadata.SESSION_START_INFO_TAG, metadata.SESSION_END_INFO_TAG}
    began = metadata.parse_session_start_info_plugin_data(contents[metadata.SESSION_START_INFO_TAG])
    assert (began.group_name, began.start_time_secs) == (JOB, CREATED)
    values = {name: getattr(value, value.WhichOneof("kind")) for name, value in began.hparams.items()}
    assert values == {"run.name": "mnist", "run.seed": 0.0, "optimizer.name": "sgd", "optimizer.lr": 0.1,
                      "optimizer.nesterov": True, "model.hidden": "[256,128]"}
    end = metadata.parse_session_end_info_plugin_data(contents[metadata.SESSION_END_INFO_TAG])
    assert (end.status, end.end_time_secs) == (status, ended)


def test_every_kind_of_record_round_trips(tmp_path):
    must_feed(tmp_path, "tensorboard", RUN)
    assert events_file(tmp_path).name == "events.out.tfevents.1795241000.node-a.4711.0"
    check_run(tmp_path)


@contextlib.contextmanager
def tensorboard_server(logdir):
    """The URL of a TensorBoard server."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", logdir, "--host", "127.0.0.1", "--port", "0", "--load_fast", "false"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        said = b""
        while not (found := re.search(rb"(http://127.0.0.1:\d+)/", said)):
            # Not by lines: already buffered lines would not wake select().
            assert select.select([server.stderr], [], [], 60)[0] and (piece := os.read(server.stderr.fileno(), 1 << 16)), said
            said += piece
        yield found.group(1).decode()
    finally:
        server.kill()
        server.wait()
        server.stderr.close()


def test_the_server_shows_the_run(tmp_path):
    must_feed(tmp_path, "tensorboard", RUN)
    with tensorboard_server(tmp_path / "tensorboard") as url:
        def ask(path, **query):
            with urllib.request.urlopen(f"{url}/data/{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
                return json.loads(answer.read())

        def check():
            assert ENTRY in ask("runs")
            assert [(step, value) for _, step, value in ask("plugin/scalars/scalars", run=ENTRY, tag="lr")][0] == (1, pytest.approx(1e-3))
            assert [step for _, step, _ in ask("plugin/scalars/scalars", run=ENTRY, tag="train/loss")] == [1, 2, 3]
            assert ENTRY in ask("plugin/audio/tags") and ENTRY in ask("plugin/images/tags") and ENTRY in ask("plugin/histograms/tags")
            assert [item["step"] for item in ask("plugin/text/text", run=ENTRY, tag="log")] == [2, 3, 4]
            assert "eval/loss" in json.dumps(ask("plugin/custom_scalars/layout"))

        deadline = time.monotonic() + 180  # it serves while it is still reading
        while True:
            try:
                return check()
            except (AssertionError, LookupError, OSError):
                if time.monotonic() > deadline:
                    raise


def test_every_record_exists_once_after_any_crash(tmp_path):
    must_feed(tmp_path / "a", "tensorboard", RUN)
    must_feed(tmp_path / "b", "tensorboard", crash_everywhere(RUN))
    check_run(tmp_path / "b")
    assert events_file(tmp_path / "b").read_bytes() == events_file(tmp_path / "a").read_bytes()


def test_a_process_that_died_before_its_first_flush_leaves_no_second_file(tmp_path):
    must_feed(tmp_path, "tensorboard", [start(), scalars(1, a=1.0), finish()])
    events_file(tmp_path).write_bytes(b"left by a process that was killed while it wrote")
    again = start()
    again["info"]["pid"] = 12
    must_feed(tmp_path, "tensorboard", [again, *RUN[1:]])
    check_run(tmp_path)


def test_records_after_the_last_state_are_truncated(tmp_path):
    must_feed(tmp_path, "tensorboard", [start(), scalars(1, a=1.0), FLUSH])
    with events_file(tmp_path).open("ab") as out:
        out.write(b"\x18\0\0\0torn")
    must_feed(tmp_path, "tensorboard", [start(), scalars(2, a=2.0), FLUSH])
    same(points(read(tmp_path), "a"), [(1, time_of(1), 1.0), (2, time_of(2), 2.0)])


def test_texts_are_at_the_step_of_the_run_not_of_a_sample_of_the_machine(tmp_path):
    must_feed(tmp_path, "tensorboard", [start(), scalars(100, a=1.0), row(3, [("system/cpu_percent", 5.0)]),
                                        {"call": "text", "time": time_of(100), "level": "info", "line": "here"}, FLUSH])
    server = multiplexer(tmp_path / "tensorboard")
    assert [e.step for e in server.Tensors(ENTRY, "log")] == [100]


REWOUND = [start(), *[scalars(step, a=step) for step in range(1, 6)],
           {"call": "text", "time": time_of(5), "level": "info", "line": "gone"}, FLUSH,
           rewind(3), scalars(4, a=40.0), {"call": "text", "time": time_of(4), "level": "info", "line": "here"}, FLUSH]


def test_readers_discard_records_after_a_rewind(tmp_path):
    must_feed(tmp_path, "tensorboard", REWOUND)
    expected = [(1, time_of(1), 1.0), (2, time_of(2), 2.0), (3, time_of(3), 3.0), (4, time_of(4), 40.0)]
    same(points(read(tmp_path), "a"), expected)
    server = multiplexer(tmp_path / "tensorboard")
    same([(e.step, e.wall_time, e.tensor_proto.float_val[0]) for e in server.Tensors(ENTRY, "a")], expected)
    assert [e.tensor_proto.string_val[0] for e in server.Tensors(ENTRY, "log")] == [b"here"]
    assert metadata.SESSION_START_INFO_TAG in server.PluginRunToTagToContent("hparams")[ENTRY]


def test_a_continued_run_has_only_its_last_end(tmp_path):
    must_feed(tmp_path, "tensorboard", [start(), scalars(1, a=1.0), finish("failed", 1), FLUSH])
    length = events_file(tmp_path).stat().st_size
    # Reading it again changes nothing.
    must_feed(tmp_path, "tensorboard", [start(), FLUSH])
    assert events_file(tmp_path).stat().st_size == length
    follower = RawEventFileLoader(str(events_file(tmp_path)))
    assert len(list(follower.Load())) == 5
    must_feed(tmp_path, "tensorboard", crash_everywhere(
        [start(), scalars(2, a=2.0), FLUSH, scalars(3, a=3.0), finish(), FLUSH]))
    board = read(tmp_path)
    same(points(board, "a"), [(s, time_of(s), s) for s in (1, 2, 3)])
    check_hparams(board, api_pb2.STATUS_SUCCESS, time_of(3))
    # A reader that has the file open continues at its position.
    steps = [event_pb2.Event.FromString(raw).step for raw in follower.Load()]
    assert steps == [2, 3, 0]


def test_entries_of_a_job_are_one_session_group_with_every_scalar_as_metric(tmp_path):
    for entry, loss in (("job-rank-0", 1.0), ("job-rank-1", 3.0)):
        must_feed(tmp_path, "tensorboard", [start(entry), scalars(1, loss=loss), finish(), FLUSH])
    other = start("other", {"optimizer": {"momentum": 0.5}})
    other["info"]["job_id"] = "other"
    must_feed(tmp_path, "tensorboard", [other, scalars(1, accuracy=0.5), finish("killed", 137), FLUSH])
    groups = {group.name: group for group in session_groups(tmp_path / "tensorboard")}
    assert set(groups) == {JOB, "other"}
    assert groups[JOB].hparams["optimizer.lr"].number_value == CONFIG["optimizer"]["lr"]
    assert {m.name.tag: m.value for m in groups[JOB].metric_values} == {"loss": 2.0}
    assert [s.status for s in groups[JOB].sessions] == [api_pb2.STATUS_SUCCESS] * 2
    assert groups["other"].hparams["optimizer.momentum"].number_value == 0.5
    assert {m.name.tag: m.value for m in groups["other"].metric_values} == {"accuracy": 0.5}
    assert [s.status for s in groups["other"].sessions] == [api_pb2.STATUS_FAILURE]


@pytest.mark.parametrize("crash", [[], [CRASH]])
def test_a_metric_with_min_and_max_gets_a_margin_chart(tmp_path, crash):
    band = [("b", 1.0), ("b/min", 0.0), ("b/max", 2.0)]
    more = [("a", 1.0), ("a/min", 0.0), ("a/max", 2.0)]
    must_feed(tmp_path, "tensorboard", [start(), row(1, band), FLUSH, *crash, row(2, band + more), FLUSH, *crash])
    plugin = custom_scalars_plugin.CustomScalarsPlugin(tb_context(tmp_path / "tensorboard"))
    layout = json.loads(plugin.layout_impl(RequestContext(), ""))
    category, = layout["category"]
    assert category["title"] == "ranks"
    assert [(chart["title"], chart["margin"]["series"]) for chart in category["chart"]] == [
        (name, [{"value": name, "lower": f"{name}/min", "upper": f"{name}/max"}]) for name in ("b", "a")]


def test_dir_contains_a_directory_per_entry(tmp_path):
    for entry in ("one", "two"):
        must_feed(tmp_path / "run", "tensorboard", [start(entry), scalars(1, a=1.0)], {"dir": str(tmp_path / "board")})
        (tmp_path / "run/sinks/tensorboard/entry/state.json").unlink(missing_ok=True)
    assert sorted(path.parent.name for path in tmp_path.glob("board/*/events.out.tfevents.*")) == ["one", "two"]


def test_a_full_disk_keeps_flushed_records_complete(tmp_path):
    must_feed(tmp_path, "tensorboard", [start(), scalars(1, a=1.0), FLUSH])
    whole = events_file(tmp_path).read_bytes()
    rows = [scalars(step, a=step) for step in range(2, 200)]
    code, said = feed(tmp_path, "tensorboard", [start(), *rows, FLUSH], limit=4096)
    assert code == 75 and said.count("\n") == 1 and str(events_file(tmp_path)) in said
    assert events_file(tmp_path).read_bytes() == whole
    must_feed(tmp_path, "tensorboard", [start(), *rows, FLUSH])
    same(points(read(tmp_path), "a"), [(step, time_of(step), step) for step in range(1, 200)])


def test_a_truncated_file_is_not_written_to(tmp_path):
    must_feed(tmp_path, "tensorboard", [start(), scalars(1, a=1.0), FLUSH])
    with events_file(tmp_path).open("r+b") as out:
        out.truncate(100)
    code, said = feed(tmp_path, "tensorboard", [start(), scalars(2, a=2.0), FLUSH])
    assert code == 78 and "is shorter than its stored length" in said
    events_file(tmp_path).unlink()
    must_feed(tmp_path, "tensorboard", [start(), scalars(2, a=2.0), FLUSH])
    same(points(read(tmp_path), "a"), [(2, time_of(2), 2.0)])
