"""`lockstep mcp`: the real process over pipes, on runs that trained, and with the protocol's own client in Python."""

import json
import select
import signal

import jsonschema
import pytest

import processes
from processes import LOCKSTEP


class Client:
    """Sends lines to the server and reads its answers."""

    def __init__(self, directory, runs, env=None):
        pipe = processes.subprocess.PIPE
        self.process = processes.start([LOCKSTEP, "mcp", "--dir", runs], directory, env, stdin=pipe)
        self.next_id = 0

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def read(self):
        ready, _, _ = select.select([self.process.stdout], [], [], processes.TIMEOUT_S)
        assert ready, "no answer"
        return json.loads(self.process.stdout.readline())

    def request(self, method, **params):
        self.next_id += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}))
        answer = self.read()
        assert answer["jsonrpc"] == "2.0" and answer["id"] == self.next_id, answer
        return answer

    def initialize(self):
        result = self.request("initialize", protocolVersion="2025-06-18", capabilities={},
                              clientInfo={"name": "test", "version": "1"})["result"]
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return result

    def call(self, tool, **arguments):
        result = self.request("tools/call", name=tool, arguments=arguments)["result"]
        assert not result["isError"], result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    def error(self, tool, **arguments):
        result = self.request("tools/call", name=tool, arguments=arguments)["result"]
        assert result["isError"], result
        return result["content"][0]["text"]


def test_runs_are_read_over_pipes(job):
    first = job.train("train.log_every=1 steps", ranks=2)
    second = job.train("optimizer.lr=0.05")
    client = Client(job.directory, job.runs)
    assert client.initialize()["protocolVersion"] == "2025-06-18"
    for tool in client.request("tools/list")["result"]["tools"]:
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["annotations"]["readOnlyHint"], tool["name"]

    listed = client.call("list_runs", filter="state = finished", order="created", columns=["config.optimizer.lr"])
    assert [run["id"] for run in listed["runs"]] == [first.name, second.name]
    assert [run["values"]["config.optimizer.lr"] for run in listed["runs"]] == [0.1, 0.05]

    shown = json.loads(job.query("show", first.name, "--json"))
    run = client.call("describe_run", run=first.name)
    assert run["config"]["optimizer"]["lr"] == 0.1 and run["state"] == "finished" and run["world_size"] == 2
    assert str(job.file) in run["command"] and run["checkpoints"][-1]["step"] == 21
    last = {metric["name"]: metric["last"] for metric in run["metrics"]}
    assert last["eval/accuracy"] == shown["metrics"]["eval/accuracy"]["last"]

    curve, = client.call("read_metrics", run=first.name, metrics=["train/loss"])["series"]
    assert list(zip(curve["x"], curve["y"])) == job.series(first.name, "train/loss") and curve["raw"]
    curve, = client.call("read_metrics", run=first.name, metrics=["train/loss"], points=10)["series"]
    assert len(curve["x"]) <= 10 and curve["total"] == 21

    compared = client.call("compare_runs", runs=[first.name, second.name])
    assert {"key": "optimizer.lr", "values": [0.1, 0.05], "missing": [False, False]} in compared["config"]

    log = client.call("read_log", run=first.name, rank=0, lines=5)
    printed = (first / "logs" / "attempt_0" / "0" / "stdout.log").read_text().splitlines()
    assert log["lines"] == printed[-5:] and log["attempt"] == 0
    assert "ranks with a log: 0, 1" in client.error("read_log", run=first.name, rank=7)
    assert "lockstep launch" in client.error("read_log", run=second.name)
    assert client.call("list_alerts")["alerts"] == []

    # The line that the command prints for the same mistake.
    ended = processes.run([LOCKSTEP, "runs", "show", "nothing", "--dir", job.runs], job.directory)
    assert ended.err == f"lockstep: error: {client.error('describe_run', run='nothing')}\n"
    client.send("{")
    assert client.read()["error"]["code"] == -32700
    ended = processes.finish(client.process)  # closes the input
    assert ended.code == 0 and ended.out == "" and len(ended.err.splitlines()) == 1


def test_ends_at_once_on_sigterm(tmp_path):
    client = Client(tmp_path, tmp_path)
    assert client.call("list_runs")["matching"] == 0
    client.process.send_signal(signal.SIGTERM)
    assert processes.finish(client.process).code == -signal.SIGTERM


def test_bad_options_are_one_line(tmp_path):
    for words, expected in ((["--dir", "nowhere"], "there is no runs directory at 'nowhere'"), (["--dri", "x"], "--dir"),
                            (["x"], "unexpected argument 'x'")):
        ended = processes.run([LOCKSTEP, "mcp", *words], tmp_path)
        assert ended.code == 78 and ended.out == "" and expected in ended.err and ended.err.count("\n") == 1, ended.err


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_client_of_the_protocol_reads_runs(tmp_path, mode):
    anyio, mcp = pytest.importorskip("anyio"), pytest.importorskip("mcp")
    server = mcp.StdioServerParameters(command=LOCKSTEP, args=["mcp", "--dir", str(tmp_path)], env=processes.environment())

    async def use():
        async with mcp.Client(server, mode=mode, read_timeout_seconds=processes.TIMEOUT_S) as client:
            assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
            tools = (await client.list_tools()).tools
            assert "read_metrics" in [tool.name for tool in tools] and tools[0].annotations.read_only_hint
            listed = await client.call_tool("list_runs", {"limit": 5})
            assert not listed.is_error and listed.structured_content["matching"] == 0
            wrong = await client.call_tool("describe_run", {"run": "nothing"})
            assert wrong.is_error and wrong.content[0].text.startswith("there is no run 'nothing'")
            with pytest.raises(mcp.MCPError, match="unknown tool 'nothing'"):
                await client.call_tool("nothing", {})

    anyio.run(use)
