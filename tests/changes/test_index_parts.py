"""Parts of indices are made apart, merged and committed, by both libraries in turn."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest

import lancecy
from lancecy.errors import LanceError, NotFoundError, UnsupportedError
from lancecy.store.base import StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore
from tests.changes.index_tables import LISTS, check_answers, lance, made

pytestmark = pytest.mark.interop

ALL = (("a", "BTREE"), ("s", "BITMAP"), ("l", "LABEL_LIST"), ("u", "ZONEMAP"), ("f", "BLOOMFILTER"))
FILTERS = ("a = 7", "a is null", "s = 'ab'", "s is null", "u > 9223372036854775900", "f = 2.5", *LISTS)


def fragments(ds: lancecy.Dataset) -> list[int]:
    return [fragment.fragment_id for fragment in ds.get_fragments()]


def table(path: Path, stable: bool) -> lancecy.Dataset:
    """Four fragments."""
    ds = made(path, "2.1", stable)
    for _ in range(4 - len(ds.get_fragments())):
        ds = lancecy.write_dataset(ds.head(500), ds, mode="append")
    return ds


def answers(ds: lancecy.Dataset) -> None:
    check_answers(ds.uri, FILTERS, must_use=False)
    for text in FILTERS:
        found, plain = (
            ds.to_table(["_rowid"], filter=text, use_scalar_index=use)["_rowid"] for use in (True, False)
        )
        assert found.equals(plain), text


@pytest.mark.parametrize("stable", [False, True])
def test_parts_of_both_are_merged_and_committed(tmp_path: Path, stable: bool) -> None:
    ds = table(tmp_path / "t", stable)
    theirs, ids = lance.dataset(ds.uri), fragments(ds)
    assert len(ids) >= 4
    for column, kind in ALL:
        groups = (ids[:1], ids[1:3], ids[3:])
        opened: tuple[Any, ...] = (ds, theirs, ds)
        parts = [
            one.create_index_uncommitted(column, kind, fragment_ids=group)
            for one, group in zip(opened, groups, strict=True)
        ]
        merged = ds.merge_existing_index_segments(parts[:2])
        assert set(merged.fragment_ids) == {*groups[0], *groups[1]}
        assert ds.latest_version == theirs.version
        ds.commit_existing_index_segments(f"{column}_idx", column, [merged, parts[2]])
        assert ds.index_statistics(f"{column}_idx")["num_segments"] == 2
        assert ds.index_statistics(f"{column}_idx")["num_unindexed_rows"] == 0
        theirs = lance.dataset(ds.uri)
    answers(ds)


@pytest.mark.parametrize("stable", [False, True])
def test_pylance_merges_and_commits_parts_of_lancecy(tmp_path: Path, stable: bool) -> None:
    ds = table(tmp_path / "t", stable)
    ids = fragments(ds)
    for column, kind in ALL:
        theirs = lance.dataset(ds.uri)
        parts = [
            theirs_of(ds.create_index_uncommitted(column, kind, fragment_ids=group))
            for group in (ids[:1], ids[1:])
        ]
        merged = theirs.merge_existing_index_segments(parts)
        theirs.commit_existing_index_segments(f"{column}_idx", column, [merged])
    answers(lancecy.dataset(ds.uri))


def theirs_of(index: lancecy.Index) -> Any:
    """The same as an object of pylance."""
    from lance.dataset import Index, IndexFile

    files = [IndexFile(file.path, file.size_bytes) for file in index.files or ()]
    values = {**vars(index), "files": files, "fragment_ids": set(index.fragment_ids)}
    return Index(**values)


@pytest.mark.parametrize(("column", "kind"), ALL)
def test_merged_parts_hold_what_one_index_holds(tmp_path: Path, column: str, kind: str) -> None:
    from lance.file import LanceFileReader

    ds = table(tmp_path / "t", False)
    ids = fragments(ds)
    parts = [ds.create_index_uncommitted(column, kind, fragment_ids=[number]) for number in ids[::-1]]
    merged = ds.merge_existing_index_segments(parts[::-1])
    whole = ds.create_index_uncommitted(column, kind, fragment_ids=ids)
    for file in whole.files or ():
        one, other = (
            LanceFileReader(str(Path(ds.uri, "_indices", index.uuid, file.path))) for index in (whole, merged)
        )
        assert one.metadata().schema.equals(other.metadata().schema, check_metadata=True)
        rows, others = one.read_all().to_table(), other.read_all().to_table()
        if file.path == "page_data.lance":  # equal values are in any order of their ids
            assert rows["values"].equals(others["values"])
            pairs = [
                sorted(zip(map(str, t["values"].to_pylist()), t["ids"].to_pylist(), strict=True))
                for t in (rows, others)
            ]
            assert pairs[0] == pairs[1]
        else:
            assert list(map(str, rows.to_pylist())) == list(map(str, others.to_pylist()))


def test_rows_that_moved_between_two_parts_have_their_new_values(tmp_path: Path) -> None:
    """With stable row ids a part may name a row that is in a fragment of another part by now."""
    rows = {"n": list(range(90)), "word": ["old"] * 90, "tags": [["old"]] * 90}
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=30, enable_stable_row_ids=True)
    ids = fragments(ds)
    kinds = {"word": "BITMAP", "tags": "LABEL_LIST", "n": "BTREE"}
    before = {c: ds.create_index_uncommitted(c, kind, fragment_ids=ids) for c, kind in kinds.items()}
    ds.update({"word": "'new'", "tags": "['new']"}, where="n % 3 = 0")
    (new,) = set(fragments(ds)) - set(ids)
    for column, kind in kinds.items():
        after = ds.create_index_uncommitted(column, kind, fragment_ids=[new])
        merged = ds.merge_existing_index_segments([before[column], after])
        ds.commit_existing_index_segments(column, column, [merged])
        assert ds.index_statistics(column)["num_unindexed_rows"] == 0
    for text, count in (
        ("word = 'old'", 60),
        ("word = 'new'", 30),
        ("array_has(tags, 'old')", 60),
        ("n = 3", 1),
    ):
        assert ds.count_rows(text) == lance.dataset(ds.uri).count_rows(text) == count, text


def test_parts_take_the_place_of_those_that_they_cover(tmp_path: Path) -> None:
    ds = table(tmp_path / "t", False)
    ids = fragments(ds)

    def part(*numbers: int, **options: Any) -> lancecy.Index:
        chosen = [ids[number] for number in numbers]
        return ds.create_index_uncommitted("a", "BTREE", fragment_ids=chosen, replace=True, **options)

    def coverage() -> list[list[int]]:
        (index,) = ds.describe_indices()
        return [sorted(ids.index(n) for n in segment.fragment_ids) for segment in index.segments]

    ds.commit_existing_index_segments("a_idx", "a", [part(0, 1), part(2)])
    assert coverage() == [[0, 1], [2]]
    ds.commit_existing_index_segments("a_idx", "a", [part(3)])
    assert coverage() == [[0, 1], [2], [3]]
    with pytest.raises(ValueError, match="also fragment"):
        ds.commit_existing_index_segments("a_idx", "a", [part(1)])
    with pytest.raises(TypeError, match="create_index_uncommitted returns"):
        ds.commit_existing_index_segments("a_idx", "a", ["a"])  # type: ignore[list-item]
    ds.commit_existing_index_segments("a_idx", "a", [part(0, 1, 2)])
    assert coverage() == [[3], [0, 1, 2]]
    answers(ds)
    untrained, given = part(0, train=False), str(uuid.uuid4())
    assert not untrained.fragment_ids and part(0, index_uuid=given).uuid == given


@pytest.mark.parametrize("is_whole", [False, True])
def test_parts_take_the_place_of_one_that_names_fragments_that_are_gone(
    tmp_path: Path, is_whole: bool
) -> None:
    ds = lancecy.write_dataset({"a": range(40)}, tmp_path / "t", max_rows_per_file=10)
    gone, *ids = fragments(ds)
    ds.create_scalar_index("a", "BTREE")
    ds.delete("a < 10")
    parts = [ds.create_index_uncommitted("a", "BTREE", fragment_ids=[n], replace=True) for n in ids]
    (index,) = ds.describe_indices()
    assert gone in index.segments[0].fragment_ids and fragments(ds) == ids
    if not is_whole:
        with pytest.raises(ValueError, match=f"also fragment {ids[2]}, which no new part covers"):
            ds.commit_existing_index_segments("a_idx", "a", parts[:2])
        return
    ds.commit_existing_index_segments("a_idx", "a", parts)
    (index,) = ds.describe_indices()
    assert [segment.fragment_ids for segment in index.segments] == [{n} for n in ids]
    assert lance.dataset(ds.uri).count_rows("a < 15") == ds.count_rows("a < 15") == 5


def test_parts_of_two_types_are_no_index(tmp_path: Path) -> None:
    """pylance answers no filter on a column with such an index."""
    ds = lancecy.write_dataset({"a": range(30)}, tmp_path / "t", max_rows_per_file=10)
    ids = fragments(ds)

    def part(kind: str, number: int) -> lancecy.Index:
        return ds.create_index_uncommitted("a", kind, "x", fragment_ids=[number], replace=True)

    ds.commit_existing_index_segments("x", "a", [part("BTREE", ids[0])])
    with pytest.raises(ValueError, match=f"'x' is a BTree index with a part of fragment {ids[0]}"):
        ds.commit_existing_index_segments("x", "a", [part("BITMAP", ids[1])])
    ds.commit_existing_index_segments("x", "a", [part("BITMAP", n) for n in ids])
    assert [index.index_type for index in ds.describe_indices()] == ["Bitmap"]
    assert lance.dataset(ds.uri).count_rows("a < 15") == ds.count_rows("a < 15") == 15


def test_operations_do_not_mix_types_of_parts(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": range(30)}, tmp_path / "t", max_rows_per_file=10)
    parts = [
        ds.create_index_uncommitted("a", kind, "x", fragment_ids=[n])
        for n, kind in zip(fragments(ds), ("BTREE", "BITMAP"), strict=False)
    ]
    with pytest.raises(
        ValueError, match="BTreeIndexDetails, and a part of it cannot have BitmapIndexDetails"
    ):
        lancecy.commit(ds, lancecy.LanceOperation.CreateIndex(parts, []), read_version=1)


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    ds = table(tmp_path / "t", False)
    ids = fragments(ds)
    one, other = (ds.create_index_uncommitted("a", "BTREE", fragment_ids=[n]) for n in ids[:2])
    both = ds.create_index_uncommitted("a", "BTREE", fragment_ids=ids[:2])
    bitmap = ds.create_index_uncommitted("s", "BITMAP", fragment_ids=ids[2:3])
    for parts, message in (
        ([], "no part"),
        ([one, one], "given twice"),
        ([one, both], "cover fragment"),
        ([one, bitmap], "different columns or types"),
    ):
        with pytest.raises(ValueError, match=message):
            ds.commit_existing_index_segments("a_idx", "a", parts)
        with pytest.raises(ValueError, match=message):
            ds.merge_existing_index_segments(parts)
    with pytest.raises(ValueError, match="not made of column 's'"):
        ds.commit_existing_index_segments("a_idx", "s", [one])
    grams = lance.dataset(ds.uri).create_index_uncommitted("s", "NGRAM", fragment_ids=ids[:1])
    with pytest.raises(UnsupportedError, match="NGram"):
        ds.merge_existing_index_segments([grams])
    with pytest.raises(ValueError, match="no fragment"):
        ds.create_index_uncommitted("a", "BTREE", fragment_ids=[99])
    ds.commit_existing_index_segments("a_idx", "a", [one])
    with pytest.raises(ValueError, match="there is an index 'a_idx'"):
        ds.create_index_uncommitted("a", "BTREE", fragment_ids=[ids[3]])
    with pytest.raises(ValueError, match="on another column|on other columns"):
        ds.commit_existing_index_segments("a_idx", "s", [bitmap])
    os.remove(Path(ds.uri, "_indices", other.uuid, "page_data.lance"))
    before = set(os.listdir(Path(ds.uri, "_indices")))
    with pytest.raises(LanceError, match="page_data"):
        ds.merge_existing_index_segments([one, other])
    assert set(os.listdir(Path(ds.uri, "_indices"))) == before
    assert ds.latest_version == ds.version


def test_an_index_is_loaded_before_it_is_asked(tmp_path: Path) -> None:
    """Afterwards no look-up asks the store for bytes of the index."""
    ds = table(tmp_path / "t", False)
    for column, kind in ALL:
        ds.create_scalar_index(column, kind)
    inner = MemoryStore(traits=StoreTraits(create_is_atomic=True, concurrency=16))
    for file in (path for path in Path(ds.uri).rglob("*") if path.is_file()):
        inner.put(str(file.relative_to(ds.uri)), file.read_bytes())
    store = CountingStore(inner, uri="prewarmed://here/t")
    register_store("prewarmed", lambda uri, options, **_: store)
    remote = lancecy.dataset("prewarmed://here/t", session=lancecy.Session(threads=2))
    for index in remote.describe_indices():
        remote.prewarm_index(index.name)
    store.clear()
    for text in FILTERS:
        assert remote.count_rows(text) == ds.count_rows(text)
    assert not any(request.path.startswith("_indices") for request in store.requests)
    segment = ds.describe_indices()[0].segments[0].uuid
    ds.prewarm_index("a_idx", index_segments=[segment])
    with pytest.raises(NotFoundError, match="nothing"):
        ds.prewarm_index("nothing")
    with pytest.raises(NotFoundError, match="no segment"):
        ds.prewarm_index("a_idx", index_segments=[str(uuid.uuid4())])
    with pytest.raises(UnsupportedError, match="full-text"):
        ds.prewarm_index("a_idx", with_position=True)
