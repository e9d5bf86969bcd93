"""Random filters of every type and operator over a table of hostile values; see ``model`` for what they mean.

A filter follows from two numbers, the seed of its table and its own; so does a table.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.expr.nodes import Call, Column, Expr, Literal, negate

__all__ = ["Generator", "hostile_table"]

NAN, INF = float("nan"), float("inf")
POWERS = [
    sign * (2**k + e) for sign in (1, -1) for k in (0, 3, 7, 24, 31, 53, 62, 63, 64) for e in (-1, 0, 1)
]
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 2.5, 1.1, 1e22, 1e23, 5e-324, 1e300, NAN, INF, -INF, 2.0**24, 2.0**53,
    -(2.0**53), 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64, 65504.0, 1e-7,
]  # fmt: skip
DECIMALS = [
    "0",
    "1",
    "-1",
    "0.1",
    "1.1",
    "0.5",
    "2.5",
    "-2.5",
    "9007199254740993",
    "0.01",
    "1.105",
    "100000",
    "9e9",
]
TEXTS = [
    "", "a", "A", "ab", "abc", "aB", " a ", "100%_x", "Zürich", "é", "a\nb", "x" * 70, "\U0010ffff", "ba", "\\",
]  # fmt: skip
BYTES = [b"", b"\x00", b"a", b"ab", b"abc", b"\xff", b"\xff\xff", b"a\x00", b"x" * 70]
DAYS = [0, 1, -1, 18262, 18321, 2932896, -719162, 11016, 2**31 - 1, -(2**31)]
MOMENTS = [0, 1, -1, 1577836800, 1582934400, 1603585800, 253402300799, -62135596800, 1709164800, 4102444800]
"""In seconds: leap days, a change of clocks, the ends of Python's calendar."""
SPANS = [0, 1, -1, 60, 86400, 2**31]
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

TYPES: dict[str, pa.DataType] = {
    **{
        f"{'u' if u else 'i'}{b}": getattr(pa, f"{'u' if u else ''}int{b}")()
        for u in (0, 1)
        for b in (8, 16, 32, 64)
    },
    "f16": pa.float16(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "dec": pa.decimal128(10, 2),
    "dec38": pa.decimal128(38, 18),
    "dec0": pa.decimal128(20, 0),
    "dec256": pa.decimal256(60, 20),
    "b": pa.bool_(),
    "s": pa.string(),
    "ls": pa.large_string(),
    "sv": pa.string_view(),
    "dict": pa.dictionary(pa.int8(), pa.string()),
    "dictv": pa.dictionary(pa.int32(), pa.string_view()),
    "dicti": pa.dictionary(pa.int16(), pa.int64()),
    "bin": pa.binary(),
    "lbin": pa.large_binary(),
    "bv": pa.binary_view(),
    "fb": pa.binary(2),
    "uuid": pa.uuid(),
    "json": pa.json_(pa.string()),
    "bool8": pa.bool8(),
    "d": pa.date32(),
    "d64": pa.date64(),
    **{f"ts_{u}": pa.timestamp(u) for u in PER_SECOND},
    "tz": pa.timestamp("us", "America/New_York"),
    "tzu": pa.timestamp("ns", "UTC"),
    "t_s": pa.time32("s"),
    "t_ms": pa.time32("ms"),
    "t_us": pa.time64("us"),
    "t_ns": pa.time64("ns"),
    **{f"du_{u}": pa.duration(u) for u in PER_SECOND},
    "st": pa.struct({"x": pa.int64(), "y": pa.string(), "in": pa.struct({"f": pa.float64()})}),
    "li": pa.list_(pa.int32()),
    "lu": pa.large_list(pa.uint64()),
    "lf": pa.list_(pa.float64()),
    "lt": pa.list_(pa.string()),
    "fl": pa.list_(pa.float32(), 2),
}
"""Columns of the table, beside ``id``."""


def pool(kind: pa.DataType) -> list[Any]:
    """Values of a type as Arrow takes them, temporal ones as integers."""
    t = pa.types
    if t.is_integer(kind):
        bits = kind.bit_width
        low, high = (
            (0, 2**bits - 1) if t.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
        return [v for v in POWERS if low <= v <= high]
    if t.is_floating(kind):
        make: Any = {16: np.float16, 32: np.float32, 64: np.float64}[kind.bit_width]
        with np.errstate(over="ignore"):
            return [make(v) for v in FLOATS]
    if t.is_decimal(kind):
        return [Decimal(text) for text in DECIMALS if _fits(Decimal(text), kind)] + [
            Decimal((sign, (9,) * kind.precision, -kind.scale)) for sign in (0, 1)
        ]
    if t.is_boolean(kind):
        return [True, False]
    if t.is_dictionary(kind):
        return pool(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        known: dict[str, list[Any]] = {
            "uuid": [b"\x00" * 16, b"\xff" * 16, b"a" * 16],
            "json": ["{}", '{"a":1}', "null", '"a"', "[1,2]"],
        }
        return known.get(kind.extension_name.removeprefix("arrow."), [0, 1, -128])
    if t.is_fixed_size_binary(kind):
        return [v for v in BYTES if len(v) == kind.byte_width]
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind):
        return BYTES
    return TEXTS if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind) else _moments(kind)


def _fits(value: Decimal, kind: pa.DataType) -> bool:
    scaled = Fraction(value) * Fraction(10) ** kind.scale
    return bool(scaled.denominator == 1 and abs(scaled) < 10**kind.precision)


def _moments(kind: pa.DataType) -> list[int]:
    t = pa.types
    if t.is_date(kind):
        return DAYS if kind.bit_width == 32 else [v * 86_400_000 for v in DAYS]
    per = PER_SECOND[kind.unit]
    if t.is_time(kind):
        return [0, 1, 3600 * per, 86_400 * per - 1, 43_200 * per + per // 2]
    seconds = SPANS if t.is_duration(kind) else MOMENTS
    stored = [v * per + e for v in seconds for e in (0, 0, per // 2, 1)]
    extremes = [2**63 - 1, -(2**63), 2**62] if t.is_duration(kind) or per > 1 else [2**40]
    return [v for v in [*stored, *extremes] if -(2**63) <= v < 2**63]


def array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """An array of values as :func:`pool` has them."""
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


def hostile_table(seed: int, rows: int, version: str = "") -> pa.Table:
    """Rows of hostile values, with runs of equal ones, as pages and their statistics meet them.

    Parameters
    ----------
    seed : int
    rows : int
    version : str
        Of the data files that are to hold it: 0.1 keeps no nulls and no empty text, 2.0 no null structs.
    """
    rng = random.Random(f"table {seed}")
    columns: dict[str, pa.Array] = {"id": pa.array(range(rows), pa.int64())}
    for name, kind in TYPES.items():
        if version == "0.1" and name == "st":
            continue
        cells = [_cell(kind, rng, version) for _ in range(rows)]
        if rng.random() < 0.3:
            start, stop = sorted(rng.choices(range(rows), k=2))
            cells[start:stop] = [cells[start]] * (stop - start)
        columns[name] = array(kind, cells)
    return pa.table(columns)


def _cell(kind: pa.DataType, rng: random.Random, version: str) -> Any:
    t = pa.types
    is_struct = t.is_struct(kind)
    if version != "0.1" and not (version == "2.0" and is_struct) and rng.random() < 0.15:
        return None
    if is_struct:
        return {f.name: _cell(f.type, rng, version) for f in kind}
    if t.is_fixed_size_list(kind):
        return [rng.choice(FLOATS) for _ in range(kind.list_size)]
    if t.is_list(kind) or t.is_large_list(kind):
        return [_cell(kind.value_type, rng, version) for _ in range(rng.choice([0, 1, 1, 2, 4]))]
    value = rng.choice(pool(kind))
    return pool(kind)[1] if version == "0.1" and value in ("", b"") else value


# Filters

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
STAMPS = [
    "2020-01-01",
    "1970-01-01 00:00:00",
    "2020-02-29 00:00:00.5",
    "1969-12-31 23:59:59.999999",
    "9999-12-31",
]
PATTERNS = ["a%", "%b%", "_", "%", "", "ab", "100\\%\\_x", "%ü%", "a_c", "x%x", "%\n%"]
FAMILIES: dict[str, tuple[str, ...]] = {
    "number": (
        *(n for n in TYPES if n[0] in "iuf" and n[1:].isdigit()),
        *("dec", "dec38", "dec0", "dec256", "dicti", "bool8"),
    ),
    "text": ("s", "ls", "sv", "dict", "dictv", "json"),
    "bytes": ("bin", "lbin", "bv", "fb", "uuid"),
    "instant": ("d", "d64", "ts_s", "ts_ms", "ts_us", "ts_ns"),
    "zoned": ("tz", "tzu"),
    "time": ("t_s", "t_ms", "t_us", "t_ns"),
    "span": ("du_s", "du_ms", "du_us", "du_ns"),
}
LEAVES = {"number": ("st", "x"), "text": ("st", "y")}
LISTS = ("li", "lu", "lf", "lt", "fl")
CASTS = [
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint64(),
    pa.decimal128(38, 3),
    pa.decimal128(5, 1),
]
INSTANTS = [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.date32()]


class Generator:
    """Filters over some columns.

    Parameters
    ----------
    rng : random.Random
    names : collection of str
        Columns that the table has.
    """

    def __init__(self, rng: random.Random, names: set[str]) -> None:
        self.rng = rng
        self.names = names
        self.families = {family: [n for n in held if n in names] for family, held in FAMILIES.items()}

    def condition(self, depth: int = 3) -> Expr:
        """A filter."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.4:
            return self.test(depth)
        kind = rng.random()
        if kind < 0.2:
            return negate(self.condition(depth - 1))
        if kind < 0.3:
            return Call(rng.choice(["is_true", "is_null"]), (self.condition(depth - 1),))
        if kind < 0.4:
            args = [self.condition(depth - 1) for _ in range(rng.choice([3, 5]))]
            return Call("case", tuple(args))
        op = rng.choice(["and", "or"])
        return Call(op, tuple(self.condition(depth - 1) for _ in range(rng.choice([2, 2, 3]))))

    def test(self, depth: int) -> Expr:
        """A condition on values."""
        rng = self.rng
        kind = rng.random()
        family = rng.choices(list(self.families), [6, 3, 2, 2, 1, 1, 1])[0]
        if not self.families[family]:
            family = "number"
        if kind < 0.4:
            sides = (self.value(family, depth), self.value(family, depth - 1))
            return Call(rng.choice(COMPARISONS), sides)
        if kind < 0.5:
            return self.member(family, depth)
        if kind < 0.6:
            tested, low, high = (self.value(family, depth - 1) for _ in range(3))
            return Call("and", (Call(">=", (tested, low)), Call("<=", (tested, high))))
        if kind < 0.68:
            same = Call("is_not_distinct", (self.value(family, depth - 1), self.value(family, depth - 1)))
            return same if rng.random() < 0.5 else negate(same)
        if kind < 0.74:
            return Call("is_null", (self.value(family, depth),))
        if kind < 0.8:
            return self.boolean(depth)
        if kind < 0.88:
            return (
                self.text_test(depth) if rng.random() < 0.6 else Call("isnan", (self.value("number", depth),))
            )
        lists = [n for n in LISTS if n in self.names]
        return self.list_test(rng.choice(lists)) if lists else self.text_test(depth)

    def compared(self, family: str) -> Expr:
        """A column compared with a constant."""
        rng = self.rng
        constant = self.constant(family)
        found: Expr = Call(rng.choice(COMPARISONS), (self.column(family), constant))
        return negate(found) if rng.random() < 0.3 else found

    def simple(self, family: str) -> Expr:
        """A column compared with constants, as statistics decide it."""
        rng = self.rng
        if family not in ("number", "text", "bytes") or rng.random() < 0.7:
            return self.compared(family)
        listed = tuple(self.untyped(family) for _ in range(rng.choice([1, 3, 20])))
        found = Call("in", (self.column(family), Literal(listed)))
        return negate(found) if rng.random() < 0.3 else found

    def member(self, family: str, depth: int) -> Expr:
        rng = self.rng
        count = rng.choice([0, 1, 2, 3, 20])
        if family in ("number", "text", "bytes"):
            listed: list[Any] = [self.untyped(family) for _ in range(count)]
            kind = None
            if family == "number" and rng.random() < 0.3:
                kind = rng.choice([pa.float64(), pa.float32(), pa.int64(), pa.uint64()])
                listed = [
                    v.item() if isinstance(v, np.floating) else v for v in rng.choices(pool(kind), k=count)
                ]
        else:
            kind = self.literal_type(family)
            listed = [rng.choice(pool(kind)) for _ in range(count)]
        if rng.random() < 0.2:
            listed.append(None)
        return Call("in", (self.value(family, depth, columns_only=True), Literal(tuple(listed), kind)))

    def boolean(self, depth: int) -> Expr:
        """The column of truth values, by itself and compared."""
        rng, column = self.rng, Column(("b",))
        kind = rng.random()
        if kind < 0.4:
            return column
        if kind < 0.6:
            return Call(rng.choice(("=", "!=")), (column, Literal(rng.choice([True, False]))))
        if kind < 0.7:
            return Call("in", (column, Literal(rng.choice([(True,), (False, None), (True, False)]))))
        if kind < 0.85 and depth > 0:
            return Call(rng.choice(("=", "!=", "is_not_distinct")), (column, self.test(depth - 1)))
        return Call("coalesce", (column, Literal(rng.choice([True, False]))))

    def text_test(self, depth: int) -> Expr:
        rng, text = self.rng, self.value("text", depth, columns_only=True)
        kind = rng.random()
        if kind < 0.4:
            return Call(rng.choice(["like", "ilike"]), (text, Literal(rng.choice(PATTERNS))))
        if kind < 0.55:
            return Call(
                "regexp_like",
                (text, Literal(rng.choice(["a", "^a", "b$", "[a-c]+", "x{3}", "", "^$", "a|é"]))),
            )
        name = rng.choice(["starts_with", "ends_with", "contains"])
        return Call(name, (text, Literal(rng.choice(["", "a", "b", "x" * 66, "Z", "\U0010ffff", "é"]))))

    def list_test(self, name: str) -> Expr:
        rng, column = self.rng, Column((name,))
        inner = TYPES[name].value_type
        family = "text" if pa.types.is_string(inner) else "number"
        kind = rng.random()
        if kind < 0.3:
            return Call("array_has", (column, Literal(self.untyped(family))))
        if kind < 0.55:
            return Call("array_has_any", (column, Literal(tuple(self.untyped(family) for _ in range(3)))))
        if kind < 0.75:
            return Call(
                rng.choice(COMPARISONS), (Call("array_length", (column,)), Literal(rng.choice([0, 1, 2])))
            )
        element = Call("array_element", (column, Literal(rng.choice([1, 2, -1, -3, 9]))))
        return Call(rng.choice(COMPARISONS), (element, Literal(self.untyped(family))))

    # -- values

    def value(self, family: str, depth: int, columns_only: bool = False) -> Expr:
        """A column, a constant or something computed."""
        rng = self.rng
        kind = rng.random()
        if depth > 0 and kind < 0.35:
            computed = getattr(self, f"{family}_computed", None)
            if computed is not None:
                found: Expr = computed(depth - 1)
                return found
            return self.chosen(family, depth - 1)
        if columns_only or kind < 0.75:
            return self.column(family)
        return self.constant(family)

    def column(self, family: str) -> Expr:
        if family in LEAVES and "st" in self.names and self.rng.random() < 0.1:
            leaf = LEAVES[family]
            return (
                Column(("st", "in", "f")) if family == "number" and self.rng.random() < 0.5 else Column(leaf)
            )
        return Column((self.rng.choice(self.families[family]),))

    def constant(self, family: str) -> Expr:
        rng = self.rng
        if family in ("text", "bytes") or (family == "number" and rng.random() < 0.7):
            return Literal(self.untyped(family))
        if family == "instant" and rng.random() < 0.2:
            return Literal(rng.choice(STAMPS))
        kind = self.literal_type(family)
        value = rng.choice(pool(kind))
        return Literal(float(value) if isinstance(value, np.floating) else value, kind)

    def literal_type(self, family: str) -> pa.DataType:
        kinds = {
            "number": [
                *(pa.int64(), pa.uint64(), pa.float64(), pa.float32(), pa.float16()),
                *(pa.decimal128(10, 2), pa.decimal128(38, 18), pa.decimal256(60, 20)),
            ],
            "instant": [TYPES[name] for name in FAMILIES["instant"]],
            "zoned": [pa.timestamp(u, "UTC") for u in PER_SECOND],
            "time": [TYPES[name] for name in FAMILIES["time"]],
            "span": [TYPES[name] for name in FAMILIES["span"]],
        }
        return self.rng.choice(kinds[family])

    def untyped(self, family: str) -> Any:
        rng = self.rng
        if family == "text":
            return rng.choice(TEXTS)
        if family == "bytes":
            return rng.choice(BYTES)
        makers: list[Callable[[], Any]] = [
            lambda: rng.choice(POWERS),
            lambda: rng.choice(FLOATS),
            lambda: Decimal(rng.choice(DECIMALS)),
            lambda: rng.choice([0, 1, 2, -3, 2**70, -(2**70)]),
        ]
        return rng.choices(makers, [5, 3, 3, 1])[0]()

    def chosen(self, family: str, depth: int) -> Expr:
        """One of several values."""
        rng = self.rng
        first, second = self.value(family, depth, columns_only=True), self.value(family, depth)
        kind = rng.choice(["coalesce", "greatest", "least", "nullif", "case"])
        if kind == "case":
            return Call("case", (self.test(0), first, second))
        return Call(kind, (first, second))

    def number_computed(self, depth: int) -> Expr:
        rng = self.rng
        kind = rng.random()
        if kind < 0.4:
            return Call(rng.choice("+-*/%"), (self.value("number", depth, True), self.value("number", depth)))
        if kind < 0.5:
            return Call(rng.choice(["neg", "abs"]), (self.value("number", depth, True),))
        if kind < 0.6:
            return Call(
                rng.choice(["ceil", "floor", "trunc", "sqrt", "signum"]), (self.value("number", depth, True),)
            )
        if kind < 0.7:
            return Call("cast", (self.value("number", depth, True), Literal(None, rng.choice(CASTS))))
        if kind < 0.8:
            name = rng.choice(["length", "octet_length", "strpos"])
            args: tuple[Expr, ...] = (self.value("text", depth, True),)
            return Call(name, (*args, Literal(rng.choice(["", "a", "b"]))) if name == "strpos" else args)
        if kind < 0.87 and self.families["instant"]:
            part = rng.choice("year quarter month week day doy dow isodow hour minute second".split())
            return Call(
                "date_part", (Literal(part), self.value(rng.choice(["instant", "instant", "zoned"]), 0, True))
            )
        return self.chosen("number", depth)

    def text_computed(self, depth: int) -> Expr:
        rng, text = self.rng, self.value("text", depth, columns_only=True)
        kind = rng.random()
        if kind < 0.3:
            return Call(rng.choice(["lower", "upper", "reverse", "btrim", "ltrim", "rtrim"]), (text,))
        if kind < 0.5:
            name = rng.choice(["left", "right", "substr", "repeat"])
            counts = [Literal(rng.choice([0, 1, 2, -1, 5])) for _ in range(2 if name == "substr" else 1)]
            if name == "substr":
                counts[1] = Literal(rng.choice([0, 1, 3]))
            return Call(name, (text, *counts))
        if kind < 0.6:
            return Call(
                "replace", (text, Literal(rng.choice(["a", "b", "ab"])), Literal(rng.choice(["", "a", "zz"])))
            )
        if kind < 0.8:
            return Call(rng.choice(["||", "concat"]), (text, self.value("text", depth)))
        if kind < 0.9:
            number = Column((rng.choice([n for n in ("i8", "i64", "u64") if n in self.names]),))
            return Call("cast", (number, Literal(None, pa.string())))
        return self.chosen("text", depth)

    def span_computed(self, depth: int) -> Expr:
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            return Call(rng.choice("+-"), (self.column("span"), self.value("span", depth)))
        if kind < 0.6:
            stamps = ("ts_s", "ts_ms", "ts_us", "ts_ns")
            return Call("-", (Column((rng.choice(stamps),)), Column((rng.choice((*stamps, "d", "d64")),))))
        if kind < 0.7:
            return Call("neg", (self.column("span"),))
        return self.chosen("span", depth)

    def instant_computed(self, depth: int) -> Expr:
        if self.rng.random() < 0.3:
            return Call(self.rng.choice("+-"), (self.column("instant"), self.value("span", 0)))
        if self.rng.random() < 0.5:
            return Call(
                "cast", (self.value("instant", depth, True), Literal(None, self.rng.choice(INSTANTS)))
            )
        return self.chosen("instant", depth)

    def bytes_computed(self, depth: int) -> Expr:
        return self.chosen("bytes", depth) if self.rng.random() < 0.5 else self.column("bytes")
