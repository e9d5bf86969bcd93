"""0.1 tables that lancecy writes: what pylance reads, what it skips, and what either does to the other's tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import SchemaError, UnsupportedError
from lancecy.proto import table_pb2
from tests.helpers.compare import assert_tables_equal, storage_table
from tests.helpers.folded import folded
from tests.helpers.tables import all_types_table, stored_form
from tests.helpers.written import legacy_metadata
from tests.interop import live

pytestmark = pytest.mark.interop

POINT = pa.struct([("x", pa.int32()), ("w", pa.string())])


def written(table: Any, path: Path | str, **options: Any) -> Any:
    """Written by lancecy; pylance's dataset."""
    lancecy.write_dataset(table, path, data_storage_version="legacy", durability="none", **options)
    return live.peer(path)


def one_file(path: Path) -> bytes:
    (found,) = (path / "data").iterdir()
    return found.read_bytes()


def manifest_of(path: Path) -> table_pb2.Manifest:
    data = next((path / "_versions").glob("*.manifest")).read_bytes()
    at = int.from_bytes(data[-16:-8], "little")
    return table_pb2.Manifest.FromString(data[at + 4 : -16])


@folded("rows", [1, 1025])
def test_every_type(rows: int, tmp_path: Path) -> None:
    table = stored_form(all_types_table(rows, nulls=0.2))
    path = tmp_path / f"{rows}"
    theirs = written(table, path, max_rows_per_file=700)
    theirs.validate()
    assert_tables_equal(storage_table(theirs.to_table()), storage_table(table))
    assert_tables_equal(storage_table(lancecy.dataset(path).to_table()), storage_table(table))


@folded("batches", [[0, 5, 0, 1], [1024, 1024], [1000, 24, 1], [3] * 400])
def test_batches_are_cut_anew(batches: list[int], tmp_path: Path) -> None:
    starts = np.cumsum([0, *batches])
    parts = [pa.record_batch({"n": np.arange(a, b)}) for a, b in pairwise(starts)]
    path = tmp_path / "-".join(map(str, batches[:4]))
    theirs = written(pa.RecordBatchReader.from_batches(parts[0].schema, parts), path)
    total = int(starts[-1])
    assert theirs.to_table()["n"].to_pylist() == list(range(total))
    offsets = list(legacy_metadata(one_file(path)).batch_offsets)
    assert offsets == [*range(0, total, 1024), total]


def test_a_table_without_rows(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("s", POINT), ("l", pa.list_(pa.string()))])
    assert written(schema.empty_table(), tmp_path / "t").count_rows() == 0
    row = pa.table({"n": [1], "s": pa.array([{"x": 1, "w": "a"}], POINT), "l": [["a"]]}, schema=schema)
    live.append(row, tmp_path / "t")
    assert lancecy.dataset(tmp_path / "t").to_table().to_pylist() == row.to_pylist()


def test_files_and_manifests_say_what_those_of_pylance_do(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "i": rng.integers(-9, 9, 50),
            "w": [f"word {i % 7}" for i in range(50)],
            "s": pa.array([{"x": i, "w": str(i)} for i in range(50)], POINT),
            "l": [[i, 1] for i in range(50)],
            "f": rng.random(50).astype(np.float32),
            "b": [i < 20 for i in range(50)],
            "t": pa.array(range(50), pa.timestamp("us")),
            "d": pa.array([Decimal(i) for i in range(50)], pa.decimal128(9, 2)),
            "c": pa.array([f"{i % 3}" for i in range(50)]).dictionary_encode(),
        }
    )
    written(table, tmp_path / "mine", max_rows_per_group=20)
    live.write(table, tmp_path / "theirs", max_rows_per_group=20)
    mine, theirs = one_file(tmp_path / "mine"), one_file(tmp_path / "theirs")
    ours, other = legacy_metadata(mine), legacy_metadata(theirs)
    assert ours.batch_offsets == other.batch_offsets == [0, 20, 40, 50]
    assert lengths_in(mine, ours) == lengths_in(theirs, other)
    found, wanted = statistics_in(mine, ours), statistics_in(theirs, other)
    assert {name: found[name] for name in wanted} == wanted
    # The reference has none for timestamps and dictionaries.
    assert found.keys() - wanted.keys() == {"9", "11"}
    made, expected = manifest_of(tmp_path / "mine"), manifest_of(tmp_path / "theirs")
    assert list(made.fields) == list(expected.fields)
    assert made.data_format == expected.data_format
    assert (made.reader_feature_flags, made.writer_feature_flags) == (0, 0)
    (mine_file,), (their_file,) = made.fragments[0].files, expected.fragments[0].files
    assert list(mine_file.fields) == list(their_file.fields)
    assert (mine_file.file_major_version, mine_file.file_minor_version) == (0, 2)
    assert mine_file.file_size_bytes == len(mine)


def lengths_in(data: bytes, metadata: Any) -> list[int]:
    """Lengths of all pages, as the page table has them: 12 ids of 3 batches."""
    cells = np.frombuffer(data, "<i8", 12 * 3 * 2, metadata.page_table_position)
    return [int(length) for length in cells[1::2]]


def statistics_in(data: bytes, metadata: Any) -> dict[str, list[Any]]:
    """Of each column's statistics, by its name: how every part is described, and the bytes of its page."""
    fields = list(metadata.statistics.schema)
    assert list(metadata.statistics.fields) == [field.id for field in fields] == list(range(len(fields)))
    found: dict[str, list[Any]] = {}
    for field, cells in zip(fields, cells_of_statistics(data, metadata), strict=True):
        if field.parent_id == -1:
            parts = found[field.name] = []
        parts.append((field.name, field.logical_type, field.nullable, field.encoding, cells))
    return found


def cells_of_statistics(data: bytes, metadata: Any) -> list[list[bytes]]:
    """The bytes of every page of the statistics, none of a struct; of text those of the values."""
    described = {field.id: field for field in metadata.statistics.schema}
    table = np.frombuffer(data, "<i8", 2 * len(described), metadata.statistics.page_table_position)
    widths = {"int64": 8, "int32": 4, "float": 4, "decimal:128:9:2": 16}
    found = []
    for number, (position, length) in enumerate(table.reshape(-1, 2).tolist()):
        kind = described[number].logical_type
        if kind == "string":
            offsets = np.frombuffer(data, "<i8", length + 1, position).tolist()
            found.append([data[a:b] for a, b in pairwise(offsets)])
        elif kind == "struct":
            found.append([])
        else:
            found.append([data[position : position + widths.get(kind, 0) * length or position + 1]])
    return found


# -- statistics -----------------------------------------------------------------------------------

WORDS = (
    *("a", "b", "z", "\x7f", "é", "\U0010ffff", "x" * 63 + "é", "x" * 64, "x" * 65, "x" * 63, "a\0", "a\0\0"),
    *("b" * 200, "é" * 40, "\U0010ffff" * 20, "\x7f" * 70, "€" * 30, "x" * 61 + "\U0010ffff" * 2),
)
FLOATS = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.0, -1.0, 1e30, 5e-324, 100.0)
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
INSTANTS = (0, -1, 1, 86_400, -(2**62), 2**62)
MOMENTS = {
    "m": pa.timestamp("s"),
    "ms": pa.timestamp("ms", "UTC"),
    "mu": pa.timestamp("us", "America/New_York"),
    "mn": pa.timestamp("ns"),
}


def hostile(rng: np.random.Generator, group: int, groups: int) -> pa.Table:
    """Few different values to a group, so that bounds are often equal or all there is."""

    def drawn(pool: Any, nulls: bool = False) -> list[Any]:
        rows: list[Any] = []
        for _ in range(groups):
            some = [pool[i] for i in rng.integers(0, len(pool), rng.integers(1, 4))]
            share = rng.choice([0.0, 0.2, 0.7, 1.0]) if nulls else 0.0
            picked = [some[i] for i in rng.integers(0, len(some), group)]
            rows += [None if rng.random() < share else value for value in picked]
        return rows

    text = drawn(WORDS, nulls=True)
    ints = drawn((0, -1, 1, 5, 127, -128))
    decimals = drawn(
        [Decimal(t) for t in ("0", "-1", "1.50", "9" * 20, "-" + "9" * 20, "184467440737095516.16")]
    )
    fields = [
        ("s", pa.string(), text),
        ("r", pa.string(), drawn(("", *WORDS))),
        ("y", pa.large_binary(), [None if w is None else w.encode() + b"\xff" * 3 for w in text]),
        ("f", pa.float64(), drawn(FLOATS)),
        ("h", pa.float32(), drawn(FLOATS)),
        ("i", pa.int8(), ints),
        ("u", pa.uint64(), drawn((0, 1, 2**63, 2**64 - 1))),
        ("b", pa.bool_(), drawn((True, False))),
        ("d", pa.decimal128(23, 2), decimals),
        ("t", pa.date32(), drawn((date(1970, 1, 1), date(1, 1, 1), date(2024, 2, 29)))),
        ("p", POINT, [{"x": n, "w": w} for n, w in zip(ints, text, strict=True)]),
        ("c", pa.dictionary(pa.int8(), pa.string()), text),
        ("k", pa.dictionary(pa.int16(), pa.int64()), ints),
        ("hh", pa.float16(), [min(max(v, -9.0), 9.0) if v == v else v for v in drawn(FLOATS)]),
        *((name, kind, drawn(INSTANTS)) for name, kind in MOMENTS.items()),
        ("o", pa.time64("us"), drawn((0, 1, 86_399_999_999))),
        ("q", pa.duration("ms"), drawn((0, -1, 2**62))),
    ]
    schema = pa.schema([pa.field(name, kind, name != "r") for name, kind, _ in fields])
    return pa.table([pa.array(rows, kind) for _, kind, rows in fields], schema=schema)


def conditions(rng: np.random.Generator) -> list[str]:
    def some(pool: Any, count: int) -> list[Any]:
        return [pool[i] for i in rng.integers(0, len(pool), count)]

    found = [
        f"{c} is {n}"
        for c in ("s", "r", "y", "f", "i", "b", "p.w", "p.x", "c", "k", "hh", "o", "q", *MOMENTS)
        for n in ("null", "not null")
    ]
    for column in ("s", "r", "p.w", "c"):
        found += [f"{column} {op} '{word}'" for word in some(("", *WORDS), 3) for op in OPERATORS]
        low, high = some(WORDS, 2)
        found += [
            f"{column} in ('{low}', '{high}')",
            f"not ({column} = '{low}')",
            f"{column} = '{low}' or s is null",
        ]
    found += [f"y {op} x'{word.encode().hex()}ffffff'" for word in some(WORDS, 2) for op in OPERATORS]
    for column in ("f", "h"):
        found += [
            f"{column} {op} {v}" for v in some(("0.0", "-0.0", "1.0", "100.0", "1e30"), 3) for op in OPERATORS
        ]
    for column in ("i", "p.x", "k"):
        found += [f"{column} {op} {v}" for v in some((0, 5, -128, 127, 6), 2) for op in OPERATORS]
    found += [f"hh {op} {v}" for v in some(("0.0", "1.0", "9.0"), 2) for op in OPERATORS]
    for column in MOMENTS:
        found += [f"{column} {op} timestamp '1970-01-02 00:00:00'" for op in OPERATORS]
        found += [
            f"{column} in (timestamp '1970-01-01 00:00:00', timestamp '1971-01-01 00:00:00')",
            f"not ({column} = timestamp '1970-01-01 00:00:00')",
        ]
    found += [f"u {op} cast({2**64 - 1} as bigint unsigned)" for op in OPERATORS]
    found += [f"d {op} cast('1.50' as decimal(23, 2))" for op in OPERATORS]
    return [*found, *(f"t {op} date '1970-01-01'" for op in OPERATORS), "b", "not b", "b != true"]


@folded("seed", range(int(os.environ.get("LANCECY_LEGACY_TABLES", "6"))))
def test_no_row_is_lost_to_statistics(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 41])
    group, groups = int(rng.choice([3, 8, 40])), int(rng.integers(2, 6))
    table = hostile(rng, group, groups).slice(0, group * groups - int(rng.integers(0, group)))
    theirs = written(table, tmp_path / f"{seed}", max_rows_per_group=group)
    mine = lancecy.dataset(tmp_path / f"{seed}")
    assert_tables_equal(theirs.to_table(), table)
    for text in rng.choice(conditions(rng), 50, replace=False).tolist():
        chosen = {"filter": text, "columns": ["i"], "with_row_id": True}
        with_stats, without = (
            theirs.scanner(**chosen, **options).to_table()["_rowid"].to_pylist()
            for options in ({}, {"use_stats": False})
        )
        assert with_stats == without, text
        ours, unpruned = (
            mine.scanner(**chosen, use_stats=used).to_table()["_rowid"].to_pylist() for used in (True, False)
        )
        assert ours == unpruned, text
        if text[0] not in "fh":  # NaN is above every number there, and beside them here
            assert ours == without, text


def test_pages_are_skipped(tmp_path: Path) -> None:
    hours = np.arange(4000) * 3600
    table = pa.table(
        {
            "n": np.arange(4000),
            "w": [f"{i:05}" + "x" * 90 for i in range(4000)],
            "t": pa.array(hours).cast(pa.timestamp("s", "UTC")),
            "u": pa.array(hours % 86_400, pa.int32()).cast(pa.time32("s")),
            "o": pa.array(hours).cast(pa.duration("ms")),
            "h": (np.arange(4000) // 100).astype(np.float16),
            "c": pa.array([f"{i // 250:02}" for i in range(4000)]).dictionary_encode(),
            "k": pa.array(np.arange(4000) // 250).dictionary_encode(),
            "p": pa.array([{"c": i // 1000} for i in range(4000)]),
        }
    )
    point = pa.array([f"{i // 1000}" for i in range(4000)]).dictionary_encode()
    table = table.set_column(8, "p", pa.StructArray.from_arrays([point], ["c"]))
    theirs = written(table, tmp_path / "t", max_rows_per_group=100)
    assert "LancePushdownScan" in theirs.scanner(filter="n = 5").explain_plan(verbose=True)
    assert theirs.to_table(filter="w >= '03999'")["n"].to_pylist() == [3999]
    for text, pages in (
        ("n = 5 or w = '02000" + "x" * 90 + "'", 2),
        ("w >= '03899x' and n < 10", 0),
        ("n >= 3900", 1),
        ("t < timestamp '1970-01-02 00:00:00'", 1),
        ("date '1970-03-01' <= t and t < date '1970-03-11'", 3),
        ("u < time '00:30:00' and n < 200", 2),
        ("o >= interval '14000 seconds'", 2),
        ("h = 7", 1),
        ("c = '03'", 3),
        ("c in ('00', '15')", 6),
        ("c like '1%' and c not in ('10', '11')", 11),
        ("c is null or k is null", 0),
        ("k > 14", 3),
        ("p.c = '2'", 10),
    ):
        (line,) = lancecy.dataset(tmp_path / "t").scanner(filter=text).explain().fragments
        assert (line.pages, line.kept_pages) == (40, pages), text


# -- one table, two writers -----------------------------------------------------------------------

Rows = dict[int, tuple[str | None, float]]


def rows(start: int, count: int) -> Rows:
    return {i: (None if i % 5 == 0 else f"w{i % 13}", i / 2) for i in range(start, start + count)}


def table_of(model: Rows) -> pa.Table:
    words, numbers = zip(*model.values(), strict=True)
    return pa.table(
        {
            "n": pa.array(list(model), pa.int64()),
            "word": pa.array(words, pa.string()),
            "value": pa.array(numbers, pa.float64()),
            "point": pa.array([{"x": i, "w": f"{i}"} for i in model], POINT),
        }
    )


def check(uri: str, model: Rows) -> None:
    """Both see the rows of the model, also where statistics choose pages."""
    theirs, mine = live.peer(uri), lancecy.dataset(uri)
    theirs.validate()
    assert theirs.data_storage_version == mine.data_storage_version == "0.1"
    for text in (None, "n >= 30 and n < 60", "word = 'w3'", "word is null", "point.x = 41"):
        found = [
            {row["n"]: (row["word"], row["value"]) for row in ds.to_table(filter=text).to_pylist()}
            for ds in (theirs, mine)
        ]
        assert found[0] == found[1], text
        if text is None:
            assert found[0] == model


@folded("stable", [False, True])
def test_both_write_one_table_in_turn(stable: bool, tmp_path: Path) -> None:
    import lance

    uri = str(tmp_path / f"{stable}")
    model = rows(0, 50)
    lancecy.write_dataset(
        table_of(model), uri, data_storage_version="0.1", enable_stable_row_ids=stable, max_rows_per_group=8
    )
    check(uri, model)
    model |= rows(50, 20)
    lance.write_dataset(table_of(rows(50, 20)), uri, mode="append", max_rows_per_group=7)
    check(uri, model)
    model |= rows(70, 20)
    lancecy.dataset(uri).append(table_of(rows(70, 20)), max_rows_per_file=9)
    live.peer(uri).delete("n % 7 = 3")
    lancecy.dataset(uri).delete("n % 11 = 5")
    model = {n: row for n, row in model.items() if n % 7 != 3 and n % 11 != 5}
    check(uri, model)
    live.peer(uri).update({"value": "value + 1"}, where="n < 20")
    model = {n: (word, value + (n < 20)) for n, (word, value) in model.items()}
    check(uri, model)
    live.peer(uri).optimize.compact_files(target_rows_per_fragment=1000)
    check(uri, model)
    lancecy.dataset(uri).append(table_of(rows(200, 5)))
    check(uri, model | rows(200, 5))
    assert (
        len(set(lancecy.dataset(uri).to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()))
        == len(model) + 5
    )
    lancecy.dataset(uri).insert(table_of(rows(0, 3)), mode="overwrite")
    check(uri, rows(0, 3))


def test_indices_of_pylance_stay_right(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(table_of(rows(0, 100)), uri, max_rows_per_file=40).create_scalar_index("n", "BTREE")
    ds = lancecy.dataset(uri)
    ds.delete("n = 7")
    ds.append(table_of(rows(100, 30)))
    assert sorted(live.peer(uri).to_table(filter="n in (7, 8, 105)")["n"].to_pylist()) == [8, 105]


def test_columns_that_pylance_added_are_appended_to(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    theirs = written(table_of(rows(0, 30)), uri, max_rows_per_group=8)
    theirs.add_columns({"double": "value * 2"})
    theirs.drop_columns(["value"])
    ds = lancecy.dataset(uri)
    more = table_of(rows(30, 10)).drop_columns(["value"])
    with pytest.raises(SchemaError, match="column 'double' is missing.*0.1"):
        ds.append(more)
    ds.append(more.append_column("double", pa.array(np.arange(10.0))))
    found = live.peer(uri).to_table(filter="double >= 29 or n = 31")
    assert found["n"].to_pylist() == [29, 31]
    assert_tables_equal(live.peer(uri).to_table(), lancecy.dataset(uri).to_table())


# -- dictionaries ---------------------------------------------------------------------------------


def coded(words: list[Any], values: list[str] | None = None) -> pa.Table:
    array = pa.array(words, pa.string()).dictionary_encode()
    if values is not None:
        codes = pa.array([None if w is None else values.index(w) for w in words], pa.int32())
        array = pa.DictionaryArray.from_arrays(codes, values)
    return pa.table({"n": pa.array(range(len(words)), pa.int64()), "d": array})


def words_in(uri: str) -> list[str | None]:
    mine: list[str | None] = lancecy.dataset(uri).to_table()["d"].to_pylist()
    assert mine == live.peer(uri).to_table()["d"].to_pylist()
    return mine


def test_a_dictionary_is_the_table_s(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    parts = [coded(["a", "b", None]), coded(["c", "a"]), coded(["d", "b", "d"])]
    batches = [part.to_batches()[0] for part in parts]
    reader = pa.RecordBatchReader.from_batches(parts[0].schema, batches)
    written(reader, uri, max_rows_per_file=3, max_rows_per_group=2)
    words = ["a", "b", None, "c", "a", "d", "b", "d"]
    assert words_in(uri) == words
    ds = lancecy.dataset(uri)
    ds.append(coded(["d", None, "a"]))
    ds.delete("n = 1")
    kept = [
        w for n, w in zip((0, 1, 2, 0, 1, 0, 1, 2, 0, 1, 2), [*words, "d", None, "a"], strict=True) if n != 1
    ]
    assert words_in(uri) == kept
    with pytest.raises(UnsupportedError, match="column 'd' has the value 'e'"):
        ds.append(coded(["a", "e"]))
    more = lancecy.write_fragments(coded(["c"]), ds)
    assert lancecy.commit(ds, lancecy.LanceOperation.Append(more)).count_rows() == len(kept) + 1
    ds = lancecy.dataset(uri)
    ds.insert(coded(["x", "y"]), mode="overwrite")
    assert words_in(uri) == ["x", "y"]
    lancecy.dataset(uri, version=3).restore()
    assert words_in(uri) == kept


def test_a_dictionary_of_pylance_is_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = ["a", "b", "c"]
    live.write(coded(["a", "c"], values), uri)
    lancecy.dataset(uri).append(coded(["c", "b", "a"]))
    live.append(coded(["b"], values), uri)
    assert words_in(uri) == ["a", "c", "c", "b", "a", "b"]
    with pytest.raises(UnsupportedError, match="column 'd' has the value null"):
        lancecy.dataset(uri).append(coded([None]))


@folded(
    "write",
    [
        lambda uri: written(coded(["a"]).slice(0, 0), uri),
        lambda uri: lancecy.write_fragments(coded(["a"]), uri, mode="create", data_storage_version="0.1"),
    ],
    ids=["no rows", "fragments"],
)
def test_dictionaries_nobody_knows_are_refused(write: Callable[[str], Any], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="dictionar.*2.0"):
        write(str(tmp_path / "t"))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
