"""Scans use the scalar indices that the reference implementation wrote."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.changes import index_training
from lancecy.errors import LanceError, UnsupportedError
from lancecy.index.segments import open_segment, segment_of
from lancecy.store.base import StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore
from lancecy.table.wire.indices import describe_index, encode_index

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")

ROWS = 4000
KINDS = {"id": "BTREE", "kind": "BITMAP", "zone": "ZONEMAP"}


def table(first: int = 0, rows: int = ROWS) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table(
        {
            "id": pa.array([n * 7919 % ROWS for n in numbers], pa.int64()),
            "kind": pa.array([None if n % 11 == 0 else f"k{n % 50}" for n in numbers]),
            "zone": pa.array(numbers, pa.int32()),
            "f": pa.array([math.nan if n % 5 == 0 else n / 2 for n in numbers]),
        }
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of four fragments with an index on each of three columns."""
    made = lance.write_dataset(table(), tmp_path / "t", max_rows_per_file=1000)
    for column, kind in KINDS.items():
        made.create_scalar_index(column, kind)
    return str(tmp_path / "t")


def used(ds: lancecy.Dataset, text: str) -> tuple[str, ...]:
    """Names of the indices that a scan with this filter uses."""
    lines = ds.scanner(filter=text).explain().fragments
    return tuple(dict.fromkeys(name for line in lines for s in line.sources for name in s.indices))


def test_explain_names_the_index_and_its_rows(uri: str) -> None:
    ds = lancecy.dataset(uri)
    found = ds.scanner(filter="id = 77").explain()
    assert "indices  1 of 4,000 rows left by id_idx (BTREE) (exact, id = 77)" in str(found)
    assert (found.kept_rows, found.kept_fragments) == (1, 1)
    assert found.bytes_to_read < 100 < found.bytes_total
    assert used(ds, "kind = 'k7' AND id < 40") == ("kind_idx (BITMAP)", "id_idx (BTREE)")
    assert used(ds, "kind = 'k7' OR id = 40") == ("kind_idx (BITMAP)", "id_idx (BTREE)")
    assert used(ds, "zone < 500") == ("zone_idx (ZONEMAP)",)
    assert used(ds, "kind = 'k7' OR f = 40") == ()
    assert used(ds, "id + 1 = 40") == ()


def test_the_rest_of_the_filter_is_tested_on_the_rows_of_the_index(uri: str) -> None:
    ds = lancecy.dataset(uri)
    line = ds.scanner(filter="kind = 'k7' AND f < 1000").explain().sources
    assert "indices" in line
    plain = ds.to_table(filter="kind = 'k7' AND f < 1000", use_scalar_index=False)
    assert ds.to_table(filter="kind = 'k7' AND f < 1000").equals(plain)
    assert plain.num_rows


def test_rows_appended_later_are_found_by_a_scan(uri: str) -> None:
    lancecy.write_dataset(table(ROWS, 100), uri, mode="append")
    ds = lancecy.dataset(uri)
    plain = ds.to_table(filter="kind = 'k7'", use_scalar_index=False)
    assert ds.to_table(filter="kind = 'k7'").equals(plain)
    assert ds.count_rows("kind = 'k7'") == plain.num_rows
    lines = ds.scanner(filter="kind = 'k7'").explain().fragments
    assert [s.kind for line in lines for s in line.sources if s.name == "indices"] == ["exact"] * 4 + [
        "unknown"
    ]


def test_fragments_without_a_row_of_the_index_are_not_planned(uri: str) -> None:
    scanner = lancecy.dataset(uri).scanner(filter="zone = 3999")
    assert [unit.fragment for unit in scanner.plan().units] == [3]


def test_indices_can_be_left_out(uri: str) -> None:
    scanner = lancecy.dataset(uri).scanner(filter="id = 77", use_scalar_index=False)
    assert "indices" not in scanner.explain().sources
    assert scanner.to_table().num_rows == 1


def test_nan_is_no_number_although_the_index_ranks_it(tmp_path: Path) -> None:
    made = lance.write_dataset(table().slice(0, 100), tmp_path / "t")
    made.create_scalar_index("f", "BTREE")
    assert any(math.isnan(f) for f in made.to_table(filter="f > 48")["f"].to_pylist())
    ds = lancecy.dataset(tmp_path / "t")
    assert used(ds, "f > 48") == ("f_idx (BTREE)",)
    assert ds.to_table(filter="f > 48")["f"].to_pylist() == [48.5, 49.0, 49.5]
    assert ds.count_rows("isnan(f)") == 20
    assert (
        ds.count_rows("NOT f > 48") == ds.to_table(filter="NOT f > 48", use_scalar_index=False).num_rows == 97
    )


def test_signed_zeros_are_equal(tmp_path: Path) -> None:
    made = lance.write_dataset(pa.table({"f": [0.0, -0.0, 1.0, None]}), tmp_path / "t")
    for kind in ("BTREE", "BITMAP", "ZONEMAP"):
        made.create_scalar_index("f", kind)
        ds = lancecy.dataset(tmp_path / "t")
        assert [ds.count_rows(text) for text in ("f = 0", "f = -0.0", "f < 0.0", "f IN (-0.0, 3)")] == [
            2,
            2,
            0,
            2,
        ]


def test_lists_are_found_by_their_elements(tmp_path: Path) -> None:
    tags = [["a", "b"], ["b"], [], None, [None], ["a", None]]
    made = lance.write_dataset(pa.table({"tags": tags}), tmp_path / "t")
    made.create_scalar_index("tags", "LABEL_LIST")
    ds = lancecy.dataset(tmp_path / "t")
    expected = {
        "array_has(tags, 'a')": [0, 5],
        "array_has_any(tags, ['a', 'b'])": [0, 1, 5],
        "array_has_all(tags, ['a', 'b'])": [0],
        "NOT array_has(tags, 'a')": [1, 2, 4],
        "NOT array_has_all(tags, ['a', 'b'])": [1, 2, 4, 5],
    }
    for text, rows in expected.items():
        assert used(ds, text) == ("tags_idx (LABEL_LIST)",)
        assert ds.to_table(filter=text)["tags"].to_pylist() == [tags[row] for row in rows]
        assert ds.count_rows(text) == len(rows)
    assert used(ds, "tags IS NULL") == used(ds, "array_length(tags) = 1") == ()


BLOOMED = {
    "i8": pa.int8(),
    "u64": pa.uint64(),
    "f32": pa.float32(),
    "d": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "s": pa.large_string(),
    "y": pa.binary(),
}


def test_bloom_filters_leave_out_zones_without_the_value(tmp_path: Path) -> None:
    numbers = pa.array(range(100), pa.int32())
    columns = {
        name: numbers.cast(kind) if name != "ts" else numbers.cast(pa.int64()).cast(kind)
        for name, kind in BLOOMED.items()
        if name not in {"s", "y"}
    }
    texts = [f"a rather long text with the number {n:04d}" for n in range(100)]
    columns |= {"s": pa.array(texts, pa.large_string()), "y": pa.array([t.encode() for t in texts])}
    made = lance.write_dataset(pa.table(columns), tmp_path / "t", max_rows_per_file=25)
    for name in BLOOMED:
        made.create_scalar_index(name, "BLOOMFILTER")
    ds = lancecy.dataset(tmp_path / "t")
    constants = {
        "d": "date '1970-02-12'",
        "ts": "timestamp '1970-01-01 00:00:00.000042Z'",
        "s": f"'{texts[42]}'",
        "y": f"X'{texts[42].encode().hex()}'",
    }
    for name in BLOOMED:
        found = ds.scanner(filter=f"{name} = {constants.get(name, '42')}").explain()
        assert [line.fragment for line in found.fragments if line.kept_rows] == [1], name
        assert used(ds, f"{name} = {constants.get(name, '42')}") == (f"{name}_idx (BLOOMFILTER)",)


def _damage(uri: str, name: str) -> None:
    for file in Path(uri, "_indices").rglob(name):
        data = bytearray(file.read_bytes())
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
        file.write_bytes(data)


def test_a_damaged_index_is_reported_and_the_scan_answers_without_it(uri: str) -> None:
    _damage(uri, "page_lookup.lance")
    ds = lancecy.dataset(uri)
    with pytest.warns(
        RuntimeWarning, match=r"an index cannot be read.*'id_idx'.*create it again, or drop it"
    ):
        assert ds.to_table(filter="id = 77").num_rows == 1
    assert ds.to_table(filter="id = 78").num_rows == 1  # reported once
    assert used(ds, "kind = 'k7'") == ("kind_idx (BITMAP)",)
    with pytest.raises(LanceError, match="id_idx"):
        ds.to_table(filter="id = 77", use_scalar_index=True)
    assert ds.to_table(filter="kind = 'k7'", use_scalar_index=True).num_rows


def test_a_missing_index_file_is_reported_too(uri: str) -> None:
    for file in Path(uri, "_indices").rglob("bitmap_page_lookup.lance"):
        file.unlink()
    ds = lancecy.dataset(uri)
    with pytest.warns(RuntimeWarning, match="kind_idx"):
        assert (
            ds.count_rows("kind = 'k7'") == ds.to_table(filter="kind = 'k7'", use_scalar_index=False).num_rows
        )


def test_an_index_of_a_clone_is_read_in_its_base(uri: str, tmp_path: Path) -> None:
    lancecy.dataset(uri).shallow_clone(tmp_path / "clone")
    clone = lancecy.dataset(tmp_path / "clone")
    assert clone.to_table(filter="id = 77").equals(lancecy.dataset(uri).to_table(filter="id = 77"))
    assert used(clone, "id = 77") == ("id_idx (BTREE)",)
    shutil.rmtree(Path(uri, "_indices"))
    again = lancecy.dataset(tmp_path / "clone", session=lancecy.Session())
    with pytest.warns(RuntimeWarning, match="id_idx"):
        assert again.count_rows("id = 77") == 1


def test_a_lookup_costs_three_requests_before_the_rows(uri: str) -> None:
    """The ends of both files of the index, and one page; the manifest was read when the table was opened."""
    inner = MemoryStore(traits=StoreTraits(create_is_atomic=True, concurrency=16))
    root = Path(uri)
    for file in root.rglob("*"):
        if file.is_file():
            inner.put(str(file.relative_to(root)), file.read_bytes())
    store = CountingStore(inner, uri="indexed://here/t")
    register_store("indexed", lambda uri, options, **_: store)
    ds = lancecy.dataset("indexed://here/t", session=lancecy.Session(threads=2))
    store.clear()
    scanner = ds.scanner(filter="id = 77")
    assert [unit.rows for unit in scanner.plan().units] == [1]
    assert len(store.requests) <= 3
    assert {request.path.partition("/")[0] for request in store.requests} == {"_indices"}
    assert scanner.to_table()["id"].to_pylist() == [77]
    store.clear()
    assert ds.to_table(filter="id = 78").num_rows == 1
    assert not any("_indices" in request.path for request in store.requests)  # small files are kept


def test_indices_of_unknown_versions_are_not_used(uri: str) -> None:
    ds = lancecy.dataset(uri)
    (made,) = (entry for entry in ds._snapshot.indices() if entry.name == "kind_idx")
    newer = encode_index(made, replace(describe_index(made), version=9))
    with pytest.raises(UnsupportedError, match="'kind_idx' is not used: it has version 9 of BITMAP"):
        segment_of(ds._snapshot, newer, pa.string())
    details = ("/lance.table.StarIndexDetails", b"")
    other = encode_index(made, replace(describe_index(made), details=details))
    with pytest.raises(UnsupportedError, match="it is of type StarIndexDetails"):
        segment_of(ds._snapshot, other, pa.string())
    bare = encode_index(replace(made, fragment_bitmap=None), describe_index(made))
    with pytest.raises(UnsupportedError, match="does not state the fragments"):
        segment_of(ds._snapshot, bare, pa.string())


def test_an_index_without_details_is_found_by_its_files(uri: str) -> None:
    ds = lancecy.dataset(uri)
    for made in ds._snapshot.indices():
        old = encode_index(made, replace(describe_index(made), details=None))
        segment = segment_of(ds._snapshot, old, ds.schema.field(made.name.removesuffix("_idx")).type)
        assert segment is not None
        if made.name == "zone_idx":
            with pytest.raises(UnsupportedError, match="does not state its type"):
                open_segment(segment)
        else:
            assert type(open_segment(segment)).__name__.upper() == KINDS[made.name.removesuffix("_idx")]


@pytest.mark.parametrize("kind", ["ZONEMAP", "BLOOMFILTER"])
@pytest.mark.parametrize("stable", [False, True])
def test_indices_of_zones_know_the_nulls_exactly(tmp_path: Path, kind: str, stable: bool) -> None:
    rows = {"n": range(300), "x": [None if n % 7 == 0 else n for n in range(300)]}
    made = lance.write_dataset(
        pa.table(rows), tmp_path / "t", max_rows_per_file=100, enable_stable_row_ids=stable
    )
    made.update({"n": "n + 1000"}, where="n % 10 = 3")
    made.create_scalar_index("x", kind)
    made.delete("n % 10 = 4")
    ds = lancecy.dataset(tmp_path / "t")
    for text in ("x IS NULL", "x IS NOT NULL", "NOT x IS NULL AND n > 50"):
        found = ds.scanner(filter=text).explain()
        sources = [source for line in found.fragments for source in line.sources]
        assert {source.kind for source in sources if source.name == "indices"} == {"exact"}, text
        assert ds.to_table(filter=text).equals(ds.to_table(filter=text, use_scalar_index=False))


@pytest.mark.parametrize(
    ("column", "kind", "filters"),
    [
        ("g", "BITMAP", ("g = 'a'", "NOT g = 'a'", "g = 'z'", "NOT g = 'z'", "g IN ('b', 'z')", "g IS NULL")),
        ("tags", "LABEL_LIST", ("array_has(tags, 'a')", "NOT array_has(tags, 'a')", "array_has(tags, 'z')")),
    ],
)
def test_values_that_rows_had_before_an_update_name_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, kind: str, filters: tuple[str, ...]
) -> None:
    """Releases of pylance from 0.39 to 4.0 leave them in segments that they merge, by stable row ids."""
    data = pa.table(
        {"g": ["a", "b", "a", None] * 10, "tags": [["a"], ["b"], ["a", "b"], None] * 10, "n": range(40)}
    )
    ds = lancecy.write_dataset(data, tmp_path / "t", enable_stable_row_ids=True, durability="none")
    ds.update({"g": "'z'", "tags": "['z']"}, where="n % 4 = 0")
    original = index_training._values

    def with_old_ones(*args: Any) -> Iterator[tuple[pa.Array, Any]]:
        yield from original(*args)
        yield (
            data[column].combine_chunks().take(pa.array(range(0, 40, 4))),
            np.arange(0, 40, 4, dtype=np.uint64),
        )

    monkeypatch.setattr(index_training, "_values", with_old_ones)
    ds.create_scalar_index(column, kind, durability="none")
    for text in filters:
        plain = ds.to_table(filter=text, use_scalar_index=False)
        assert ds.to_table(filter=text, use_scalar_index=True).equals(plain), text
        assert ds.count_rows(text) == plain.num_rows, text
        assert f"{column}_idx" in str(ds.scanner(filter=text).explain()), text


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("kind", ["ZONEMAP", "BLOOMFILTER"])
def test_zones_that_pylance_keeps_beside_newer_ones_of_the_same_rows(
    tmp_path: Path, kind: str, stable: bool
) -> None:
    values = [None if n % 7 == 3 else float(n) for n in range(20)]
    rows = pa.table({"id": range(20), "v": values, "z": range(20)})
    theirs = lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=10, enable_stable_row_ids=stable)
    theirs.create_scalar_index("v", kind)
    changed = pa.table({"id": range(10), "v": [100.0] * 9 + [None]})
    theirs.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns").execute(changed)
    theirs.optimize.optimize_indices()
    ds = lancecy.dataset(tmp_path / "t")
    for where in ("v < 5", "v = 100", "v = 12", "v IS NULL", "v IS NOT NULL", "NOT (v > 15)", "v > 50"):
        plain = ds.to_table(["id"], filter=where, use_scalar_index=False)
        assert ds.to_table(["id"], filter=where).equals(plain), where
    assert "1 of 2 kept, 1 skipped" in str(ds.scanner(filter="v = 100").explain())
