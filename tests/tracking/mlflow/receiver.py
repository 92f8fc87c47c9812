"""A receiver of webhook messages on the loopback interface."""
import http.server
import json
import threading

SECRET = "T0000-s3cret"


class Receiver:
    """Records messages in `received`; `statuses`: the statuses to return before it accepts messages; `retry_after`: sent
    with them."""

    def __init__(self):
        self.received, self.statuses, self.retry_after = [], [], None
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                receiver.received.append((self.path, self.headers["Content-Type"], status, body))
                self.send_response(status)
                if status != 200 and receiver.retry_after:
                    self.send_header("Retry-After", receiver.retry_after)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.url = f"{self.host}/services/{SECRET}?key={SECRET}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.thread.join(timeout=10)
        self.http.server_close()
