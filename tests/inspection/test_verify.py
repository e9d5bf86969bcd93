"""Verification: whole tables are found whole, damage is found where it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.inspection.verification import contradictions
from lancecy.progress import Step
from lancecy.stats import ByteBounds, ColumnStats, NumericBounds
from tests.helpers.golden import all_goldens, blob_goldens, golden, refused_goldens


@pytest.mark.slow
def test_golden_tables_of_every_release_are_whole() -> None:
    checked = 0
    for made in (*all_goldens(), *blob_goldens()):
        found = lancecy.dataset(made.path).verify()
        assert found, f"{made.name}: {found}"
        assert found.findings == (), made.name
        checked += found.checked_statistics
    assert checked > 1000


def test_what_cannot_be_read_is_not_called_damaged() -> None:
    for made in refused_goldens():
        found = lancecy.dataset(made.path).verify()
        assert not found, made.name
        assert {finding.severity for finding in found.findings} == {"unsupported"}, made.name


def _copy(name: str, folder: Path) -> Path:
    return golden(name).copy_to(folder)


def _data_file(table: Path) -> Path:
    return table / "data" / lancecy.dataset(table).get_fragments()[0].data_files()[0].path


def test_nulls_of_deleted_rows_are_no_damage(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": [1, 2], "u": [None, 5]}, tmp_path / "t", data_storage_version="2.0")
    ds.delete("id = 1")
    ds.alter_columns({"path": "u", "nullable": False})
    assert ds.verify().is_ok


def test_missing_file_is_found_and_the_rest_read(tmp_path: Path) -> None:
    table = _copy("14.0.2_v21_deleted", tmp_path)
    fragments = lancecy.dataset(table).get_fragments()
    (table / "data" / fragments[0].data_files()[0].path).unlink()
    found = lancecy.dataset(table).verify()
    (finding,) = found.findings
    assert (finding.kind, finding.severity) == ("file", "damaged")
    assert finding.place == f"fragment {fragments[0].fragment_id}"
    assert found.rows == sum(f.physical_rows for f in fragments[1:])


def test_missing_deletion_file_is_found(tmp_path: Path) -> None:
    table = _copy("14.0.2_v21_deleted", tmp_path)
    for path in (table / "_deletions").iterdir():
        path.unlink()
    found = lancecy.dataset(table).verify()
    assert not found
    assert "_deletions" in str(found)


def test_damaged_page_is_named_with_its_column(tmp_path: Path) -> None:
    table = _copy("14.0.2_v21_types", tmp_path)
    path = _data_file(table)
    column = next(c for c in lancecy.inspect(path).columns if c.name == "string" or c.type == "string")
    position, size = column.pages[0].buffers[-1]
    data = bytearray(path.read_bytes())
    data[position : position + size] = b"\xff" * size
    path.write_bytes(data)
    found = lancecy.dataset(table).verify()
    assert not found
    assert {finding.kind for finding in found.findings} <= {"column", "values"}
    assert any(f"column {column.name!r}" in finding.place for finding in found.findings)


def _overwrite(table: Path, column: str, at: int, data: bytes) -> None:
    """Write over bytes of the first buffer of a column's first page."""
    path = _data_file(table)
    position, _ = next(c for c in lancecy.inspect(path).columns if c.name == column).pages[0].buffers[0]
    content = bytearray(path.read_bytes())
    content[position + at : position + at + len(data)] = data
    path.write_bytes(content)


def test_text_that_is_not_utf8_is_found(tmp_path: Path) -> None:
    table = _copy("14.0.2_migrated", tmp_path)
    fragment = lancecy.dataset(table).get_fragments()[0]
    word = max((w for w in fragment.to_table(["word"])["word"].to_pylist() if w), key=len).encode()
    path = _data_file(table)
    path.write_bytes(path.read_bytes().replace(word, b"\xff" * len(word)))
    found = lancecy.dataset(table).verify()
    assert found.findings
    for finding in found.findings:
        assert "column 'word'" in finding.place
        assert "UTF" in finding.problem


def test_values_outside_their_statistics_are_found(tmp_path: Path) -> None:
    table = _copy("14.0.2_deleted", tmp_path)
    _overwrite(table, "id", 0, (2**31 - 1).to_bytes(4, "little"))
    (finding,) = lancecy.dataset(table).verify().findings
    assert finding.kind == "statistics"
    assert finding.problem == "a value is above the maximum its page states"
    assert "page 0 of 'id'" in finding.place


def test_progress_is_told_to_the_end_and_may_stop_the_work() -> None:
    ds, steps = lancecy.dataset(golden("14.0.2_v22_types").path), list[Step]()
    ds.verify(progress=steps.append)
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[-1].fraction == 1.0
    assert {step.what for step in steps} == {"verify"}

    def stop(step: Step, /) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.verify(progress=stop)


def test_columns_and_fragments_narrow_it() -> None:
    ds = lancecy.dataset(golden("14.0.2_v21_deleted").path)
    first = ds.get_fragments()[0]
    found = ds.verify(columns=["id"], fragments=[first])
    assert (found.fragments, found.rows) == (1, first.physical_rows)
    assert found.pages < ds.verify(fragments=[first]).pages
    with pytest.raises(lancecy.errors.ColumnNotFoundError):
        ds.verify(columns=["nothing"])
    with pytest.raises(lancecy.errors.NotFoundError):
        ds.verify(fragments=[99])


def test_report_speaks_text_html_and_json(tmp_path: Path) -> None:
    table = _copy("14.0.2_v21_deleted", tmp_path)
    _data_file(table).write_bytes(b"<b>")
    found = lancecy.dataset(table).verify()
    assert "1 damaged" in str(found)
    assert "damaged: fragment" in str(found)
    assert "<table>" in found._repr_html_()
    assert found.to_dict()["ok"] is False
    assert found.to_dict()["findings"][0]["severity"] == "damaged"


def _bytes_bounds(lows: list[bytes | None], highs: list[bytes | None]) -> ByteBounds:
    def slab(values: list[bytes | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sizes = np.cumsum([0, *(len(v or b"") for v in values)])
        data = np.frombuffer(b"".join(v or b"" for v in values), np.uint8)
        return sizes, data, np.array([v is not None for v in values])

    return ByteBounds(*slab(lows), *slab(highs))


NO = np.zeros(2, np.bool_)
YES = ~NO
PAGES = np.array([0, 2, 4])


@pytest.mark.parametrize(
    ("values", "stats", "expected"),
    [
        (pa.array([1, 2, 3, 4]), ColumnStats(NumericBounds(np.array([1, 3]), np.array([2, 4]), YES), YES, NO), []),
        (pa.array([0, 2, 3, 4]), ColumnStats(NumericBounds(np.array([1, 3]), np.array([2, 4]), YES), YES, NO), [0]),
        (pa.array([1, 2, 3, 9]), ColumnStats(NumericBounds(np.array([1, 3]), np.array([2, 4]), YES), YES, NO), [1]),
        (pa.array([0, 9, 0, 9]), ColumnStats(NumericBounds(np.array([1, 3]), np.array([2, 4]), NO), NO, NO), []),
        (pa.array([1, None, 3, 4]), ColumnStats(None, YES, NO), [0]),
        (pa.array([None, None, 3, None]), ColumnStats(None, NO, YES), [1]),
        (pa.array([1.0, np.nan, 3.0, 4.0]), ColumnStats(NumericBounds(np.array([1.0, 3.0]), np.array([1.0, 4.0]), YES), YES, NO, True), []),
        (pa.array([True, False, False, False]), ColumnStats(NumericBounds(np.array([0, 0]), np.array([0, 0]), YES), YES, NO), [0]),
        (pa.array([5, 6, 7, 8], pa.date32()), ColumnStats(NumericBounds(np.array([5, 7]), np.array([6, 7]), YES), YES, NO), [1]),
        (pa.array(["a", "b", "c", "d"]), ColumnStats(_bytes_bounds([b"a", b"c"], [b"b", None]), YES, NO), []),
        (pa.array(["a", "b", "b", "d"]), ColumnStats(_bytes_bounds([b"a", b"c"], [b"b", None]), YES, NO), [1]),
        (pa.array(["a", "bb", "c", "d"]), ColumnStats(_bytes_bounds([b"a", b"c"], [b"b", None]), YES, NO), [0]),
    ],
)  # fmt: skip
def test_statistics_are_held_against_values(
    values: pa.Array, stats: ColumnStats, expected: list[int]
) -> None:
    assert [page for page, _ in contradictions(values, PAGES, stats)] == expected


@pytest.mark.parametrize("digits", [38, 76])
def test_wide_decimals_keep_all_their_digits(digits: int) -> None:
    big = 10 ** (digits - 1) + 7
    kind = pa.decimal128(38, 0) if digits == 38 else pa.decimal256(76, 0)
    values = pa.array([str(big)] * 4).cast(kind)
    bounds = NumericBounds(np.array([big, big], object), np.array([big, big - 1], object), YES)
    assert [page for page, _ in contradictions(values, PAGES, ColumnStats(bounds, YES, NO))] == [1]
