"""Functions whose result may be larger than their arguments: they end, and what they make is bounded beforehand."""

from __future__ import annotations

import importlib
import subprocess
import sys
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pytest

from lancecy.errors import ExpressionError
from lancecy.expr import bind, evaluate
from lancecy.expr.evaluation import growth
from lancecy.expr.evaluation.functions import FUNCTIONS
from lancecy.limits import COMPUTED_BYTES, CONSTANT_BYTES
from tests.expr.test_answers import parsed
from tests.helpers.folded import folded

# The package has a function of this name.
evaluation = importlib.import_module("lancecy.expr.evaluation.evaluate")
TEXTS = ["abc", "", "Zü\u00df\U0001f600", None, " a b ", "aXbXc", "\\", "a\nb"] * 2
TABLE = pa.table(
    {"s": TEXTS, "ls": pa.array(TEXTS, pa.large_string()), "i": range(16), "b": [True, False] * 8}
)


def rows(text: str, table: pa.Table = TABLE) -> list[Any]:
    found: list[Any] = evaluate(bind(parsed(text), table.schema), table).to_pylist()
    return found


# Empty, repeating and special texts for what is replaced and what it is replaced by.
PIECES = ("", "a", "X", "aX", "\U0001f600", "\\", "\\0", "xyz", "aa")


@folded("old", PIECES)
@folded("new", PIECES)
def test_text_is_replaced_as_python_does_it(old: str, new: str) -> None:
    for column in ("s", "ls"):
        found = rows(f"replace({column}, '{old}', '{new}')")
        assert found == [None if text is None else text.replace(old, new) for text in TEXTS]


LONG_PART = "é" * 20 + "a" * 300
LONG_TEXTS = ["", LONG_PART + "a", f"ü{LONG_PART}{LONG_PART}", "b" * 400, None]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_long_patterns_are_replaced_and_placed_as_python_does_it(kind: pa.DataType) -> None:
    old, held = LONG_PART, LONG_TEXTS
    chunks = pa.chunked_array([pa.array(held, kind), pa.array(held[1:], kind)])
    table, texts = pa.table({"s": chunks}), held + held[1:]
    for new in ("", "x", old + "y"):
        assert rows(f"replace(s, '{old}', '{new}')", table) == [t and t.replace(old, new) for t in texts]
    assert rows(f"strpos(s, '{old}')", table) == [None if t is None else t.find(old) + 1 for t in texts]
    found = evaluate(bind(parsed(f"replace(s, '{old}', 'x')"), table.schema), table)
    assert found.type == kind


@pytest.mark.parametrize("call", ["replace(s, {old}, '') = s", "strpos(s, {old}) = 0"])
def test_long_patterns_that_nearly_match_everywhere_take_one_pass(call: str) -> None:
    table = pa.table({"s": ["a" * 1_000_000] * 4})
    # Compared at every place of the text, these would be 10^12 characters.
    assert rows(call.format(old="repeat('a', 500000) || 'b'"), table) == [True] * 4


PATTERNS: dict[str, list[int | None]] = {
    "": [4, 1, 5, None, 6, 6, 2, 4],
    "b*": [3, 1, 5, None, 5, 5, 2, 3],
    "^a": [1, 0, 0, None, 0, 1, 0, 1],
    "^": [1, 1, 1, None, 1, 1, 1, 1],
    "$": [1, 1, 1, None, 1, 1, 1, 1],
    "\\b": [2, 0, 2, None, 4, 2, 0, 4],
    ".": [3, 0, 4, None, 5, 5, 1, 2],
    "[abc]": [3, 0, 0, None, 2, 3, 0, 2],
    "(a|b)+": [1, 0, 0, None, 2, 2, 0, 2],
}


@folded("pattern", list(PATTERNS))
def test_matches_are_counted_that_do_not_overlap(pattern: str) -> None:
    for column in ("s", "ls"):
        # Null has no matches, as in pylance.
        assert rows(f"regexp_count({column}, '{pattern}')")[:8] == [found or 0 for found in PATTERNS[pattern]]


REPLACEMENTS = [
    ("", "-"),
    ("^", ">"),
    ("b*", "-"),
    ("([abc])", "<\\1>"),
    ("X(.)", "\\1\\1"),
    ("a", "\\\\"),
    ("(a)|b", "${1}$$"),
]


@folded(("pattern", "replacement"), REPLACEMENTS)
def test_matches_are_replaced_as_pylance_does_it(
    pattern: str, replacement: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lance: Any = pytest.importorskip("lance")
    ds = lance.write_dataset(TABLE, tmp_path_factory.mktemp("t") / "t.lance")
    for text in (f"'{pattern}', '{replacement}'", f"'{pattern}', '{replacement}', 'gi'"):
        theirs = ds.to_table(columns={"y": f"regexp_replace(s, {text})", "i": "i"})["y"].to_pylist()
        for column in ("s", "ls"):
            assert rows(f"regexp_replace({column}, {text})") == theirs


# Each depends on the text before or behind the match.
FIRST = {
    r"'(a)(b\B)?', '<\2>'": ["<b>c", "<>b-ab", "x-<>b"],
    r"'b\B', 'X'": ["aXc", "ab-ab", "x-ab"],
    r"'\Bb', '<\0>'": ["a<b>c", "a<b>-ab", "x-a<b>"],
    r"'(-)?(\b)', '$2+$1'": ["+abc", "+ab-ab", "+x-ab"],
    r"'B$', '\\', 'i'": ["abc", r"ab-a\\", r"x-a\\"],
}


@folded("arguments", FIRST)
def test_the_first_match_is_replaced_by_what_matches_within_the_text(arguments: str) -> None:
    table = pa.table({"s": ["abc", "ab-ab", "x-ab"]})
    assert rows(f"regexp_replace(s, {arguments})", table) == FIRST[arguments]


def test_patterns_that_the_first_match_cannot_have_are_refused() -> None:
    groups = "(a)" * 8
    assert rows(f"regexp_replace(s, '{groups}', '', 'g')")[:1] == TEXTS[:1]
    for pattern, what in (
        (f"^{groups}", "up to 7 groups"),
        (r"a)^(b", "unexpected \\)"),
        ("^a", "0 parenthesized"),
    ):
        with pytest.raises(ExpressionError, match=what):
            rows(f"regexp_replace(s, '{pattern}', '\\1')")


@folded("number", (1, 2, 256, 257, 1001, 1002, -1, -2, -257, -1001, -1002))
@folded("separator", (",", ",;", "," * 300))
def test_parts_are_those_of_python(number: int, separator: str) -> None:
    texts = ["", "é", separator.join(map(str, range(1001))), separator * 2, None]
    found = rows(f"split_part(s, '{separator}', {number})", pa.table({"s": texts}))
    for text, part in zip(texts, found, strict=True):
        parts = [] if text is None else text.split(separator)
        place = number if number < 0 else number - 1
        assert part == (None if text is None else parts[place] if -len(parts) <= place < len(parts) else "")


def test_parts_far_from_an_end_take_no_list_of_all_parts() -> None:
    table = pa.table({"s": ["," * 1_000_000]})
    usual, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        assert rows("split_part(s, ',', -300)", table) == [""]
    finally:
        pa.set_memory_pool(usual)
    assert pool.max_memory() < 4_000_000


# What a stranger may write: each would take more memory than there is.
HOSTILE = [
    "repeat(s, 1000000000) = ''",
    "repeat(s, 2147483648) = ''",
    "repeat(ls, 1000000000) = ''",
    "repeat(repeat(repeat(s, 1000), 1000), 1000) = ''",
    "repeat(upper(s), 300000000) LIKE '%x'",
    "lpad(s, 1000000000) = ''",
    "rpad(ls, 1000000000, 'ab') = ''",
    "regexp_replace(repeat(s, 10000), '', '" + "x" * 10_000 + "', 'g') = ''",
    "replace(repeat(s, 10000), '', '" + "x" * 10_000 + "') = ''",
    "CASE WHEN b THEN repeat(s, 900000000) ELSE s END = ''",
    "i > 100 OR repeat(s, 900000000) = ''",
]


@pytest.mark.slow
@folded("text", HOSTILE, ids=lambda text: text[:60])
def test_text_beyond_the_bound_is_refused_before_it_is_made(text: str) -> None:
    refused(text, f"{COMPUTED_BYTES:,}")


def refused(text: str, most: str) -> None:
    bound = bind(parsed(text), TABLE.schema)
    before = pa.total_allocated_bytes()
    with pytest.raises(
        ExpressionError, match=rf"would make [\d,]+ bytes of text, where an expression may make {most}"
    ):
        evaluate(bound, TABLE)
    assert pa.total_allocated_bytes() <= before


# Each call makes less than the bound, all together more.
TOGETHER = [
    "length(concat(" + ", ".join(["repeat(s, 10000)"] * 20) + ")) > 1",
    "greatest(" + ", ".join(["repeat(s, 10000)"] * 20) + ") = ''",
    "repeat(s, 10000) || repeat(s, 10000) || s = s",
    "repeat(s, 10000) || repeat(ls, 10000) || s = s",
    "replace(repeat(s, 10000), 'a', '" + "x" * 1000 + "') = ''",
    "regexp_count(repeat(s, 9000), '') = 1",
    " AND ".join(["repeat(s, 10000) != ''"] * 20),
]


@folded("text", TOGETHER, ids=lambda text: text[:60])
def test_calls_of_one_expression_share_the_bound(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "COMPUTED_BYTES", 1 << 20)
    refused(text, "1,048,576")


def test_short_and_long_text_are_joined() -> None:
    assert rows("ls || ls = concat(ls, s)")[:4] == [True, True, True, None]
    assert rows("concat(s, ls, 'x') = s || ls || 'x'")[:4] == [True, True, True, None]


CONSTANTS = [
    "repeat('a', 1000000000) = s",
    "repeat(repeat('abc', 1000), 1000) = s",
    "replace('aaaa', '', repeat('x', 900000)) = s",
    "repeat('a', 900000) || repeat('b', 900000) = s",
    " OR ".join([f"repeat('{letter}', 300000) = s" for letter in "abcde"]),
]


@folded("text", CONSTANTS)
def test_constants_are_bounded_when_they_are_put_together(text: str) -> None:
    with pytest.raises(ExpressionError, match=f"where an expression may make {CONSTANT_BYTES:,}"):
        bind(parsed(text), TABLE.schema)


@pytest.mark.parametrize(
    "name",
    ["coalesce(s, '{}')", "greatest(s, '{}')", "CASE WHEN b THEN '{}' ELSE s END", "'{}' || s", "'{}'"],
)
def test_a_long_constant_is_not_repeated_for_every_row(name: str) -> None:
    table = pa.table({"s": pa.array(["a", None] * 600), "b": [True, False] * 600})
    bound = bind(parsed(name.format("x" * 1_000_000)), table.schema)
    with pytest.raises(ExpressionError, match="would make 1,"):
        evaluate(bound, table)
    assert len(evaluate(bound, table.slice(0, 2))) == 2


def test_the_bound_grows_with_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "COMPUTED_BYTES", 1 << 10)
    table = pa.table({"s": ["x" * 1000] * 200})
    assert rows("length(s || s || s || s) = 4000 AND length(s || s || s) = 3000", table) == [True] * 200
    with pytest.raises(ExpressionError, match="where an expression may make 1,6[0-9,]+ of one batch"):
        rows("length(s || s || s || s) = 4000 AND length(repeat(s, 5)) = 3000", table)


def test_concat_of_nulls_alone_is_empty() -> None:
    assert rows("concat(s, s)")[2:5] == ["Zü\u00df\U0001f600" * 2, "", " a b  a b "]
    assert rows("concat(s)")[:4] == ["abc", "", "Zü\u00df\U0001f600", ""]
    assert rows("concat(NULL, s)")[3] == rows("concat(NULL, NULL)")[3] == ""


def test_text_without_length_is_repeated_at_once() -> None:
    # 2^31 empty copies of each of 100,000 texts would take days.
    table = pa.table({"s": pa.array(["", None] * 50_000)})
    assert rows("repeat(s, 2147483648)", table) == ["", None] * 50_000
    assert rows("repeat('', 2147483648) = s", table)[:2] == [True, None]
    assert rows("repeat(s, -2147483648) || repeat(s, 0)", TABLE)[:4] == ["", "", "", None]


def test_chunks_are_held_to_what_their_offsets_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "INT32_MAX", 999)
    chunks = pa.chunked_array([["x" * 400], ["x" * 400]])
    assert growth.repeat(chunks, 2).to_pylist() == ["x" * 800] * 2
    with pytest.raises(
        ExpressionError, match="1,200 bytes of text in one array, where 32-bit offsets end at 999"
    ):
        growth.repeat(chunks, 3)
    with pytest.raises(ExpressionError, match="32-bit offsets"):
        growth.replace(chunks, "x", "yyy")
    assert len(growth.repeat(chunks.cast(pa.large_string()), 3)[0].as_py()) == 1200


@pytest.mark.slow
def test_every_function_ends_on_hostile_constants() -> None:
    """Each in a process with two gigabytes of addresses and a minute."""
    code = dedent(
        """
        import resource
        from tests.expr.hostile_calls import run_all
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        run_all()
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(done.stdout.split()) == set(FUNCTIONS)


LONG = "9" * 5000


@folded(
    "text",
    [
        f"i = {LONG}", f"i = 0.{LONG}", f"i = {LONG}e{LONG}", f"d > interval '{LONG} days'", f"d > interval '1.{LONG} days'",
        f"CAST('{LONG}' AS int) = i", f"CAST('{LONG}' AS decimal(38, 0)) = i", f"CAST({LONG} AS decimal(38, 0)) = i",
        f"CAST('1e{LONG}' AS decimal(38, 0)) = i", "CAST('1e999999999' AS decimal(38, 0)) = i", f"round(i, {LONG}) = 1",
        f"d > date '{LONG}-01-01'", f"date_part('{LONG}', t) = 1", f"CAST('{LONG}' AS timestamp) = t",
        "CAST(1e999999999 AS decimal(38, 0)) = i", f"substr(s, {LONG}) = ''", f"t = '2020-01-01 00:00:00.{LONG}'",
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_numbers_of_thousands_of_digits_are_refused_at_once(text: str) -> None:
    table = TABLE.append_column("d", pa.array(range(16)).cast(pa.duration("s")))
    table = table.append_column("t", pa.array(range(16)).cast(pa.timestamp("s")))
    with pytest.raises(ExpressionError):
        evaluate(bind(parsed(text), table.schema), table)
