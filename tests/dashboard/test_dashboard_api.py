"""The API of `lockstep ui`, on event logs that are written at the same time."""

import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import subprocess
import urllib.parse

from conftest import LOCKSTEP, LogWriter


def value(step, metric=0, scale=1.0):
    return scale * math.sin(step * (metric + 1) / 100) + step


def curve(dashboard, run, metric, **more):
    series = dashboard.get("/api/series", run=run, metric=metric, **more)["series"]
    return series[0] if len(series) == 1 else series


def test_list_filter_sort_and_pages(runs, writer, start):
    for i in range(12):
        writer.finished_run(f"run-{i:02}", config={"optimizer": {"lr": i / 10, "name": "sgd"}}, created=1000.0 + i,
                            group="even" if i % 2 == 0 else "odd", planned_steps=300 if i == 9 else 0)
    dashboard = start()
    dashboard.wait_for_runs(12)
    page = dashboard.get("/api/runs", limit=5, offset=2, column=["config.optimizer.lr", "train/loss", "max(train/loss)"])
    assert [row["id"] for row in page["runs"]] == [f"run-{i:02}" for i in (9, 8, 7, 6, 5)]
    assert page["total"] == page["matching"] == 12
    row = page["runs"][0]
    assert row["values"]["config.optimizer.lr"] == 0.9
    assert row["values"]["train/loss"] == value(99)
    assert row["planned"] == {"steps": 300, "epochs": None} and page["runs"][1]["planned"] == {"steps": None, "epochs": None}
    assert dashboard.get("/api/runs/run-09")["planned"] == row["planned"]
    assert row["state"] == "finished" and row["exit"] == 0 and row["step"] == 99 and row["group"] == "odd"
    chosen = dashboard.get("/api/runs", filter="config.optimizer.lr >= 0.5 group = even", sort="config.optimizer.lr")
    assert [row["id"] for row in chosen["runs"]] == ["run-06", "run-08", "run-10"]
    two = dashboard.get("/api/runs", sort="group,-created", limit=2)
    assert [row["id"] for row in two["runs"]] == ["run-10", "run-08"]
    status, error = dashboard.error("/api/runs", filter="stat = finished")
    assert status == 400 and error["code"] == "bad_filter" and error["column"] == 1 and "state" in error["message"]
    groups = dashboard.get("/api/groups", by="group", column="train/loss")["groups"]
    assert [(group["value"], group["runs"]) for group in groups] == [("odd", 6), ("even", 6)]
    assert groups[0]["values"]["train/loss"]["count"] == 6
    group, _ = dashboard.get("/api/groups", by="group", column=["config.optimizer.lr", "max(train/loss)", "state"])["groups"]
    assert group["values"]["config.optimizer.lr"] == {"mean": 0.6, "min": 0.1, "max": 1.1, "count": 6}
    assert "max(train/loss)" in group["values"] and "state" not in group["values"]
    fields = {field["field"]: field for field in dashboard.get("/api/fields")["fields"]}
    assert fields["config.optimizer.lr"]["type"] == "number" and fields["config.optimizer.name"]["type"] == "text"
    assert fields["metric.train/loss"]["runs"] == 12
    assert fields["config.optimizer.lr"]["differs"] and not fields["config.optimizer.name"]["differs"]
    fields = {field["field"]: field for field in dashboard.get("/api/fields", filter="id = run-03")["fields"]}
    assert not fields["config.optimizer.lr"]["differs"]


def test_lost_ranks_are_shown_with_the_environment(runs, writer, start):
    writer.finished_run("run-1")
    loss = {"step": 7, "ranks_before": 2, "ranks_after": 1, "lost": [{"rank": 1, "how": "killed by SIGKILL"}], "spares": []}
    join = {"step": 9, "ranks_before": 1, "ranks_after": 2, "lost": [], "spares": [0], "spare_nodes": [1]}
    (runs / "run-1" / "rank_losses.json").write_text(json.dumps([loss, join]))
    dashboard = start()
    dashboard.wait_for_runs(1)
    assert dashboard.get("/api/runs/run-1")["environment"]["lost_ranks"] == [
        "rank 1 (of 2) was lost, killed by SIGKILL; continued after step 7 with 1 rank"]
    assert dashboard.get("/api/runs/run-1")["environment"]["joined_ranks"] == [
        "1 rank joined; continued after step 9 with 2 ranks, with spare 0 of node 1"]


def test_versions_and_uncommitted_changes_are_part_of_the_environment(runs, writer, start):
    diff = "diff --git a/x.py b/x.py\n@@ -1 +1,2 @@\n-a\n+b\n+\u202ec\n"
    for name in ("changed", "clean", "corrupt", "unrecorded"):
        writer.finished_run(name)
    code = {"commit": "a" * 40, "branch": "main", "diff": diff, "sha256": "1f" * 32}
    (runs / "changed" / "code.json").write_text(json.dumps(code))
    (runs / "clean" / "code.json").write_text(json.dumps({**code, "diff": "", "sha256": "2e" * 32}))
    (runs / "corrupt" / "code.json").write_text("{")
    (runs / "corrupt" / "software.json").write_text("[]")
    (runs / "changed" / "software.json").write_text(json.dumps({"libtorch": "2.9.0", "packages": {"numpy": "2.1.0"}}))
    dashboard = start()
    dashboard.wait_for_runs(4)
    environment = dashboard.get("/api/runs/changed")["environment"]
    assert environment["uncommitted_changes"] == "1 file, +2 -1 lines (1f1f1f1f)"
    assert environment["libtorch"] == "2.9.0" and environment["packages"] == {"numpy": "2.1.0"}
    assert dashboard.get("/api/runs/changed/code")["code"] == {**code, "files": 1, "added": 2, "removed": 1}
    assert dashboard.get("/api/runs/clean/code")["code"]["diff"] == ""
    for name in ("corrupt", "unrecorded"):
        assert dashboard.get(f"/api/runs/{name}/code") == {"code": None}
        assert "uncommitted_changes" not in dashboard.get(f"/api/runs/{name}")["environment"]
    rows = {row["key"]: row for row in dashboard.get("/api/compare", run=["changed", "clean"])["environment"]}
    assert rows["uncommitted_changes"]["differs"] and rows["packages.numpy"]["missing"] == [False, True]


def test_sounds_and_videos_are_served_in_ranges_and_with_known_types_only(runs, writer, start):
    log, = writer.run("clips")
    content = "RIFF" + "0123456789" * 1000
    for step, kind in enumerate(("audio/wav", "video/mp4", "image/svg+xml", "audio/wav; charset=x")):
        writer.do("clip", log=log, name="eval/clip", step=step, time=1000.0 + step, type=kind, caption="<b>", bytes=content)
    writer.do("end", log=log)
    dashboard = start()
    dashboard.wait_for_runs(1)
    media, = dashboard.get("/api/runs/clips")["media"]
    assert (media["kind"], media["name"], media["count"], media["last_step"]) == ("clip", "eval/clip", 2, 1)
    video, sound = dashboard.get("/api/runs/clips/clips", name="eval/clip")["items"]
    assert (video["type"], sound["type"], sound["bytes"], sound["caption"]) == ("video/mp4", "audio/wav", len(content), "<b>")
    assert sound["url"].endswith(".wav") and video["url"].endswith(".mp4")
    whole = dashboard.request("GET", sound["url"], headers={"Accept-Encoding": "gzip"})
    assert (whole.status, whole.body.decode(), whole.headers["Content-Type"]) == (200, content, "audio/wav")
    assert whole.headers["X-Content-Type-Options"] == "nosniff" and not whole.headers["Content-Encoding"]
    assert whole.headers["Accept-Ranges"] == "bytes"
    for begin, end in ((0, 0), (4, 13), (9000, len(content) - 1)):
        part = dashboard.request("GET", sound["url"], headers={"Range": f"bytes={begin}-{end}"})
        assert (part.status, part.body.decode()) == (206, content[begin:end + 1])
        assert part.headers["Content-Range"] == f"bytes {begin}-{end}/{len(content)}"
    rest = dashboard.request("GET", sound["url"], headers={"Range": "bytes=10000-"})
    assert (rest.status, rest.body.decode()) == (206, content[10000:])
    none = dashboard.request("GET", sound["url"], headers={"Range": "bytes=20000-"})
    assert (none.status, none.headers["Content-Range"], none.headers["Content-Type"]) == (416, f"bytes */{len(content)}", "application/json")
    assert none.json()["error"]["code"] == "bad_range"
    assert dashboard.error(sound["url"].replace(".wav", ".html"))[0] == 404
    assert dashboard.error(sound["url"].replace(".wav", ".mp4"))[0] == 404
    assert dashboard.error("/api/runs/clips/clips/rank-0/17.wav")[0] == 404


def test_pages_are_served_in_a_sandbox(writer, start):
    log, = writer.run("pages")
    writer.do("clip", log=log, name="plot", step=1, time=1000.0, type="text/html", caption="", bytes="<script>1</script>")
    writer.do("end", log=log)
    dashboard = start()
    dashboard.wait_for_runs(1)
    page, = dashboard.get("/api/runs/pages/clips", name="plot")["items"]
    assert page["type"] == "text/html" and page["url"].endswith(".html")
    answer = dashboard.request("GET", page["url"])
    assert (answer.status, answer.body.decode(), answer.headers["Content-Type"]) == (200, "<script>1</script>", "text/html; charset=utf-8")
    policy, = answer.headers.get_all("Content-Security-Policy")
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; ") and "allow-same-origin" not in policy
    assert "'self'" not in policy.replace("frame-ancestors 'self'", "") and "http" not in policy
    assert answer.headers.get_all("X-Frame-Options") == ["SAMEORIGIN"] and answer.headers["X-Content-Type-Options"] == "nosniff"
    assert dashboard.error(page["url"].replace(".html", ".wav"))[0] == 404


def test_metrics_that_are_nan_come_last_and_have_no_extremes(runs, writer, start):
    losses = {"nan-only": ["nan", "nan"], "low": [0.5, 0.25], "high": [3.0, "nan"], "none": []}
    for name, values in losses.items():
        log, = writer.run(name)
        for step, value in enumerate(values):
            writer.do("scalars", log=log, step=step, values={"eval/loss": value})
        writer.do("end", log=log)
    dashboard = start()
    dashboard.wait_for_runs(4)

    def ordered(sort):
        return [row["id"] for row in dashboard.get("/api/runs", sort=sort)["runs"]]

    assert ordered("min(eval/loss)") == ["low", "high", "nan-only", "none"]
    assert ordered("-min(eval/loss)") == ["high", "low", "nan-only", "none"]
    assert ordered("-eval/loss") == ordered("eval/loss") and ordered("eval/loss")[0] == "low"
    row = dashboard.get("/api/runs", filter="id = nan-only", column="min(eval/loss)")["runs"][0]
    assert row["values"] == {"min(eval/loss)": "nan"}
    metric, = dashboard.get("/api/runs/nan-only")["metrics"]
    assert (metric["min"], metric["max"], metric["mean"]) == ("nan", "nan", "nan")
    low, worse = dashboard.get("/api/compare", run=["low", "nan-only"])["metrics"][0]["values"]
    assert (low["min"], worse["min"], worse["max"]) == (0.25, "nan", "nan")


def test_curves_match_the_log(runs, writer, start):
    log, = writer.run("one")
    writer.do("many", log=log, metrics=["train/loss", "train/other"], **{"from": 0, "to": 30000})
    for step, odd in ((5, "nan"), (6, "inf"), (7, "-inf"), (8, 0.1 + 0.2)):
        writer.do("scalars", log=log, step=step, values={"odd": odd})
    writer.do("end", log=log)
    dashboard = start()
    zoomed = curve(dashboard, "one", "train/other", **{"from": 100, "to": 149}, points=100)
    assert zoomed["raw"] and zoomed["x"] == list(range(99, 151))
    assert zoomed["y"] == [value(step, 1) for step in range(99, 151)]
    whole = curve(dashboard, "one", "train/loss", points=50)
    assert not whole["raw"] and whole["total"] == 30000 and whole["range"] == [0, 29999] and len(whole["x"]) <= 102
    assert all(y == value(int(x)) for x, y in zip(whole["x"], whole["y"]))
    assert curve(dashboard, "one", "odd")["y"] == ["nan", "inf", "-inf", 0.1 + 0.2]
    by_time = curve(dashboard, "one", "train/loss", x="time", **{"from": 1010, "to": 1012})
    assert by_time["x"] == [1009, 1010, 1011, 1012, 1013]
    by_epoch = curve(dashboard, "one", "train/loss", x="epoch", to=0.02)
    assert by_epoch["x"] == [0, 0.01, 0.02, 0.03]
    smooth = curve(dashboard, "one", "train/loss", smooth=0.9, to=3)
    assert len(smooth["smooth"]) == len(smooth["y"]) and smooth["smooth"][0] == smooth["y"][0]
    csv = dashboard.request("GET", "/api/series.csv", run="one", metric="train/loss", to=1)
    assert csv.headers["Content-Disposition"] == 'attachment; filename="one_train_loss.csv"'
    rows = csv.body.decode().splitlines()
    assert rows[0] == "run,source,metric,step,epoch,time,value" and len(rows) == 3
    assert rows[2].startswith("one,rank-0,train/loss,1,0.01,1001.000000,")
    assert float(rows[2].split(",")[-1]) == value(1)
    assert dashboard.get("/api/series", run="one", metric="nothing")["series"] == []
    assert dashboard.error("/api/series", run="nothing", metric="a")[0] == 404
    assert dashboard.error("/api/series", run="one", metric="a", points="x")[0] == 400


def test_a_run_while_it_is_written_killed_resumed_and_rewound(runs, writer, start):
    dashboard = start()

    def shows(state, values):
        row, = dashboard.get("/api/runs")["runs"]
        got = curve(dashboard, "live", "train/loss")
        assert (row["state"], row["problems"], got["total"], got["x"], got["y"]) == (
            state, [], len(values), list(range(len(values))), values)

    first, second = [[value(step, 0, scale) for step in range(400)] for scale in (1.0, 2.0)]
    begin = dashboard.get("/api/server")["seq"]
    log, = writer.run("live")
    writer.do("many", log=log, metrics=["train/loss"], **{"from": 0, "to": 300})
    dashboard.wait_for("the new run", lambda: dashboard.get("/api/runs")["matching"] == 1)
    row = dashboard.wait_for("its step", lambda: next(
        (row for row in dashboard.get("/api/changes", since=begin)["runs"] if row["step"] == 299), None))
    assert row["state"] == "running"
    shows("running", first[:300])
    writer.do("many", log=log, metrics=["train/loss"], **{"from": 300, "to": 310})
    dashboard.wait_for("new points", lambda: curve(dashboard, "live", "train/loss")["total"] == 310)
    shows("running", first[:310])
    writer.kill()
    dashboard.wait_for("the end", lambda: dashboard.get("/api/runs")["runs"][0]["state"] == "lost")
    shows("lost", first[:310])
    again = LogWriter(runs)
    log, = again.run("live")
    dashboard.wait_for("the resume", lambda: dashboard.get("/api/runs")["runs"][0]["state"] == "running")
    shows("running", first[:310])
    again.do("rewind", log=log, step=199)
    dashboard.wait_for("the rewind", lambda: curve(dashboard, "live", "train/loss")["total"] == 200)
    shows("running", first[:200])
    again.do("many", log=log, metrics=["train/loss"], scale=2.0, **{"from": 200, "to": 400})
    dashboard.wait_for("the second attempt", lambda: curve(dashboard, "live", "train/loss")["total"] == 400)
    shows("running", first[:200] + second[200:])
    again.do("end", log=log, state="failed", exit=78)
    dashboard.wait_for("the end", lambda: dashboard.get("/api/runs")["runs"][0]["state"] == "failed")
    shows("failed", first[:200] + second[200:])
    assert dashboard.get("/api/runs")["runs"][0]["exit"] == 78
    again.close()


def test_concurrent_requests_while_runs_are_read(runs, writer, start):
    for i in range(6):
        writer.finished_run(f"run-{i}")
    dashboard = start()
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        results = [threads.submit(get, f"run-{i % 6}") for i in range(60) for get in (
            lambda run: dashboard.get(f"/api/runs/{run}")["step"], lambda run: curve(dashboard, run, "train/loss")["total"] - 1)]
        assert [each.result() for each in results] == [99] * 120


def test_events(runs, writer, start):
    dashboard = start()
    connection = http.client.HTTPConnection(dashboard.address, timeout=20)
    connection.request("GET", "/api/events")
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
    assert response.readline() == b": here\n"
    writer.finished_run("one")
    change = {"runs": []}
    while not change["runs"]:  # the first event may only report the end of indexing
        line = response.readline()
        assert line, "the stream ended"
        if line.startswith(b"data: "):
            change = json.loads(line[6:])
    assert change["runs"][0]["id"] == "one" and change["seq"] > 0
    connection.close()


def test_too_many_streams(start):
    dashboard = start()
    open_streams = []
    for _ in range(33):
        connection = http.client.HTTPConnection(dashboard.address, timeout=20)
        connection.request("GET", "/api/events")
        open_streams.append((connection, connection.getresponse()))
    assert [response.status for _, response in open_streams] == [200] * 32 + [503]
    assert dashboard.get("/api/server")["limits"]["streams"] == 32
    for connection, _ in open_streams:
        connection.close()


def test_bands_heatmap_and_ranks(runs, writer, start):
    logs = writer.run("job", ranks=4, nodes=1)
    for rank, log in enumerate(logs[:4]):
        for step in range(50):
            writer.do("scalars", log=log, step=step, time=1000.0 + step, epoch=step / 10,
                      values={"train/loss": step + rank, "rank/step_time_s": 0.1 * (5 if rank == 2 else 1)})
        writer.do("end", log=log)
    writer.do("scalars", log=logs[4], step=0, values={"system/cpu_percent": 50})
    writer.do("alert", log=logs[4], title="rank 2 is slow", text="5 times", step=49)
    writer.do("end", log=logs[4])
    dashboard = start()
    band, = dashboard.get("/api/band", run="job", metric="train/loss", points=100)["bands"]
    assert band["raw"] and band["x"] == list(range(50)) and band["count"] == [4] * 50
    assert band["mean"] == [step + 1.5 for step in range(50)]
    assert band["min"] == list(range(50)) and band["max"] == [step + 3 for step in range(50)]
    assert all(abs(deviation - math.sqrt(1.25)) < 1e-12 for deviation in band["deviation"])
    assert band["median"] == band["mean"]  # of four values at equal distances
    assert all(abs(low - step - 0.3) < 1e-12 and abs(high - step - 2.7) < 1e-12 for step, (low, high) in enumerate(zip(band["p10"], band["p90"])))
    assert [band["curves"][i]["source"] for i in (band["min_curve"][7], band["max_curve"][7])] == ["rank-0", "rank-3"]
    heat = dashboard.get("/api/heatmap", run="job", metric="rank/step_time_s", columns=10)
    assert heat["sources"] == [f"rank-{rank}" for rank in range(4)] and heat["columns"] == 10
    assert abs(heat["mean"][2][3] - 0.5) < 1e-12 and abs(heat["mean"][1][3] - 0.1) < 1e-12
    run = dashboard.get("/api/runs/job")
    assert [source["source"] for source in run["sources"]] == ["rank-0", "rank-1", "rank-2", "rank-3", "node-0"]
    metrics = {metric["name"]: metric for metric in run["metrics"]}
    assert metrics["train/loss"]["sources"] == [f"rank-{rank}" for rank in range(4)]
    assert metrics["system/cpu_percent"]["sources"] == ["node-0"] and metrics["system/cpu_percent"]["axis"] == "time"
    assert run["alerts"][0]["title"] == "rank 2 is slow" and run["num_alerts"] == 1
    assert dashboard.get("/api/alerts")["alerts"][0]["run"] == "job"
    assert len(dashboard.get("/api/series", run="job", metric="train/loss", source="ranks")["series"]) == 4


def test_media_texts_and_tables(runs, writer, start):
    log, = writer.run("media")
    for step in range(5):
        writer.do("histogram", log=log, name="weights/fc1", step=step, time=1000.0 + step, edges=[0, 1, 2], counts=[step, 1])
        writer.do("image", log=log, name="eval/errors", step=step, time=1000.0 + step, caption="<b>", gray=step)
        writer.do("text", log=log, line=f"message {step}", level=1 + step % 3, time=1000.0 + step)
    writer.do("table", log=log, name="eval/confusion_matrix", step=4, columns=["actual", "predicted", "count"],
              rows=[[0, 0, 10], [0, 1, 2], ["<script>", None, 1.5]])
    writer.do("end", log=log)
    dashboard = start()
    run = dashboard.get("/api/runs/media")
    assert {(media["kind"], media["name"], media["count"]) for media in run["media"]} == {
        ("histogram", "weights/fc1", 5), ("image", "eval/errors", 5), ("table", "eval/confusion_matrix", 1)}
    histograms = dashboard.get("/api/runs/media/histograms", name="weights/fc1", limit=2)
    assert histograms["total"] == 5 and [item["step"] for item in histograms["items"]] == [1, 4]
    assert histograms["items"][1]["counts"] == [4, 1] and histograms["items"][1]["edges"] == [0, 1, 2]
    table = dashboard.get("/api/runs/media/tables", name="eval/confusion_matrix")
    assert table["columns"] == ["actual", "predicted", "count"] and table["rows"][2] == ["<script>", None, 1.5]
    texts = dashboard.get("/api/runs/media/texts", offset=-2)
    assert texts["total"] == 5 and [item["line"] for item in texts["items"]] == ["message 3", "message 4"]
    assert dashboard.get("/api/runs/media/texts", level="error")["total"] == 1
    images = dashboard.get("/api/runs/media/images", name="eval/errors", limit=2)
    assert [item["step"] for item in images["items"]] == [4, 3] and images["more"]
    assert (images["items"][0]["width"], images["items"][0]["height"], images["items"][0]["caption"]) == (4, 3, "<b>")
    shown = [dashboard.request("GET", item["url"]) for item in images["items"]]
    assert all(image.headers["Content-Type"] == "image/png" and image.body.startswith(b"\x89PNG") for image in shown)
    assert shown[0].body != shown[1].body
    assert dashboard.get("/api/runs/media/images", name="nothing")["items"] == []
    assert dashboard.error("/api/runs/media/images/rank-0/17.png")[0] == 404


def test_compare_and_defaults(runs, writer, start):
    writer.finished_run("a", config={"optimizer": {"lr": 0.1, "name": "sgd"}})
    writer.finished_run("b", config={"optimizer": {"lr": 0.2, "name": "sgd", "momentum": 0.9}})
    dashboard = start()
    comparison = dashboard.get("/api/compare", run=["a", "b"])
    config = {entry["key"]: entry for entry in comparison["config"]}
    assert config["optimizer.lr"]["differs"] and config["optimizer.lr"]["values"] == [0.1, 0.2]
    assert not config["optimizer.name"]["differs"]
    assert config["optimizer.momentum"]["missing"] == [True, False]
    assert comparison["metrics"][0]["values"][0]["last"] == value(99)
    assert dashboard.error("/api/compare", run="a")[0] == 400


def test_actions(runs, writer, start):
    writer.finished_run("done")
    log, = writer.run("going")
    writer.do("many", log=log, metrics=["train/loss"], **{"from": 0, "to": 10})
    dashboard = start()
    dashboard.wait_for_runs(2)
    tagged = dashboard.write("POST", "/api/runs/done/tags", {"add": ["good"], "note": "the <b>one</b>"}).json()
    assert tagged["tags"] == ["good"] and tagged["note"] == "the <b>one</b>"
    assert json.loads((runs / "done" / "tags.json").read_text())["tags"] == ["good"]
    assert dashboard.get("/api/runs", filter="tag = good")["matching"] == 1
    assert dashboard.write("POST", "/api/runs/done/tags", {"add": ["a b"]}).status == 400
    assert dashboard.write("POST", "/api/runs/done/tags", {"remove": ["other"]}).status == 400
    assert dashboard.write("POST", "/api/runs/done/stop", {}).status == 409
    assert dashboard.write("POST", "/api/runs/going/stop", {"reason": "enough"}).status == 200
    assert json.loads((runs / "going" / "stop_request.json").read_text())["reason"] == "enough"
    assert dashboard.get("/api/runs/going")["stop_requested"]["reason"] == "enough"
    assert dashboard.write("DELETE", "/api/runs/going", {"confirm": "going"}).status == 409
    assert dashboard.write("DELETE", "/api/runs/done", {}).status == 400
    assert dashboard.write("DELETE", "/api/runs/done", {"confirm": "done"}).json() == {"deleted": "done"}
    assert not (runs / "done").exists() and dashboard.get("/api/runs")["matching"] == 1
    read_only = start("--read-only")
    assert read_only.write("DELETE", "/api/runs/going", {"confirm": "going"}).status == 403
    assert read_only.get("/api/server")["actions"] is False


def test_corrupt_runs_are_listed_and_readable_up_to_the_corruption(runs, writer, start):
    for name in ("cut", "flipped", "foreign", "short", "empty"):
        writer.finished_run(name)
    writer.close()
    log = runs / "cut/events/rank-00000.lsev"
    log.write_bytes(log.read_bytes()[:-1000])
    log = runs / "flipped/events/rank-00000.lsev"
    content = bytearray(log.read_bytes())
    content[2000] ^= 1
    log.write_bytes(bytes(content))
    (runs / "foreign/events/rank-00000.lsev").write_text("this is not an event log")
    (runs / "short/events/rank-00000.lsev").write_text("short")
    (runs / "empty/events/rank-00000.lsev").unlink()
    (runs / "empty/run.json").write_text("{")
    (runs / "tagged").mkdir()
    dashboard = start()
    dashboard.wait_for_runs(5)
    rows = {row["id"]: row for row in dashboard.get("/api/runs")["runs"]}
    assert "corrupt" in rows["cut"]["problems"][0] and rows["cut"]["state"] == "lost" and 0 < rows["cut"]["step"] < 99
    assert "corrupt" in rows["flipped"]["problems"][0]
    assert "not an event log" in rows["foreign"]["problems"][0]
    assert "not an event log" in rows["short"]["problems"][0]
    for name in rows:
        assert dashboard.get(f"/api/runs/{name}")["id"] == name
    assert curve(dashboard, "cut", "train/loss")["y"] == [value(step) for step in range(rows["cut"]["step"] + 1)]


def test_console_files_and_artifacts(runs, writer, start):
    writer.finished_run("one")
    output = runs / "one/logs/attempt_0/0"
    output.mkdir(parents=True)
    (output / "stdout.log").write_text("".join(f"line {i}\n" for i in range(100)))
    (runs / "one/link").symlink_to("/etc/passwd")
    (output / "stderr.log").symlink_to("/etc/passwd")
    data = runs.parent / "weights"
    data.write_bytes(os.urandom(1000))
    subprocess.run([LOCKSTEP, "artifacts", "put", "net", data, "--type", "model", "--dir", runs], check=True, timeout=60)
    dashboard = start()
    run = dashboard.get("/api/runs/one")
    assert [stream["stream"] for stream in run["console"]] == ["0-0-0-out"]
    tail = dashboard.get("/api/runs/one/console", stream="0-0-0-out", tail=2)
    assert tail["lines"] == ["line 98", "line 99"] and tail["end"] == tail["size"]
    found = dashboard.get("/api/runs/one/console", stream="0-0-0-out", search="LINE 5")
    assert [match["line"] for match in found["matches"]] == ["line 5"] + [f"line 5{i}" for i in range(10)]
    assert dashboard.error("/api/runs/one/console", stream="../../x")[0] == 404
    files = {file["path"] for file in dashboard.get("/api/runs/one/files")["files"]}
    assert {"config.yaml", "run.json", "events/rank-00000.lsev", "logs/attempt_0/0/stdout.log"} <= files
    assert not files & {"link", "logs/attempt_0/0/stderr.log"}
    response = dashboard.request("GET", "/api/runs/one/files/logs/attempt_0/0/stdout.log")
    assert response.body == (output / "stdout.log").read_bytes()
    assert response.headers["Content-Type"] == "application/octet-stream" and "attachment" in response.headers["Content-Disposition"]
    artifact, = dashboard.get("/api/artifacts")["artifacts"]
    assert artifact["name"] == "net" and artifact["aliases"] == ["latest"] and artifact["bytes"] == 1000
    assert dashboard.request("GET", artifact["files"][0]["url"]).body == data.read_bytes()
    assert dashboard.error("/api/artifacts/net/1/1")[0] == 404
    assert dashboard.error("/api/artifacts/net/2/0")[0] == 404
    assert dashboard.get("/api/artifacts", run="one")["artifacts"] == []


def test_names_that_contain_code_are_data(runs, writer, start):
    name = '<img src=x onerror="alert(1)">&%41'
    log, = writer.run(name)
    writer.do("scalars", log=log, step=1, values={"<script>alert(1)</script>": 1.5, 'train/"; DROP': 2})
    writer.do("end", log=log)
    dashboard = start()
    dashboard.wait_for_runs(1)
    row, = dashboard.get("/api/runs")["runs"]
    assert row["id"] == name
    run = dashboard.get("/api/runs/" + urllib.parse.quote(name, safe=""))
    assert "<script>alert(1)</script>" in {metric["name"] for metric in run["metrics"]}
    assert curve(dashboard, name, "<script>alert(1)</script>")["y"] == [1.5]


def test_report_and_watch(runs, writer, start, tmp_path):
    logs = writer.run("job", ranks=2, config={"a": "</script><b>"})
    for log in logs:
        writer.do("many", log=log, metrics=["train/loss", "rank/step_time_s"], **{"from": 0, "to": 10000})
        for step in range(5):
            writer.do("histogram", log=log, name="weights/fc1", step=step, time=1000.0 + step, edges=[0, 1, 2], counts=[step, 1])
            writer.do("table", log=log, name="eval/worst", step=step, time=1000.0 + step, columns=["x"], rows=[[i + step] for i in range(2300)])
        writer.do("text", log=log, line="</script> text", level=2, time=1000.0)
        writer.do("end", log=log)
    for attempt in range(2):
        for rank in range(2):
            output = runs / f"job/logs/attempt_{attempt}/{rank}"
            output.mkdir(parents=True)
            (output / "stdout.log").write_text("".join(f"attempt {attempt} rank {rank} line {i}\n" for i in range(1000)))
            (output / "stderr.log").write_text("")
    (output / "stderr.log").write_text("".join("x" * 1000 + f"{i}\n" for i in range(200)))
    report = tmp_path / "report.html"
    made = subprocess.run([LOCKSTEP, "runs", "export", "job", "--html", report, "--dir", runs], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    html = report.read_text()
    data = json.loads(html.split('id="lockstep-report">')[1].split("</script>")[0])
    assert data["runs"][0]["id"] == "job" and data["runs"][0]["config"] == {"a": "</script><b>"}
    assert [series["source"] for series in data["series"] if series["metric"] == "train/loss"] == ["rank-0", "rank-1"]
    series = data["series"][0]
    assert series["total"] == 10000 and len(series["value"]) <= 4002
    assert all(y == value(int(step)) for step, y in zip(series["step"], series["value"]))
    assert data["bands"][0]["run"] == "job" and data["bands"][0]["count"][0] > 0
    dashboard = start()
    heat, = data["heatmaps"]
    assert heat["sources"] == ["rank-0", "rank-1"] and heat["columns"] == 300
    assert {**dashboard.get("/api/heatmap", run="job", metric="rank/step_time_s", columns=300), "run": "job"} == heat
    printed = {part["stream"]: part["lines"] for part in data["console"]}
    assert set(printed) == {"1-0-0-out", "1-0-1-out", "1-0-1-err"} == {stream["stream"] for stream in data["runs"][0]["console"]}
    assert printed["1-0-0-out"] == [f"attempt 1 rank 0 line {i}" for i in range(800, 1000)]
    assert printed["1-0-1-err"] == ["x" * 1000 + f"{i}" for i in range(135, 200)], "complete lines within 64 KiB"
    histograms = {(part["source"], part["name"]): part["items"] for part in data["histograms"]}
    assert [item["counts"] for item in histograms["rank-1", "weights/fc1"]] == [[step, 1] for step in range(5)]
    table = data["tables"][0]
    assert table["name"] == "eval/worst" and table["num_rows"] == 2300 and table["rows"] == [[i + 4] for i in range(2000)]
    assert [item["line"] for item in data["texts"][0]["items"]] == ["</script> text"] * 2
    assert data["runs"][0]["console"][0]["path"] == "logs/attempt_1/0/stdout.log"
    watched = subprocess.run([LOCKSTEP, "runs", "watch", "job", "--dir", runs], capture_output=True, text=True, timeout=60)
    assert watched.returncode == 0, watched.stderr
    assert "train/loss" in watched.stdout and "finished" in watched.stdout and "▁" in watched.stdout and "█" in watched.stdout
