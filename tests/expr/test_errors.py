"""What is refused, and what the message says: the thing at fault, what it is, and the remedy."""

from __future__ import annotations

import pickle
import random
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancecy.errors import ColumnNotFoundError, ExpressionError, LanceError
from lancecy.expr import Term, bind, col, evaluate, lit, parse
from lancecy.expr.binding import binder
from lancecy.expr.describe import describe
from lancecy.expr.evaluation.functions import ALIASES, FUNCTIONS, LOWERED
from lancecy.expr.nodes import FORMS, OPERATORS
from lancecy.limits import DEFAULT_LIMITS
from tests.expr.corpus import filters
from tests.expr.tables import every_kind
from tests.expr.test_answers import parsed
from tests.helpers.folded import folded

SCHEMA = every_kind().schema

MESSAGES = {
    # Columns
    "i9 = 1": "no column 'i9' in the schema; did you mean 'id', 'i8'",
    "st.in.z = 'p'": "no column 'st.in.z' in the schema; did you mean 'st.in.y'",
    "st['nope'] = 1": "no column 'st.nope'",
    "l.x = 1": "no column 'l.x'",
    # Functions
    "lenght(s) > 1": "no function 'lenght'; did you mean length",
    "year(ts_us) = 2024": r"no function 'year'; write date_part\('year', x\)$",
    "qqq(s)": "no function 'qqq'; the documentation of filters lists all$",
    "random() > 0.5": "random would differ from task to task",
    "now() > ts_us": "now has a value in scans and deletes only",
    "current_date = d": "current_date has a value in scans and deletes only; elsewhere lancecy.expr.fix_clock",
    "lower(s, s) = 'a'": r"lower\(\) takes 1 argument, not 2",
    "substr(s) = 'a'": r"substr\(\) takes 2 to 3 arguments, not 1",
    "concat() = 'a'": r"concat\(\) takes 1 or more arguments, not 0",
    "if(b, 1) = 1": r"if\(\) takes 3 arguments, not 2",
    "lower(i8) = 'a'": r"lower\(\) needs text, but i8 is tinyint; CAST it",
    "starts_with(s, 5)": r"starts_with\(\) needs text in quotes here, not 5",
    "starts_with(s, i8)": r"starts_with\(\) needs text, but i8 is tinyint; CAST it",
    "left(s, f64) = 'a'": r"left\(\) needs an integer, but f64 is double; CAST it",
    "digest(s, s) = X'00'": r"digest\(\) needs text in quotes here, a constant, not s",
    "digest(s, 'sha1') = X'00'": r"digest\(\) has the algorithms md5, sha224, .* not 'sha1'",
    "encode(s, 'hexa') = 'a'": r"encode\(\) has the encodings hex, base64, base64pad, not 'hexa'",
    "decode('abc', 'hex') = X'00'": r"decode\(\): b'abc' is not hex: Odd-length",
    "decode('YX==', 'base64') = X'00'": r"decode\(\): b'YX==' is not base64: its last characters",
    "concat(s, l) = 'a'": r"concat\(\) needs text, but l is list<.*>; name an element or a field of it",
    "concat(s, interval '1 day') = 'a'": r"concat\(\) needs text, but interval .* is interval; take a part of it",
    "chr(55296) = 'a'": r"chr\(\) of 55296: characters have the numbers",
    "chr(-1) = 'a'": r"chr\(\) of -1: characters have the numbers",
    "overlay('abc', 'x', 0) = 'a'": r"overlay\(\) counts positions from 1, not from 0",
    "factorial(21) = 1": r"factorial\(\) of a number below 0 or above 20",
    "factorial(-1) = 1": r"factorial\(\) of a number below 0 or above 20",
    "factorial(1.5) = 1": r"factorial\(\) needs an integer, but 1.5 is double",
    "gcd(-9223372036854775808, 0) = 1": r"gcd\(\) of these numbers is beyond bigint",
    "lcm(9223372036854775807, 2) = 1": r"lcm\(\) of these numbers is beyond bigint",
    "to_hex(1.5) = 'a'": r"to_hex\(\) needs an integer, but 1.5 is double",
    "regexp_count(s, 'a', 0) = 1": r"regexp_count\(\) counts positions from 1, not from 0",
    "regexp_count(s, 'a', 1, 'g') = 1": r"regexp_count\(\) has no flag 'g'",
    "regexp_instr(s, 'a', 1, 0) = 1": r"regexp_instr\(\) counts matches from 1, not from 0",
    "regexp_instr(s, '(a)', 1, 2, 'i', 1) = 1": r"regexp_instr\(\) finds a group of the first match only",
    "nvl2(s, 1) = 1": r"nvl2\(\) takes 3 arguments, not 2",
    "pi(1) = 1": r"pi\(\) takes 0 arguments, not 1",
    "ifnull(b, 1) = 1": r"ifnull\(\) has values of types that do not mix: boolean, bigint",
    "left(s, 'a') = 'a'": r"left\(\) needs an integer here",
    "array_has(s, 1)": r"array_has\(\) needs a list, but s is string",
    "l[1.0] = 1": r"array_element\(\) needs an integer, but 1.0 is double",
    "l[TRUE] = 1": r"array_element\(\) needs an integer, but TRUE is boolean",
    "l[0] = 1": r"positions in a list start at 1, .* write l\[1\] for the first element",
    "array_element(l, 0) = 1": "positions in a list start at 1",
    "l[1, 2] = 1": r"brackets hold one field name or one position",
    "l[1].a = 1": r"get_field\(\) needs a struct, but array_element\(l, 1\) is int",
    "l[1].a(2) = 1": "is not a column name",
    "(st).in.q = 1": "no column 'st.in.q'",
    "get_field(st, 'q') = 1": "no column 'q' in st; it has x, in",
    "array_has(l, s)": r"array_has\(\) has elements of types that do not mix: int, string; CAST them",
    "array_has_any(l, 1)": r"array_has_any\(\) needs a list, but 1 is bigint",
    "array_has_any(l, [s])": r"array_has_any\(\) has elements of types that do not mix: int, string; CAST them",
    "date_part('yaer', d) = 1": "a date has no part 'yaer'; did you mean year",
    "date_trunc('fortnight', d) = d": "a date has no part 'fortnight'",
    "regexp_match(s, '(')": "'\\(' is not a regular expression",
    "regexp_like(s, 'a', 'q')": r"flags of regexp_like\(\) are i, m, s and U, not 'q'",
    "split_part(s, ',', 0) = 'a'": "counts parts from 1",
    "regexp_replace(s, 'a', '$name') = 'a'": r"'\$name' in a replacement of regexp_replace\(\) is no group",
    "regexp_replace(s, 'a', '\\1') = 'a'": "only has 0 parenthesized",
    "regexp_replace(s, 'a', '', 'x') = 'a'": "flags of regexp_replace.* not 'x'",
    "repeat(s, 99999999999) = 'a'": r"99999999999 is too large for repeat\(\)",
    "array_has_all(l, 1)": r"array_has_all\(\) needs a list, but 1 is bigint",
    "array_has_all(l, s)": r"array_has_all\(\) needs a list, but s is string",
    "array_has(l, 'a')": "the text 'a' cannot be compared or combined with int",
    "b ESCAPE 'x'": "cannot read|ESCAPE belongs",
    "ts_us * 2 = ts_us": "a number of what|there is no",
    "t64 - interval '1 hour' < t64": "there is no time - interval",
    "t64 * t64 = t64": "there is no time",
    "du_s = interval ''": "is not an interval such as",
    "du_s = interval '5 1 day'": "'5 1 day' is not an interval such as",
    "du_s = interval '1 day ago'": "'1 day ago' is not an interval such as",
    "du_s = interval '1 day 01:02:03'": "'1 day 01:02:03' is not an interval such as",
    "du_s = interval '1 fortnight'": "an interval has no 'fortnight'; there are nanosecond, .* century",
    "du_s = interval '1 day 2 days'": "the interval '1 day 2 days' has day twice; add them up",
    "du_s = interval '1' day to second": "is no interval; write it as interval '1 month 2 days'",
    "t64 = '1:2'": "is not a time of day such as",
    "substr(s, 1, -1) = 'a'": "the length of a substring cannot be negative",
    # Types: both are named
    "s = 5": "s = 5: the number 5 cannot be compared or combined with string; put quotes around it",
    "i8 = 'a'": "the text 'a' cannot be compared or combined with tinyint; write it without quotes",
    "f64 > '1'": "the text '1' cannot be compared or combined with double",
    "b = 1": "the number 1 cannot be compared or combined with boolean; write TRUE or FALSE",
    "d = 5": "the number 5 cannot be compared or combined with date; write it as date '",
    "bin = 'a'": "the text 'a' cannot be compared or combined with binary; write bytes as X'",
    "s = X'61'": "the bytes X'61' cannot be compared or combined with string",
    "dec = 'x'": r"the text 'x' cannot be compared or combined with decimal\(10, 2\)",
    "i8 = date '2020-01-01'": "date '2020-01-01' of type date cannot be compared or combined with tinyint",
    "i8 IN ('a')": "the text 'a' cannot be compared or combined with tinyint",
    "i8 = s": "i8 is tinyint and s is string: these cannot be compared; CAST one side",
    "ts_us = tz": r"ts_us is timestamp and tz is timestamp\[us, tz=America/New_York\]",
    "greatest(l, l) IS NULL": r"greatest\(\) compares its values, and list<item: int32> has no order; name an element",
    "least(interval '1 month', interval '2 days') IS NULL": r"least\(\) .*interval has no order",
    "st = 1": "st is struct.*cannot be compared",
    "l IN (1)": "l is list<item: int32>, which IN cannot compare",
    "i8": "a filter needs a condition, but i8 is tinyint",
    "i8 AND b": "AND needs a condition, but i8 is tinyint",
    "NOT s": "NOT needs a condition, but s is string",
    "i8 IS TRUE": "IS TRUE needs a condition, but i8 is tinyint",
    "CASE WHEN i8 THEN 1 END = 1": "WHEN needs a condition, but i8 is tinyint",
    "CASE WHEN b THEN 1 ELSE 'a' END = 1": "CASE has values of types that do not mix: bigint, string",
    "coalesce(i8, 'a') = 1": r"coalesce\(\) has values of types that do not mix: tinyint, string",
    "i8 LIKE 'a'": "LIKE needs text, but i8 is tinyint; CAST it to string",
    "s LIKE 5": "LIKE takes a pattern in quotes, not 5",
    "s LIKE i8": "LIKE takes a pattern in quotes, not i8",
    "s LIKE 'a' ESCAPE 'ab'": "ESCAPE takes one character, not 'ab'",
    "s + 1 = 2": r"there is no string \+ bigint \(in s \+ 1\); CAST one side",
    "b + b = 1": r"there is no boolean \+ boolean",
    "- s = 1": "- needs a number, but s is string",
    "d + 1 = d": r"a number of what\? In d \+ 1 write an interval",
    "u64 / i64 = 1": "there is no bigint unsigned / bigint",
    "dec % 2 = 1": r"there is no decimal\(10, 2\) % decimal",
    "CAST(l AS int) = 1": "Unsupported cast from list",
    "CAST(i8 AS strin) = 'a'": "cannot CAST to strin; did you mean string",
    "CAST(s AS varchar(3)) = 'a'": r"cannot CAST to VARCHAR\(3\)",
    "TRY_CAST(l AS int) = 1": "Unsupported cast from list",
    "TRY_CAST(i8 AS strin) = 'a'": "cannot CAST to strin; did you mean string",
    # Constants
    "CAST('x' AS int) = i8": "Failed to parse string: 'x'",
    "1 / 0 = i8": "1 / 0 does not work: divide by zero",
    "9223372036854775807 + 1 = i64": "does not work: overflow",
    "d = '2020-13-01'": "'2020-13-01' is not a day that exists",
    "d = 'soon'": "'soon' is not a date such as",
    "d = '2020-01-01x'": "is not a date such as",
    "ts_us = '2020-01-01 25:00:00'": "is not a time of day that exists",
    "ts_us = '2020-01-01 10:00:00+99:00'": "is not a zone offset that exists",
    "ts_us = '2020-01-01T00:00:00Z'": "is an instant, timestamp has no time zone; write the time without",
    "tz = '2020-11-01 01:30:00'": "is not one instant in zone America/New_York; write the offset from UTC",
    "tz = '2020-03-08 02:30:00'": "is not one instant in zone America/New_York",
    "t64 = '24:00:00'": "'24:00:00' is not a time of day that exists",
    "du_s = interval '1 month'": "interval '1 months' has no fixed length, as months differ",
    "du_s = interval 'x'": "'x' is not an interval such as",
    "X'0' = bin": "X'0' has an odd number of hexadecimal digits",
    "1e9999 = i8": "'1e9999' is not a number that any column could hold",
    "timestamp(9) '9999-01-01' = ts_ns": r"is beyond the range of timestamp\(9\)",
    # Syntax
    "": "cannot read the expression '': it is empty",
    "-- nothing": "it is empty",
    "i8 =": "an operand is missing near '=' at character 3",
    "i8 = 1 AND": "an operand is missing near 'AND' at character 7",
    "(i8 = 1": "cannot read the expression '\\(i8 = 1'",
    "i8 = 1)": r"unexpected text near '\)' at character 6",
    "b AND\ni8 ~ 1": "unexpected text near '~' at character 9",
    "i8 i16": "unexpected text near 'i16' at character 3",
    "i8 AS x": "unexpected text near 'AS' at character 3",
    "i8 = 1; DROP TABLE x": "cannot read the expression|not supported",
    "SELECT 1": "cannot read the expression",
    "i8 = 'a": "a string or a name is not closed",
    "i8 IN ()": "IN needs a list of values in parentheses, with at least one in it",
    "i8 IN i16": "IN with field is not supported",
    "i8 IN (SELECT 1)": "IN with query is not supported",
    "EXISTS (SELECT 1)": "EXISTS is not supported in a filter",
    "i8 IS 3": "IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM",
    "i8 LIKE ANY ('a')": "ANY is not supported",
    "count(*) = 1": "STAR is not supported",
    "sum(i8) OVER () = 1": "WINDOW is not supported",
    "i8 & 1 = 1": "BITWISEAND is not supported",
    "i8 = 1 & i16 = 2": "AND joins conditions",
    "i8 = 1 | i16 = 2": "OR joins conditions",
    "i8 = 1 && i16 = 2": "AND joins conditions",
    "i8 = ?": "PLACEHOLDER is not supported",
    "(1, 2) = i8": "TUPLE is not supported",
    "l[1:2] = 3": r"a part of a list is written array_slice\(l, 2, 3\)",
    "l = 1": "l is list<item: int32>, which cannot be compared with 1; compare it with a list or struct",
    "i8 = 1.5.2": "is not a column name",
    "a.b(c)": "is not a column name",
    '"i8" = 1': "write `i8` for the column or 'i8' for the string",
    's = "a"': "write `a` for the column or 'a' for the string",
}


@folded("text", MESSAGES)
def test_message_names_what_is_wrong(text: str) -> None:
    with pytest.raises((ExpressionError, ColumnNotFoundError), match=MESSAGES[text]) as caught:
        bind(parsed(text), SCHEMA, boolean=True)
    if isinstance(caught.value, ExpressionError):
        assert isinstance(caught.value, ValueError)
        assert caught.value.text or not text
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_position_is_that_of_the_character() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("b AND\ni8 ~ 1")
    assert caught.value.position == 9
    assert "b AND\ni8 ~ 1"[9] == "~"
    assert caught.value.text == "b AND\\ni8 ~ 1"


def test_names_of_the_nearest_columns_are_attributes() -> None:
    with pytest.raises(ColumnNotFoundError) as caught:
        bind(col("i9").expr, SCHEMA)
    assert caught.value.known == ["id", "i8"]
    assert isinstance(caught.value, KeyError)


def test_column_names_of_a_file_do_not_reach_the_terminal_raw() -> None:
    schema = pa.schema([("evil\x1b[31m\x00name" + "x" * 1000, pa.int32())])
    with pytest.raises(ColumnNotFoundError) as caught:
        bind(col("nope").expr, schema)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@folded(
    ("text", "message"),
    [
        ("i64 + 1 > 0", "overflow"), ("i64 * 2 > 0", "overflow"), ("-i64 > 0", "overflow"),
        ("1 / i8 > 0", "divide by zero"), ("i8 % 0 = 1", "divide by zero"), ("CAST(s AS int) = 1", "Failed to parse"),
        ("CAST(f64 AS int) = 1", "truncated"), ("CAST(i64 AS tinyint) = 1", "not in range"), ("abs(i64) > 0", "overflow"),
    ],
)  # fmt: skip
def test_values_that_fail_are_an_expression_error_with_the_expression(text: str, message: str) -> None:
    table = every_kind()
    bound = bind(parsed(text), table.schema)
    with pytest.raises(ExpressionError, match=message) as caught:
        evaluate(bound, table)
    assert str(bound) in str(caught.value)


@pytest.mark.slow
def test_nesting_is_bounded_and_chains_are_not() -> None:
    deepest = DEFAULT_LIMITS.nesting
    for text in (
        "(" * 5000 + "b" + ")" * 5000,
        "(" * 5000,
        "NOT " * 5000 + "b",
        "-" + " -" * 5000 + "i8 = 1",
        "i8" + " + 1" * 5000 + " = 1",
        "lower(" * 5000 + "s" + ")" * 5000,
        "CASE WHEN " * 1000 + "b" + " THEN TRUE END" * 1000,
        "[" * 5000,
        "a." * 5000 + "a = 1",
    ):
        with pytest.raises(LanceError):
            bind(parsed(text), SCHEMA)
    flat = bind(parsed(" AND ".join(f"i8 != {value}" for value in range(5000))), SCHEMA)
    assert len(getattr(flat.expr, "args", ())) == 5000
    members = bind(parsed(" OR ".join(f"i8 = {value % 128}" for value in range(5000))), SCHEMA)
    assert getattr(members.expr, "op", "") == "in"
    with pytest.raises(ExpressionError, match=f"more than {deepest} deep"):
        _alternating(deepest + 2)
    expression = pc.field("i8")
    for _ in range(100):
        expression = expression + 1
    with pytest.raises(ExpressionError, match="deep"):
        parse(expression == 1)


def _alternating(levels: int) -> Term:
    term = col("b")
    for _ in range(levels):
        term = (term & col("b")) | col("b")
    return term


def test_half_a_character_is_refused_with_its_position() -> None:
    for make in (
        lambda: parse("s = '\ud800'"),
        lambda: col("s") == "\udfff",
        lambda: col("s").isin(["a", "\ud800"]),
    ):
        with pytest.raises(ExpressionError, match=r"half a character, U\+D"):
            make()


# Operators that SQL has by these names too: what follows may well stand in parentheses.
_KEYWORDS = frozenset(("and", "or", "not", "in", "like", "ilike", "case", "cast", "try_cast"))


def test_what_the_tree_calls_its_own_nodes_is_no_function() -> None:
    """Found by fuzzing: ``neg()`` was taken for a minus sign without an operand."""
    for name in (op for op in (*OPERATORS, *FORMS) if op.isidentifier()):
        if name in _KEYWORDS:
            continue
        for arguments in ("", "i8", "i8, 1", "i8, 1, 2"):
            with pytest.raises(ExpressionError, match="no function"):
                parse(f"{name}({arguments}) = 1")


def test_every_function_with_any_number_of_arguments_is_bound_or_refused() -> None:
    names = [*FUNCTIONS, *ALIASES, *LOWERED, "make_array", "unknown"]
    for call in (f"{name}({', '.join(['i8'] * count)})" for name in names for count in range(5)):
        for text in (call, f"{call} = 1"):
            try:
                read = parsed(text)
                describe(read)
                bind(read, SCHEMA)
            except ExpressionError:
                continue


@pytest.mark.parametrize(
    "text",
    [
        "i8" + " BETWEEN 1 AND 2" * 40,
        "i8" + " IN (i8, 1, i8, i8, i8)" * 20,
        "CASE " * 40 + "i8" + " WHEN 1 THEN 2 WHEN 3 THEN 4 WHEN 5 THEN 6 END" * 40 + " = 7",
        "nullif(" * 40 + "i8" + ", 1)" * 40 + " = 7",
    ],
)
def test_short_text_that_would_become_a_huge_tree_is_refused(text: str) -> None:
    """Found by fuzzing: what such operators test is compared again and again, and nested ones multiply."""
    with pytest.raises(ExpressionError, match="nest fewer"):
        parse(text)


def test_nested_calls_by_the_names_of_types_are_read_once() -> None:
    """Each level was read as a type and then as a call: 25 levels would have taken half an hour."""
    for begin, end in (
        ("struct(", ")"),
        ("date(", ")"),
        ("decimal(1, ", ")"),
        ("int[", "]"),
        ("null[", "]"),
        ("array[", "]"),
        ("(date (", "))"),
        ("{a: date(", ")}"),
    ):
        with suppress(ExpressionError):
            parse(begin * 25 + "i8" + end * 25)
    with pytest.raises(ExpressionError, match=r"cannot CAST to int\[…\]"):
        parse("i8::int[" * 30 + "1" + "]" * 30)
    assert parse("timestamp(3) '2024-05-01' < ts_us AND d = date '2024-05-01'") is not None
    assert parse("CAST(i8 AS decimal(10, 2)) = i8::decimal(10, 2)") is not None


def test_nested_lists_are_not_made_to_find_their_type() -> None:
    with pytest.MonkeyPatch.context() as patch:
        made: list[object] = []
        patch.setattr(binder, "compute", lambda *call: made.append(call))
        assert bind(parsed("[" * 50 + "i8" + "]" * 50), SCHEMA).expr.type != pa.list_(pa.int8())
    assert not made


def test_types_nested_too_deep_and_syntax_of_statements_are_refused() -> None:
    """Python's own errors came out of the parser."""
    for depth in (300, 20_000):
        with pytest.raises(ExpressionError, match="too deep"):
            parse("CAST(NULL AS " + "array<" * depth + "int" + ">" * depth + ") = 1")
    with pytest.raises(ExpressionError, match="cannot read"):
        parse("(select connect by (x")


def test_few_long_texts_are_kept_parsed() -> None:
    texts = [f"i8 IN ({n}" + ", 7" * 5000 + ")" for n in range(20)]
    first = parse(texts[0])
    assert parse(texts[0]) is first
    for text in texts:
        parse(text)
    # A thousand of them were kept, which took gigabytes.
    assert parse(texts[0]) == first
    assert parse(texts[0]) is not first


def test_repeated_operands_of_usual_sizes_are_read() -> None:
    members = ", ".join(f"i8 + {n}" for n in range(200))
    for text in (
        f"(i8 + i8 * 2) IN ({members})",
        "(i8 BETWEEN 1 AND 2) BETWEEN FALSE AND TRUE",
        "nullif(nullif(nullif(i8, 1), 2), 3) = 4",
        "CASE nullif(i8, 0) WHEN 1 THEN 2 WHEN 3 THEN 4 END BETWEEN 1 AND 2",
    ):
        bind(parsed(text), SCHEMA)


def test_constants_that_have_no_place_in_an_expression() -> None:
    for value in ({"a": object()}, object(), [1, 2j], 1j):
        with pytest.raises(ExpressionError, match="cannot be part of an expression"):
            lit(value)
    with pytest.raises(ExpressionError, match="not a value of type int8"):
        lit(1000, pa.int8())
    with pytest.raises(ExpressionError, match="more than one column 'x'"):
        bind(col("x").expr, pa.schema([("x", pa.int8()), ("x", pa.int8())]))


def test_misuse_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="not int"):
        parse(5)
    with pytest.raises(TypeError, match="join conditions with & | ~"):
        bool(col("a") > 1)
    with pytest.raises(TypeError, match="join conditions"):
        _ = 1 < col("a") < 5
    with pytest.raises(TypeError, match="named by a string"):
        col(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="isin needs a list"):
        col("s").isin("abc")
    with pytest.raises(TypeError, match="not a sequence"):
        list(col("s"))
    with pytest.raises(TypeError):
        hash(col("s"))
    with pytest.raises(TypeError):
        col("s")[1.5]  # type: ignore[index]
    with pytest.raises(TypeError):
        col("s").like(5)  # type: ignore[arg-type]
    with pytest.raises(ExpressionError, match="triples"):
        parse([("a", ">")])
    with pytest.raises(ExpressionError, match="operator '~' is not one of"):
        parse([("a", "~", 1)])


@pytest.mark.parametrize("seed", range(6))
def test_mangled_text_is_understood_or_refused_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    texts = [text for group in filters().values() for text in group]
    words = [
        "(",
        ")",
        "'",
        "`",
        '"',
        "NOT",
        "IS",
        "NULL",
        "IN",
        "CASE",
        "END",
        "::",
        "--",
        "/*",
        ";",
        "\x00",
        "é",
        "[",
        "}",
    ]
    for _ in range(250):
        text = rng.choice(texts)
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(text) + 1)
            kind = rng.random()
            if kind < 0.4:
                text = f"{text[:place]} {rng.choice(words)} {text[place:]}"
            elif kind < 0.7:
                text = text[:place] + text[place + rng.randrange(1, 5) :]
            else:
                text = text[:place] + " " + rng.choice(texts)
        try:
            evaluate(bind(parsed(text), SCHEMA), every_kind())
        except LanceError:
            continue


def test_key_of_a_map_in_brackets_names_the_function_for_it() -> None:
    schema = pa.schema({"m": pa.map_(pa.string(), pa.string())})
    with pytest.raises(ExpressionError, match=r"a map has no members: write map_extract\(m, 'k'\)\[1\]"):
        bind(parsed("m['k'] = 'v'"), schema)
