"""Comparisons that are read without a parser mean what the parser says."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lancecy.errors import ExpressionError
from lancecy.expr.nodes import Expr
from lancecy.expr.parsing.key_comparison import key_comparison
from lancecy.expr.parsing.sql import _parsed, _Reader
from lancecy.expr.parsing.sql_dialect import dialect

WORDS = sorted({word.lower() for words in dialect().Tokenizer.KEYWORDS for word in words.split()})
NAMES = st.one_of(
    st.sampled_from(
        ["id", "ID", "_key", "a1", "x", "e", "n", "date", "null", "true", "current_date", "ß", "is", "not"]
    ),
    st.sampled_from(WORDS),
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,3}", fullmatch=True),
)
SPACES = st.sampled_from(["", " ", "  ", "\t", "\n", "\u00a0", "--", "/**/"])
OPERATORS = st.sampled_from(["=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>", "->", ":", "is", "in", "~"])
NUMBERS = st.one_of(
    st.integers(0, 10**20).map(str),
    st.sampled_from(["007", "1e3", "1.", "-1", "0x1", "1_000", "5d", "\u0665", "1 2"]),
)


def read_by_parser(text: str) -> Expr | None:
    try:
        return _parsed(text, _Reader(1_000))
    except ExpressionError:
        return None


@given(st.tuples(SPACES, st.lists(NAMES, min_size=1, max_size=3), SPACES, OPERATORS, SPACES, NUMBERS, SPACES))
@example(("", ["id"], "", "=", "", "5", ""))
def test_the_parser_reads_the_same(parts: tuple[str, list[str], str, str, str, str, str]) -> None:
    before, names, *rest = parts
    text = before + ".".join(names) + "".join(rest)
    found = key_comparison(text)
    if found is not None:
        assert read_by_parser(text) == found


@pytest.mark.parametrize("op", ["=", "!=", "<>", "<", "<=", ">", ">="])
def test_look_ups_by_key_need_no_parser(op: str) -> None:
    for text in (f"id {op} 5", f"id{op}5", f" item.Id {op} {10**18 - 1} "):
        assert key_comparison(text) == read_by_parser(text) is not None


@pytest.mark.parametrize("form", ["{} = 5", "a.{} >= 5", "{}.a <> 5"])
def test_words_of_the_language_are_columns_where_the_parser_says_so(form: str) -> None:
    read = {text: key_comparison(text) for text in map(form.format, WORDS)}
    surely = {text: found for text, found in read.items() if found is not None}
    assert len(surely) > 200
    assert {text: read_by_parser(text) for text in surely} == surely


@pytest.mark.parametrize(
    "text", ["id = 5 OR 1 = 1", "id = 5;", "id = -5", "id = 1.0", "5 = id", "null = 5", "a.null = 5", ""]
)
def test_anything_else_is_left_to_the_parser(text: str) -> None:
    assert key_comparison(text) is None
