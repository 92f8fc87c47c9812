"""A port for a server that cannot choose one itself."""

import random
import socket


def free_port():
    """Below the ports that the kernel gives to whoever asks for any: nobody else gets it before it is used."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
