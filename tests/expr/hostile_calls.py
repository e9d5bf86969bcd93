"""Every function of filters with the constants and columns that are worst for it."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.errors import LanceError
from lancecy.expr import bind, evaluate
from lancecy.expr.evaluation.functions import FUNCTIONS, Function
from lancecy.expr.nodes import Call, Column, Expr, Literal
from tests.helpers.jsonb import nested, stored

__all__ = ["run_all"]

_INTS: list[Any] = [0, 1, -1, 2, 400, -400, 2**31, -(2**31), 2**31 - 1, 2**63 - 1, -(2**63)]
_TEXTS = [
    "",
    "a",
    "^",
    "$",
    "x*",
    "(a*)*",
    "((a?){100}a{100})",
    "(x+x+)+y",
    "\\",
    "\\1",
    "%",
    "é",
    "year",
    "epoch",
    "a" * 100_000,
]
_FLOATS = [0.0, -0.0, 1.5, -2.5, 1e308, -1e308, 5e-324, np.nan, np.inf, -np.inf]
_PATHS = [
    "$",
    "$.a",
    "$.a[*]",
    "$.**",
    "$" + ".**" * 120,
    "$" + "[0,0]" * 60,
    "$[last - 1]",
    "$[",
    None,
    0,
    1.5,
]
_CONSTANTS: dict[str, list[Any]] = {"CT": _TEXTS, "CI": _INTS, "CS": [*_TEXTS, *_PATHS]}
_COLUMNS = {"DT": "s", "DS": "a", "DI": "i"}
# Arguments that are tried for all parameters together of functions that have more than three.
_FEW = 12
_STORED = [0, -1, 1, 2**62, 2**63 - 1, -(2**63)]


def _columns() -> dict[str, list[pa.Array]]:
    """Columns by the letters of parameters that take them."""
    text = pa.array(["", "a", None, "a" * 500, "é\n" * 100, "x" * 1000])
    halves = np.array([0, -2.5, 65_504, np.nan, np.inf, 6e-8], np.float16)
    floats = [
        pa.array(_FLOATS[:6]),
        pa.array(_FLOATS[4:]),
        pa.array(np.array([*_FLOATS[2:4], 3e38, 1e-45, *_FLOATS[7:9]], np.float32)),
        pa.array(halves),
    ]
    ints = [
        pa.array(_STORED),
        pa.array([0, 1, 2**64 - 1, None, 5, 6], pa.uint64()),
        pa.array([-128, 127] * 3, pa.int8()),
    ]
    stamps = [
        pa.array(_STORED).view(pa.timestamp(unit, zone))
        for unit in ("s", "us", "ns")
        for zone in (None, "America/New_York")
    ]
    days = [pa.array([0, 1, -1, 2**31 - 1, -(2**31), 5], pa.int32()).view(pa.date32())]
    lists = [
        pa.array([[1, 2], [], None, [None], [3], [4]]),
        pa.array([["a"], [], None, [None], ["b"], ["c"]], pa.large_list(pa.string())),
    ]
    documents = [
        pa.array(
            [stored({"a": ["x" * 500, 2**64 - 1, 1e308]}), nested(128), None, b"", stored("a"), stored([])]
        ),
        pa.array([nested(129), b"\x20", None, b"\x9f\xff\xff\xff", b"\x40\0\0\1\x1f\xff\xff\xff", b"a"]),
        pa.array(['{"a": [1]}', "[]", None, "1e999", '"a"', "[" * 128 + "]" * 128], pa.json_()),
    ]
    structs = [pa.array([{"x": 1}, None, {"x": None}, {"x": 2}, {"x": 3}, {"x": 4}])]
    times = [pa.array([0, 1, 86_399, None, 5, 6], pa.int32()).view(pa.time32("s"))]
    spans = [pa.array(_STORED).view(pa.duration("ns"))]
    dated = pa.array(
        ["2024-02-29", "1970-01-01T00:00:00Z", None, "9999-12-31", "0000-01-01", "2024-03-31 02:30:00"]
    )
    return {
        "q": [stamps[1], stamps[5], *days, *times, dated],
        "p": [stamps[1], *days, *times, *spans, dated],
        "u": [*floats[:2], *ints[:2], stamps[1], stamps[3], dated, text],
        "g": spans,
        "z": stamps,
        "k": [*ints[:1], text],
        "s": [text, text.cast(pa.large_string())],
        "a": [text, text.cast(pa.large_string()), floats[0], ints[1], stamps[0], days[0]],
        "y": [text, pa.array([b"", b"\xff", None, b"a", b"b", b"c"])],
        "f": [*floats, *ints],
        "d": [*floats, *ints, pa.array([0, 1, -1, None, 5, 99]).cast(pa.decimal128(21, 2))],
        "n": [*floats, *ints],
        "t": [*stamps, *days],
        "i": ints,
        "w": ints,
        "l": lists,
        "r": structs,
        "x": [text, floats[0], ints[0], stamps[0]],
        "L": [*lists, pa.array([[_STORED[4]], [], None, [None], [1], [2]], pa.list_(pa.int64()))],
        "e": [text, floats[0], ints[0]],
        "v": [text, floats[0], lists[0], structs[0]],
        "m": [pa.array([[("a", 1)], [], None, [("b", None)], [], []], pa.map_(pa.string(), pa.int8()))],
        "j": documents,
    }


def _arguments(letters: str, columns: dict[str, list[pa.Array]]) -> list[tuple[Expr, pa.Array | None]]:
    if letters == "CL":
        return [(Literal((1, None)), None), (Literal(("a",)), None), (Literal(()), None)]
    if letters[0] == "C":
        return [(Literal(value), None) for value in _CONSTANTS[letters]]
    if letters[0] == "D":
        # Null, constants and a column.
        constants = [None, *_CONSTANTS[f"C{letters[1]}"]]
        return [
            *[(Literal(value), None) for value in constants],
            (Column(("",)), columns[_COLUMNS[letters]][0]),
        ]
    return [(Column(("",)), values) for values in columns[letters]]


def run_all() -> None:
    """Call every function with every combination; prints its name.

    Only an error of the library may come out of it, or as many sound values as rows.
    """
    columns = _columns()
    for name, spec in FUNCTIONS.items():
        for count in range(spec.least, len(spec.parameters) + 1):
            _run(name, spec, count, columns)
        print(name)


def _run(name: str, spec: Function, count: int, columns: dict[str, list[pa.Array]]) -> None:
    choices = [_arguments(spec.parameters[k].rstrip("?*"), columns) for k in range(count)]
    if len(choices) > 2 and spec.parameters[0].rstrip("?*") == "a":
        # What is neither text nor floats becomes text as floats do, before the function sees it.
        choices[0] = choices[0][:3]
    if len(choices) > 3:
        # The first and the last ones, and some between them.
        few = max(2, _FEW // len(choices))
        choices = [choice[:: max(1, len(choice) // few)] + choice[-1:] for choice in choices]
    for chosen in product(*choices):
        held = {f"c{k}": values for k, (_, values) in enumerate(chosen) if values is not None}
        args = tuple(
            Column((f"c{k}",)) if values is not None else arg for k, (arg, values) in enumerate(chosen)
        )
        table = pa.table(held) if held else pa.table({"c": range(6)})
        try:
            found = evaluate(bind(Call(name, args), table.schema), table)
        except LanceError:
            continue
        assert len(found) == table.num_rows, (name, args)
        found.validate(full=True)
