"""What is fuzzed: one target per kernel, one per parser. A target eats any bytes.

A kernel is called as the bytes say, and so is its NumPy twin: both must refuse, or both give the same arrays. A
parser may raise LanceError and nothing else, and what it returns is looked at as its callers do.
"""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lancecy import kernels
from lancecy.encodings.codecs import fsst, general
from lancecy.encodings.v20.wire import decode as v20_wire
from lancecy.encodings.v21.wire import decode as v21_wire
from lancecy.errors import LanceError
from lancecy.expr import bind, describe, parse
from lancecy.expr.evaluation import growth
from lancecy.expr.evaluation.evaluate import compute
from lancecy.file import tail
from lancecy.file.describe import describe_file
from lancecy.file.v0 import wire as v0_wire
from lancecy.file.v2 import meta as v2_meta
from lancecy.file.v2 import wire as v2_wire
from lancecy.index import row_sets
from lancecy.limits import DEFAULT_LIMITS
from lancecy.scanning import pandas_metadata
from lancecy.schema import parse_logical_type
from lancecy.schema_wire import decode_fields
from lancecy.session import Session
from lancecy.store.memory import MemoryStore
from lancecy.store.reads import SourceFile, run
from lancecy.store.uri import canonical_uri, scheme_of
from lancecy.table import paths
from lancecy.table.manifest import DeletionFile, DeletionFileType
from lancecy.table.rows import deletion, roaring
from lancecy.table.wire import indices as indices_wire
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire import row_ids as rowids_wire
from tests.fuzz.calls import parameters, read_call
from tests.fuzz.index_files import INDEX_KINDS, read_index
from tests.fuzz.rows import row_index, row_search
from tests.fuzz.tables import read_table

TWINS_EVERY = int(os.environ.get("LANCECY_FUZZ_TWINS", "1"))

__all__ = ["KERNELS", "LIMITS", "PARSERS", "TARGETS", "twin_of"]

Target: TypeAlias = Callable[[bytes], object]

# A fuzzer has a gigabyte; what decompression and dictionaries may ask for has to fit.
LIMITS = replace(DEFAULT_LIMITS, page_bytes=1 << 22, rows_per_file=1 << 20, metadata_bytes=1 << 22)
KERNELS = sorted(name for name in kernels.__all__ if callable(getattr(kernels, name)))
# What a kernel raises for arguments that no caller of ours gives it.
_MISUSE = (ValueError, TypeError, OverflowError, IndexError, BufferError, AttributeError, MemoryError)


def twin_of(name: str) -> Callable[..., Any]:
    """The NumPy twin of a kernel."""
    import importlib
    import pkgutil

    from lancecy.kernels import reference

    for found in pkgutil.iter_modules(reference.__path__):
        module = importlib.import_module(f"{reference.__name__}.{found.name}")
        if name in getattr(module, "__all__", ()):
            twin: Callable[..., Any] = getattr(module, name)
            return twin
    raise LookupError(f"kernel {name} has no twin")


def _kernel(name: str) -> Target:
    compiled, twin = getattr(kernels, name), twin_of(name)
    names = parameters(twin)

    def eat(data: bytes) -> None:
        first = read_call(names, data)
        found = _outcome(compiled, first)
        # Twins are slow: a fuzzer, which is after bad accesses, compares with them now and then.
        if TWINS_EVERY > 1 and zlib.crc32(data) % TWINS_EVERY:
            return
        second = read_call(names, data)
        expected = _outcome(twin, second)
        if found[0] == "misuse" or expected[0] == "misuse":
            return
        if found[0] != expected[0] or found[1] != expected[1]:
            raise AssertionError(f"{name}: {found} where its twin has {expected}")
        if found[0] != "value":
            return
        for parameter, one, other in zip(names, first, second, strict=True):
            # A kernel that answers how much room it needs may have left anything in less.
            is_short = parameter == "out" and isinstance(found[1], int) and found[1] > len(one)
            if not is_short and not _same(one, other):
                raise AssertionError(f"{name}: another {parameter} than its twin")

    return eat


def _outcome(function: Callable[..., Any], arguments: list[Any]) -> tuple[str, Any]:
    try:
        return "value", function(*arguments)
    except LanceError as error:
        return "error", (type(error).__name__, getattr(error, "position", None))
    except _MISUSE:
        return "misuse", None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    return not isinstance(one, list) or all(map(_same, one, other))


# -- parsers -------------------------------------------------------------------


def _memory(data: bytes) -> Any:
    """The bytes in memory of exactly their size, so that the sanitizer sees the first one behind it."""
    made = np.empty(len(data), np.uint8)
    made[:] = np.frombuffer(data, np.uint8)
    return made


def _manifest(data: bytes) -> None:
    found = manifest_wire.decode(_memory(data), "m", LIMITS)
    str(found.schema.arrow), found.fragments, found.num_rows, found.base_paths
    for fragment in found.fragments[:50]:
        if isinstance(fragment.row_ids, bytes):
            rowids_wire.decode_row_ids(fragment.row_ids, fragment.physical_rows, LIMITS)


def _row_ids(data: bytes) -> None:
    found = rowids_wire.decode_row_ids(data, None, LIMITS)
    if len(found):
        found.take(np.array([0, len(found) // 2, len(found) - 1]))


def _versions(data: bytes) -> None:
    found = rowids_wire.decode_versions(data, None, LIMITS)
    if len(found):
        found.take(np.array([0, len(found) // 2, len(found) - 1]))


def _deletions(data: bytes) -> None:
    kind = DeletionFileType.BITMAP if data[:1] == b"b" else DeletionFileType.ARROW
    deletion.decode(_memory(data[1:]), DeletionFile(1, 1, kind), 1 << 20, LIMITS)


def _page20(data: bytes) -> None:
    v20_wire.parse_page("/lance.encodings.ArrayEncoding", data[1:], data[0] % 16 if data else 0, LIMITS)


def _page21(data: bytes) -> None:
    minor, num_buffers = (1 + data[0] % 3, data[0] // 3 % 16) if data else (1, 0)
    name = "/lance.encodings23.PlanarLayout" if data[:1] >= b"\xf0" else "/lance.encodings21.PageLayout"
    v21_wire.parse_page(name, data[1:], (2, minor), num_buffers, LIMITS)


def _footer(data: bytes) -> None:
    memory = _memory(data)
    tail.parse_footer(memory)
    v2_meta.parse_v2_footer(memory, memory.size, LIMITS)


def _schema(data: bytes) -> None:
    decode_fields(v2_wire.decode_schema_fields(_memory(data), LIMITS), LIMITS)


def _describe(data: bytes) -> None:
    store = MemoryStore()
    store.put("f.lance", data)
    session = Session(limits=LIMITS, threads=1)
    run(describe_file(SourceFile(store, "f.lance", len(data)), LIMITS), session.fetch)


def _compressed(data: bytes) -> None:
    general.decompress("zstd" if data[:1] == b"z" else "lz4", _memory(data[1:]), LIMITS)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


FILTERED = pa.table(
    {
        "a": pa.array([1, -(2**63), 2**63 - 1, None]),
        "b": [True, False, None, True],
        "c": pa.array([0.5, float("nan"), -1e308, None]),
        "s": ["", "a%", "Z\u00fc\U0001f600", None],
        "n": ["1e9", "-2.5", "2020-01-01 10:00:00.5", None],
        "d": pa.array([0, 2**31 - 1, -(2**31), None], pa.int32()).cast(pa.date32()),
        "t": pa.array([1, 2**63 - 1, -(2**63), None]).cast(pa.timestamp("us")),
        "z": pa.array([1, 2**63 - 1, -(2**63), None]).cast(pa.timestamp("ns", "America/New_York")),
        "l": [[1, 2], [], None, [None]],
        "m": pa.array([1, -5, 99999, None]).cast(pa.decimal128(38, 2)),
    }
)


def _filter(data: bytes) -> None:
    found = parse(_text(data))
    if found is None:
        return
    describe(found)
    bound = bind(found, FILTERED.schema)
    try:
        with growth.allowance(1 << 20):
            values = compute(bound.expr, FILTERED)
    except (pa.ArrowException, OverflowError):  # evaluate() makes these errors of the library
        return
    if not isinstance(values, pa.Scalar):
        if len(values) != FILTERED.num_rows:
            raise AssertionError(f"{len(values)} values of {FILTERED.num_rows} rows")
        values.validate(full=True)


def _name(data: bytes) -> None:
    text = _text(data)
    paths.parse_manifest_name(text)
    paths.check_relative(text)


def _uri(data: bytes) -> None:
    try:
        canonical = canonical_uri(_text(data))
    except ValueError:  # an argument of the caller's, as documented
        return
    scheme_of(canonical)
    if canonical_uri(canonical) != canonical:
        raise AssertionError(f"{canonical!r} is not canonical")


def _index(kind: str, data: bytes) -> None:
    read_index(kind, data, LIMITS)


PARSERS: dict[str, Target] = {
    "column_metadata": lambda data: v2_wire.decode_columns(v2_wire.Parts.of([_memory(data)]), LIMITS),
    "compressed": _compressed,
    "deletions": _deletions,
    "field_ids": lambda data: v0_wire.decode_field_ids(_memory(data), LIMITS),
    "filter_text": _filter,
    "footer": _footer,
    "fsst_symbols": fsst.parse_symbols,
    **{f"index_{kind.lower()}": partial(_index, kind) for kind in INDEX_KINDS},
    "indices": lambda data: indices_wire.decode_index_section(data, LIMITS),
    "logical_type": lambda data: parse_logical_type(_text(data), LIMITS),
    "manifest": _manifest,
    "metadata_v0": lambda data: v0_wire.decode_metadata(_memory(data), LIMITS),
    "names": _name,
    "page_v20": _page20,
    "page_v21": _page21,
    "pandas_metadata": pandas_metadata._is_sound,
    "roaring": lambda data: roaring.decode(_memory(data), LIMITS),
    "row_ids": _row_ids,
    "row_map": lambda data: deque(row_sets.decode_row_map(_memory(data), LIMITS)),
    "row_set": lambda data: deque(row_sets.decode_row_set(_memory(data), LIMITS)),
    "row_index": lambda data: row_index(data, LIMITS),
    "row_search": lambda data: row_search(data, LIMITS),
    "row_versions": _versions,
    "schema_v2": _schema,
    "statistics_v0": lambda data: v0_wire.decode_statistics(data, LIMITS),
    "describe": _describe,
    "table": lambda data: read_table(data, LIMITS),
    "uri": _uri,
}


def _parser(target: Target) -> Target:
    def eat(data: bytes) -> None:
        try:
            target(data)
        except LanceError as error:
            str(error)

    return eat


TARGETS: dict[str, Target] = {
    **{name: _kernel(name) for name in KERNELS},
    **{name: _parser(target) for name, target in PARSERS.items()},
}
