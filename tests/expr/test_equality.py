"""Text compared with a constant, against Arrow's own comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancecy.expr import bind, evaluate, parse
from lancecy.expr.evaluation.evaluate import equal, not_equal
from tests.helpers.folded import folded

WORDS = [
    "",
    "a",
    "lake",
    "mountain",
    "mountains",
    "a lake in the mountains",
    "a lake in the mountainz",
    "Zürich",
]
TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def column(kind: pa.DataType, nulls: bool, rows: int = 5000, seed: int = 0) -> pa.Array:
    words = np.random.default_rng(seed).choice(np.array([*WORDS, *([None] * nulls)], object), rows)
    values = words if pa.types.is_string(kind) or pa.types.is_large_string(kind) else map(encoded, words)
    return pa.array(list(values), kind)


def encoded(word: str | None) -> bytes | None:
    return None if word is None else word.encode()


@folded("nulls", [False, True])
@folded("kind", TYPES, ids=str)
def test_comparisons_are_those_of_arrow(kind: pa.DataType, nulls: bool) -> None:
    values = column(kind, nulls)
    several = pa.chunked_array([values, values.slice(13, 2000), values.slice(0, 0), values.slice(4000)])
    for data in (values, values.slice(9), values.slice(64, 3000), several, values.slice(0, 10)):
        for word in [*WORDS, "no such word"]:
            scalar = pa.scalar(word, pa.string()).cast(kind)
            for ours, arrows in ((equal, pc.equal), (not_equal, pc.not_equal)):
                found = ours(data, scalar)
                assert found.equals(arrows(data, scalar))
                found.validate(full=True)


def test_rows_of_nothing_but_nulls_or_empty_text() -> None:
    for values in (pa.nulls(3000, pa.string()), pa.array([""] * 3000)):
        assert equal(values, pa.scalar("")).equals(pc.equal(values, pa.scalar("")))
        assert equal(values, pa.scalar("a")).equals(pc.equal(values, pa.scalar("a")))


@pytest.mark.parametrize(
    "other", [pa.scalar(None, pa.string()), pa.scalar("a", pa.large_string()), pa.array(["a"] * 3000)]
)
def test_what_is_no_constant_of_the_type_is_left_to_arrow(other: Any) -> None:
    values = pa.array(["a", None, "b"] * 1000)
    assert equal(values, other).equals(pc.equal(values, other))


def test_filters_use_it() -> None:
    table = pa.table({"s": column(pa.string(), True), "n": np.arange(5000)})
    for text, arrows in (("s = 'lake'", pc.equal), ("s != 'lake'", pc.not_equal)):
        condition = parse(text)
        assert condition is not None
        found = evaluate(bind(condition, table.schema), table)
        assert found.equals(arrows(table["s"], "lake"))
