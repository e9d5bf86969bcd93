"""Filter strings over the table of every kind: hundreds, by combining columns with constants that suit them."""

from __future__ import annotations

__all__ = ["COMPARISONS", "CONDITIONS", "filters"]

_OPS = ("=", "!=", "<", "<=", ">", ">=")
_WHOLE = (
    "0",
    "1",
    "-3",
    "127",
    "128",
    "-129",
    "256",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
)
_FRACTIONS = (
    "1.0",
    "1.5",
    "-0.5",
    "1e3",
    "0.1",
    "1e300",
    "-1e300",
    "9007199254740993",
    "1e38",
    "3.5e38",
    "-3.5e38",
)
_TEXTS = ("'a'", "''", "'Abc'", "'Zürich'", "'100%_x'", "'zz'")
_BYTES = ("X'61'", "X''", "X'00'", "X'ffff'", "X'6162'", "X'616263'")
_DATES = ("date '2020-01-01'", "date '1969-12-31'", "'2020-02-29'", "timestamp '2020-01-01 12:00:00'")
_STAMPS = (
    "timestamp '2020-01-01 12:30:15'",
    "timestamp '2020-01-02 12:30:15.5'",
    "timestamp(0) '1969-12-31 12:30:15'",
    "timestamp(9) '2020-01-01 12:30:14.999999999'",
    "date '2020-01-02'",
    "'2020-02-29 12:30:15'",
)
_ZONED = (*_STAMPS, "timestamp '2020-01-01T12:30:15Z'", "'2020-01-01T07:30:15-05:00'")
_TIMES = ("time '01:00:00'", "'23:59:59'", "time '12:30:15.5'")
_SPANS = ("interval '1 second'", "interval '1' day", "interval '90.5 seconds'", "interval '-2 days'")
_DECIMALS = ("1.1", "1.10", "2", "-3.33", "1.105", "1e10", "decimal(8, 3) '1.100'", "99999999.99")

COMPARISONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("i8", "i16", "i32", "i64", "u8", "u32", "u64", "`two words`", "st.x"), (*_WHOLE, *_FRACTIONS)
    ),
    **dict.fromkeys(("f16", "f32", "f64", "dict64"), (*_WHOLE, *_FRACTIONS)),
    **dict.fromkeys(("s", "ls", "sv", "dict", "st.in.y"), _TEXTS),
    "nothing": ("1", "'a'", "NULL", "nothing", "i8"),
    "bin": _BYTES,
    "fb": _BYTES,
    "b": ("TRUE", "FALSE"),
    "d": _DATES,
    "d64": _DATES,
    **dict.fromkeys(("ts_s", "ts_ms", "ts_us", "ts_ns"), _STAMPS),
    "tz": _ZONED,
    "t32": _TIMES,
    "t64": _TIMES,
    **dict.fromkeys(("du_s", "du_us", "du_ns"), _SPANS),
    "dec": _DECIMALS,
    "dec256": _DECIMALS,
}

_PAIRS = (
    ("i8", "i64"), ("i32", "u8"), ("i64", "u64"), ("i32", "f64"), ("f32", "f64"), ("dec", "i32"), ("dec", "dec256"),
    ("s", "ls"), ("s", "dict"), ("bin", "fb"), ("d", "d64"), ("d", "ts_s"), ("ts_s", "ts_ns"), ("d64", "ts_us"),
    ("t32", "t64"), ("du_s", "du_ns"), ("b", "b"), ("i32", "i32"), ("f64", "f64"),
)  # fmt: skip

CONDITIONS = (
    "b", "NOT b", "b = TRUE", "b IS TRUE", "b IS NOT TRUE", "b IS FALSE", "b IS NOT FALSE", "b IS UNKNOWN",
    "b IS NOT UNKNOWN", "b AND i8 > 0", "b OR i8 > 0", "NOT (b AND i8 > 0)", "NOT (b OR i8 > 0)", "b AND NULL",
    "b OR NULL", "NOT (b AND NULL)", "b = NULL", "NULL", "TRUE", "FALSE", "1 = 1", "1 > 2 OR b", "i8 IS NULL",
    "i8 IS NOT NULL", "NOT i8 IS NULL", "(i8 > 0) IS NULL", "i8 > 0 IS NULL", "i8 > 0 IS NOT TRUE", "f64 IS NULL",
    "s IS NULL", "s = '' OR s IS NULL", "l IS NULL", "st IS NULL", "st.x IS NULL", "st.in.y IS NOT NULL",
    "i8 = 1 OR i8 = 2 OR i8 = 1000", "i8 IN (1, 2)", "i8 IN (1, 1000)", "i8 IN (1000, -1000)", "i8 NOT IN (1, 2)",
    "i8 IN (1, NULL)", "i8 NOT IN (1, NULL)", "i8 IN (NULL)", "i8 IN (1.0, 2.5)", "i8 IN (i16, 127)",
    "i64 IN (1, 9223372036854775807)", "u64 IN (18446744073709551615, -1)", "f64 IN (0.0, 1)", "f64 NOT IN (0.0)",
    "f32 IN (0.1, 1)", "f64 IN (1e400, 1)", "s IN ('a', 'abc', 'nope')", "s NOT IN ('a', '')", "s IN ('')",
    "dict IN ('u', 'w')", "dict NOT IN ('u')", "dict IN ('u', NULL)", "bin IN (X'61', X'00')", "fb IN (X'6161', X'61')",
    "d IN (date '2020-01-01', '2020-01-02')", "dec IN (1.1, 2, 7.777)", "b IN (TRUE)", "b IN (TRUE, FALSE)",
    "ts_s IN ('2020-01-01 12:30:15', '2020-01-01 12:30:15.5')", "i8 BETWEEN 1 AND 5", "i8 NOT BETWEEN 1 AND 5",
    "i8 BETWEEN -1000 AND 1000", "i8 BETWEEN 5 AND 1", "i8 BETWEEN SYMMETRIC 5 AND 1", "f64 BETWEEN 0 AND 1",
    "f64 NOT BETWEEN 0 AND 1", "s BETWEEN 'a' AND 'b'", "i8 BETWEEN NULL AND 5", "i8 NOT BETWEEN NULL AND 5",
    "d BETWEEN date '2020-01-01' AND date '2020-12-31'", "i8 IS DISTINCT FROM 1", "i8 IS NOT DISTINCT FROM 1",
    "i8 IS DISTINCT FROM NULL", "i8 IS NOT DISTINCT FROM NULL", "i8 IS DISTINCT FROM i16", "f64 IS DISTINCT FROM 1",
    "i8 IS NOT DISTINCT FROM i16", "NULL IS NOT DISTINCT FROM NULL", "s LIKE 'a%'", "s NOT LIKE 'a%'", "s LIKE '%c'",
    "s LIKE '%b%'", "s LIKE 'a_c'", "s LIKE '_bc'", "s LIKE 'abc'", "s LIKE ''", "s LIKE '%'", "s LIKE '_'",
    "s LIKE '___'", "s LIKE 'a%b'", "s LIKE '%%'", "s LIKE '100\\%\\_x'", "s LIKE '100!%!_x' ESCAPE '!'",
    "s LIKE '%!%%' ESCAPE '!'", "s LIKE 'Z%h'", "s LIKE 'Z_rich'", "s ILIKE 'A%'", "s ILIKE 'ABC'", "s ILIKE 'zÜr%'",
    "s NOT ILIKE '%B%'", "s ILIKE '_BC'", "s LIKE NULL", "dict LIKE 'u%'", "ls LIKE 'A%'", "starts_with(s, 'a')",
    "NOT starts_with(s, 'a')", "starts_with(s, '')", "isnan(f64)", "NOT isnan(f64)", "isnan(i8)", "i32 % 2 = 1",
    "i64 % 2 = 1", "-7 / 2 = -3", "-7 % 3 = -1", "7.5 % 2 = 1.5", "i8 + 1 > 2", "i8 + i8 > 200", "i8 * 100 = 12700",
    "u8 - 2 < 0", "u8 - u32 < 0", "i8 - u8 <= 0", "-i8 > 100", "- u8 < -5", "i8 / 2 = -1", "i8 / 2 = 0",
    "i32 + 0.5 > 2", "f64 + 1 > 1", "f64 * 2 = 2", "f32 + 1 > 1.05", "f64 / 0 > 1", "f64 / 2 >= 0.5", "f64 - f64 = 0",
    "dec + 1 = 2.1", "dec * 2 < 0", "dec - 1.1 = 0", "1 + 2 * 3 = 7", "(1 + 2) * 3 = 9", "10 - 4 - 3 = 3",
    "8 / 4 / 2 = 1", "i8 = 1 AND 10 / i8 > 5", "i8 <> 0 AND 10 / i8 > 2", "10 / i8 > 2 AND i8 != 0",
    "i8 = 0 OR 10 / i8 > 2", "CASE WHEN i8 > 1 THEN b ELSE FALSE END", "CASE WHEN i8 > 1 THEN 1 END = 1",
    "CASE i8 WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'more' END = 'two'",
    "CASE WHEN i8 = 0 THEN 0 ELSE 10 / i8 END > 4", "CASE WHEN b THEN i8 ELSE i16 END > 100",
    "CASE WHEN NULL THEN 1 ELSE 2 END = 2", "i8 = 1 = TRUE", "(i8 > 0) = (i16 > 0)", "b = (i8 > 0)", "b != (i8 > 0)",
    "ts_s > timestamp '2020-01-01 12:30:15' - interval '1 day'", "i64 > 0 AND (b OR s = 'a') AND NOT (f64 < 1)",
    "i8 > 0 AND i16 > 0 AND i32 > 0 OR i64 > 0 AND b", "NOT (NOT (i8 > 0))", "NOT (i8 > 0 AND NOT (b OR i8 IS NULL))",
    "X'61' = bin", "'a' = s", "1 < i8", "1.5 > i8", "date '2020-01-01' <= d", "i8 >= 1 AND i8 <= 2 OR i8 = 127",
    "b OR TRUE", "b AND FALSE", "1 = 1 AND 2 = 2", "1 = 2 OR 2 = 3", "b AND (i8 = 1 OR i8 = 1)", "NOT (b AND FALSE)",
    "u64 - 5 < 0", "u64 - u8 < 0", "u64 * 2 > u64", "u64 + i8 < 0", "u64 * i8 < 0", "u64 % 5 = 1", "u64 / 2 > 9007199254740992", "u8 / 2 = 1", "dec + u64 > 2", "dec / 2 > 1",
    "ts_us - '2020-01-01 00:00:00' > interval '0 seconds'", "ts_us - d = interval '45015 seconds'", "du_us * 2 < du_s",
    "du_s + interval '1 second' > du_us", "ts_us + du_us > ts_us", "d64 + interval '1 day' > d",
    "(f64 > 0) IN (TRUE)", "i8 + 0 IN (1, 2)", "i8 BETWEEN i16 AND i64", "NULL IN (1, 2)", "1 IN (1, 2)", "lower(NULL) LIKE 'a'",
    "st['x'] = 1", "`st`.`x` = 4", "st.`in`.y = 'p'", "I8 = 1", "ST.X = 1", "`two words` IS NULL",
)  # fmt: skip


def filters() -> dict[str, list[str]]:
    """Every filter string by group: each column with each constant, pairs of columns, and the list above."""
    found = {
        column: [f"{column} {op} {constant}" for constant in constants for op in _OPS]
        for column, constants in COMPARISONS.items()
    }
    found["pairs"] = [f"{left} {op} {right}" for left, right in _PAIRS for op in _OPS]
    found.update(
        {
            f"conditions {start}": list(CONDITIONS[start : start + 25])
            for start in range(0, len(CONDITIONS), 25)
        }
    )
    return found
