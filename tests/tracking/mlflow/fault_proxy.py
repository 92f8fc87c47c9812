"""A fault-injecting proxy in front of a server: a rule of the test decides about every request."""
import http.client
import http.server
import threading
import urllib.parse

PASS, HANG, DROP_BEFORE, DROP_AFTER = "pass", "hang", "drop before", "drop after"


class FaultProxy:
    """`rule(path, body)` returns a status to respond with, PASS, HANG (until the proxy exits), DROP_BEFORE (closes the
    connection), or DROP_AFTER (closes it once the server has processed the request). `log`: the requests and the rule's decisions.
    `down`: connections are refused until come_up()."""

    def __init__(self, server, rule=lambda path, body: PASS, tls=None, down=False):
        self.rule, self.log, self.over = rule, [], threading.Event()
        self.retry_after = None  # sent with the rule's status
        self.error = b'{"error_code": "INTERNAL_ERROR", "message": "injected by the test"}'  # body of the rule's status
        target = urllib.parse.urlsplit(server).netloc
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fault = proxy.rule(self.path, body)
                proxy.log.append((self.command, self.path, fault))
                if fault == HANG:
                    proxy.over.wait(60)
                if fault in (HANG, DROP_BEFORE):
                    self.close_connection = True
                    return
                if isinstance(fault, int):
                    self.respond(fault, proxy.error, proxy.retry_after)
                    return
                connection = http.client.HTTPConnection(target, timeout=30)
                headers = {key: value for key, value in self.headers.items() if key.lower() not in ("host", "connection")}
                connection.request(self.command, self.path, body, headers)
                response = connection.getresponse()
                content = response.read()
                connection.close()
                if fault == DROP_AFTER:
                    self.close_connection = True
                else:
                    self.respond(response.status, content)

            do_GET = do_POST = do_PUT = handle_any

            def respond(self, status, content, retry_after=None):
                self.send_response(status)
                if retry_after:
                    self.send_header("Retry-After", retry_after)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.http.server_bind()
        self.http.daemon_threads = True
        self.down, self.thread = down, threading.Thread(target=self.http.serve_forever, args=(0.05,))
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.http.server_address[1]}"

    def come_up(self):
        self.http.server_activate()
        self.thread.start()

    def __enter__(self):
        if not self.down:
            self.come_up()
        return self

    def __exit__(self, *_):
        self.over.set()
        if self.thread.is_alive():
            self.http.shutdown()
            self.thread.join(timeout=10)
        self.http.server_close()


def first(count, fault, part):
    """The first `count` requests whose path has `part` get `fault`; later ones PASS."""
    left = [count]

    def rule(path, _):
        if part in path and left[0] > 0:
            left[0] -= 1
            return fault
        return PASS
    return rule
