"""Expressions as SQL text, for explanations, errors and reprs.

The text of an expression that came from SQL or from the builder parses back to an equal meaning; parentheses stand
only where precedence needs them. Long lists are abridged on request: an explanation should not print ten thousand
values.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

import pyarrow as pa

from lancecy.errors import printable
from lancecy.expr.kinds import is_clock
from lancecy.expr.nodes import OPERATORS, Call, Column, Constant, Expr, Literal
from lancecy.expr.times import text_of

__all__ = ["describe", "describe_type"]

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
# Names that alone mean something else in SQL.
_RESERVED = frozenset(
    "and or not in is null true false between like ilike escape case when then else end cast as from "
    "distinct select interval date time timestamp unknown".split()
)
_ATOM = 100
_ESCAPE = Literal("\\", pa.string())


def describe(expr: Expr, max_values: int | None = None) -> str:
    """SQL-like text of an expression.

    Parameters
    ----------
    expr : Expr
        Bound or not.
    max_values : int or None
        Lists are cut after so many values.

    Examples
    --------
    >>> from lancecy.expr import parse
    >>> describe(parse("not (a > 1 and `b c` in ('x', 'y'))"))
    "NOT (a > 1 AND `b c` IN ('x', 'y'))"
    """
    return _text(expr, 0, max_values)


def describe_type(data_type: pa.DataType | None) -> str:
    """Name of a type in error messages and CAST."""
    if data_type is None:
        return "a constant"
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision}, {data_type.scale})"
    if isinstance(data_type, pa.BaseExtensionType):
        return printable(data_type)
    if pa.types.is_duration(data_type) or pa.types.is_interval(data_type):
        return "interval"
    if is_clock(data_type):
        return "timestamp(9)"
    return _SQL_NAMES.get(data_type) or printable(data_type)


_SQL_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "tinyint unsigned",
    pa.uint16(): "smallint unsigned",
    pa.uint32(): "int unsigned",
    pa.uint64(): "bigint unsigned",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.timestamp("s"): "timestamp(0)",
    pa.timestamp("ms"): "timestamp(3)",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("ns"): "timestamp(9)",
}


def _text(expr: Expr, outer: int, limit: int | None) -> str:
    if isinstance(expr, Column):
        return _column_text(expr)
    if isinstance(expr, Literal):
        return _literal_text(expr, limit)
    if not isinstance(expr, Call):
        return f"<{type(expr).__name__}>"
    text, precedence = _call_text(expr, limit)
    return f"({text})" if precedence < outer else text


def _column_text(column: Column) -> str:
    if len(column.path) == 1 and not column.exact:
        return printable(column.path[0])
    return ".".join(_quoted(name) for name in column.path)


def _quoted(name: str) -> str:
    if _PLAIN_NAME.match(name) and "." not in name and name.lower() not in _RESERVED:
        return name
    return f"`{printable(name).replace('`', '``')}`"


def _literal_text(literal: Literal, limit: int | None) -> str:
    value, kind = literal.value, literal.type
    if isinstance(value, tuple):
        shown = value if limit is None else value[:limit]
        parts = [_literal_text(Literal(v, kind), limit) for v in shown]
        if len(shown) < len(value):
            parts.append(f"… {len(value) - len(shown)} more")
        return f"[{', '.join(parts)}]"
    if kind is not None and value is not None and pa.types.is_temporal(kind):
        return text_of(int(value), kind)
    if isinstance(value, Decimal) and kind is not None:
        return f"decimal({kind.precision}, {kind.scale}) '{value}'"
    return _constant_text(value)


def _constant_text(value: Constant) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + printable(value).replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'" if len(value) <= 250 else f"X'{value[:250].hex()}…'"
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS double)"
    return str(value)


def _call_text(call: Call, limit: int | None) -> tuple[str, int]:
    """Text of a call and the precedence of its outermost operator."""
    op, args = call.op, call.args
    known = OPERATORS.get(op)
    if op in ("cast", "try_cast", "unsafe_cast") and len(args) == 2:
        return f"{op.upper()}({_text(args[0], 0, limit)} AS {describe_type(args[1].type)})", _ATOM
    if op in ("decoded", "storage", "stored"):
        return _text(args[0], _ATOM, limit), _ATOM
    if op == "search" and isinstance(args[0], Call):
        return _call_text(args[0], limit)
    if op == "arrow":
        return f"pyarrow({', '.join(_text(a, 0, limit) for a in args[1:])})", _ATOM
    if op == "case":
        return _case_text(args, limit), _ATOM
    if known is None:
        return f"{op}({', '.join(_text(a, 0, limit) for a in args)})", _ATOM
    level = known.precedence
    if op == "not":
        return _not_text(args[0], limit)
    if op == "neg":
        return f"- {_text(args[0], level, limit)}", level
    if op in ("is_null", "is_true"):
        return f"{_text(args[0], level + 1, limit)} {known.symbol}", level
    if op in ("like", "ilike"):
        return _like_text(call, known.symbol, limit), level
    if op == "in":
        return _in_text(args, known.symbol, limit), level
    # Left-associative: only operands to the right need parentheses at equal precedence.
    parts = [_text(args[0], level + (level == 5), limit), *[_text(a, level + 1, limit) for a in args[1:]]]
    return f" {known.symbol} ".join(parts), level


def _in_text(args: tuple[Expr, ...], symbol: str, limit: int | None) -> str:
    left, right = (_text(arg, OPERATORS["in"].precedence + 1, limit) for arg in args)
    # A list after IN is in parentheses, and a literal in brackets anywhere else.
    listed = isinstance(args[1], Literal) and isinstance(args[1].value, tuple)
    return f"{left} {symbol} ({right[1:-1]})" if listed else f"{left} {symbol} {right}"


def _not_text(inner: Expr, limit: int | None) -> tuple[str, int]:
    if isinstance(inner, Call):
        if inner.op == "search":
            return _not_text(inner.args[0], limit)
        postfix = {"is_null": "IS NOT NULL", "is_true": "IS NOT TRUE"}.get(inner.op)
        if postfix is not None:
            level = OPERATORS[inner.op].precedence
            return f"{_text(inner.args[0], level + 1, limit)} {postfix}", level
        if inner.op == "in":
            return _in_text(inner.args, "NOT IN", limit), OPERATORS["in"].precedence
        if inner.op in ("like", "ilike"):
            return _like_text(inner, f"NOT {inner.op.upper()}", limit), OPERATORS[inner.op].precedence
    level = OPERATORS["not"].precedence
    return f"NOT {_text(inner, level, limit)}", level


def _like_text(call: Call, symbol: str, limit: int | None) -> str:
    level = OPERATORS[call.op].precedence
    text = f"{_text(call.args[0], level + 1, limit)} {symbol} {_text(call.args[1], level + 1, limit)}"
    default = len(call.args) == 2 or call.args[2] == _ESCAPE
    return text if default else f"{text} ESCAPE {_text(call.args[2], level + 1, limit)}"


def _case_text(args: tuple[Expr, ...], limit: int | None) -> str:
    text = "CASE"
    for condition, value in zip(args[:-1:2], args[1::2], strict=True):
        text += f" WHEN {_text(condition, 0, limit)} THEN {_text(value, 0, limit)}"
    return f"{text} ELSE {_text(args[-1], 0, limit)} END"


# ``nodes`` cannot import this module; its ``repr`` calls the function set here.
Expr.text = staticmethod(describe)
