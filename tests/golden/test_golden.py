"""Tables written by releases from 0.2.9 to 14.0.2 are read as their writers meant them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.errors import UnsupportedError
from tests.helpers.compare import assert_schemas_equal, assert_tables_equal
from tests.helpers.folded import folded
from tests.helpers.golden import (
    GOLDEN_DIR,
    Golden,
    GoldenVersion,
    all_goldens,
    all_versions,
    blob_goldens,
    golden,
    refused_goldens,
)

each_version = pytest.mark.parametrize("case", all_versions(), ids=str)
each_table = pytest.mark.parametrize("table", all_goldens(), ids=lambda table: table.name)


def opened(case: GoldenVersion) -> lancecy.Dataset:
    return lancecy.dataset(case.golden.path, version=case.version)


def assert_reads_as(actual: pa.Table, expected: pa.Table, case: GoldenVersion, what: str = "") -> None:
    assert_tables_equal(actual, expected, nullability=case.golden.nullability_stored, hint=f"{case} {what}")


# --------------------------------------------------------------------------- whole tables


@each_version
def test_full_scan_of_a_version(case: GoldenVersion) -> None:
    dataset = opened(case)

    assert dataset.version == case.version
    assert_reads_as(dataset.to_table(), case.expected, case)


@folded("case", all_versions())
def test_schema_of_a_version_needs_no_data(case: GoldenVersion) -> None:
    assert_schemas_equal(
        opened(case).schema, case.expected.schema, nullability=case.golden.nullability_stored
    )


@folded("case", all_versions())
def test_count_rows_of_a_version(case: GoldenVersion) -> None:
    dataset = opened(case)

    assert dataset.count_rows() == case.expected.num_rows
    assert len(dataset) == case.expected.num_rows


@folded("table", all_goldens(), ids=lambda table: table.name)
def test_latest_version_is_found(table: Golden) -> None:
    dataset, latest = lancecy.dataset(table.path), opened(GoldenVersion(table, table.versions[-1]))

    assert dataset.version == latest.version
    # What is read of it is what is read of that version.
    assert dataset.context.snapshot.manifest == latest.context.snapshot.manifest


@folded("table", all_goldens(), ids=lambda table: table.name)
def test_versions_are_listed_from_the_first(table: Golden) -> None:
    listed = [entry["version"] for entry in lancecy.dataset(table.path).versions()]

    assert listed == list(range(1, table.versions[-1] + 1))


@pytest.mark.slow
@each_table
def test_streamed_batches_are_the_table(table: Golden) -> None:
    dataset = lancecy.dataset(table.path)
    batches = list(dataset.to_batches(batch_size=7))

    assert all(batch.num_rows <= 7 for batch in batches)
    joined = pa.Table.from_batches(batches, dataset.schema)
    assert_reads_as(joined, table.expected(), GoldenVersion(table, dataset.version))


@pytest.mark.slow
@each_table
def test_untrusted_read_is_the_same(table: Golden) -> None:
    """No memory maps then: every byte goes through another store path."""
    dataset = lancecy.dataset(table.path, untrusted=True)

    assert_reads_as(dataset.to_table(), table.expected(), GoldenVersion(table, dataset.version))


# --------------------------------------------------------------------------- parts of tables


@pytest.mark.slow
@each_version
def test_each_column_alone(case: GoldenVersion) -> None:
    dataset, expected = opened(case), case.expected

    for name in expected.column_names:
        assert_reads_as(dataset.to_table(columns=[name]), expected.select([name]), case)


@pytest.mark.slow
@each_version
def test_columns_in_another_order(case: GoldenVersion) -> None:
    names = case.expected.column_names[::-2]

    assert_reads_as(opened(case).to_table(columns=names), case.expected.select(names), case)


@pytest.mark.slow
@each_version
def test_take_in_random_order_with_repeats(case: GoldenVersion) -> None:
    dataset, expected = opened(case), case.expected
    rows = expected.num_rows
    picked = (
        np.random.default_rng(case.version).integers(0, rows, min(rows * 2, 60))
        if rows
        else np.empty(0, np.int64)
    )

    assert_reads_as(dataset.take(picked), expected.take(pa.array(picked)), case)


@pytest.mark.slow
@each_version
def test_limit_and_offset_over_every_boundary(case: GoldenVersion) -> None:
    dataset, expected = opened(case), case.expected

    for offset in range(0, expected.num_rows + 5, max(1, expected.num_rows // 4)):
        got = dataset.to_table(limit=11, offset=offset)
        assert_reads_as(got, expected.slice(offset, 11), case)


@pytest.mark.slow
@each_version
def test_fragments_one_by_one(case: GoldenVersion) -> None:
    dataset, expected = opened(case), case.expected
    parts = [fragment.to_table() for fragment in dataset.get_fragments()]

    whole = pa.concat_tables([dataset.schema.empty_table(), *parts])
    assert_reads_as(whole, expected, case)
    assert sum(fragment.count_rows() for fragment in dataset.get_fragments()) == expected.num_rows


# --------------------------------------------------------------------------- filters

FILTERS: dict[str, Callable[[pa.Table], pa.ChunkedArray]] = {
    "id < 17": lambda t: pc.less(t["id"], 17),
    "id >= 40": lambda t: pc.greater_equal(t["id"], 40),
    "id BETWEEN 12 AND 108": lambda t: pc.and_(pc.greater_equal(t["id"], 12), pc.less_equal(t["id"], 108)),
    "id % 3 = 1": lambda t: pa.chunked_array(
        [[math.fmod(value, 3) == 1 for value in t["id"].to_pylist()]], pa.bool_()
    ),
    "id IN (4, 11, 205, 116)": lambda t: pc.is_in(
        t["id"], value_set=pa.array([4, 11, 205, 116], t["id"].type)
    ),
    "NOT (id = 12)": lambda t: pc.invert(pc.equal(t["id"], 12)),
    "word = ''": lambda t: pc.equal(t["word"], ""),
    "word IS NULL": lambda t: pc.is_null(t["word"]),
    "word IS NOT NULL": lambda t: pc.is_valid(t["word"]),
    "word >= 'c' AND word < 'x'": lambda t: pc.and_kleene(
        pc.greater_equal(t["word"], "c"), pc.less(t["word"], "x")
    ),
    "word LIKE 'w0%'": lambda t: pc.starts_with(t["word"], "w0"),
    "word_required = ''": lambda t: pc.equal(t["word_required"], ""),
    "large > 'long'": lambda t: pc.greater(t["large"], "long"),
    "x > 1.5": lambda t: pc.greater(t["x"], 1.5),
    "x <> 1.5": lambda t: pc.not_equal(t["x"], 1.5),
    "NOT (x < 1.5)": lambda t: pc.invert(pc.less(t["x"], 1.5)),
    "flag": lambda t: t["flag"],
    "NOT flag OR id < 5": lambda t: pc.or_kleene(pc.invert(t["flag"]), pc.less(t["id"], 5)),
    "point.a > 0": lambda t: pc.greater(pc.struct_field(t["point"], "a"), 0),
    "point.b IS NULL": lambda t: pc.is_null(pc.struct_field(t["point"], "b")),
    "colour = 'green'": lambda t: pc.equal(t["colour"].cast(pa.string()), "green"),
    "day > DATE '2000-01-01'": lambda t: pc.greater(t["day"], pa.scalar(10957, pa.date32())),
    "int8 < 0 AND string IS NOT NULL": lambda t: pc.and_(pc.less(t["int8"], 0), pc.is_valid(t["string"])),
    "uint64 > 9223372036854775807": lambda t: pc.greater(t["uint64"], pa.scalar(2**63 - 1, pa.uint64())),
    "float32 = 0.0": lambda t: pc.equal(t["float32"], pa.scalar(0.0, pa.float32())),
    "`timestamp_us` >= TIMESTAMP '2000-01-01 00:00:00'": lambda t: pc.greater_equal(
        t["timestamp_us"], pa.scalar(946_684_800_000_000, pa.timestamp("us"))
    ),
    "number IS NULL": lambda t: pc.is_null(t["number"]),
    "number > 0 OR id < 7": lambda t: pc.or_kleene(pc.greater(t["number"], 0), pc.less(t["id"], 7)),
    "pair IS NULL": lambda t: pc.is_null(t["pair"]),
    "pair.a IS NOT NULL": lambda t: pc.is_valid(pc.struct_field(t["pair"], "a")),
    "term IS NOT NULL AND NOT (term = '')": lambda t: pc.and_kleene(
        pc.is_valid(t["term"]), pc.invert(pc.equal(t["term"], ""))
    ),
    "even AND id < 700": lambda t: pc.and_(t["even"], pc.less(t["id"], 700)),
}


def _applies(text: str, schema: pa.Schema) -> bool:
    """Whether the table has the columns of a filter, nested ones included."""
    for word in text.replace("(", " ").replace(")", " ").replace("`", "").split():
        top, _, child = word.partition(".")
        if not word[0].isalpha() or not word.islower():
            continue
        if top not in schema.names or (child and child not in [f.name for f in schema.field(top).type]):
            return False
    return True


def _filters_of(case: GoldenVersion) -> list[str]:
    return [text for text in FILTERS if _applies(text, case.expected.schema)]


# The latest version of every table, and all of those whose versions differ in columns.
FILTERED = [
    case
    for case in all_versions()
    if case.version == case.golden.versions[-1] or case.golden.what in {"merged", "evolved", "missing"}
]


@pytest.mark.slow
@pytest.mark.parametrize("case", FILTERED, ids=str)
def test_filters_with_statistics_and_without(case: GoldenVersion) -> None:
    dataset, expected = opened(case), case.expected
    # The widest tables have 80 columns; a few of them and those of the filter tell as much.
    names = expected.column_names[:: max(1, expected.num_columns // 10)]

    for text in _filters_of(case):
        chosen = expected.filter(FILTERS[text](expected)).select(names)
        for use_stats in (True, False):
            got = dataset.to_table(columns=names, filter=text, use_stats=use_stats)
            assert_reads_as(got, chosen, case, f"{text}, use_stats={use_stats}")
        assert dataset.count_rows(filter=text) == chosen.num_rows, text


@pytest.mark.parametrize("text", FILTERS)
def test_every_filter_meets_a_table_where_it_tells_rows_apart(text: str) -> None:
    """Guards the table above: a filter that selects all or nothing everywhere proves little."""
    tables = [c.expected for c in FILTERED if _applies(text, c.expected.schema)]
    counts = [(t.filter(FILTERS[text](t)).num_rows, t.num_rows) for t in tables if t.num_rows]

    assert any(0 < kept < rows for kept, rows in counts), counts


# --------------------------------------------------------------------------- what single tables are there for


@pytest.mark.parametrize("release", ["0.4.21", "0.7.5"])
def test_page_table_of_added_columns_may_start_at_field_zero(release: str) -> None:
    """Files of columns merged in before 0.8.0, which no later pylance reads (file sheet 0.1, section 3)."""
    table = golden(f"{release}_merged")
    dataset = lancecy.dataset(table.path, version=2)
    added = ["x", "flag", "tags", "vector"]

    assert all(len(fragment.data_files()) == 2 for fragment in dataset.get_fragments())
    assert_tables_equal(dataset.to_table(columns=added), table.expected(2).select(added))


@pytest.mark.parametrize(
    ("name", "suffix"), [("0.8.21_bitmap", ".bin"), ("14.0.2_bitmap", ".bin"), ("14.0.2_deleted", ".arrow")]
)
def test_deletion_files_have_the_form_they_are_there_for(name: str, suffix: str) -> None:
    files = list((golden(name).path / "_deletions").iterdir())

    assert {file.suffix for file in files} == {suffix}


@pytest.mark.parametrize("name", ["0.39.0_rowids", "1.0.4_rowids", "14.0.2_rowids"])
def test_stable_row_ids_survive_what_moves_rows(name: str) -> None:
    """Ids of version 2 are row numbers, so a row keeps its number wherever update, merge and compaction put it."""
    path = golden(name).path
    before = lancecy.dataset(path, version=2).to_table(columns=["id"], with_row_id=True)
    after = lancecy.dataset(path).to_table(columns=["id"], with_row_id=True)
    first = dict(zip(before["id"].to_pylist(), before["_rowid"].to_pylist(), strict=True))
    last = dict(zip(after["id"].to_pylist(), after["_rowid"].to_pylist(), strict=True))

    assert list(first.values()) == list(range(50))
    assert len(set(last.values())) == len(last)
    # 108 was deleted in version 3 and inserted anew in version 5: another row.
    kept = first.keys() & last.keys() - {108}
    assert len(kept) > 40
    assert {key: last[key] for key in kept} == {key: first[key] for key in kept}
    assert last[108] >= 50


@pytest.mark.parametrize("name", ["0.8.19_strings", "0.8.21_strings", "0.39.0_strings", "14.0.2_strings"])
def test_metadata_of_schema_and_fields_is_kept(name: str) -> None:
    schema = lancecy.dataset(golden(name).path).schema

    assert schema.metadata == {b"made for": b"tests"}
    assert schema.field("id").metadata == {b"unit": b"rows"}


@pytest.mark.parametrize("name", ["0.8.19_strings", "0.8.21_strings", "0.39.0_strings", "14.0.2_strings"])
def test_statistics_prune_pages_of_sorted_words(name: str) -> None:
    """Also where 0.8.19 put them under another number of the file's metadata."""
    dataset = lancecy.dataset(golden(name).path)
    everything = dataset.scanner().explain()
    some = dataset.scanner(filter="word = 'w003'").explain()

    assert some.bytes_to_read < everything.bytes_to_read
    assert dataset.count_rows(filter="word = 'w003'") == 1


@pytest.mark.parametrize("table", refused_goldens(), ids=lambda table: table.name)
def test_tables_of_pre_releases_are_refused_as_such(table: Golden) -> None:
    """Nobody but their writer reads them, and not always it."""
    dataset = lancecy.dataset(table.path)

    assert dataset.count_rows() == table.expected().num_rows
    why = table.note["refused"].partition(":")[0]
    with pytest.raises(UnsupportedError, match=why.removeprefix("a ")):
        dataset.to_table()


def test_every_table_has_its_note_and_answers() -> None:
    # Those of lancecy itself are read by test_own.
    theirs = [path for path in GOLDEN_DIR.glob("*_*") if not path.name.startswith("lancecy_")]
    tables = {path.name.removesuffix(".lance") for path in theirs if path.suffix == ".lance"}
    files = {path.name for path in theirs if path.suffix == ".arrow"}
    every = [*all_goldens(), *blob_goldens(), *refused_goldens()]
    named = {entry["expected"] for table in every for entry in table.note["versions"].values()}

    assert tables == {table.name for table in every}
    assert files == named
    assert len({table.release for table in all_goldens()}) >= 14
