"""A receiver of OTLP requests on loopback that answers as the test says."""
import gzip
import http.server
import threading
import time

OK = (200, {"Content-Type": "application/x-protobuf"}, b"")


def partial_success(count, reason):
    """An answer that rejects some of the items."""
    part = b"\x08" + bytes([count]) + b"\x12" + bytes([len(reason)]) + reason.encode()
    return (200, {"Content-Type": "application/x-protobuf"}, b"\x0a" + bytes([len(part)]) + part)


class OtlpReceiver:
    """`requests`: (time, path, headers, body without compression); `answers`: (status, headers, body) of the first requests."""

    def __init__(self):
        self.requests, self.answers = [], []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                receiver.requests.append((time.monotonic(), self.path, dict(self.headers), body))
                status, headers, content = receiver.answers.pop(0) if receiver.answers else OK
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.thread.join(timeout=10)
        self.http.server_close()
