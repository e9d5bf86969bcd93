"""Generated filters: over tables in memory, over datasets of every version, over remote stores, and by ``delete``.

Each filter follows from the seed of its table and its number. ``make hunt-filters`` runs many more of them:
LANCECY_FILTER_EXAMPLES of each test, over LANCECY_FILTER_TABLES tables from the seed LANCECY_FILTER_SEED on.
"""

from __future__ import annotations

import operator
import os
import random
import shutil
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.errors import ExpressionError
from lancecy.expr import bind, describe, evaluate, parse
from lancecy.expr.nodes import Call, Column, Expr, Literal, literal_from_scalar, negate
from tests.expr.generate import Generator, array, hostile_table
from tests.expr.model import Judge, Unjudged, rows_of
from tests.helpers.s3 import S3Server

EXAMPLES = int(os.environ.get("LANCECY_FILTER_EXAMPLES", "25"))
TABLES = int(os.environ.get("LANCECY_FILTER_TABLES", "1"))
SEED = int(os.environ.get("LANCECY_FILTER_SEED", "0"))
SEEDS = range(SEED, SEED + TABLES)
VERSIONS = ("0.1", "2.0", "2.1", "2.2")
ROWS = 60
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_PER_FILE = 25
_PER_PAGE = 4


def generated(seed: int, number: int, names: list[str]) -> Expr:
    """Filter ``number`` over the table with a seed."""
    return Generator(random.Random(f"{seed}/{number}"), set(names)).condition()


@dataclass(frozen=True)
class Case:
    """A filter with a name for messages, the ids of the rows it selects, and whether it may fail."""

    where: str
    expr: Expr
    ids: list[int]
    may_fail: bool


@dataclass(frozen=True)
class Verdict:
    """What the model says of a filter: the answer in every row, and whether evaluating it may or must fail."""

    answers: list[bool | None]
    may_fail: bool
    must_fail: bool


def judged(expr: Expr, rows: list[dict[str, Any]], schema: pa.Schema) -> Verdict | None:
    """The verdict of the model, None if it has none."""
    judge = Judge(schema)
    try:
        answers = judge.answers(expr, rows)
    except Unjudged:
        return None
    return Verdict(answers, judge.may_fail, judge.must_fail)


@pytest.mark.parametrize("seed", SEEDS)
def test_filters_mean_what_exact_arithmetic_says(seed: int) -> None:
    table = hostile_table(seed, ROWS)
    rows = rows_of(table)
    pieces = pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])
    outcomes: Counter[str] = Counter()
    for number in range(EXAMPLES * 4):
        expr = generated(seed, number, table.column_names)
        verdict = judged(expr, rows, table.schema)
        if verdict is None:
            outcomes["unjudged"] += 1
            continue
        where = f"filter {number} over table {seed}: {describe(expr)}"
        try:
            found = evaluate(
                bind(expr, table.schema, boolean=True), rng_choice(number, table, pieces)
            ).to_pylist()
        except ExpressionError as error:
            if not verdict.may_fail:
                raise AssertionError(where) from error
            outcomes["failed"] += 1
            continue
        assert not verdict.must_fail, where
        assert found == verdict.answers, where
        outcomes["same"] += 1
    # A model that judges nothing, or filters that always fail, would pass all else.
    assert outcomes["same"] > EXAMPLES * 2, outcomes


def rng_choice(number: int, *choices: Any) -> Any:
    """One of several, by number."""
    return choices[number % len(choices)]


@pytest.mark.parametrize("seed", SEEDS)
def test_text_of_a_filter_means_the_same(seed: int) -> None:
    """Filters that can be written as SQL are, and the text is judged as it reads."""
    table = hostile_table(seed, 20)
    rows, compared = rows_of(table), 0
    for number in range(EXAMPLES):
        text = describe(generated(seed, number, table.column_names))
        try:
            expr = parse(text)
        except ExpressionError:
            # Constants of types that SQL has no words for.
            continue
        assert expr is not None
        verdict = judged(expr, rows, table.schema)
        if verdict is None or verdict.may_fail:
            continue
        found = evaluate(bind(expr, table.schema, boolean=True), table).to_pylist()
        assert found == verdict.answers, f"filter {number} over table {seed}: {text}"
        compared += 1
    assert compared > EXAMPLES // 8


def as_scalar(literal: Literal) -> pa.Scalar:
    """The constant as pyarrow makes one, with a type of its own."""
    value: Any = literal.value
    kind = literal.type
    if kind is not None and pa.types.is_temporal(kind):
        return array(kind, [value])[0]
    if kind is not None and pa.types.is_float16(kind):
        value = np.float16(value)
    if isinstance(value, int) and not isinstance(value, bool) and kind is None and value >= 2**63:
        kind = pa.uint64()
    return pa.scalar(value, kind)


def as_arrow(expr: Expr) -> tuple[pc.Expression, Expr]:
    """A comparison of a column with a constant, or its negation, for pyarrow; and the same with a typed constant."""
    assert isinstance(expr, Call)
    if expr.op == "not":
        inner, typed = as_arrow(expr.args[0])
        return ~inner, negate(typed)
    column, literal = expr.args
    assert isinstance(column, Column) and isinstance(literal, Literal)
    scalar = as_scalar(literal)
    return OPERATORS[expr.op](pc.field(*column.path), scalar), Call(
        expr.op, (column, literal_from_scalar(scalar))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_expressions_of_pyarrow_compare_exactly(seed: int) -> None:
    table = hostile_table(seed, ROWS)
    rows, compared = rows_of(table), 0
    for number in range(EXAMPLES * 2):
        rng = random.Random(f"arrow {seed}/{number}")
        maker = Generator(rng, set(table.column_names))
        try:
            arrow, typed = as_arrow(
                maker.compared(rng.choice(["number", "number", "bytes", "instant", "span"]))
            )
        except (OverflowError, pa.ArrowInvalid):
            # A number that Arrow has no type for.
            continue
        verdict = judged(typed, rows, table.schema)
        assert verdict is not None
        expr = parse(arrow)
        assert expr is not None
        found = evaluate(bind(expr, table.schema, boolean=True), table).to_pylist()
        assert found == verdict.answers, f"{number} over table {seed}: {arrow}"
        compared += 1
    assert compared > EXAMPLES


def written(seed: int, version: str, uri: str, **options: Any) -> lancecy.Dataset:
    """The table as a dataset of several files and many pages, some rows deleted."""
    table = hostile_table(seed, ROWS, version)
    made = lancecy.write_dataset(
        table,
        uri,
        data_storage_version=version,
        max_rows_per_file=_PER_FILE,
        max_rows_per_group=_PER_PAGE,
        **options,
    )
    made.delete("id % 11 = 5 OR id = 0")
    return lancecy.dataset(uri, **options)


class Reading:
    """A dataset and its rows as they read without a filter."""

    def __init__(self, ds: lancecy.Dataset, seed: int) -> None:
        self.ds, self.seed = ds, seed
        whole = ds.to_table()
        self.schema, self.rows = whole.schema, rows_of(whole)
        self.ids = [row["id"] for row in self.rows]

    def filters(self, count: int, first: int = 0) -> list[Case]:
        """Filters that the model has a verdict on."""
        found = []
        for number in range(first, first + count):
            expr = generated(self.seed, number, self.schema.names)
            verdict = judged(expr, self.rows, self.schema)
            if verdict is not None:
                ids = [n for n, answer in zip(self.ids, verdict.answers) if answer is True]
                where = f"filter {number} over table {self.seed}: {describe(expr)}"
                found.append(Case(where, expr, ids, verdict.may_fail))
        return found

    def check(self, number: int, case: Case) -> None:
        """One filter by one of the ways to ask for it, page statistics used and not."""
        try:
            if number % 5 == 4:
                found = self.ds.count_rows(case.expr)
                assert case.may_fail or found == len(case.ids), case.where
                return
            columns = ["id"] if number % 3 else None
            table = self.ds.to_table(columns, case.expr, use_stats=number % 2 == 0)
        except ExpressionError as error:
            if not case.may_fail:
                raise AssertionError(case.where) from error
            return
        # Rows that fail are not met where statistics leave their page unread.
        assert case.may_fail or table["id"].to_pylist() == case.ids, case.where


@pytest.mark.parametrize(
    "version", ["2.1", *(pytest.param(v, marks=pytest.mark.slow) for v in VERSIONS if v != "2.1")]
)
@pytest.mark.parametrize("seed", SEEDS)
def test_datasets_give_the_rows_that_are_selected(seed: int, version: str, tmp_path: Path) -> None:
    reading = Reading(written(seed, version, str(tmp_path / "t.lance")), seed)
    assert len(reading.ids) < ROWS
    for number, case in enumerate(reading.filters(EXAMPLES)):
        reading.check(number, case)


@pytest.mark.parametrize("seed", SEEDS)
def test_statistics_leave_pages_unread_and_lose_no_row(seed: int, tmp_path: Path) -> None:
    """Comparisons of one column, most of which statistics decide."""
    reading = Reading(written(seed, "0.1", str(tmp_path / "t.lance")), seed)
    skipped = 0
    for number in range(EXAMPLES):
        rng = random.Random(f"{seed}/{number}")
        maker = Generator(rng, set(reading.schema.names))
        family = rng.choice(["number", "number", "text", "bytes", "instant", "zoned", "time", "span"])
        expr = maker.simple(family)
        verdict = judged(expr, reading.rows, reading.schema)
        if verdict is None:
            continue
        assert not verdict.may_fail
        ids = [n for n, answer in zip(reading.ids, verdict.answers) if answer is True]
        scanner = reading.ds.scanner(["id"], expr)
        explained = scanner.explain()
        skipped += explained.pages - explained.kept_pages
        assert scanner.to_table()["id"].to_pylist() == ids, f"{number} over table {seed}: {describe(expr)}"
    # Statistics that decide nothing would pass all else.
    assert skipped > EXAMPLES // 4


@pytest.mark.parametrize("seed", SEEDS)
def test_delete_removes_the_rows_that_are_selected(seed: int, tmp_path: Path) -> None:
    version = VERSIONS[seed % 4]
    reading = Reading(written(seed, version, str(tmp_path / "t.lance")), seed)
    for case in reading.filters(max(4, EXAMPLES // 20), first=10_000):
        copy = tmp_path / "copy.lance"
        shutil.copytree(tmp_path / "t.lance", copy)
        ds = lancecy.dataset(copy)
        try:
            deleted = ds.delete(case.expr)["num_deleted_rows"]
        except ExpressionError as error:
            if not case.may_fail:
                raise AssertionError(case.where) from error
        else:
            left = lancecy.dataset(copy).to_table(["id"])["id"].to_pylist()
            assert len(left) == len(reading.ids) - deleted
            assert case.may_fail or left == [n for n in reading.ids if n not in set(case.ids)], case.where
        shutil.rmtree(copy)


@pytest.mark.parametrize("seed", SEEDS)
def test_dask_takes_the_same_rows(seed: int, tmp_path: Path) -> None:
    reading = Reading(written(seed, VERSIONS[(seed + 2) % 4], str(tmp_path / "t.lance")), seed)
    for case in reading.filters(max(3, EXAMPLES // 30), first=20_000):
        if not case.may_fail:
            frame = lancecy.scan(reading.ds, filter=case.expr, columns=["id"], blocksize=None)
            assert frame.compute(scheduler="sync")["id"].tolist() == case.ids, case.where


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_tables_in_memory_give_the_same_rows(seed: int) -> None:
    for version in VERSIONS:
        reading = Reading(written(seed, version, f"memory://filters-{uuid.uuid4()}.lance"), seed)
        for number, case in enumerate(reading.filters(max(4, EXAMPLES // 10), first=30_000)):
            reading.check(number, case)


@pytest.mark.s3
def test_remote_tables_give_the_same_rows(s3_server: S3Server) -> None:
    bucket = s3_server.make_bucket("filters")
    for seed, version in ((SEED, "0.1"), (SEED + 1, "2.1")):
        uri = f"{bucket}/{uuid.uuid4()}.lance"
        reading = Reading(written(seed, version, uri, storage_options=s3_server.storage_options), seed)
        for number, case in enumerate(reading.filters(max(4, EXAMPLES // 10), first=40_000)):
            reading.check(number, case)
