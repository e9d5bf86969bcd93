"""Whole tables of any version made without pylance: two files a call, values that say where they are.

Row number ``n`` of the table (deleted rows counted) has ``id = n``, ``x = n / 2``,
``s = "row-000n"`` (null for every seventh) and ``v = [n, n + 0.5]``, so that a test can
tell from a value which row it got.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.schema import Field, Schema
from lancecy.store.base import Store
from lancecy.store.uri import open_store
from lancecy.table.manifest import BasePath, DataFile, DeletionFile, DeletionFileType, Fragment
from tests.helpers.builders import deletion_arrow, make_manifest, write_manifest
from tests.helpers.files2 import Page, numbers_page, strings_page, v2_file, vectors_page
from tests.helpers.pages import ColumnStatistics, build_file, plain, strings

SCHEMA = Schema(
    (
        Field("id", 0, logical_type="int64"),
        Field("x", 1, logical_type="double"),
        Field("s", 2, logical_type="string"),
        Field("v", 3, logical_type="fixed_size_list:float:2"),
    )
)


def word(row: int) -> str | None:
    """What ``s`` holds in a row."""
    return None if row % 7 == 3 else f"row-{row:06d}"


def expected(rows: Sequence[int]) -> pa.Table:
    """The table as these rows of it read."""
    numbers = np.asarray(rows, np.int64)
    pairs = np.stack([numbers, numbers + 0.5], axis=1).astype(np.float32).reshape(-1)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(pairs), 2)
    return pa.table(
        {
            "id": pa.array(numbers),
            "x": pa.array(numbers / 2),
            "s": pa.array([word(int(n)) for n in numbers], pa.string()),
            "v": vectors,
        }
    )


VERSIONS = ("0.1", "2.0", "2.1", "2.2")
"""Of the data files that :func:`write_table` can make."""


def data_file(
    first: int, rows: int, rows_per_page: int, statistics: bool = True, version: str = "0.1", gap: int = 0
) -> bytes:
    """A data file with rows ``first`` to ``first + rows``; ``gap`` bytes of nothing between pages (2.x)."""
    if version != "0.1":
        return _v2_data_file(first, rows, rows_per_page, version, gap)
    pages: dict[int, list[Any]] = {0: [], 1: [], 2: [], 3: []}
    counts = []
    low, high = [], []
    for start in range(first, first + rows, rows_per_page):
        numbers = np.arange(start, min(start + rows_per_page, first + rows), dtype=np.int64)
        counts.append(len(numbers))
        low.append(int(numbers[0]))
        high.append(int(numbers[-1]))
        pages[0].append(plain(numbers, "<i8"))
        pages[1].append(plain(numbers / 2, "<f8"))
        pages[2].append(strings([(word(int(n)) or "").encode() for n in numbers]))
        pages[3].append(plain(np.stack([numbers, numbers + 0.5], axis=1), "<f4"))
    known = {
        0: ColumnStatistics("int64", plain([0] * len(low), "<i8"), plain(low, "<i8"), plain(high, "<i8"))
    }
    return build_file(pages, counts, statistics=known if statistics else None).data


def _v2_data_file(first: int, rows: int, rows_per_page: int, version: str, gap: int) -> bytes:
    columns: list[list[Page]] = [[], [], [], []]
    for start in range(first, first + rows, rows_per_page):
        numbers = np.arange(start, min(start + rows_per_page, first + rows), dtype=np.int64)
        words = [word(int(n)) for n in numbers]
        vectors = np.stack([numbers, numbers + 0.5], axis=1).astype(np.float32)
        columns[0].append(numbers_page(version, numbers))
        columns[1].append(numbers_page(version, numbers / 2))
        columns[2].append(strings_page(version, [None if w is None else w.encode() for w in words]))
        columns[3].append(vectors_page(version, vectors))
    return v2_file(version, SCHEMA, columns, gap=gap)


def write_table(
    root: str,
    *,
    fragments: int = 3,
    rows: int = 50,
    rows_per_page: int = 8,
    deleted: Mapping[int, Sequence[int]] | None = None,
    bases: Sequence[str] = (),
    round_robin: bool = True,
    version: int = 4,
    counts_known: bool = True,
    opener: Callable[[str], Store] = open_store,
    data_version: str = "0.1",
    gap: int = 0,
    claimed: Callable[[int], int | None] = lambda _: None,
) -> str:
    """Write a table of ``fragments * rows`` rows and return its root.

    Parameters
    ----------
    deleted : mapping of fragment number to deleted offsets
    bases : sequence of str
        URIs for data files; fragment ``i`` goes to base ``i % len(bases)``, or, not round robin,
        all fragments of the first base come first.
    opener : function
        From URI to store.
    counts_known : bool
        Whether the manifest states row counts, as releases since 0.5 do.
    data_version : str
        One of ``VERSIONS``; or "mixed": fragments of 2.0, 2.1 and 2.2 in turn.
    gap : int, bytes
        Between the pages of 2.x files.
    claimed : function
        From the size of a data file to what the manifest says it is.
    """
    place = opener(root)
    paths = {i + 1: BasePath(i + 1, uri, name=f"b{i + 1}") for i, uri in enumerate(bases)}
    entries = []
    for number in range(fragments):
        # Fragment ids that differ from positions: 5, 7, 9, …
        fragment_id = 5 + 2 * number
        base_id = None
        if bases:
            base_id = 1 + (number % len(bases) if round_robin else number * len(bases) // fragments)
        name = f"part-{fragment_id}.lance"
        target = opener(bases[base_id - 1]) if base_id else place
        kind = VERSIONS[1 + number % 3] if data_version == "mixed" else data_version
        content = data_file(number * rows, rows, rows_per_page, version=kind, gap=gap)
        target.put(name if base_id else f"data/{name}", content)
        deletion = None
        gone = list((deleted or {}).get(number, ()))
        if gone:
            deletion = DeletionFile(
                3, 900 + number, DeletionFileType.ARROW, len(gone) if counts_known else None
            )
            place.put(f"_deletions/{fragment_id}-3-{900 + number}.arrow", deletion_arrow(gone))
        major, minor = map(int, kind.split(".")) if kind != "0.1" else (0, 2)
        indices = () if kind == "0.1" else (0, 1, 2, 3)
        files = (DataFile(name, (0, 1, 2, 3), indices, major, minor, claimed(len(content)), base_id),)
        entries.append(Fragment(fragment_id, files, rows if counts_known else None, deletion))
    flags = (1 if deleted else 0) | (16 if bases else 0) | (256 if data_version == "mixed" else 0)
    manifest = make_manifest(
        version=version,
        schema=SCHEMA,
        fragments=tuple(entries),
        max_fragment_id=5 + 2 * fragments,
        base_paths=paths,
        reader_flags=flags,
        writer_flags=flags,
        data_version="2.1" if data_version == "mixed" else data_version,
    )
    write_manifest(place, manifest)
    return root
