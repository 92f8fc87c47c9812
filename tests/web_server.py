"""HTTP servers on loopback: files with and without ranges, redirects and TLS (aiohttp's), and a server with the interface of
the Hugging Face Hub, whose large files are on another server, as the Hub's are."""

import asyncio
import hashlib
import json
import ssl
import subprocess
import threading
from email.utils import formatdate

from aiohttp import web

TIMEOUT_S = 120


class WebServer:
    """Runs handle(request), of a subclass, in a thread. `certificate`: the files of a certificate and its key."""

    def __init__(self, certificate=None):
        self.requests = []  # (method, path with query, headers)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self.listen(certificate), self.loop).result(TIMEOUT_S)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.runner.cleanup())
        self.loop.close()

    async def listen(self, certificate):
        tls = None
        if certificate:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(*certificate)
        self.runner = web.ServerRunner(web.Server(self.note, access_log=None), shutdown_timeout=0.1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]

    async def note(self, request):
        self.requests.append((request.method, request.raw_path, dict(request.headers)))
        return await self.handle(request)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(TIMEOUT_S)


class FileServer(WebServer):
    """The files of a directory. `modes`: what is special about a path: "whole" (no ranges), "chunked" (no size either),
    "first range" (only of the first byte), "no ranges" (an error), "no version" (neither ETag nor date), "date" (no ETag),
    "weak tag" (no date), "gzip" (an encoding), "large header", "slow header", "slow body", "slow and cut" (one byte at a time; half
    of the file, the first time), a status and the address of a redirect, which may be a function, or a status, None, headers and
    how often it is the answer."""

    def __init__(self, directory, certificate=None):
        self.directory, self.modes = directory, {}
        self.expires = None  # a path with query that is valid for one request
        directory.mkdir(exist_ok=True)
        super().__init__(certificate)

    def put(self, name, content):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_bytes(content)
        part.rename(path)

    def bytes_of(self, ending):
        """Of the ranges that were requested of the files with this ending, without those of one byte for the version."""
        ranges = [headers.get("Range", "") for _, path, headers in self.requests if path.endswith(ending)]
        spans = [text.removeprefix("bytes=").split("-") for text in ranges if text not in ("", "bytes=0-0")]
        return sum(int(last) - int(first) + 1 for first, last in spans)

    async def handle(self, request):
        mode = self.modes.get(request.path)
        if request.raw_path == self.expires and sum(path == self.expires for _, path, _ in self.requests) > 1:
            return web.Response(status=403)
        if request.path == "/sign-in":
            return web.Response(text="<html>who are you?</html>", content_type="text/html")
        if isinstance(mode, tuple) and len(mode) == 4:
            status, _, headers, times = mode
            self.modes[request.path] = (status, None, headers, times - 1) if times > 1 else None
            return web.Response(status=status, headers=headers)
        if isinstance(mode, tuple):
            status, location = mode
            return web.Response(status=status, headers={"Location": location() if callable(location) else location} if location else {})
        path = self.directory / request.path.lstrip("/")
        if path.is_dir():
            if not request.path.endswith("/"):
                return web.Response(status=301, headers={"Location": request.raw_path + "/"})
            return web.Response(text="<html>a folder</html>", content_type="text/html")
        if not path.is_file():
            return web.Response(status=404)
        if mode == "whole":
            return web.Response(body=path.read_bytes(), headers={"ETag": '"' + hashlib.md5(path.read_bytes()).hexdigest() + '"'})
        span = request.headers.get("Range")
        if mode == "no ranges" and span:
            return web.Response(status=416)
        if mode == "no ranges" or (mode == "first range" and span != "bytes=0-0"):
            return web.Response(body=path.read_bytes())
        if mode in ("no version", "date", "weak tag"):
            headers = {"date": {"Last-Modified": formatdate(path.stat().st_mtime, usegmt=True)},
                       "weak tag": {"ETag": f'W/"{hashlib.md5(path.read_bytes()).hexdigest()}"'}}
            return ranged(request, path.read_bytes(), web.Response(body=path.read_bytes(), headers=headers.get(mode)))
        if mode == "large header":
            return web.Response(headers={f"X-{i}": "x" * 1000 for i in range(100)})
        if mode in ("slow header", "slow body", "slow and cut"):
            return await self.send_slowly(request, mode, span, path.read_bytes())
        if mode == "chunked":
            answer = web.StreamResponse()
            answer.enable_chunked_encoding()
            await answer.prepare(request)
            await answer.write(path.read_bytes())
            return answer
        answer = web.FileResponse(path)
        if mode == "gzip":
            answer.headers["Content-Encoding"] = "br"
        return answer


    async def send_slowly(self, request, mode, span, content):
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode()
        if mode == "slow body" and span == "bytes=0-0":
            return ranged(request, content, web.Response(body=content))
        if mode == "slow and cut":
            times = sum(path == request.raw_path and "Range" not in headers for _, path, headers in self.requests)
            parts = [head + content[:-10]] + [content[i:i + 1] for i in range(len(content) - 10, len(content) - 5)]
            pauses = [0.3] * 5 + [0]
            if span or times != 1:
                return web.Response(body=content)
        elif mode == "slow body":
            parts, pauses = [b"", head + content[:1], content[1:]], [2, 1.5, 0]
        else:
            parts, pauses = [bytes([one]) for one in head], [0.2] * len(head)
        for part, pause in zip(parts, pauses):
            if request.transport is None:
                break
            request.transport.write(part)
            await asyncio.sleep(pause)
        if request.transport:
            request.transport.close()
        return web.Response()


def made_certificate(directory):
    """The files of a certificate of 127.0.0.1 that no authority has signed, and of its key."""
    certificate, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                    "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                    certificate], check=True, capture_output=True)
    return certificate, key


TOKEN = "hf_aSecretTokenOfTheTests"


class ContentServer(WebServer):
    """The large files of a hub, by their SHA-256. Addresses are signed, so a changed one is refused; so is a token, which
    belongs to the hub."""

    def __init__(self):
        self.content = {}
        super().__init__()

    def address_of(self, sha):
        return f"{self.url}/{sha}?X-Signature=a%2Bb%2Fc%3D%3D&name=x%20y%26z"

    async def handle(self, request):
        content = self.content.get(request.path[1:])
        if content is None or request.raw_path != self.address_of(request.path[1:]).removeprefix(self.url):
            return web.Response(status=403, text="SignatureDoesNotMatch")
        if "Authorization" in request.headers:
            return web.Response(status=400, text="only one way to sign in is allowed")
        answer = web.Response(body=content, headers={"ETag": '"of-the-cdn"'})
        return ranged(request, content, answer)


def ranged(request, content, answer):
    """The part of an answer that a request with a range asks for."""
    span = request.http_range
    if span.start is None:
        return answer
    if span.start >= len(content):
        return web.Response(status=416, headers={"Content-Range": f"bytes */{len(content)}"})
    stop = min(span.stop or len(content), len(content))
    answer.body = content[span.start:stop]
    answer.set_status(206)
    answer.headers["Content-Range"] = f"bytes {span.start}-{stop - 1}/{len(content)}"
    return answer


class HubServer(WebServer):
    """A hub with dataset repositories: what huggingface_hub's clients need to list and read files.

    repositories: {"owner/name": {"refs": {revision: commit}, "commits": {commit: {path: content}}, "gated": ..., "private": ...}}
    """

    PAGE = 3  # entries of a listing
    LARGE = 2000  # bytes from which a file is on the other server

    def __init__(self):
        self.content = ContentServer()
        self.repositories, self.renamed = {}, {}
        self.fault = lambda path: None  # a status, or None
        self.change_listing = lambda files, headers: None  # in place
        super().__init__()

    def close(self):
        self.content.close()
        super().close()

    def push(self, name, files, ref="main", **flags):
        """A commit with exactly these files; returns its id."""
        repository = self.repositories.setdefault(name, {"refs": {}, "commits": {}})
        text = json.dumps([ref, {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}])
        commit = hashlib.sha1(text.encode()).hexdigest()
        repository["commits"][commit] = dict(files)
        repository["refs"][ref] = commit
        repository.update(flags)
        self.content.content.update({hashlib.sha256(c).hexdigest(): c for c in files.values() if len(c) >= self.LARGE})
        return commit

    def refuse(self, status, code, message):
        return web.Response(status=status, headers={"X-Error-Code": code, "X-Error-Message": message} if code else
                            {"X-Error-Message": message})

    def problem(self, request, name):
        token = request.headers.get("Authorization")
        if token not in (None, f"Bearer {TOKEN}"):
            return self.refuse(401, None, "Invalid credentials in Authorization header")
        repository = self.repositories.get(name)
        if repository is None or (repository.get("private") and token is None):
            return self.refuse(404, "RepoNotFound", "Repository not found") if token else \
                self.refuse(401, None, "Invalid username or password.")
        if repository.get("gated") and (token is None or repository["gated"] == "not accepted"):
            return self.refuse(401 if token is None else 403, "GatedRepo", "Access to this dataset is restricted.")
        return None

    async def handle(self, request):
        if status := self.fault(request.path):
            return web.Response(status=status)
        parts = [part for part in request.path.split("/") if part]  # decoded
        is_api = parts[:1] == ["api"]
        parts = parts[1:] if is_api else parts
        if len(parts) < 3 or parts[0] != "datasets":
            return web.Response(status=404 if parts else 200)
        name, rest = "/".join(parts[1:3]), parts[3:]
        if name in self.renamed:
            return web.Response(status=307, headers={"Location": request.raw_path.replace(name, self.renamed[name], 1)})
        if problem := self.problem(request, name):
            return problem
        repository = self.repositories[name]
        action, rest = (rest[0], rest[1:]) if rest else ("revision", ["main"])
        # A reference can contain slashes, encoded or not.
        known = [*repository["refs"], *repository["commits"]]
        text = "/".join(rest)
        revision = max((one for one in known if text == one or text.startswith(one + "/")), key=len, default=None)
        if revision is None:
            return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {rest[0]}")
        commit = repository["refs"].get(revision, revision)
        path = text[len(revision) + 1:]
        files = repository["commits"][commit]
        if not is_api and action == "resolve":
            return self.resolve(request, files, commit, path)
        if action == "revision":
            return web.json_response({"id": name, "_id": "1", "sha": commit, "private": False, "gated": False, "disabled": False,
                                      "downloads": 0, "likes": 0, "tags": [], "siblings": [{"rfilename": one} for one in files]})
        if action == "tree":
            return self.tree(request, files, path)
        if action == "paths-info":
            wanted = await (request.json() if request.content_type == "application/json" else request.post())
            wanted = wanted["paths"] if isinstance(wanted["paths"], list) else wanted.getall("paths")
            entries = {one["path"]: one for one in self.entries(files, "", True)}
            return web.json_response([entries[one] for one in wanted if one in entries])
        return web.Response(status=404)

    def entries(self, files, folder, recursive):
        begin = folder + "/" if folder else ""
        found = {}
        for path, content in sorted(files.items()):
            if not path.startswith(begin):
                continue
            names = path[len(begin):].split("/")
            for depth in range(1, len(names)):
                if depth == 1 or recursive:
                    one = begin + "/".join(names[:depth])
                    found[one] = {"type": "directory", "oid": hashlib.sha1(one.encode()).hexdigest(), "size": 0, "path": one}
            if len(names) == 1 or recursive:
                blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
                sha = hashlib.sha256(content).hexdigest()
                lfs = {"lfs": {"oid": sha, "size": len(content), "pointerSize": 133}} if len(content) >= self.LARGE else {}
                found[path] = {"type": "file", "oid": blob, "size": len(content), "path": path} | lfs
        return list(found.values())

    def tree(self, request, files, path):
        found = self.entries(files, path, request.query.get("recursive", "").lower() == "true")
        if not found and path:
            return self.refuse(404, "EntryNotFound", f"{path} does not exist")
        first = int(request.query.get("cursor", "0").removeprefix("a+b=="))  # an encoded text, as the Hub's
        page = min(int(request.query.get("limit", "1000")), self.PAGE)
        headers = {}
        if first + page < len(found):
            query = {key: value for key, value in request.query.items() if key not in ("cursor", "limit")}
            text = "&".join([f"{key}={value}" for key, value in query.items()] + [f"limit={page}", f"cursor=a%2Bb%3D%3D{first + page}"])
            headers["Link"] = f'<{self.url}{request.path}?{text}>; rel="next"'
        found = found[first:first + page]
        self.change_listing(found, headers)
        return web.json_response(found, headers=headers)

    def resolve(self, request, files, commit, path):
        content = files.get(path)
        if content is None:
            return self.refuse(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit, "Last-Modified": formatdate(usegmt=True)}
        if len(content) < self.LARGE:
            headers["ETag"] = f'"{hashlib.sha1(b"blob %d" % len(content) + content).hexdigest()}"'
            return ranged(request, content, web.Response(body=content, headers=headers))
        sha = hashlib.sha256(content).hexdigest()
        headers |= {"X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{sha}"', "Location": self.content.address_of(sha)}
        return web.Response(status=302, text="Found. Redirecting", headers=headers)
