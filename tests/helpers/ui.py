"""Catalogs for the web page: one with everything that it shows, and one that a stranger made to break it."""

from __future__ import annotations

import functools
import io
import json
import os
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from werkzeug.test import Client

import lancecy
from lancecy.namespace.catalog import Add
from lancecy.namespace.entries import NAMESPACE, TABLE, Entry
from lancecy.ui import UiOptions, application
from tests.helpers.namespaces import make, ours
from tests.meta.tree import ROOT

__all__ = [
    "PAYLOAD",
    "PLAIN_PAYLOAD",
    "TOKEN",
    "Page",
    "Shown",
    "client_of",
    "make_catalog",
    "make_strange_catalog",
    "names_of",
    "png",
    "shared_client",
    "shown",
]

TOKEN = "right-token"
PAYLOAD = "\"'><img src=x onerror=hit=1><script>hit=1</script><a href=javascript:hit=1>x"
"""Sets the global variable ``hit`` where it is not escaped."""
PLAIN_PAYLOAD = "\"'><img src=x onerror=hit=1><svg onload=hit=1>"
"""The same without a slash, for names of files."""


def png(size: int = 2) -> bytes:
    """A square picture, all of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * size) * size)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def make_catalog(root: Path) -> None:
    """Namespaces ``sales`` and ``sales.old``; tables ``sales.orders`` with a history and ``media`` with pictures, vectors and long values."""
    ns = ours(root)
    make(ns, "sales", properties={"owner": "me"})
    make(ns, "sales.old")
    number = np.arange(1000)
    orders = pa.table(
        {
            "order_id": number,
            "city": pa.array([("Oslo", "Bergen", "Bodø")[n % 3] for n in number]),
            "note": pa.array([None if n % 4 else "gift" for n in number]),
        }
    )
    disks = [lancecy.DatasetBasePath(str(root / name), name) for name in ("disk2", "disk3")]
    ds = lancecy.write_dataset(
        orders,
        namespace=ns,
        table_id=["sales", "orders"],
        max_rows_per_file=250,
        initial_bases=disks,
        target_bases=["disk2", "disk3"],
        commit_message="first load",
    )
    ds.tags.create("v1.0")
    branch = ds.create_branch("team/prices")
    branch.append(orders.slice(0, 10))
    ds.delete("order_id < 100")
    ds.create_scalar_index("order_id", "BTREE")
    media = pa.table(
        {
            "id": pa.array(range(60)),
            "picture": pa.array([png() if n % 3 else b"\0\1\2 no picture" for n in range(60)], pa.binary()),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(np.sin(np.arange(60 * 768) / 50).astype(np.float32)), 768
            ),
            "text": pa.array(["x" * 5000 if n == 1 else f"text {n}" for n in range(60)]),
            "nested": pa.array([{"a": n, "b": [{"c": "y" * 50}] * 3} for n in range(60)]),
        }
    )
    lancecy.write_dataset(media, namespace=ns, table_id=["media"])
    lancecy.write_dataset({"x": [1]}, root / "plain.lance")


def make_strange_catalog(root: Path) -> None:
    """A catalog whose every name, value and text is an attack, and rows of ``__manifest`` that lead elsewhere."""
    ns = ours(root)
    nested = pa.array([{PAYLOAD: [PAYLOAD, PAYLOAD]}] * 3)
    rows = pa.table(
        {
            PAYLOAD: [PAYLOAD, "\u202edeceptive\n\0", "plain"],
            "nested": nested,
            "p": [png(), PAYLOAD.encode(), b""],
        }
    )
    rows = rows.replace_schema_metadata({PAYLOAD: PAYLOAD})
    ds = lancecy.write_dataset(rows, root / "strange.lance", commit_message=PAYLOAD)
    ds.append(rows, commit_message=PAYLOAD)
    ds.update_config({PAYLOAD: PAYLOAD})
    ds.update_metadata({PAYLOAD: PAYLOAD})
    tags = root / "strange.lance" / "_refs" / "tags"
    tags.mkdir(parents=True)
    for name, branch in ((PLAIN_PAYLOAD, None), ("lost", PAYLOAD)):
        (tags / f"{name}.json").write_text(json.dumps({"branch": branch, "version": 1, "manifestSize": 1}))
    (tags / "damaged.json").write_text(PAYLOAD)
    branches = root / "strange.lance" / "_refs" / "branches"
    branches.mkdir()
    made = {"parentBranch": None, "parentVersion": 1, "createAt": 1, "manifestSize": 1}
    (branches / f"{PLAIN_PAYLOAD}.json").write_text(json.dumps(made))
    (root.parent / "secret.lance").mkdir()
    lancecy.write_dataset({"secret": ["hidden words"]}, root.parent / "secret.lance", mode="overwrite")
    (root / "linked.lance").symlink_to(root.parent / "secret.lance")
    places = {
        "up": "../secret.lance",
        "absolute": str(root.parent / "secret.lance"),
        "encoded": "%2e%2e/secret.lance",
        "root": "",
        "scheme": f"file://{root.parent}/secret.lance",
        "catalog": "__manifest",
        "backslash": "..\\secret.lance",
        "zero": "strange.lance\0",
        f"a{PAYLOAD}": "strange.lance",
        "strange": "strange.lance",
    }
    entries = [Entry(PAYLOAD, NAMESPACE, None, {PAYLOAD: PAYLOAD}), Entry("..", NAMESPACE)]
    entries += [Entry(f"{PAYLOAD}${PAYLOAD}", TABLE, "strange.lance", {PAYLOAD: PAYLOAD})]
    entries += [Entry(name, TABLE, place) for name, place in places.items()]
    ns._catalog.change(lambda _view: Add(entries))


def client_of(root: Path | str, *, enter: bool = True, **options: Any) -> Client:
    """A client of the page, with the cookie unless it is not to enter."""
    made: Client = application(UiOptions(str(root), **options), TOKEN).test_client()
    if enter:
        assert made.get(f"/?token={TOKEN}").status_code == 303
    return made


@functools.lru_cache(maxsize=8)
def shared_client(root: Path, untrusted: bool = False) -> Client:
    """A client with the cookie, for tests that only ask: making one compiles the templates."""
    return client_of(root, untrusted=untrusted)


class Page(HTMLParser):
    """What a browser would make of a page: its elements with their attributes, its links, and its text.

    Attributes
    ----------
    elements : list of (str, dict of str to str)
    text : str
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._text = io.StringIO()
        self.feed(html)
        self.text = " ".join(self._text.getvalue().split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._text.write(" ")

    def handle_endtag(self, tag: str) -> None:
        self._text.write(" ")

    def handle_data(self, data: str) -> None:
        self._text.write(data)

    @property
    def links(self) -> list[str]:
        """Where its links lead."""
        return [found["href"] for tag, found in self.elements if tag == "a" and "href" in found]


def names_of(page: Page, kind: str = "table") -> list[str]:
    """Links of tables or namespaces."""
    return [found["href"] for tag, found in page.elements if tag == "a" and found.get("class") == kind]


@dataclass
class Shown:
    """A running ``lancecy ui``.

    Attributes
    ----------
    process : Popen
    url : str
        The address that it printed.
    said : str
        What it printed before.
    """

    process: subprocess.Popen[str]
    url: str
    said: str = ""

    @property
    def base(self) -> str:
        """The address without token, such as ``http://127.0.0.1:8080``."""
        return self.url.partition("/?")[0]

    @property
    def port(self) -> int:
        """Its port."""
        return int(self.base.rpartition(":")[2])


@contextmanager
def shown(root: Path, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[Shown]:
    """Run ``lancecy ui`` until the block ends.

    Raises
    ------
    RuntimeError
        It ends before it prints an address.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "lancecy", "ui", str(root), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        # Shells start work in the background with this signal ignored, which a child would inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    try:
        said = ""
        for line in process.stdout or ():
            said += line
            if line.strip().startswith("http"):
                yield Shown(process, line.strip(), said)
                break
        else:
            raise RuntimeError(f"lancecy ui did not start: {said}")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
