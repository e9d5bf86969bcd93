"""Functions with columns where constants are usual, for every form of text, in tasks, and as pylance answers them."""

from __future__ import annotations

import datetime as dt
import importlib
import math
import pickle
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ExpressionError
from lancecy.expr import bind, evaluate
from lancecy.expr.evaluation import characters
from tests.expr.test_answers import parsed
from tests.helpers.folded import folded

# The package has a function of this name.
evaluation = importlib.import_module("lancecy.expr.evaluation.evaluate")
NAN, INF = math.nan, math.inf
TABLE = pa.table(
    {
        "i": pa.array([1, -7, 0, None, 20]),
        "j": pa.array([6, 4, 0, None, 9], pa.int32()),
        "u": pa.array([1, 7, 0, None, 2**63 + 5], pa.uint64()),
        "p": pa.array([2, 3, 1, None, -1]),
        "e": pa.array([1, 2, 3, 4, 5]),
        "nn": pa.array([None, 5, None, None, 7], pa.int32()),
        "f": [1.5, -2.5, NAN, None, INF],
        "g": [0.3, -0.7, 1.0, None, -0.0],
        "f4": pa.array([1.5, -2.25, NAN, None, 0.1], pa.float32()),
        "c": [Decimal("1.50"), Decimal("-2.25"), Decimal("0.00"), None, Decimal("100.10")],
        "s": ["abcab", "Ééx ß", "", None, "a,b,c"],
        "t": ["b", "éx", "", None, ","],
        "w": ["x", "zz", "q", None, ""],
        "ls": pa.array(["abcab", "Ééx", "", None, "a,b"], pa.large_string()),
        "b": [b"ab", b"\xff", b"", None, b"12"],
        "o": [True, False, True, None, False],
        "d": [dt.date(1970, 1, 1), dt.date(1970, 1, 2), dt.date(1969, 12, 31), None, dt.date(2024, 10, 4)],
        "ts": pa.array([0, 10**15 + 1, -5, None, 10**12], pa.timestamp("us")),
    }
)

# Answers have the values and types of pylance, but for views.
SAME = """
acos(g); acos(f4); asin(i); atan(u); acosh(f); asinh(f4); atanh(g); sinh(f); cosh(f4); tanh(f); cbrt(f); cbrt(f4); cot(f)
atan2(g, f); atan2(f4, f4); atan2(f4, g); atan2(i, g); atan2(c, c); degrees(f4); degrees(i); radians(f); pi() * f4
factorial(e); factorial(j); gcd(i, p); gcd(j, 4); gcd(-4, i); gcd(i, NULL); lcm(i, p); lcm(e, 0); iszero(f); iszero(c)
iszero(u); nanvl(f, g); nanvl(f4, f4); nanvl(f, i); nanvl(f, NULL); trunc(f, 1); trunc(f4, 1); trunc(f, p); trunc(c, 1)
trunc(f * 100.123, 2); trunc(f, NULL); trunc(c); round(i, i); round(g, p); round(f4, p); round(c); round(c, 1); round(c, -1)
round(c, 3); round(c, p); log(i); log(e); log(f); log(f4); log(2, e); log(e, 2); log(c, c); log(2, f4); log(i, f4); log(u)
ascii(s); ascii(ls); chr(e); chr(j + 233); initcap(s); initcap(ls); levenshtein(s, t); levenshtein(ls, ls)
levenshtein(s, NULL); overlay(s, 'XX', 2); overlay(s, w, e); overlay(s, 'x', 3, -2); overlay(i, 1, 2); position(s, 'b')
strpos(s, t); strpos(ls, 'a'); to_hex(i); to_hex(u); translate(s, t, w); translate(s, 'abc', 'é'); translate(ls, 'ab', 'x')
translate(i, 1, 2); find_in_set(t, s); find_in_set(i, '1,2'); substr_index(s, t, p); substr_index(s, ',', 0); left(s, p)
left(i, 1); right(s, p); right(s, NULL); lpad(s, p, t); lpad(i, 5, '0'); lpad(d, 12, '-'); lpad(o, 6); lpad(f, 6); lpad(s, 5, 1)
lpad(s, 5, i); rpad(s, e, t); reverse(f); reverse(ts); reverse(c); char_length(i); char_length(ls); octet_length(ls)
contains(s, t); contains('abc', t); contains(s, NULL); starts_with(ls, t); ends_with(s, t); concat(s, f); concat(s, o, d)
concat(s, ts); concat(s, NULL, 1e10); concat_ws(t, s, w); concat_ws(',', s, i, f); concat_ws(',', o, d); replace(s, t, w)
replace(s, '', w); replace(ls, t, w); split_part(s, t, 1); split_part(s, ',', p); repeat(s, p); repeat('ab', e); btrim(s, t)
ltrim(s, t); rtrim(s, NULL); s LIKE t; s ILIKE t; s || i; i || s; regexp_count(s, 'a', 2); regexp_count(s, t)
regexp_count(s, '', 2); regexp_count(s, '', 6); regexp_count(s, '^.', 2); regexp_count(s, NULL); regexp_count(i, 1)
regexp_count(s, 'A', NULL, 'i'); regexp_instr(s, 'a', 1, 2); regexp_instr(s, '(b)(c)', 1, 1, 'i', 2); regexp_instr(s, 'ß')
regexp_instr(s, ''); regexp_instr(s, t); regexp_instr(s, 'b*', 1, 2); regexp_instr(s, 'a', 100); regexp_instr(s, '^b', 2)
regexp_instr(s, 'a*'); regexp_match(s, '(a)(z)?'); regexp_match(s, ''); regexp_match(s, t); regexp_match(s, 'A', 'i')
regexp_match(s, '[^(]\\(?(a)(?i:B)'); regexp_match(s, '(?P<one>a)([[:alpha:](]+)'); regexp_match(s, '(a)(b)')[1]
regexp_like(s, t); regexp_like(s, t, 'i'); regexp_like(s, 'a', NULL); regexp_replace(s, t, w, 'g'); regexp_replace(s, 'a', w)
md5(s); md5(b); md5(ls); sha224(s); sha256(b); sha384(ls); sha512(s); digest(s, 'md5'); digest(b, 'blake2s')
digest(s, 'blake2b'); encode(s, 'hex'); encode(b, 'base64'); encode(ls, 'base64pad'); decode(encode(s, 'base64'), 'base64')
decode(encode(ls, 'hex'), 'hex'); nullif(i, 1.5); nullif(i, f); nullif(nn, 1); ifnull(nn, s); ifnull(s, 1); ifnull(nn, 1.5)
nvl2(nn, i, f); nvl2(nn, 'a', 1); nvl(d, 'x'); greatest(f, g); least(f, g); greatest(o, o)
""".replace("\n", ";").split(";")


@pytest.mark.interop
def test_values_and_types_are_those_of_pylance(tmp_path: Path) -> None:
    lance: Any = pytest.importorskip("lance")
    theirs = lance.write_dataset(TABLE, str(tmp_path / "t"), data_storage_version="2.1")
    ours = lancecy.dataset(tmp_path / "t")
    for text in filter(None, map(str.strip, SAME)):
        one, two = (ds.to_table(columns={"y": text, "e": "e"})["y"] for ds in (theirs, ours))
        kind = str(one.type).replace("_view", "")
        assert kind == str(two.type), (text, kind, two.type)
        digits = 1e-6 if kind == "float" else 1e-14
        pairs = list(zip(one.to_pylist(), two.to_pylist(), strict=True))
        for left, right in pairs:
            if isinstance(left, float):
                assert right == pytest.approx(left, rel=digits, abs=0, nan_ok=True), (text, pairs)
            else:
                assert left == right, (text, pairs)
    for text in ("regexp_match(s, 'a')", "NOT regexp_match(s, 'a')", "regexp_match(s, t) AND e > 1", "s NOT LIKE t",
                 "regexp_match(s, 'a') IS NULL", "regexp_match(s, '(a)(b)')[1] = 'a'", "contains(s, t) OR e = 4"):  # fmt: skip
        one, two = (ds.to_table(filter=text, columns=["e"])["e"].to_pylist() for ds in (theirs, ours))
        assert one == two, text


def answers(text: str, table: pa.Table) -> list[Any]:
    found: list[Any] = evaluate(bind(parsed(text), table.schema), table).to_pylist()
    return found


def rows_where(text: str, table: pa.Table) -> pa.Table:
    return table.filter(evaluate(bind(parsed(text), table.schema, boolean=True), table))


TEXTS = ["abcab", "Ééx ß", "", None, "a,b,c", "b"]
FORMS: dict[str, pa.DataType] = {
    "large": pa.large_string(),
    "view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
    "large dictionary": pa.dictionary(pa.int32(), pa.large_string()),
}
OF_TEXTS = [
    "contains(s, t)", "starts_with(s, t)", "strpos(s, t)", "replace(s, t, s)", "split_part(s, t, -1)", "btrim(s, t)",
    "lpad(s, 7, t)", "concat_ws(t, s, s)", "left(s, length(t))", "translate(s, t, '-')", "overlay(s, t, 2)", "initcap(s)",
    "levenshtein(s, t)", "ascii(s)", "find_in_set(t, s)", "substr_index(s, t, 1)", "regexp_match(s, t)", "md5(s)",
    "regexp_match(s, '(a)(b)')", "regexp_count(s, t)", "regexp_instr(s, t, 1, 2)", "regexp_replace(s, t, '-')",
    "encode(s, 'hex')", "decode(encode(s, 'base64'), 'base64')", "sha256(s)", "s LIKE t", "ifnull(s, 5)", "nvl2(s, t, 0)",
]  # fmt: skip


@folded("form", list(FORMS))
def test_texts_of_every_form_have_the_same_answers(form: str) -> None:
    plain = pa.table({"s": TEXTS, "t": TEXTS[::-1]})
    kind = FORMS[form]
    dictionary = pa.types.is_dictionary(kind)
    columns = [
        column.dictionary_encode().cast(kind) if dictionary else column.cast(kind) for column in plain.columns
    ]
    table = pa.table(columns, plain.column_names)
    for text in OF_TEXTS:
        expected = answers(text, plain)
        assert answers(text, table) == expected, text
        assert answers(text, table.slice(2, 3)) == expected[2:5], text
        assert answers(text, table.slice(0, 0)) == [], text


def test_columns_of_more_rows_than_are_looked_at_together() -> None:
    rows = 150_000
    numbers = np.arange(rows)
    chunks = pa.chunked_array([numbers[:70_001].astype(str), numbers[70_001:].astype(str)])
    table = pa.table({"s": chunks, "n": numbers % 7, "t": pa.array((numbers % 10).astype(str))})
    assert answers("left(s, n)", table) == [str(number)[: number % 7] for number in range(rows)]
    assert answers("regexp_count(s, t)", table) == [str(n).count(str(n % 10)) for n in range(rows)]
    assert answers("round(n * 1000.5, n - 3)", table)[-1] == round(
        (rows - 1) % 7 * 1000.5, (rows - 1) % 7 - 3
    )


def test_distances_are_those_of_the_table_of_all_prefixes() -> None:
    def slow(one: str, two: str) -> int:
        row = list(range(len(two) + 1))
        for index, char in enumerate(one):
            above, row = row, [index + 1]
            for place, other in enumerate(two):
                row.append(min(above[place + 1] + 1, row[place] + 1, above[place] + (char != other)))
        return row[-1]

    draw = random.Random(5)
    pairs = [["".join(draw.choices("abé", k=draw.randrange(90))) for _ in range(2)] for _ in range(200)]
    table = pa.table({"s": [pair[0] for pair in pairs], "t": [pair[1] for pair in pairs]})
    assert answers("levenshtein(s, t)", table) == [slow(*pair) for pair in pairs]


def test_distances_to_long_texts_take_memory_for_common_characters_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numbers with a bit per character were made for every character: gigabytes for a megabyte of text."""
    long = "".join(chr(0x4E00 + n) for n in range(20_000))
    table = pa.table({"s": ["abc", long[7:9], ""], "t": [long] * 3})
    monkeypatch.setattr(characters, "COMPUTED_BYTES", 10_000)
    assert answers("levenshtein(s, t)", table) == [20_000, 19_998, 20_000]
    with pytest.raises(ExpressionError, match=r"levenshtein\(\) would need more than 10,000 bytes"):
        answers("levenshtein(t, reverse(t))", table)


def test_later_matches_are_found_between_characters_of_every_kind() -> None:
    texts = ["\ue000a\ue001a", "a\x01\U000f0000a", "aa", "ba ab", None, "aab"]
    table = pa.table({"s": texts})
    assert answers("regexp_instr(s, 'a', 1, 2)", table) == [4, 4, 2, 4, None, 2]
    assert answers("regexp_instr(s, '\\ba', 1, 2)", table) == [4, 4, 0, 0, None, 0]
    assert answers("regexp_instr(s, 'a', 2, 2)", table) == [4, 0, 0, 4, None, 0]


@folded(
    "text",
    [
        "repeat(s, n)", "lpad(s, n, s)", "rpad(s, n)", "replace(s, '', repeat('x', n))", "repeat('x', n)",
        "concat_ws(repeat(s, n / 1000), s, s, s, s)", "regexp_replace(s, t, repeat('x', 1000) || '', 'g')",
    ],
)  # fmt: skip
def test_text_made_with_columns_is_bounded(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "COMPUTED_BYTES", 1 << 20)
    table = pa.table({"s": ["a" * 1000] * 4, "n": [2_000_000] * 4, "t": ["a", "", "a", "a"]})
    with pytest.raises(ExpressionError, match=r"would make .* bytes of text"):
        evaluate(bind(parsed(text), table.schema), table)


@pytest.mark.parametrize("call", ["encode({}, 'hex')", "overlay({}, 'x', 99999999, -99999999)"])
def test_nested_calls_that_double_their_text_are_bounded(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "COMPUTED_BYTES", 1 << 20)
    text = "s"
    for _ in range(40):
        text = call.format(text)
    table = pa.table({"s": ["a" * 10_000]})
    with pytest.raises(ExpressionError, match="would make"):
        evaluate(bind(parsed(text), table.schema), table)


def test_conditions_protect_calls_that_fail_on_some_values() -> None:
    table = pa.table({"s": ["6162", "x", None], "n": [3, -1, None]})
    assert answers("length(s) = 4 AND decode(s, 'hex') = X'6162'", table) == [True, False, None]
    assert answers("n > 0 AND factorial(n) = 6", table) == [True, False, None]
    assert answers("n > 0 AND regexp_count(s, '6', n - 2) = 2", table) == [True, False, False]
    assert answers("CASE WHEN n > 0 THEN chr(n + 62) ELSE '?' END", table) == ["A", "?", "?"]


# One of each kind of call, in the text of a filter and of a column.
IN_TASKS = {
    "mathematics": ("cbrt(n) > 2", "round(atan2(n, 2), n % 3)"),
    "numbers": ("gcd(n, 6) = 3", "factorial(n % 5)"),
    "texts": ("replace(s, t, '') = ''", "lpad(n, 4, t)"),
    "patterns": ("s LIKE t || '%'", "translate(s, t, '-')"),
    "expressions": ("regexp_match(s, t || '.')", "regexp_match(s, '(1)(.)')"),
    "positions": ("regexp_instr(s, t, 2) > 0", "regexp_count(s, t)"),
    "digests": ("md5(s) < '8'", "encode(sha256(s), 'base64')"),
    "nulls": ("ifnull(s, n) = '12'", "nvl2(t, n, 0)"),
}


@folded("kind", list(IN_TASKS))
def test_tasks_have_the_answers_of_one_scan(kind: str, tmp_path: Path) -> None:
    condition, text = IN_TASKS[kind]
    table = pa.table(
        {"n": range(60), "s": [str(n) for n in range(60)], "t": [str(n % 10) for n in range(60)]}
    )
    ds = lancecy.write_dataset(table, tmp_path / kind, max_rows_per_file=20)
    expected = rows_where(condition, table)
    assert 0 < expected.num_rows < 60
    found = lancecy.scan(tmp_path / kind, columns={"n": "n", "y": text}, filter=condition).compute(
        scheduler="threads"
    )
    assert found["n"].tolist() == expected["n"].to_pylist()
    whole = ds.to_table(columns={"y": text}, filter=condition)["y"].to_pylist()
    assert whole == answers(text, expected)
    assert pa.Array.from_pandas(found["y"]).to_pylist() == whole
    bound = pickle.loads(pickle.dumps(bind(parsed(text), table.schema)))
    assert evaluate(bound, table).to_pylist() == answers(text, table)
    # Of what the explanation shows, the same rows.
    shown = ds.scanner(filter=condition).explain().filter
    assert ds.to_table(filter=shown, columns=["n"])["n"].to_pylist() == expected["n"].to_pylist()


def test_pages_are_not_skipped_by_conditions_on_functions(tmp_path: Path) -> None:
    words = [f"{letter}{n}" for letter in "abc" for n in range(300)]
    table = pa.table({"s": words, "t": [word[0] for word in words], "n": [n - 450 for n in range(900)]})
    ds = lancecy.write_dataset(table, tmp_path / "t", data_storage_version="0.1", max_rows_per_group=100)
    for text in (
        "starts_with(s, t)", "NOT starts_with(s, t)", "starts_with('a', t)", "s LIKE t || '1%'", "NOT (s LIKE t)",
        "starts_with(s, NULL)", "regexp_match(s, 'c')", "NOT regexp_match(s, 'c')", "iszero(n)", "NOT iszero(n)", "gcd(n, 7) = 7",
        "nvl2(t, n, 0) > 100", "ifnull(n, 0) < -400", "reverse(s) = '1a'", "left(s, 1) = 'b' AND n < 0", "left(n, 1) = '-'",
        "upper(s) = 'C9' OR translate(s, 'abc', 'xyz') = 'x5'", "greatest(n, 5) = 5", "decode(s, 'base64') IS NULL AND n = 99999",
    ):  # fmt: skip
        expected = rows_where(text, table)["s"].to_pylist()
        assert ds.to_table(filter=text, columns=["s"])["s"].to_pylist() == expected, text
