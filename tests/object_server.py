"""A real S3 server (versitygw) on loopback, and a proxy in front of it that delays, fails, stalls and cuts answers.

The server keeps objects in a directory, and verifies the signature of each request.
"""

import asyncio
import os
import re
import socket
import subprocess
import threading
import time

from pathlib import Path

from pyarrow import fs

from free_port import free_port
from loopback_server import LoopbackServer

SOURCE = Path(__file__).resolve().parents[1]
TIMEOUT_S = 120
VERSION = re.search(r"^ +local version=(\S+) # versitygw", (SOURCE / "cmake" / "setup.sh").read_text(), re.M)[1]
PROGRAM = SOURCE / ".data" / f"versitygw-{VERSION}" / "versitygw"
KEY, SECRET, REGION = "test-key", "test-secret-1234", "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION,
               "AWS_EC2_METADATA_DISABLED": "true"}
BUCKET = "data"
PIECE = 256 << 10  # bytes that the proxy sends at a time


class ObjectServer:
    """`certificate`: the files of a certificate and its key, for https. Subclasses are servers of other stores."""

    variables = {}  # of the server
    options = []  # of its command line

    def __init__(self, directory, certificate=None):
        self.directory = directory / "objects"
        self.directory.mkdir()
        self.log = open(directory / "server.log", "w")
        self.certificate = certificate
        deadline = time.monotonic() + TIMEOUT_S
        while not self.start(deadline):
            assert time.monotonic() < deadline, (directory / "server.log").read_text()
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"
        self.client = self.connect()
        self.client.create_dir(BUCKET)
        self.proxy = None if certificate else Proxy(self.port)

    def start(self, deadline):
        """False if another process took the port."""
        self.port = free_port()
        command = [str(part) for part in self.command()]
        assert Path(command[0]).exists(), f"{command[0]} does not exist: run 'make peers'"
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, env=os.environ | self.variables)
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "the server does not listen"
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return True
            except OSError:
                continue
        return False

    def restart(self, *options):
        """With the same objects."""
        self.process.kill()
        self.process.wait(timeout=TIMEOUT_S)
        self.options = options
        deadline = time.monotonic() + TIMEOUT_S
        while not self.start(deadline):
            pass
        self.proxy.server_port = self.port

    def command(self):
        tls = ["--cert", self.certificate[0], "--key", self.certificate[1]] if self.certificate else []
        return [PROGRAM, "--access", KEY, "--secret", SECRET, "--region", REGION, "--port", f"127.0.0.1:{self.port}",
                "--quiet", *self.options, *tls, "posix", self.directory]

    def connect(self):
        return fs.S3FileSystem(
            access_key=KEY, secret_key=SECRET, region=REGION, endpoint_override=self.url, allow_bucket_creation=True,
            **({"tls_ca_file_path": str(self.certificate[0])} if self.certificate else {}))

    def put(self, key, content):
        with self.client.open_output_stream(f"{BUCKET}/{key}") as out:
            out.write(content)

    def put_folder(self, folder, prefix):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def environment(self, **changes):
        """Variables as the AWS tools read them; requests go through the proxy."""
        return CREDENTIALS | {"AWS_ENDPOINT_URL": self.client_url()} | changes

    def client_url(self):
        return f"http://127.0.0.1:{self.proxy.port}" if self.proxy else self.url

    def close(self):
        if self.proxy:
            self.proxy.close()
        self.process.kill()
        self.process.wait(timeout=TIMEOUT_S)
        self.log.close()


class Proxy(LoopbackServer):
    """Relays HTTP requests. `fault(method, path, number)` says what happens to the request `number` (from 0): None, "503",
    "stall" (after half of the answer, until the client gives up), "cut" (after half of the answer), "refuse" (no answer),
    "hold" (until `released` is set), or a pair of status and S3 error code. It is called in another thread, with the client's port in client_port."""

    def __init__(self, server_port):
        self.server_port = server_port
        self.latency_s = 0
        self.bytes_per_s = 0  # of answers, of all connections together; 0: unlimited
        self.free_at = 0
        self.reset()
        super().__init__()  # serves from now on

    def reset(self):
        self.fault = lambda method, path, number: None
        self.released = threading.Event()
        self.headers = {}  # {name: a function that returns what replaces the header of an answer}
        self.requests = []  # (method, path, bytes of the answer that were sent)

    def bytes_of(self, ending):
        """Bytes sent of the objects whose keys end like this."""
        return sum(size for method, path, size in self.requests if method == "GET" and path.split("?")[0].endswith(ending))

    async def serve(self, reader, writer):
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.server_port, limit=PIECE)
            try:
                while await self.relay(reader, writer, server_reader, server_writer):
                    pass
            finally:
                server_writer.close()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def relay(self, reader, writer, server_reader, server_writer):
        """One request; False: the connection ends."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        is_chunked = b"transfer-encoding: chunked" in head.lower()
        if b"expect: 100-continue" in head.lower():
            # Not if there is no body: Azure's client waits a minute if this and an answer in chunks arrive together.
            if is_chunked or length_of(head) > 0:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = re.sub(rb"(?im)^expect: 100-continue\r\n", b"", head)
        if is_chunked:
            body = await read_chunks(reader)
        else:
            body = await reader.readexactly(length_of(head))
        requests = self.requests  # reset() replaces it
        number = len(requests)
        requests.append((method, path, 0))
        self.client_port = writer.get_extra_info("peername")[1]
        fault = self.fault(method, path, number)
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        if fault == "refuse":
            return False
        if fault == "hold":
            await asyncio.to_thread(self.released.wait, TIMEOUT_S)
            fault = None
        if fault == "503":
            fault = (503, "SlowDown")
        if isinstance(fault, tuple):
            text = f"<Error><Code>{fault[1]}</Code><Message>from the proxy</Message></Error>".encode()
            kind = "" if method == "HEAD" else "Content-Type: application/xml\r\n"
            writer.write(f"HTTP/1.1 {fault[0]} Error\r\n{kind}Content-Length: {len(text)}\r\n\r\n".encode()
                         + (b"" if method == "HEAD" else text))
            await writer.drain()
            return True
        server_writer.write(head + body)
        await server_writer.drain()
        answer = await server_reader.readuntil(b"\r\n\r\n")
        for name, value in self.headers.items():
            answer = re.sub(rb"(?im)^%b: [^\r]*" % name.encode(), f"{name}: {value()}".encode(), answer)
        if method != "HEAD" and b"transfer-encoding: chunked" not in answer.lower() and fault is None:
            writer.write(answer)
            sent = 0
            while sent < length_of(answer):
                part = await server_reader.read(min(PIECE, length_of(answer) - sent))
                if not part:
                    raise asyncio.IncompleteReadError(b"", None)
                await self.send(writer, part)
                sent += len(part)
                requests[number] = (method, path, sent)
            return True
        content = b""
        if method != "HEAD" and b"transfer-encoding: chunked" in answer.lower():
            content = await read_chunks(server_reader)
        elif method != "HEAD":
            content = await server_reader.readexactly(length_of(answer))
        sent = content[: len(content) // 2] if fault in ("stall", "cut") else content
        requests[number] = (method, path, len(sent))
        writer.write(answer + sent)
        await writer.drain()
        if fault == "stall":
            await reader.read()
        return fault is None

    async def send(self, writer, part):
        """As soon as the link of all connections permits."""
        if self.bytes_per_s:
            self.free_at = max(self.free_at, self.loop.time()) + len(part) / self.bytes_per_s
            await asyncio.sleep(self.free_at - self.loop.time())
        writer.write(part)
        await writer.drain()


async def read_chunks(reader):
    """A body in HTTP chunks, with their sizes."""
    body = b""
    size = 1
    while size > 0:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        body += line + (await reader.readexactly(size + 2) if size > 0 else b"")
    while not body.endswith(b"\r\n\r\n"):
        body += await reader.readuntil(b"\r\n")  # trailers
    return body


def length_of(head):
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    return int(length[1]) if length else 0
