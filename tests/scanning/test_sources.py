"""Candidate sources: a scan leaves rows unread that a source rules out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import FormatError, LanceError, NotFoundError
from lancecy.expr import describe
from lancecy.rows import RowSelection
from lancecy.scanning.project import Projection
from lancecy.scanning.sources import SOURCES, Candidates, CandidateSource, Question
from lancecy.store.base import Store, StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore
from lancecy.table.snapshot import Snapshot
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import VERSIONS, write_table

ROWS = 60
FRAGMENTS = (5, 7, 9)
DELETED = {0: [0, 7], 2: [1]}


@dataclass(frozen=True)
class SideTable:
    """Knows the rows of some conditions: offsets by fragment id, by the text of the condition."""

    known: Mapping[str, Mapping[int, Sequence[int]]]
    exact: bool = True
    extra: int = 0
    name: str = "side table"
    reads_files: bool = False
    asked: list[int] = field(default_factory=list)

    def concerns(self, snapshot: Snapshot, projection: Projection) -> bool:
        """Whether it knows one of the conditions."""
        return any(describe(condition) in self.known for condition in projection.conditions)

    def ruled_out(self, snapshot: Snapshot, projection: Projection) -> frozenset[int]:
        """None: it answers for single fragments."""
        return frozenset()

    def candidates(self, question: Question) -> Candidates:
        """The rows of the first condition it knows; ``extra`` false ones after each if it is not exact."""
        self.asked.append(question.fragment.id)
        for condition in question.projection.conditions:
            rows = self.known.get(describe(condition))
            if rows is None:
                continue
            near = {row + more for row in rows[question.fragment.id] for more in range(self.extra + 1)}
            selection = RowSelection.take(
                question.num_rows, sorted(row for row in near if row < question.num_rows)
            )
            return Candidates.exact(selection, [condition]) if self.exact else Candidates(selection)
        return Candidates()


@dataclass(frozen=True)
class Saying:
    """Does the same for every question."""

    answer: Callable[[Question], Candidates]
    name: str = "oracle"
    reads_files: bool = False

    def concerns(self, snapshot: Snapshot, projection: Projection) -> bool:
        """Always."""
        return True

    def ruled_out(self, snapshot: Snapshot, projection: Projection) -> frozenset[int]:
        """None: it answers for single fragments."""
        return frozenset()

    def candidates(self, question: Question) -> Candidates:
        """Whatever it was made to."""
        return self.answer(question)


def rows_where(test: Callable[[int], bool], rows: int = ROWS) -> dict[int, list[int]]:
    """Offsets by fragment id of the rows whose ``id`` passes."""
    return {
        fragment: [offset for offset in range(rows) if test(index * rows + offset)]
        for index, fragment in enumerate(FRAGMENTS)
    }


KNOWN = {
    "id = 77": rows_where(lambda n: n == 77),
    "id < 70": rows_where(lambda n: n < 70),
    "id IN (3, 7, 64, 179)": rows_where(lambda n: n in (3, 7, 64, 179)),
    "s IS NULL": rows_where(lambda n: n % 7 == 3),
    # Null is not less, and its negation is not true either.
    "NOT s < 'row-000090'": rows_where(lambda n: n % 7 != 3 and n >= 90),
    "id < 10 OR x > 88": rows_where(lambda n: n < 10 or n > 176),
}


def opened(root: Path, version: str, *sources: CandidateSource) -> lancecy.Dataset:
    """A table with deleted rows, and sources beside those every scan has."""
    write_table(str(root), fragments=3, rows=ROWS, deleted=DELETED, data_version=version)
    dataset = lancecy.dataset(root, session=lancecy.Session(threads=2))
    dataset.context.sources = (*sources, *SOURCES)
    return dataset


@pytest.mark.parametrize(
    "extra",
    [None, pytest.param(0, marks=pytest.mark.slow), 2],
    ids=["exact", "at most", "with false positives"],
)
@pytest.mark.parametrize(
    "version", ["2.1", *(pytest.param(v, marks=pytest.mark.slow) for v in VERSIONS if v != "2.1")]
)
def test_answers_are_those_of_a_scan_without_sources(tmp_path: Path, version: str, extra: int | None) -> None:
    source = SideTable(KNOWN, exact=extra is None, extra=extra or 0)
    dataset = opened(tmp_path / "t", version, source)
    texts = [*KNOWN, "id = 77 AND x > 100", "id < 70 AND _rowid > 4294967296", "id < 70 AND s IS NULL"]
    texts += ["x > 20 AND id IN (3, 7, 64, 179)", "NOT id = 77"]
    for text in texts:
        plain = dataset.to_table(filter=text, use_stats=False, with_row_id=True)
        assert_tables_equal(dataset.to_table(filter=text, with_row_id=True), plain)
        assert dataset.to_table(["x"], filter=text)["x"] == plain["x"]
        assert dataset.count_rows(text) == plain.num_rows
        for offset, limit in ((0, 1), (1, 3), (2, 100)):
            part = dataset.to_table(filter=text, offset=offset, limit=limit, with_row_id=True)
            assert_tables_equal(part, plain.slice(offset, limit))
        batches = list(dataset.to_batches(filter=text, with_row_id=True))
        assert pa.Table.from_batches(batches, plain.schema).equals(plain)
    assert source.asked


def counted(*sources: CandidateSource) -> tuple[CountingStore, lancecy.Dataset]:
    """A table of three fragments on a store that counts requests; nothing is open yet."""
    inner = MemoryStore(traits=StoreTraits(create_is_atomic=True, concurrency=16))
    store = CountingStore(inner, uri="sources://here/t")

    def open_counted(uri: str, options: object, **_: object) -> Store:
        return store

    register_store("sources", open_counted)
    rows = 40_000
    write_table(
        "sources://here/t",
        fragments=3,
        rows=rows,
        rows_per_page=rows,
        data_version="2.0",
        opener=lambda uri: inner,
    )
    dataset = lancecy.dataset("sources://here/t", session=lancecy.Session(threads=2))
    dataset.context.sources = (*SOURCES, *sources)
    store.clear()
    return store, dataset


@pytest.mark.parametrize("exact", [True, False])
def test_a_source_saves_bytes_and_leaves_files_closed(exact: bool) -> None:
    store, dataset = counted()
    wanted = dataset.to_table(["id", "x"], filter="id = 50007")
    whole, files = store.nbytes, {request.path for request in store.requests}
    assert wanted["id"].to_pylist() == [50007] and len(files) == 3

    source = SideTable({"id = 50007": {5: [], 7: [10_007], 9: []}}, exact, 0 if exact else 3)
    store, dataset = counted(source)
    assert_tables_equal(dataset.to_table(["id", "x"], filter="id = 50007"), wanted)
    # Hardly more than the end of one file.
    assert store.nbytes < whole / 15
    assert {request.path for request in store.requests} == {"data/part-7.lance"}


def test_what_is_proved_is_not_read() -> None:
    known = {"id < 1000": {5: range(1000), 7: [], 9: []}}
    store, dataset = counted(SideTable(known))
    # Rows that are named exactly are counted without opening a file.
    assert dataset.count_rows("id < 1000") == 1000
    assert not store.requests
    assert dataset.to_table(["x"], filter="id < 1000").num_rows == 1000
    proved = store.nbytes
    store, dataset = counted(SideTable(known, exact=False))
    assert dataset.to_table(["x"], filter="id < 1000").num_rows == 1000
    assert store.nbytes >= proved + 8 * 1000


def test_explain_names_sources_and_what_they_proved(tmp_path: Path) -> None:
    dataset = opened(tmp_path / "t", "0.1", SideTable(KNOWN))
    found = dataset.scanner(filter="id < 70 AND x > 2").explain()
    assert found.sources == ("side table", "statistics")
    assert "side table  68 of 177 rows left (exact, id < 70)" in str(found)
    assert [line.sources[0].rows for line in found.fragments] == [58, 10, 0]
    assert found.fragments[0].sources[0].proved == ("id < 70",)

    dataset.context.sources = (SideTable(KNOWN, exact=False, extra=1), *SOURCES)
    found = dataset.scanner(filter="id < 70").explain()
    assert found.sources == ("side table", "statistics")
    assert "(at most)" in str(found) and found.kept_rows == 68 + 1
    assert found.to_dict()["fragments"][2]["sources"][0]["kind"] == "at most"
    assert dataset.scanner(filter="id < 70", use_stats=False).explain().sources == ()


def test_a_source_that_knows_nothing_does_no_harm(tmp_path: Path, data_version: str) -> None:
    dataset = opened(tmp_path / "t", data_version)
    plain = dataset.to_table(filter="id < 70")
    told = dataset.scanner(filter="id < 70").explain()
    dataset.context.sources = (Saying(lambda _: Candidates()), *SOURCES)
    assert_tables_equal(dataset.to_table(filter="id < 70"), plain)
    again = dataset.scanner(filter="id < 70").explain()
    assert (again.kept_rows, again.kept_pages, again.sources) == (
        told.kept_rows,
        told.kept_pages,
        told.sources,
    )
    dataset.context.sources = ()
    for text in ("id < 70", "_rowid < 30", "_rowid < 30 AND id > 4", "_rowid < 30 OR id = 77"):
        assert_tables_equal(
            dataset.to_table(filter=text, with_row_id=True),
            dataset.to_table(filter=text, with_row_id=True, use_stats=False),
        )


def _missing(_: Question) -> Candidates:
    raise NotFoundError("the index is gone", kind="index", name="i", known=[])


def _broken(_: Question) -> Candidates:
    raise KeyError("bucket 3")


def _stale(question: Question) -> Candidates:
    return Candidates(RowSelection.all(question.num_rows + 1))


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (_missing, NotFoundError, "the index is gone"),
        (_broken, LanceError, "candidate source 'oracle' failed: KeyError"),
        (_stale, FormatError, "answers for 61 rows of fragment 5, which has 60"),
    ],
)
@pytest.mark.parametrize("reads_files", [True, False])
def test_a_source_that_fails_ends_the_scan(
    tmp_path: Path,
    answer: Callable[[Question], Candidates],
    kind: type[LanceError],
    text: str,
    reads_files: bool,
) -> None:
    dataset = opened(tmp_path / "t", "2.1", Saying(answer, reads_files=reads_files))
    with pytest.raises(kind, match=text) as caught:
        dataset.to_table(filter="id < 70")
    assert type(caught.value) is kind
    assert dataset.to_table().num_rows == 177


def test_sources_are_not_asked_in_vain(tmp_path: Path, data_version: str) -> None:
    first, second = SideTable(KNOWN), SideTable(KNOWN, name="second")
    dataset = opened(tmp_path / "t", data_version, first, second)
    assert dataset.to_table().num_rows == dataset.count_rows() == 177
    assert dataset.to_table(filter="id = 77", use_stats=False).num_rows == 1
    assert first.asked == second.asked == []
    assert dataset.to_table(filter="id = 77").num_rows == 1
    assert set(first.asked) == set(FRAGMENTS)
    # The first one left no row, or proved all there was.
    assert second.asked == []
