"""A port for a server that cannot choose one itself."""

import random
import socket


def free_port():
    """A port below the ephemeral range, so that the kernel does not assign it to another process before it is used."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
