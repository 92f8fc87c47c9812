"""A receiver of OTLP requests on loopback that answers as the test says."""
import gzip
import time

from http_receiver import HttpReceiver

OK = (200, {"Content-Type": "application/x-protobuf"}, b"")


def partial_success(count, reason):
    """An answer that rejects some of the items."""
    part = b"\x08" + bytes([count]) + b"\x12" + bytes([len(reason)]) + reason.encode()
    return (200, {"Content-Type": "application/x-protobuf"}, b"\x0a" + bytes([len(part)]) + part)


class OtlpReceiver(HttpReceiver):
    """`requests`: (time, path, headers, body without compression); `answers`: (status, headers, body) of the first requests."""

    def __init__(self):
        self.requests, self.answers = [], []
        super().__init__()
        self.url = self.host

    def answer(self, request, body):
        if request.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        self.requests.append((time.monotonic(), request.path, dict(request.headers), body))
        status, headers, content = self.answers.pop(0) if self.answers else OK
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
