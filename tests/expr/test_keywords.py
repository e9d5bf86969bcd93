"""Columns called like keywords: bare where the keyword cannot be meant, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ExpressionError, LanceError
from lancecy.expr import bind
from lancecy.expr.parsing import sql
from lancecy.expr.parsing.sql import from_sql
from tests.expr.corpus import filters
from tests.helpers.folded import folded

WORDS = (
    "when then else end order group select from where and or in is between like on join having distinct "
    "for as create drop call explain execute show fetch using with all any left right interval date timestamp "
    "key values limit offset union"
).split()

SHAPES = (
    "{} > 3",
    "3 < {}",
    "NOT {} > 3",
    "({}) > 3",
    "{} IN (5)",
    "{} NOT IN (1, 2)",
    "{} BETWEEN 4 AND 6",
    "{0} IS NOT NULL AND {0} * 2 > 6 OR {0} IS NULL",
    "abs({}) > 3",
    "{} IS DISTINCT FROM {}",
    "CASE WHEN {0} > 3 THEN {0} ELSE {0} END > 3",
    "CAST({} AS BIGINT) > 3",
)


@folded("word", WORDS)
def test_keyword_as_a_name_reads_like_the_name_in_backquotes(word: str) -> None:
    schema = pa.schema([(word, pa.int64())])
    for shape in SHAPES:
        bare = bind(from_sql(shape.replace("{0}", "{}").replace("{}", word)), schema)
        quoted = bind(from_sql(shape.replace("{0}", "{}").replace("{}", f"`{word}`")), schema)
        assert bare.expr == quoted.expr, shape


@pytest.mark.interop
def test_pylance_reads_the_same(tmp_path: Path) -> None:
    import lance

    lance.write_dataset(
        pa.table({word: pa.array([1, 5, 6]) for word in WORDS}), tmp_path / "t", data_storage_version="legacy"
    )
    theirs, ours = lance.dataset(tmp_path / "t"), lancecy.dataset(tmp_path / "t")
    shapes = ("{} > 3", "3 < {}", "NOT {} > 3", "{} IN (5)", "{0} IS NOT NULL AND {0} + 1 > 6")
    for word in [w for w in WORDS if w not in ("all", "any", "interval")]:  # refused there
        for shape in shapes:
            text = shape.replace("{0}", "{}").replace("{}", word)
            assert ours.count_rows(text) == theirs.count_rows(text), text


def test_field_of_a_struct_called_like_a_keyword_is_found() -> None:
    schema = pa.schema([("group", pa.struct([("order", pa.int64())]))])
    assert bind(from_sql("group.order > 3"), schema).paths == (("group", "order"),)


@pytest.mark.parametrize(
    "text",
    ["s = 'when'", "s = 'and'", "s IN ('end', 'group')", "X'ab' = s", "s LIKE 'order'", "'select' < s"],
)
def test_strings_stay_strings(text: str) -> None:
    assert [c for c in _columns(from_sql(text)) if c != ("s",)] == []


DATED = ('d = DATE "2024-05-01"', 't >= timestamp "2024-05-01 12:00:00"', 'date "2024-05-02" = d')


@folded("text", DATED)
def test_a_date_may_be_in_double_quotes(text: str) -> None:
    assert from_sql(text) == from_sql(text.replace('"', "'"))


@pytest.mark.interop
def test_pylance_reads_dates_in_double_quotes(tmp_path: Path) -> None:
    import lance

    days = [date(2024, 5, 1), date(2024, 5, 2)]
    rows = pa.table({"d": days, "t": pa.array(days).cast(pa.timestamp("us"))})
    ours = lancecy.write_dataset(rows, tmp_path / "t")
    theirs = lance.dataset(tmp_path / "t")
    assert (
        [ours.count_rows(text) for text in DATED] == [theirs.count_rows(text) for text in DATED] == [1, 1, 1]
    )


@folded("text", ['s = "a"', 'd = "2024-05-01"', 'date = "x"', 's LIKE "a%"'])
def test_other_text_in_double_quotes_is_refused_with_both_ways_to_write_it(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"write `.*` for the column or '.*' for the string"):
        from_sql(text)


def _columns(node: Any) -> list[tuple[str, ...]]:
    if hasattr(node, "path"):
        return [node.path]
    return [path for arg in getattr(node, "args", ()) for path in _columns(arg)]


def _read(text: str) -> object:
    try:
        return from_sql(text)
    except LanceError as error:
        return error


@pytest.mark.slow
def test_text_that_has_a_meaning_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = [text for group in filters().values() for text in group]
    texts = [text for text in everything if not isinstance(_read(text), LanceError)]
    found = [from_sql(text) for text in texts]

    def nothing(tokens: Sequence[Any]) -> None:
        """Leave every keyword one."""

    monkeypatch.setattr(sql, "free_names", nothing)
    assert [from_sql(text) for text in texts] == found
    assert len(texts) > 500


@folded(
    "text",
    [
        "select 1 from x",
        "show tables",
        "call foo()",
        "explain a > 1",
        "execute 'a'",
        "drop table t",
        "a > 1 order by b",
        "a > 1 group by b",
        "a > 1 limit 3",
        "a > 1; b > 2",
        "a and and b > 1",
        "case when > 3 when 1 then 2 end",
        "when when when",
        "not null null",
        "a between 1 and",
        "",
    ],
)
def test_what_is_no_condition_stays_none(text: str) -> None:
    with pytest.raises(LanceError, match="cannot read|not supported"):
        from_sql(text)
