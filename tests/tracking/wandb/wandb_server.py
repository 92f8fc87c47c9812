"""A W&B server on the loopback interface, as far as wandb-core uploads runs to it: GraphQL, file_stream and uploads.

It stores the lines of a stream by their number, as the real server does. `trouble` selects a failure.
"""
import base64
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HISTORY, EVENTS, SUMMARY, CONSOLE = "wandb-history.jsonl", "wandb-events.jsonl", "wandb-summary.json", "output.log"
KEY = "k" * 8 + "0123456789abcdef" * 2


class Run:
    def __init__(self):
        self.bucket = {}  # the variables of UpsertBucket that were not null
        self.streams = {HISTORY: {}, EVENTS: {}, SUMMARY: {}, CONSOLE: {}}
        self.num_lines_sent = {}
        self.exit_code = None
        self.complete = self.preempting = False
        self.alerts = []

    def lines(self, name):
        stream = self.streams[name]
        assert sorted(stream) == list(range(len(stream))), "a line is missing"
        return [stream[i] for i in range(len(stream))]

    def rows(self, name=HISTORY):
        return [json.loads(line) for line in self.lines(name)]

    @property
    def history(self):
        return self.rows()

    @property
    def summary(self):
        return json.loads(self.streams[SUMMARY][0])

    @property
    def config(self):
        return {key: value["value"] for key, value in json.loads(self.bucket["config"]).items() if key != "_wandb"}

    @property
    def metrics(self):
        """Axis of every defined metric."""
        names = [m.get("1") for m in json.loads(self.bucket["config"])["_wandb"]["value"]["m"]]
        return {m.get("1"): names[m["5"] - 1] for m in json.loads(self.bucket["config"])["_wandb"]["value"]["m"] if "5" in m}


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, *arguments):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(*arguments)  # otherwise a client was killed


class WandbServer:
    def __init__(self, trouble=None):
        self.trouble = trouble  # None, "500", "401", "hang", "stream 500", "no project"
        self.runs, self.files, self.artifacts, self.operations = {}, {}, [], []
        self.committed = set()  # ids of artifacts
        self.num_failed_requests = 0  # requests that got status 500 or hang
        self.changed = threading.Condition()
        self.stopped = threading.Event()
        handler = type("Handler", (Handler,), {"owner": self})
        self.http = QuietServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self):
        self.stopped.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def run(self, name=None):
        with self.changed:
            if name is None:
                (name,) = self.runs
            return self.runs.setdefault(name, Run())

    def count_failed_request(self):
        with self.changed:
            self.num_failed_requests += 1
            self.changed.notify_all()

    def wait_for(self, condition, timeout=120):
        with self.changed:
            assert self.changed.wait_for(condition, timeout), "timed out waiting for a condition"

    def graphql(self, operation, variables):
        self.operations.append(operation)
        handler = getattr(self, operation, None)
        return handler(variables) if handler else {}

    def ServerFeaturesQuery(self, _):
        return {"serverInfo": {"features": []}}

    def Viewer(self, _):
        return {"viewer": {"id": "u", "entity": "default-user", "flags": "{}", "teams": {"edges": []}}}

    def UpsertBucket(self, variables):
        run = self.runs.setdefault(variables["name"], Run())
        run.bucket.update({key: value for key, value in variables.items() if value is not None})
        project = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": variables["entity"] or "default-user"}}
        bucket = {"id": "b", "name": variables["name"], "displayName": run.bucket.get("displayName"), "config": "{}",
                  "project": project, "historyLineCount": 0}
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}

    def CreateRunFiles(self, variables):
        files = [{"name": name, "uploadUrl": f"{self.url}/upload/{variables['run']}/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}

    def NotifyScriptableRunAlert(self, variables):
        self.runs[variables["runName"]].alerts.append(
            {key: variables[key] for key in ("title", "text", "severity", "waitDuration")})
        return {"notifyScriptableRunAlert": {"success": True}}

    def CreateArtifact(self, variables):
        """As in W&B: identical content in a collection is the same version, so a repeated request returns the existing one."""
        requested = variables["input"]
        versions = [(made["artifactCollectionName"], made["digest"]) for made in self.artifacts]
        key = (requested["artifactCollectionName"], requested["digest"])
        if key not in versions:
            self.artifacts.append(requested)
            versions.append(key)
        name = f"a{versions.index(key) + 1}"
        state = "COMMITTED" if name in self.committed else "PENDING"
        return {"createArtifact": {"artifact": {"id": name, "state": state, "artifactSequence": {"latestArtifact": None}}}}

    def CreateArtifactManifest(self, variables):
        manifest = f"{variables['artifactID']}/{variables['name']}"
        file = {"id": "f", "uploadUrl": f"{self.url}/upload/{manifest}", "uploadHeaders": []}
        return {"createArtifactManifest": {"artifactManifest": {"id": "m", "file": file}}}

    def UpdateArtifactManifest(self, variables):
        file = {"id": "f", "uploadUrl": f"{self.url}/upload/manifest", "uploadHeaders": []}
        return {"updateArtifactManifest": {"artifactManifest": {"id": "m", "file": file}}}

    def CreateArtifactFiles(self, variables):
        edges = [{"node": {"storagePath": f"s/{file['name']}", "uploadHeaders": [], "artifact": {"id": file["artifactID"]},
                           "uploadUrl": f"{self.url}/upload/artifact/{file['name']}", "uploadMultipartUrls": None}}
                 for file in variables["input"]["artifactFiles"]]
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def CommitArtifact(self, variables):
        self.committed.add(variables["artifactID"])
        return {"commitArtifact": {"artifact": {"id": variables["artifactID"], "digest": "d"}}}

    def file_stream(self, name, body):
        run = self.runs[name]
        for stream, chunk in body.get("files", {}).items():
            run.num_lines_sent[stream] = run.num_lines_sent.get(stream, 0) + len(chunk["content"])
            for i, line in enumerate(chunk["content"]):
                run.streams[stream][chunk["offset"] + i] = line
        run.preempting |= bool(body.get("preempting"))
        if body.get("complete"):
            run.complete, run.exit_code = True, body["exitcode"]
        return {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: WandbServer

    def log_message(self, *_):
        pass

    def respond(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def handle_trouble(self):
        """Handles the request, or leaves it unanswered, if the server is set to fail; returns whether it did."""
        trouble, is_stream = self.owner.trouble, self.path.endswith("/file_stream")
        if trouble == "hang":
            self.owner.count_failed_request()
            self.owner.stopped.wait()
            return True
        if trouble == "500" or (trouble == "stream 500" and is_stream):
            self.respond(500, {"error": "broken"})
            self.owner.count_failed_request()
            return True
        expected = "Basic " + base64.b64encode(b"api:" + KEY.encode()).decode()
        if trouble == "no project" and not is_stream:
            self.respond(200, {"data": None, "errors": [{"message": "project not found"}]})
            return True
        if trouble == "401" or self.headers.get("Authorization") != expected:
            self.respond(401, {"errors": [{"message": "user is not logged in"}]})
            return True
        return False

    def do_POST(self):
        body = self.body()
        if self.handle_trouble():
            return
        request = json.loads(body)
        with self.owner.changed:
            if self.path == "/graphql":
                response = {"data": self.owner.graphql(request["operationName"], request.get("variables") or {})}
            else:
                response = self.owner.file_stream(self.path.split("/")[-2], request)
            self.owner.changed.notify_all()
        self.respond(200, response)

    def do_PUT(self):
        body = self.body()
        with self.owner.changed:
            self.owner.files[self.path.removeprefix("/upload/")] = body
            self.owner.changed.notify_all()
        self.respond(200, {})
