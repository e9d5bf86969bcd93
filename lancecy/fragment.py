"""Fragments and their files under the names of pylance's ``lance.fragment``.

Examples
--------
>>> import lancecy
>>> from lancecy.fragment import FragmentMetadata, write_fragments
>>> ds = lancecy.write_dataset({"a": [1]}, "memory://doc-fragment")
>>> texts = [made.to_json() for made in write_fragments({"a": [2]}, ds)]
>>> change = lancecy.LanceOperation.Append([FragmentMetadata.from_json(text) for text in texts])
>>> lancecy.LanceDataset.commit(ds, change, read_version=1).to_table()["a"].to_pylist()
[1, 2]
"""

from __future__ import annotations

from lancecy.api.datasets import FragmentSession, LanceFragment
from lancecy.api.writers import write_fragments
from lancecy.table.manifest import DataFile, DeletionFile
from lancecy.write.fragments import DEFAULT_MAX_BYTES_PER_FILE
from lancecy.write.metadata import FragmentMetadata

__all__ = [
    "DEFAULT_MAX_BYTES_PER_FILE",
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "FragmentSession",
    "LanceFragment",
    "write_fragments",
]
