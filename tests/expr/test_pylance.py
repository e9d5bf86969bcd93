"""The same filters asked of pylance over the same data. Where the answers differ, the reason is stated here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lancecy.expr import bind, evaluate
from tests.expr.corpus import filters
from tests.expr.tables import every_kind
from tests.expr.test_answers import parsed
from tests.helpers.folded import folded

lance: Any = pytest.importorskip("lance")
pytestmark = pytest.mark.interop

FILTERS = filters()
NAN_ROW = 3
# pylance rounds a number beyond float's range to infinity and finds the infinities with it.
BEYOND_FLOAT = ("1e300", "3.5e38", "1e400")
# pylance cuts the fraction of a literal to the column's unit, and drops a literal's zone offset.
CUT = ("ts_s", "15.5'")
OFFSET = "15Z'"
# Sums of small integers wrap around in pylance.
WRAPPING = {"i8 + i8 > 200", "u8 - u32 < 0", "-i8 > 100"}


@pytest.fixture(scope="module", params=["legacy", "stable"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    version = str(request.param)
    table = every_kind(storable=True)
    if version == "legacy":
        # The old format keeps no nulls but those of text, binary and struct-less lists: it gets none.
        table = table.drop_columns(["l", "st", "dict"]).slice(0, 4)
    path: Path = tmp_path_factory.mktemp("filters") / f"{version}.lance"
    return lance.write_dataset(table, str(path), data_storage_version=version)


def known_difference(text: str) -> bool:
    return (
        (text.startswith("f") and any(number in text for number in BEYOND_FLOAT))
        or all(part in text for part in CUT)
        or OFFSET in text
        or text in WRAPPING
    )


@folded("group", FILTERS)
def test_rows_are_those_pylance_finds(dataset: Any, group: str) -> None:
    data = dataset.to_table()
    compared = 0
    for text in FILTERS[group]:
        if known_difference(text):
            continue
        try:
            theirs = _theirs(text, dataset)
        except (ValueError, OSError):
            # What pylance cannot do (strings for dates, fractions for integers, CASE, ...) has no answer.
            continue
        bound = bind(parsed(text), data.schema, boolean=True)
        ours = data.filter(evaluate(bound, data))["id"].to_pylist()
        if {"f32", "f64"} & set(bound.columns):
            # pylance ranks NaN above all numbers, and equal to itself.
            ours, theirs = ([row for row in rows if row != NAN_ROW] for rows in (ours, theirs))
        assert ours == theirs, text
        compared += 1
    if group in dataset.schema.names and group not in {"t32", "t64", "du_s", "du_us", "du_ns", "d", "d64"}:
        assert compared > len(FILTERS[group]) // 12, compared


def test_nan_satisfies_only_inequality_and_negations_here_and_is_the_largest_number_there(
    dataset: Any,
) -> None:
    data = dataset.to_table()
    ours = {text: _ours(text, data) for text in ("f64 > 1", "f64 = f64", "f64 != 1", "NOT (f64 < 1)")}
    theirs = {text: _theirs(text, dataset) for text in ours}
    assert [NAN_ROW in rows for rows in ours.values()] == [False, False, True, True]
    assert [NAN_ROW in rows for rows in theirs.values()] == [True, True, True, True]


def _theirs(text: str, dataset: Any) -> list[int]:
    # Without statistics: its pruning misses rows (empty strings in nullable columns, NaN).
    table = dataset.scanner(columns=["id"], filter=text, use_stats=False).to_table()
    rows: list[int] = table["id"].to_pylist()
    return rows


def _ours(text: str, data: Any) -> list[int]:
    rows: list[int] = data.filter(evaluate(bind(parsed(text), data.schema), data))["id"].to_pylist()
    return rows


@folded(
    "text",
    [
        "i8 + i8", "i8 + i32", "i32 + 1", "i32 * 2", "i32 / 2", "i8 % 2", "f32 + 1", "f32 + 0.1", "f32 + i64",
        "f32 + f64", "u8 + i8", "i64 / 2", "f64 / 2", "i32 / f32", "dec + 1", "dec * dec", "-i32", "d - d",
        "d - date '2020-01-01'", "ts_us - ts_us", "i32 > 2", "s || 'x'", "CAST(i32 AS double)", "CAST(i32 AS string)",
        "length(s)", "octet_length(s)", "date_part('day', d)", "date_trunc('day', ts_us)", "sqrt(f32)", "round(f64)",
        "signum(f64)", "abs(i32)", "1", "1.5", "'a'", "TRUE", "strpos(s, 'b')", "starts_with(s, 'a')",
    ],
)  # fmt: skip
def test_computed_columns_have_the_types_and_values_of_pylance(dataset: Any, text: str) -> None:
    data = dataset.to_table().slice(0, 2)
    bound = bind(parsed(text), data.schema)
    theirs = dataset.scanner(columns={"y": text, "id": "id"}, limit=2).to_table()["y"]
    assert bound.type == theirs.type
    assert evaluate(bound, data).to_pylist() == theirs.to_pylist()
