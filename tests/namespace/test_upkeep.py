"""Large catalogs: few fragments, indices that are used and kept up to date, listings in parts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pytest

import lancecy
from lancecy.errors import LanceError
from lancecy.namespace.catalog import Add
from lancecy.namespace.entries import Entry
from lancecy.namespace.upkeep import INDICES, SMALL
from lancecy.namespace.view import View
from tests.helpers.namespaces import (
    create,
    declare,
    deregister,
    describe,
    drop,
    exists,
    make,
    namespaces,
    ours,
    register,
    remove,
    rename,
    tables,
    theirs,
)

COUNT = 9000


def manifest(root: Path) -> lancecy.Dataset:
    return lancecy.dataset(root / "__manifest")


def fill(ns: Any, count: int, namespace: str = "big") -> list[str]:
    """Add rows of tables in one commit; their directories are not made."""
    names = [f"t{number:06d}" for number in range(count)]
    rows = [
        Entry(f"{namespace}${name}", "table", f"{number:08x}_{name}") for number, name in enumerate(names)
    ]
    ns._catalog.change(lambda view: Add(rows))
    return names


def covered(ds: lancecy.Dataset) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for index in ds.list_indices():
        found.setdefault(index["name"], set()).update(index["fragment_ids"])
    return found


def large(ds: lancecy.Dataset) -> set[int]:
    return {one.fragment_id for one in ds.get_fragments() if one.count_rows() > SMALL}


def test_indices_of_the_document_are_there_from_the_first_change(tmp_path: Path) -> None:
    make(ours(tmp_path), "a")
    ds = manifest(tmp_path)
    assert {index.name: index.field_names for index in ds.describe_indices()} == {
        name: [column] for name, (column, _) in INDICES.items()
    }
    assert {index.index_type for index in ds.describe_indices()} == {"BTree", "Bitmap", "LabelList"}
    seen = {one.name for one in lance.dataset(tmp_path / "__manifest").describe_indices()}
    assert seen == set(INDICES)
    make(ours(tmp_path), "b")
    assert manifest(tmp_path).version == ds.version + 1  # small catalogs are scanned


def test_changes_leave_few_fragments_and_indices_that_cover_the_large_ones(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "big")
    names = set(fill(ns, 3 * SMALL))
    for number in range(5):
        names |= set(fill_more(ns, number))
        ds = manifest(tmp_path)
        assert set(covered(ds)) == set(INDICES)
        assert all(large(ds) <= covers for covers in covered(ds).values())
        assert len(ds.get_fragments()) <= 3
    assert tables(ns, "big") == sorted(names)
    assert ds.list_indices()[0]["version"] > 2


def fill_more(ns: Any, turn: int) -> list[str]:
    names = [f"u{turn}-{number}" for number in range(SMALL - 50)]
    ns._catalog.change(lambda view: Add([Entry(f"big${name}", "table", f"x_{name}") for name in names]))
    return names


def test_large_catalog_is_looked_up_by_its_index(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "big")
    names = fill(ns, COUNT)
    ds = manifest(tmp_path)
    plan = ds.scanner(["location"], "object_id = 'big$t000077'").explain_plan()
    assert "object_id_btree" in plan
    assert describe(ns, "big.t000077").location.endswith(f"/{77:08x}_t000077")
    # Rows in the large fragment and in the small one: removed, replaced, and added again.
    deregister(ns, "big.t000077")
    rename(ns, "big.t000078", "a-name")
    declare(ns, "big.t000077")
    register(ns, "big.t000079", "elsewhere", mode="Overwrite")
    assert not exists(ns, "big.t000078")
    assert [describe(ns, f"big.{name}").location.rpartition("_")[2] for name in ("a-name", "t000077")] == [
        "t000078",
        "big$t000077",
    ]
    assert describe(ns, "big.t000079").location.endswith("/elsewhere")
    expected = sorted({*names, "a-name"} - {"t000078"})
    assert tables(ns, "big") == expected
    with pytest.raises(ln.TableAlreadyExistsError):
        declare(ns, "big.t000100")
    # The same through pylance, which uses the indices too, and drops them when it writes.
    for properties in ({}, {"inline_optimization_enabled": "true"}):
        other = theirs(tmp_path, **properties)
        assert tables(other, "big") == tables(ns, "big") == expected
        assert [exists(other, f"big.{name}") for name in ("a-name", "t000078", "t000100")] == [
            True,
            False,
            True,
        ]
        declare(other, f"big.z{len(properties)}")
        expected.append(f"z{len(properties)}")
        assert tables(ns, "big") == expected
    declare(ns, "big.zz")
    ds = manifest(tmp_path)
    assert all(large(ds) <= covers for covers in covered(ds).values())
    assert tables(theirs(tmp_path), "big") == [*expected, "zz"]


@pytest.mark.slow
def test_listing_reads_a_part_of_a_large_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ns = ours(tmp_path)
    for name in ("big", "empty", "zoo"):
        make(ns, name)
    names = fill(ns, COUNT)
    fill(ns, 300, "big$child")
    ns._catalog.change(lambda view: Add([Entry(f"big${name}", "namespace") for name in ("child", "x-child")]))
    for number in range(5):
        create(ns, f"zoo.{number}")
    read: list[int] = []
    scan = type(ns._catalog.view())._scan

    def counted(self: Any, *given: Any) -> Any:
        found = scan(self, *given)
        read.append(found.num_rows)
        return found

    monkeypatch.setattr(type(ns._catalog.view()), "_scan", counted)
    found, token = [], None
    while True:
        read.clear()
        page = ns.list_tables(ln.ListTablesRequest(id=["big"], limit=700, page_token=token))
        assert sum(read) < COUNT
        found += page.tables
        token = page.page_token
        if token is None:
            break
    assert found == names
    assert tables(ns, "big", limit=5, page_token="t008998") == ["t008999"]
    assert (tables(ns, "zoo", limit=2), tables(ns, "empty", limit=2)) == (["0", "1"], [])
    assert (namespaces(ns, limit=2), namespaces(ns, limit=9, page_token="big")) == (
        ["big", "empty"],
        ["empty", "zoo"],
    )
    assert namespaces(ns, "big", limit=1) == ["child"]
    every = ns.list_all_tables(ln.ListTablesRequest(limit=3, page_token="big$t008998")).tables
    assert every == ["big$t008999", "zoo$0", "zoo$1"]


def test_catalog_whose_index_is_damaged_is_read_without_it(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "big")
    fill(ns, 600)
    for file in (tmp_path / "__manifest" / "_indices").rglob("*.lance"):
        file.write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="cannot be read"):
        found = found_and_declared(ours(tmp_path))
    assert found == (True, ["t000101"], True)


def found_and_declared(ns: Any) -> tuple[Any, ...]:
    shown = exists(ns, "big.t000100"), tables(ns, "big", limit=1, page_token="t000100")
    declare(ns, "big.more")
    return *shown, exists(ns, "big.more")


def test_a_small_catalog_that_is_read_whole_answers_as_its_scans_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ns = ours(tmp_path)
    make(ns, "a")
    make(ns, "a.b", properties={"k": "v"})
    for name in ("a.t", "a.u", "top"):
        create(ns, name)
    manifest(tmp_path).add_columns({"extra": "'x'"})
    deregister(ns, "a.u")

    def answers(view: View) -> list[Any]:
        return [
            [view.find(one) for one in ("a", "a$b", "a$t", "a$u", "none")],
            [list(view.names(one, kind)) for one in ("", "a") for kind in ("namespace", "table")],
            [list(view.tables()), view.below("a"), dict(view.locations()), view.tables_at("top.lance")],
            view.entries(["top", "a$t"]),
            view.rows_of(["a$t", "top", "none"]).sort_by("object_id").to_pylist(),
            view.rows_in([fragment.id for fragment in snapshot.fragments]).to_pylist(),
            view.rows_in([]).to_pylist(),
        ]

    held = ns._catalog.view()
    snapshot = held.snapshot
    read = View(snapshot)
    assert answers(held) == answers(read)
    assert read._whole is not None
    monkeypatch.setattr("lancecy.namespace.view._WHOLE_BYTES", 0)
    scanned = View(snapshot)
    assert answers(scanned) == answers(read)
    assert scanned._whole is None


def test_rows_that_go_leave_no_fragment(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "big")
    fill(ns, 2 * SMALL)
    remove(ns, "big", behavior="Cascade")
    ds = manifest(tmp_path)
    assert (namespaces(ns), ds.count_rows(), ds.get_fragments()) == ([], 0, [])
    make(ns, "again")
    assert namespaces(ns) == namespaces(theirs(tmp_path)) == ["again"]


def test_open_namespace_sees_what_others_do(tmp_path: Path) -> None:
    """It keeps the newest version, and looks for the next one."""
    ns, other = ours(tmp_path / "root"), ours(tmp_path / "root")
    make(ns, "a")
    assert namespaces(other) == namespaces(ns) == ["a"]
    for number in range(3):
        make(other, f"b{number}")
    assert namespaces(ns) == ["a", "b0", "b1", "b2"]
    make(theirs(tmp_path / "root"), "c")
    assert namespaces(ns) == ["a", "b0", "b1", "b2", "c"]
    shutil.rmtree(tmp_path / "root")
    assert namespaces(ns) == []
    make(other, "new")
    assert namespaces(ns) == ["new"]


def test_change_is_made_although_the_indices_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any) -> None:
        raise LanceError("no space left")

    monkeypatch.setattr("lancecy.namespace.catalog.update_indices", fails)
    ns = ours(tmp_path)
    make(ns, "big")
    fill(ns, 600)
    monkeypatch.undo()
    assert manifest(tmp_path).list_indices() == []
    create(ns, "big.t")
    assert set(covered(manifest(tmp_path))) == set(INDICES)
    drop(ns, "big.t")
