"""Columns compared with a constant, against Arrow's own comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancecy.expr import bind, evaluate, parse
from lancecy.expr.evaluation.constants import COMPARISONS, contains, is_ascii, is_in, looked_up
from lancecy.expr.nodes import Call
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
equal, not_equal = COMPARISONS["="], COMPARISONS["!="]
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


ARROW = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
NUMBERS = [
    *(pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()),
    *(
        pa.date32(),
        pa.date64(),
        pa.time32("s"),
        pa.time64("ns"),
        pa.timestamp("us", "UTC"),
        pa.duration("ms"),
    ),
]


def numbers(kind: pa.DataType, seed: int = 1, rows: int = 5000) -> pa.Array:
    """Few different values, every tenth null and stored as anything."""
    random = np.random.default_rng(seed)
    width = kind.bit_width // 8
    stored = random.integers(0, 3, rows).astype(f"i{width}")
    if pa.types.is_date64(kind):
        stored *= 86_400_000
    if pa.types.is_floating(kind):
        stored = np.array([0.0, -0.0, 1.5, np.nan, np.inf, -np.inf], f"f{width}")[random.integers(0, 6, rows)]
    valid = random.random(rows) >= 0.1
    stored[~valid] = random.integers(0, 99, int((~valid).sum()))
    buffers = [pa.py_buffer(np.packbits(valid, bitorder="little")), pa.py_buffer(stored)]
    return pa.Array.from_buffers(kind, rows, buffers)


@folded("kind", NUMBERS, ids=str)
def test_comparisons_of_numbers_are_those_of_arrow(kind: pa.DataType) -> None:
    values = numbers(kind)
    several = pa.chunked_array([values, values.slice(13, 2000), values.slice(0, 0), values.slice(4000)])
    for data in (values, values.drop_null(), values.slice(9), several, values.slice(0, 10)):
        for scalar in values.drop_null().unique():
            for op, arrows in ARROW.items():
                found = COMPARISONS[op](data, scalar)
                assert found.equals(arrows(data, scalar)), (op, scalar)
                found.validate(full=True)


@folded("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64()], ids=str)
def test_answers_are_looked_up_as_arrow_takes_them(kind: pa.DataType) -> None:
    random = np.random.default_rng(4)
    stored = random.integers(0, 9, 4000).astype(kind.to_pandas_dtype())
    valid = random.random(4000) < 0.9
    hidden = np.where(valid, stored, np.iinfo(stored.dtype).max)  # codes of nulls may be anything
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    codes = pa.Array.from_buffers(kind, 4000, [bits, pa.py_buffer(hidden)])
    plain = pa.array(stored, kind)
    for answers in ([False] * 9, [True] * 9, [n == 4 for n in range(9)], [n % 2 == 0 for n in range(9)]):
        for chosen in (codes, plain, codes.slice(7), plain.slice(13, 2000), codes.slice(0, 20)):
            found = looked_up(pa.array(answers), chosen)
            found.validate(full=True)
            assert found.equals(pa.array(answers).take(pa.array(chosen.to_pylist(), kind)))
    assert looked_up(pa.array([None, True]), plain.slice(0, 0)).to_pylist() == []


def test_codes_of_nulls_alone_have_no_answers_to_look_up() -> None:
    nothing = pa.array([], pa.bool_())
    for rows in (5, 4000):
        found = looked_up(nothing, pa.nulls(rows, pa.int32()))
        found.validate(full=True)
        assert found.equals(pa.nulls(rows, pa.bool_()))


WHOLE = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
TIMES = [pa.date32(), pa.time32("ms"), pa.timestamp("us"), pa.duration("s")]


@folded("kind", [*WHOLE, *TIMES])
@folded("span", [0, 1, 60, 250, 100_000, 2**40])
def test_members_of_a_list_are_those_that_arrow_finds(kind: pa.DataType, span: int) -> None:
    random = np.random.default_rng(span)
    width = kind.bit_width // 8
    stored = np.dtype(f"{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{width}")
    ends = np.iinfo(stored)
    valid = pa.py_buffer(np.packbits(random.random(4000) < 0.9, bitorder="little"))
    for low in (ends.min, max(ends.min, -5), max(ends.min, ends.max - span)):
        numbers = random.integers(low, min(ends.max, low + span), 4000, dtype=stored, endpoint=True)
        numbers[::7], numbers[3::11], numbers[5::13] = ends.min, ends.max, 0
        listed = pa.Array.from_buffers(kind, 9, [None, pa.py_buffer(random.choice(numbers, 9))])
        values = pa.Array.from_buffers(kind, 4000, [valid, pa.py_buffer(numbers)])
        chunks = pa.chunked_array([values, values.slice(5), values.slice(0, 0)])
        for chosen in (values, values.slice(13, 2000), chunks):
            found = is_in(chosen, listed)
            found.validate(full=True)
            assert pc.fill_null(found, False).equals(pc.is_in(chosen, listed))


def test_members_of_other_types_are_found_by_arrow() -> None:
    values = pa.array([1.0, float("nan"), None] * 1000)
    assert is_in(values, pa.array([1.0])).to_pylist() == [True, False, False] * 1000
    assert is_in(pa.array([1, 2] * 1000), pa.array([], pa.int64())).to_pylist() == [False, False] * 1000
    assert is_in(pa.scalar(1), pa.array([1])).as_py() is True


def test_lists_of_a_filter_are_looked_up() -> None:
    table = pa.table({"n": pa.array([*range(3000), None])})
    for text, count in (("n IN (5, 7, 2999, 1000000)", 3), ("n NOT IN (5, 7)", 2998), ("n IN (5, NULL)", 1)):
        condition = parse(text)
        assert condition is not None
        found = evaluate(bind(condition, table.schema), table)
        assert pc.sum(found).as_py() == count
    condition = parse("n NOT IN (5, NULL)")
    assert condition is not None and evaluate(bind(condition, table.schema), table).null_count == 3000


@folded("kind", [pa.string(), pa.large_string()])
@folded("part", ["a", "la", "mountain", "ü", "z", "nothing", ""])
def test_texts_that_contain_a_part_are_those_that_arrow_finds(kind: pa.DataType, part: str) -> None:
    values = column(kind, True)
    for chosen in (values, values.slice(7, 3001), pa.chunked_array([values, values.slice(0, 0), values[3:]])):
        found = contains(chosen, part)
        found.validate(full=True)
        assert found.equals(pc.match_substring(chosen, part))
    assert contains(pa.scalar("lake"), "ak").as_py() is True


def test_functions_of_texts_do_not_depend_on_other_texts() -> None:
    words = pa.array([*WORDS, None, "ABC", "straße", "İ"] * 200)
    plain = words.filter(pc.equal(pc.utf8_length(words), pc.binary_length(words)))
    assert is_ascii(plain) and not is_ascii(words) and is_ascii(words.slice(0, 7))
    for text, arrows in (
        ("lower(s)", pc.utf8_lower),
        ("upper(s)", pc.utf8_upper),
        ("length(s)", pc.utf8_length),
    ):
        for values in (words, plain, words.slice(1, 5), pa.chunked_array([plain, words])):
            table, condition = pa.table({"s": values}), parse(f"{text} IS NOT NULL")
            assert (
                condition is not None and isinstance(condition, Call) and isinstance(condition.args[0], Call)
            )
            found = evaluate(bind(condition.args[0].args[0], table.schema), table)
            assert found.equals(arrows(table["s"]))


def test_filters_use_it() -> None:
    table = pa.table({"s": column(pa.string(), True), "n": np.arange(5000)})
    for text, arrows in (("s = 'lake'", pc.equal), ("s != 'lake'", pc.not_equal)):
        condition = parse(text)
        assert condition is not None
        found = evaluate(bind(condition, table.schema), table)
        assert found.equals(arrows(table["s"], "lake"))
