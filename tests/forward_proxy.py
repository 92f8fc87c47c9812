"""A forwarding HTTP proxy on loopback: CONNECT, and requests with whole URLs. It resolves *.test to this host."""

import asyncio
import base64
import urllib.parse

from loopback_server import LoopbackServer


class ForwardProxy(LoopbackServer):
    """`user`: "name:password" that clients must send; `status`: what it answers instead of connecting."""

    def __init__(self, user=None):
        self.user, self.status = user, None
        self.requests = []  # (method, target, headers by lower-case name)
        super().__init__()  # serves from now on

    async def serve(self, reader, writer):
        try:
            while await self.relay(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def refusal(self, headers):
        if self.status:
            return self.status
        expected = self.user and "Basic " + base64.b64encode(self.user.encode()).decode()
        return 407 if expected and headers.get("proxy-authorization") != expected else None

    async def relay(self, reader, writer):
        """One request, of which none has a body; False: the connection ends."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")[:-2]
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.requests.append((method, target, headers))
        if status := self.refusal(headers):
            writer.write(f"HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return True
        url = urllib.parse.urlsplit(target if "://" in target else f"//{target}")
        host = "127.0.0.1" if url.hostname.endswith(".test") else url.hostname
        server_reader, server_writer = await asyncio.open_connection(host, url.port or 80)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            kept = [line for line in lines if not line.lower().startswith(("proxy-", "connection:"))]
            path = urllib.parse.urlunsplit(("", "", url.path or "/", url.query, ""))
            request = "\r\n".join([f"{method} {path} HTTP/1.1", *kept, "Connection: close"])
            server_writer.write(f"{request}\r\n\r\n".encode())
        await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))
        return False


async def pump(reader, writer):
    while part := await reader.read(65536):
        writer.write(part)
        await writer.drain()
    writer.close()
