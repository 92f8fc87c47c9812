"""The API behind the analysis of many runs: values in columns, importance of parameters, saved views."""

import json
import random


def write_run(writer, name, config, **results):
    log, = writer.run(name, config=config)
    writer.do("scalars", log=log, step=1, values=results)
    writer.do("end", log=log)


def column(analysis, field):
    found, = (each for each in analysis["columns"] if each["field"] == field)
    return dict(zip(analysis["ids"], found["values"]), type=found["type"], labels=found.get("labels"))


def test_analysis_has_the_values_of_runs_in_columns(writer, start):
    write_run(writer, "a", {"lr": 0.1, "name": "sgd", "nesterov": True, "same": 1}, **{"eval/loss": 0.5, "train/loss": 1.5})
    write_run(writer, "b", {"lr": 0.2, "name": "adamw", "nesterov": False, "same": 1}, **{"eval/loss": "nan"})
    write_run(writer, "c", {"lr": 0.3, "same": 1}, **{"train/loss": 2.5, "system/load": 1})
    dashboard = start()
    dashboard.wait_for_runs(3)
    analysis = dashboard.get("/api/analysis", filter="")
    assert analysis["matching"] == 3 and sorted(analysis["ids"]) == ["a", "b", "c"] and analysis["keys_left_out"] == 0
    assert set(analysis["states"]) == {"finished"} and sorted(analysis["names"]) == ["a", "b", "c"]
    # Keys that are the same in all runs are left out; results come before other metrics.
    fields = [each["field"] for each in analysis["columns"]]
    assert fields == ["config.lr", "config.name", "config.nesterov", "metric.eval/loss", "metric.train/loss", "metric.system/load",
                      "duration", "created"]
    assert analysis["metrics"] == [{"name": "eval/loss", "runs": 2}, {"name": "train/loss", "runs": 2}, {"name": "system/load", "runs": 1}]
    assert column(analysis, "config.lr") == {"a": 0.1, "b": 0.2, "c": 0.3, "type": "number", "labels": None}
    assert column(analysis, "config.name") == {"a": 1, "b": 0, "c": -1, "type": "text", "labels": ["adamw", "sgd"]}
    assert column(analysis, "config.nesterov") == {"a": True, "b": False, "c": None, "type": "bool", "labels": None}
    assert column(analysis, "metric.eval/loss") == {"a": 0.5, "b": "nan", "c": None, "type": "number", "labels": None}
    chosen = dashboard.get("/api/analysis", filter="config.lr > 0.1", column=["config.same", "metric.train/loss"])
    assert chosen["matching"] == 2 and [each["field"] for each in chosen["columns"]] == ["config.same", "metric.train/loss"]
    assert column(chosen, "metric.train/loss") == {"b": None, "c": 2.5, "type": "number", "labels": None}
    posted = dashboard.write("POST", "/api/analysis", {"run": ["c", "a"], "column": "config.lr"}).json()
    assert sorted(posted["ids"]) == ["a", "c"] and column(posted, "config.lr")["c"] == 0.3
    both = dashboard.write("POST", "/api/analysis", {"run": ["c", "a"], "filter": "config.lr > 0.1", "column": "config.lr"}).json()
    assert (both["ids"], both["matching"]) == (["c"], 1)
    none = dashboard.write("POST", "/api/analysis", {"run": ["a"], "filter": "config.lr > 0.1"}).json()
    assert (none["ids"], none["matching"]) == ([], 0)


def test_bad_requests_of_the_analysis(writer, start):
    write_run(writer, "a", {"lr": 0.1}, **{"eval/loss": 0.5})
    dashboard = start()
    dashboard.wait_for_runs(1)
    for path, parameters, text in [("analysis", {"column": "nothing"}, "unknown field 'nothing'"),
                                   ("analysis", {"column": [f"config.k{i}" for i in range(101)]}, "more than 100 columns"),
                                   ("analysis", {"filter": "stat = finished"}, "state"),
                                   ("importance", {"parameter": "config.lr"}, "target=FIELD"),
                                   ("importance", {"target": "metric.eval/loss"}, "parameter=FIELD"),
                                   ("importance", {"target": "x", "parameter": "config.lr"}, "unknown field 'x'"),
                                   ("importance", {"target": "metric.eval/loss", "parameter": [f"config.k{i}" for i in range(65)]}, "more than 64")]:
        status, error = dashboard.error(f"/api/{path}", **{"filter": "", **parameters})
        assert status == 400 and text in error["message"], (path, parameters, error)
    assert dashboard.error("/api/analysis")[0] == 400  # neither run nor filter
    assert dashboard.write("POST", "/api/analysis", ["a"]).status == 400
    assert dashboard.write("POST", "/api/importance", {"target": 1, "parameter": "config.lr"}).status == 400


def test_importance_finds_the_planted_parameters_and_says_when_runs_are_too_few(writer, start):
    randomness = random.Random(3)
    for i in range(120):
        config = {name: randomness.random() for name in ("first", "noise_1", "noise_2")}
        config["kind"] = randomness.choice(["low", "high"])
        loss = config["first"] + (2.0 if config["kind"] == "high" else 0.0) + 0.01 * randomness.random()
        write_run(writer, f"run-{i:03}", config, **{"eval/loss": loss if i else "nan"})
    dashboard = start()
    dashboard.wait_for_runs(120)
    request = {"target": "metric.eval/loss", "parameter": [f"config.{name}" for name in ("noise_1", "first", "kind", "noise_2")]}
    report = dashboard.get("/api/importance", filter="", **request)
    assert report["matching"] == 120 and report["runs"] == report["used"] == 119 and report["explained"] > 0.7
    found = {each["field"]: each for each in report["parameters"]}
    assert list(found) == request["parameter"]
    assert {field for field, each in found.items() if each["above_noise"]} == {"config.first", "config.kind"}
    first, kind = found["config.first"], found["config.kind"]
    assert kind["importance"] > first["importance"] > 5 * max(found[f"config.noise_{i}"]["importance"] for i in (1, 2))
    assert first["effect"] == "rises" and first["correlation"] > 0.2 and first["mean"] == sorted(first["mean"])
    assert kind["correlation"] is None and dict(zip(kind["at"], kind["mean"]))["high"] > dict(zip(kind["at"], kind["mean"]))["low"] + 1
    few = dashboard.write("POST", "/api/importance", {**request, "run": [f"run-{i:03}" for i in range(1, 9)]}).json()
    assert few["runs"] == 8 < few["needed"] and few["used"] == 0
    assert not any(each["above_noise"] for each in few["parameters"])


def test_views_are_saved_replaced_and_removed(runs, start):
    dashboard = start()
    assert dashboard.get("/api/views") == {"views": []}

    def post(**body):
        return dashboard.write("POST", "/api/views", body)

    assert post(name="losses", view="#/runs?sort=eval").status == 200
    assert post(name="other", view="#/analysis").status == 200
    replaced = post(name="losses", view="#/runs?sort=train").json()["views"]
    assert sorted((each["name"], each["view"]) for each in replaced) == [("losses", "#/runs?sort=train"), ("other", "#/analysis")]
    for body, status in [({"view": "#/"}, 400), ({"name": "", "view": "#/"}, 400), ({"name": "a"}, 400),
                         ({"name": "a", "view": "https://example.com"}, 400), ({"name": "a" * 101, "view": "#/"}, 400),
                         ({"name": "a", "view": "#/" + "x" * (32 << 10)}, 400), ({"name": "unknown", "view": None}, 404)]:
        assert post(**body).status == status, body
    assert dashboard.request("POST", "/api/views", body=json.dumps({"name": "a", "view": "#/"})).status == 403  # another site
    assert [each["name"] for each in post(name="losses", view=None).json()["views"]] == ["other"]
    dashboard.end()
    read_only = start("--read-only")  # it is still there, and cannot be changed
    assert [each["name"] for each in read_only.get("/api/views")["views"]] == ["other"]
    assert read_only.write("POST", "/api/views", {"name": "a", "view": "#/"}).status == 403
    # A file that cannot be read is not replaced.
    (runs / ".dashboard" / "views.json").write_text("[{]")
    dashboard = start()
    assert dashboard.request("GET", "/api/views").status == 500
    assert post(name="a", view="#/").status == 500
    assert (runs / ".dashboard" / "views.json").read_text() == "[{]"
