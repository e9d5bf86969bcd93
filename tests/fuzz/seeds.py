"""Makes the committed seeds: ``python -m tests.fuzz.seeds``.

Every golden table is read whole; what the kernels are called with and the parsers are given on the way becomes seeds:
of each target the shortest ones that differ in their kinds of arguments. A file of seeds is a row of
lengths (4 bytes) and contents.
"""

from __future__ import annotations

import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz.calls import parameters, write_call

__all__ = ["CRASHES", "SEEDS", "crashes_of", "seeds_of"]

SEEDS = Path(__file__).parent / "seeds"
CRASHES = Path(__file__).parent / "crashes"
_PER_TARGET = 24
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

    def chosen(self, target: str) -> list[bytes]:
        """A few of every kind, the shortest first."""
        kinds = [sorted(seeds, key=len) for seeds in self.found[target].values()]
        order = [(rank, len(seed), seed) for seeds in kinds for rank, seed in enumerate(seeds[:6])]
        return [seed for _, _, seed in sorted(order)[:_PER_TARGET]]


def main() -> None:
    """Read every golden table and write the seeds."""
    import lancecy
    from lancecy import kernels
    from lancecy.encodings import fsst, general, v20_wire, v21_wire
    from lancecy.file import v0_wire, v2_wire
    from lancecy.table import indices_wire, manifest_wire, roaring, rowids_wire
    from tests.fuzz.targets import KERNELS, PARSERS, twin_of
    from tests.helpers.golden import all_goldens, blob_goldens

    book = _Book()
    for name in KERNELS:
        original = getattr(kernels, name)
        _everywhere(original, _recorded(original, book.kernel(name, parameters(twin_of(name)))))

    def plain(target: str) -> Callable[..., None]:
        def note(data: Any, *_: Any, **__: Any) -> None:
            raw = bytes(data)
            book.add(target, len(raw).bit_length(), raw)

        return note

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
        (v2_wire.decode_column, plain("column_metadata")),
        (v2_wire.decode_schema_fields, plain("schema_v2")),
        (fsst.parse_symbols, plain("fsst_symbols")),
        (v20_wire.parse_page, page20),
        (v21_wire.parse_page, page21),
        (general.decompress_many, compressed),
    ):
        _everywhere(function, _recorded(function, note))

    # The tests of the kernels know shapes that no golden table has, and bad bytes of every kind.
    pytest.main(["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "tests/kernels"])
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
            book.add("survey", (data[-8:-4], len(data).bit_length()), data)
            book.add("footer", data[-8:-4], data[-64:])
            book.add("metadata_v0", "tail", data[-200:])
        for path in (made.path / "_deletions").glob("*"):
            mark = b"b" if path.suffix == ".bin" else b"a"
            book.add("deletions", (path.suffix, path.stat().st_size.bit_length()), mark + path.read_bytes())
        for field in ds.lance_schema.fields:
            book.add("logical_type", field.logical_type.partition(":")[0], field.logical_type.encode())
        for path in made.path.rglob("*"):
            book.add("names", path.suffix, path.name.encode())
    for text in _FILTERS:
        book.add("filter_text", text, text.encode())

    SEEDS.mkdir(exist_ok=True)
    for target in (*KERNELS, *PARSERS):
        seeds = book.chosen(target)
        if not seeds:
            print("no seeds for", target)
        (SEEDS / target).write_bytes(b"".join(struct.pack("<I", len(seed)) + seed for seed in seeds))


_FILTERS = (
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
)

if __name__ == "__main__":
    main()
