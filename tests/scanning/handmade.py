"""0.1 tables of any schema, laid out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lancecy.schema import DictionaryRef, Field, Schema
from lancecy.store.uri import open_store
from lancecy.table.manifest import DataFile, Fragment
from tests.helpers.builders import make_manifest, write_manifest
from tests.helpers.pages import build_file

Parts = Sequence[tuple[Mapping[int, Sequence[Any]], Sequence[int]]]
"""Of each data file of a fragment: pages by column id, and ids of the structs."""


def write_handmade(
    root: str, fields: Sequence[Field], fragments: Sequence[Parts], rows: int, *, before: bytes = b""
) -> str:
    """Write a table whose fragments have ``rows`` rows in one page each, and return its root.

    Parameters
    ----------
    before : bytes
        Stand at the beginning of the manifest file: values of dictionaries.
    """
    store = open_store(root)
    entries = []
    for number, parts in enumerate(fragments):
        files = []
        for part, (columns, structs) in enumerate(parts):
            name = f"f{number}-{part}.lance"
            store.put(f"data/{name}", build_file(columns, [rows], structs=structs).data)
            files.append(DataFile(name, tuple(sorted({*columns, *structs})), (), 0, 2))
        entries.append(Fragment(number, tuple(files), rows))
    manifest = make_manifest(
        schema=Schema(tuple(fields)), fragments=tuple(entries), max_fragment_id=len(entries)
    )
    write_manifest(store, manifest, dictionaries=before)
    return root


def dictionary_values(values: Sequence[bytes]) -> tuple[bytes, DictionaryRef]:
    """Bytes to put at the beginning of a manifest file, and what a field says of them; empty values are null."""
    data = b"".join(values)
    ends = np.cumsum([0, *(len(v) for v in values)]).astype("<i8")
    return data + ends.tobytes(), DictionaryRef(len(data), len(values))
