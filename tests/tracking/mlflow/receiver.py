"""A receiver of webhook messages on the loopback interface."""
import json

from http_receiver import HttpReceiver

SECRET = "T0000-s3cret"


class Receiver(HttpReceiver):
    """Records messages in `received`; `statuses`: the statuses to return before it accepts messages; `retry_after`: sent
    with them."""

    def __init__(self):
        self.received, self.statuses, self.retry_after = [], [], None
        super().__init__()
        self.url = f"{self.host}/services/{SECRET}?key={SECRET}"

    def answer(self, request, body):
        status = self.statuses.pop(0) if self.statuses else 200
        self.received.append((request.path, request.headers["Content-Type"], status, json.loads(body)))
        request.send_response(status)
        if status != 200 and self.retry_after:
            request.send_header("Retry-After", self.retry_after)
        request.end_headers()
