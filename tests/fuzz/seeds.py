"""Makes the committed seeds: ``python -m tests.fuzz.seeds [TARGET …]``.

Every golden table is read whole; what the kernels are called with and the parsers are given on the way becomes seeds:
of each target the shortest ones that differ in their kinds of arguments. A file of seeds is a row of
lengths (4 bytes) and contents.
"""

from __future__ import annotations

import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lancecy
from lancecy.errors import LanceError
from lancecy.limits import DEFAULT_LIMITS
from lancecy.table.rows import roaring
from tests.fuzz.calls import parameters, write_call
from tests.fuzz.index_files import INDEX_KINDS, index_seeds
from tests.fuzz.tables import carved, read_table
from tests.helpers.golden import all_goldens, blob_goldens

__all__ = ["CRASHES", "SEEDS", "crashes_of", "seeds_of"]

SEEDS = Path(__file__).parent / "seeds"
CRASHES = Path(__file__).parent / "crashes"
_PER_TARGET = 24
_MORE = {"table": 72}
_MAX_BYTES = 10_000


def seeds_of(target: str) -> list[bytes]:
    """The committed seeds of a target."""
    return list(_unpacked((SEEDS / target).read_bytes()))


def crashes_of(target: str) -> list[bytes]:
    """Inputs of a target that once made trouble."""
    return [path.read_bytes() for path in sorted(CRASHES.glob(f"{target}-*"))]


def _unpacked(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from("<I", data, position)
        yield data[position + 4 : position + 4 + size]
        position += 4 + size


def _everywhere(original: object, replacement: object) -> None:
    """Put a function in the place of another in every module that has imported it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("lancecy"):
            for key, value in list(vars(module).items()):
                if value is original:
                    setattr(module, key, replacement)


def _recorded(function: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        note(*args, **kwargs)
        return function(*args, **kwargs)

    return call


class _Book:
    """Seeds so far, by target and kind."""

    def __init__(self) -> None:
        self.found: dict[str, dict[object, set[bytes]]] = defaultdict(lambda: defaultdict(set))

    def add(self, target: str, kind: object, seed: bytes | None) -> None:
        if seed is not None and len(seed) <= _MAX_BYTES:
            self.found[target][kind].add(seed)

    def kernel(self, name: str, names: list[str]) -> Callable[..., None]:
        def note(*args: Any, **kwargs: Any) -> None:
            args = (*args, *(kwargs.get(parameter) for parameter in names[len(args) :]))
            kind = tuple(
                (str(a.dtype), a.size > 0) if isinstance(a, np.ndarray) else type(a).__name__ for a in args
            )
            self.add(name, kind, write_call(names, args))

        return note

    def indices(self) -> None:
        """Index files, and sets of rows in both forms."""
        for kind in INDEX_KINDS:
            for number, seed in enumerate(index_seeds(kind)):
                self.found[f"index_{kind.lower()}"][number].add(seed)
        for rows in ([], [5], [1, 2, 3, 1 << 16], range(70_000, 75_000)):
            held = roaring.encode(np.array(rows, np.int64))
            size = struct.pack("<I", len(held))
            self.add("row_set", len(rows), b"\2\0\0\0" + bytes(4) + size + held + b"\3\0\0\0" + size + held)
            self.add("row_map", len(rows), b"\2" + bytes(7) + bytes(4) + held + b"\3\0\0\0" + held)
        self.add("row_set", "all", b"\1\0\0\0" + b"\7\0\0\0" + bytes(4))

    def carve(self) -> None:
        """Each column of the golden tables of one 2.x file, as a table of its own."""
        for made in all_goldens():
            [*files], [*manifests] = made.path.glob("data/*.lance"), made.path.glob("_versions/*.manifest")
            if made.is_legacy or len(files) > 1 or len(manifests) > 1:
                continue
            ds = lancecy.dataset(made.path)
            for field in ds.lance_schema.fields:
                seed = carved(manifests[0].read_bytes(), files[0].read_bytes(), field.id)
                try:
                    read_table(seed, DEFAULT_LIMITS)
                except LanceError as error:
                    print(made.name, field.name, error)
                    continue
                self.add("table", (made.formats, field.logical_type.partition(":")[0]), seed)

    def chosen(self, target: str) -> list[bytes]:
        """A few of every kind, the shortest first."""
        kinds = [sorted(seeds, key=len) for seeds in self.found[target].values()]
        order = [(rank, len(seed), seed) for seeds in kinds for rank, seed in enumerate(seeds[:6])]
        return [seed for _, _, seed in sorted(order)[: _MORE.get(target, _PER_TARGET)]]


def main() -> None:
    """Read every golden table and write the seeds."""
    from lancecy import kernels
    from lancecy.encodings.codecs import fsst, general
    from lancecy.encodings.v20.wire import decode as v20_wire
    from lancecy.encodings.v21.wire import decode as v21_wire
    from lancecy.file.v0 import wire as v0_wire
    from lancecy.file.v2 import wire as v2_wire
    from lancecy.table.wire import indices as indices_wire
    from lancecy.table.wire import manifest as manifest_wire
    from lancecy.table.wire import row_ids as rowids_wire
    from tests.fuzz.targets import KERNELS, PARSERS, twin_of

    book = _Book()
    for name in KERNELS:
        original = getattr(kernels, name)
        _everywhere(original, _recorded(original, book.kernel(name, parameters(twin_of(name)))))

    def plain(target: str) -> Callable[..., None]:
        def note(data: Any, *_: Any, **__: Any) -> None:
            raw = bytes(data)
            book.add(target, len(raw).bit_length(), raw)

        return note

    def columns(parts: Any, *_: Any) -> None:
        for start, size in zip(parts.starts.tolist(), parts.sizes.tolist(), strict=True):
            plain("column_metadata")(parts.memory[start : start + size])

    def page20(_url: str, value: bytes, num_buffers: int, *_: Any) -> None:
        book.add("page_v20", value[:3], bytes([num_buffers % 16]) + value)

    def page21(url: str, value: bytes, version: tuple[int, int], num_buffers: int, *_: Any) -> None:
        head = 240 if url.endswith("PlanarLayout") else (version[1] - 1) + 3 * (num_buffers % 16)
        book.add("page_v21", (head, value[:4]), bytes([head]) + value)

    def compressed(scheme: str, memory: Any, positions: Any, lengths: Any, *_: Any) -> None:
        for at, size in zip(positions.tolist(), lengths.tolist(), strict=True):
            raw = memory[at : at + size].tobytes()
            book.add("compressed", (scheme, size.bit_length()), (b"z" if scheme == "zstd" else b"l") + raw)

    for function, note in (
        (manifest_wire.decode, plain("manifest")),
        (rowids_wire.decode_row_ids, plain("row_ids")),
        (rowids_wire.decode_versions, plain("row_versions")),
        (indices_wire.decode_index_section, plain("indices")),
        (roaring.decode, plain("roaring")),
        (v0_wire.decode_metadata, plain("metadata_v0")),
        (v0_wire.decode_field_ids, plain("field_ids")),
        (v0_wire.decode_statistics, plain("statistics_v0")),
        (v2_wire.decode_columns, columns),
        (v2_wire.decode_schema_fields, plain("schema_v2")),
        (fsst.parse_symbols, plain("fsst_symbols")),
        (v20_wire.parse_page, page20),
        (v21_wire.parse_page, page21),
        (general.decompress_many, compressed),
    ):
        _everywhere(function, _recorded(function, note))

    wanted = sys.argv[1:] or [*KERNELS, *PARSERS]
    if not set(wanted).isdisjoint(KERNELS):
        # The tests of the kernels know shapes that no golden table has, and bad bytes of every kind.
        pytest.main(["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "tests/kernels"])
    book.indices()
    book.carve()
    for made in (*all_goldens(), *blob_goldens()):
        ds = lancecy.dataset(made.path, session=lancecy.Session(threads=1))
        ds.to_table(), ds.verify(), ds._snapshot.indices()
        if ds.count_rows():
            ds.take([0, ds.count_rows() - 1])
            ds.to_table(offset=ds.count_rows() // 3, limit=3)
            ds.count_rows(f"`{ds.schema.names[0]}` IS NOT NULL")
        for path in (made.path / "_versions").glob("*.manifest"):
            data = path.read_bytes()
            book.add(
                "field_ids", len(data).bit_length(), data[struct.unpack("<Q", data[-16:-8])[0] + 4 : -16]
            )
        for path in (made.path / "data").glob("*.lance"):
            data = path.read_bytes()
            lancecy.inspect(path)
            book.add("describe", (data[-8:-4], len(data).bit_length()), data)
            book.add("footer", data[-8:-4], data[-64:])
            book.add("metadata_v0", "tail", data[-200:])
        for path in (made.path / "_deletions").glob("*"):
            mark = b"b" if path.suffix == ".bin" else b"a"
            book.add("deletions", (path.suffix, path.stat().st_size.bit_length()), mark + path.read_bytes())
        for field in ds.lance_schema.fields:
            book.add("logical_type", field.logical_type.partition(":")[0], field.logical_type.encode())
        for path in made.path.rglob("*"):
            book.add("names", path.suffix, path.name.encode())
    for target, texts in _TEXTS.items():
        for text in texts:
            book.add(target, text, text.encode())
    sequences = sorted({seed for seeds in book.found["row_ids"].values() for seed in seeds}, key=len)
    for one, two in pairwise(sequences):
        book.add("row_index", len(one), len(one).to_bytes(2, "little") + b"\3" + one + two)
    for number, seed in enumerate(sequences):
        book.add("row_search", number % 6, bytes([number % 6]) + (5).to_bytes(8, "little") + seed)
    for number, seed in enumerate(
        sorted({s for k in book.found["row_versions"].values() for s in k}, key=len)
    ):
        book.add("row_search", 6, bytes([128 + number % 6]) + (2).to_bytes(8, "little") + seed)

    SEEDS.mkdir(exist_ok=True)
    for target in wanted:
        seeds = book.chosen(target)
        if not seeds:
            print("no seeds for", target)
        (SEEDS / target).write_bytes(b"".join(struct.pack("<I", len(seed)) + seed for seed in seeds))


_TEXTS = {
    "filter_text": (
        "a > 5 AND b IS NULL",
        "x IN (1, 2, NULL) OR NOT y",
        "s LIKE 'a%' ESCAPE '!'",
        "d >= date '2020-01-01'",
        "t < timestamp '2020-01-01 00:00:00' + interval '1 day'",
        "a.b.c BETWEEN -1.5e3 AND CAST(7 AS double)",
        "array_has(l, 3) IS TRUE",
        "`odd name` = X'00ff'",
        "l[1] = 2 AND length(s) % 3 != 0",
        "CASE WHEN a THEN b ELSE c END = 1",
        "replace(s, '', 'x') = 'a' OR repeat(s, 99) || n = lower(s)",
        "CAST(c AS decimal(20, 2)) < 1 OR CAST(n AS decimal(38, 4)) = 2.5",
        "date_part('year', d) = 1970 AND date_trunc('week', t) < t",
        "CAST(t AS string) LIKE '19%' OR CAST(z AS date) = d OR m::double = 1.5",
        "round(c, -3) > power(a, 2) AND regexp_count(n, '[0-9]*') = 4",
        "substr(s, -1, 5) = left(n, -2) OR l[1] = a + 1 OR concat(s, n) IN ('x', '')",
    ),
    "uri": (
        "s3://bucket/a/../b",
        "file:///tmp/x%20y",
        "S3A://Bucket//x/",
        "https://me:pw@host:80/a?b#c",
        "memory://x",
        "az://container@account.blob.core.windows.net/t",
        "C:\\\\x",
        "~/t.lance",
        "simplecache::s3://b/x",
    ),
    "pandas_metadata": (
        '{"index_columns": [{"kind": "range", "name": null, "start": 0, "stop": 3, "step": 1}], "columns": []}',
        '{"index_columns": [], "columns": [{"name": "a", "field_name": "a", "pandas_type": "int64", "metadata": {}}]}',
        '{"index_columns": ["__index_level_0__"], "columns": [], "attributes": {}}',
    ),
}

if __name__ == "__main__":
    main()
