"""SQL text to an expression tree, with sqlglot as the parser.

sqlglot is lenient and knows thirty dialects; this module restricts it. Our own dialect has backquoted names,
``X'00'`` bytes and IS below the comparisons, as in DataFusion and PostgreSQL, and keeps every function call as
written. Then each node of its tree must have an entry in ``_HANDLERS``, and no argument set that the handler
does not know: unknown syntax is refused, never skipped.

sqlglot is imported at the first text filter (0.1 s, once per process).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa

from lancecy.errors import ExpressionError, printable
from lancecy.expr.build import among, between, list_literal
from lancecy.expr.evaluation.functions import unknown_function
from lancecy.expr.literals import cast_literal
from lancecy.expr.nodes import (
    FORMS,
    OPERATORS,
    Call,
    Column,
    Expr,
    Literal,
    chain,
    check_text,
    negate,
)
from lancecy.expr.parsing.arrow_types import arrow_type
from lancecy.expr.parsing.key_comparison import key_comparison
from lancecy.expr.parsing.number_lists import cut_lists
from lancecy.expr.parsing.sql_dialect import data_type, dialect, free_names, interval_text, syntax_error
from lancecy.expr.periods import PERIOD_TYPE, parse_period
from lancecy.limits import DEFAULT_LIMITS

__all__ = ["from_sql"]

_INTEGER = re.compile(r"\d+\Z")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\Z")
_MAX_DIGITS = 400
# The operand of BETWEEN, IN, CASE or NULLIF occurs in several comparisons, each of which is walked: nested ones
# would grow as powers of their depth, from a text of a few hundred characters.
_NODES = 1_000
_NODES_PER_CHARACTER = 20


def from_sql(text: str) -> Expr:
    """Parse text to an expression, with names unresolved and types open.

    Raises
    ------
    ExpressionError
        The text is no expression, uses syntax that filters do not have, or nests too deep;
        ``position`` is the character where reading stopped, if known.
    """
    check_text(text)
    known = key_comparison(text)
    if known is not None:
        return known
    shorter, lists = cut_lists(text)
    if lists:
        reader = _Reader(_NODES + _NODES_PER_CHARACTER * len(text), lists)
        with suppress(ExpressionError):  # raised again below, with the positions of the whole text
            found = _parsed(shorter, reader)
            if not reader.lists:
                return found
    return _parsed(text, _Reader(_NODES + _NODES_PER_CHARACTER * len(text)))


def _parsed(text: str, reader: _Reader) -> Expr:
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError

    try:
        reading = dialect()()
        tokens = reading.tokenize(text)
        free_names(tokens)
        trees = reading.parser().parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        raise syntax_error(text, error) from error
    except SqlglotError as error:
        raise ExpressionError(f"a string or a name is not closed in {text!r}", text=text) from error
    except RecursionError:
        raise _too_deep(text) from None
    except KeyError as error:
        # The parser takes a name for syntax of statements, and lacks a part of that here.
        raise ExpressionError(
            f"cannot read the expression {text!r}: unexpected {error}", text=text
        ) from error
    if len(trees) != 1 or trees[0] is None:
        problem = (
            "it is empty" if not any(trees) else "a semicolon separates statements, and a filter is none"
        )
        raise ExpressionError(f"cannot read the expression {text!r}: {problem}", text=text)
    try:
        return reader.read(trees[0])
    except ExpressionError as error:
        error.text = error.text or printable(text)
        raise
    except RecursionError:
        raise _too_deep(text) from None


def _too_deep(text: str) -> ExpressionError:
    return ExpressionError("the expression is nested too deep", text=text)


# What users of pandas and Python mean by & and |.
_JOINED = {"BitwiseAnd": "AND", "BitwiseOr": "OR"}


class _Reader:
    """Walks sqlglot's tree; bounds the depth of the walk and the size of its result for any tree."""

    def __init__(self, nodes: int, lists: dict[int, tuple[int, ...]] | None = None) -> None:
        self.depth = 0
        self.nodes = nodes
        # Values of the lists that a number stands for.
        self.lists = lists or {}
        # The expressions are kept beside their sizes, so that no other can have their identity.
        self.sizes: dict[int, tuple[int, Expr]] = {}

    def read(self, node: Any) -> Expr:
        while type(node).__name__ == "Paren":
            node = node.this
        kind = type(node).__name__
        known = _HANDLERS.get(kind)
        if known is None:
            remedy = f"; {_JOINED[kind]} joins conditions" if kind in _JOINED else ""
            raise ExpressionError(f"{kind.upper()} is not supported in a filter (at {_shown(node)}){remedy}")
        handler, allowed = known
        extra = [k for k, v in node.args.items() if k not in allowed and v not in (None, False) and v != []]
        if extra:
            raise ExpressionError(f"{kind.upper()} with {', '.join(extra)} is not supported in a filter")
        self.depth += 1
        if self.depth > DEFAULT_LIMITS.nesting:
            raise ExpressionError(f"the expression is nested more than {DEFAULT_LIMITS.nesting} deep")
        try:
            found = handler(self, node)
        finally:
            self.depth -= 1
        if self.size(found) > self.nodes:
            raise ExpressionError(
                "the expression would repeat what its nested BETWEEN, IN, CASE or NULLIF test too often; nest fewer"
            )
        return found

    def size(self, expr: Expr) -> int:
        """Upper bound of the nodes that a walk over the expression visits once it is bound."""
        if not isinstance(expr, Call):
            return 1
        if id(expr) not in self.sizes:
            # Bound, NULLIF(a, b) is CASE WHEN a = b THEN NULL ELSE a END.
            parts = (*expr.args, *expr.args[:1]) if expr.op == "nullif" else expr.args
            self.sizes[id(expr)] = 1 + sum(self.size(part) for part in parts), expr
        return self.sizes[id(expr)][0]

    def both(self, node: Any) -> tuple[Expr, Expr]:
        return self.read(node.this), self.read(node.args["expression"])

    def all(self, nodes: Any) -> list[Expr]:
        return [self.read(n) for n in nodes or ()]


def _shown(node: Any) -> str:
    try:
        return repr(printable(node.sql()[:80]))
    except Exception as error:  # noqa: BLE001  whatever sqlglot cannot print, the message does without
        return type(error).__name__


def _binary(op: str) -> Callable[[_Reader, Any], Expr]:
    return lambda reader, node: Call(op, reader.both(node))


def _chain(op: str, kind: str) -> Callable[[_Reader, Any], Expr]:
    def handler(reader: _Reader, node: Any) -> Expr:
        # Ten thousand ORs are a left-deep tree of that depth: walked with a stack, not by recursion.
        parts, stack = [], [node]
        while stack:
            one = stack.pop()
            if type(one).__name__ == kind:
                stack += [one.args["expression"], one.this]
            else:
                parts.append(reader.read(one))
        return chain(op, parts)

    return handler


def _column(reader: _Reader, node: Any) -> Expr:
    parts = []
    while type(node).__name__ == "Dot":
        parts.append(node.args["expression"])
        node = node.this
    is_column = type(node).__name__ == "Column"
    if is_column:
        parts += [node.args.get(k) for k in ("this", "table", "db", "catalog")]
    names = [p for p in reversed(parts) if p is not None]
    if any(type(p).__name__ != "Identifier" for p in names):
        raise ExpressionError(f"{_shown(node)} is not a column name")
    if not is_column:
        return reduce(_field, [str(p.name) for p in names], reader.read(node))
    if any(p.args.get("quoted") for p in names):
        return Column(tuple(p.name for p in names))
    return Column((".".join(p.name for p in names),), exact=False)


def _field(inner: Expr, name: str) -> Expr:
    """A field of a struct, by name."""
    if isinstance(inner, Column):
        return Column((*inner.path, name))
    return Call("get_field", (inner, Literal(name)))


def _literal(reader: _Reader, node: Any) -> Expr:
    text = str(node.this)
    return Literal(text) if node.args.get("is_string") else _number(text)


def _number(text: str) -> Literal:
    if _INTEGER.match(text) and len(text) <= _MAX_DIGITS:
        return Literal(int(text))
    found = _NUMBER.match(text)
    if found is None or len(text) > _MAX_DIGITS:
        raise ExpressionError(f"{text!r} is not a number that any column could hold")
    return Literal(Decimal(text))


def _bytes(reader: _Reader, node: Any) -> Expr:
    try:
        return Literal(bytes.fromhex(str(node.this)))
    except ValueError as error:
        raise ExpressionError(f"X'{node.this}' has an odd number of hexadecimal digits") from error


def _double_quoted(reader: _Reader, node: Any) -> Expr:
    name = printable(node.this)
    raise ExpressionError(
        f"\"{name}\" may mean a name or a string; write `{name}` for the column or '{name}' for the string"
    )


def _negative(reader: _Reader, node: Any) -> Expr:
    inner = reader.read(node.this)
    if isinstance(inner, Literal) and inner.type is None:
        if isinstance(inner.value, Decimal):
            # A minus sign rounds to 28 digits, and leaves zero without a sign.
            return Literal(inner.value.copy_negate())
        if isinstance(inner.value, int):
            return Literal(-inner.value)
    return Call("neg", (inner,))


def _is(reader: _Reader, node: Any) -> Expr:
    inner, kind = reader.read(node.this), type(node.args["expression"]).__name__
    if kind == "Null":
        if isinstance(inner, Call) and inner.op == "regexp_match":
            # In pylance it returns the matches, null where there are none; here it is a condition.
            return negate(Call("is_true", (inner,)))
        return Call("is_null", (inner,))
    if kind == "Boolean":
        return Call("is_true", (inner if node.args["expression"].this else negate(inner),))
    raise ExpressionError("IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM; to compare values use =")


def _in(reader: _Reader, node: Any) -> Expr:
    tested, members = reader.read(node.this), reader.all(node.args.get("expressions"))
    listed = members[0].value if len(members) == 1 and isinstance(members[0], Literal) else None
    if isinstance(listed, int) and listed in reader.lists:
        return Call("in", (tested, Literal(reader.lists.pop(listed))))
    if not members:
        raise ExpressionError("IN needs a list of values in parentheses, with at least one in it")
    return among(tested, members)


def _between(reader: _Reader, node: Any) -> Expr:
    tested, low, high = (reader.read(node.args[k]) for k in ("this", "low", "high"))
    forward = between(tested, low, high)
    return chain("or", (forward, between(tested, high, low))) if node.args.get("symmetric") else forward


def _like(op: str) -> Callable[[_Reader, Any], Expr]:
    def handler(reader: _Reader, node: Any) -> Expr:
        found = Call(op, reader.both(node))
        return negate(found) if node.args.get("negate") else found

    return handler


def _escape(reader: _Reader, node: Any) -> Expr:
    found, escape = reader.both(node)
    inner = found.args[0] if isinstance(found, Call) and found.op == "not" else found
    if not (isinstance(inner, Call) and inner.op in ("like", "ilike")):
        raise ExpressionError("ESCAPE belongs to LIKE and ILIKE")
    complete = Call(inner.op, (*inner.args, escape))
    return complete if inner is found else negate(complete)


def _case(reader: _Reader, node: Any) -> Expr:
    tested = reader.read(node.this) if node.this is not None else None
    args: list[Expr] = []
    for branch in node.args["ifs"]:
        condition = reader.read(branch.this)
        args.append(condition if tested is None else Call("=", (tested, condition)))
        args.append(reader.read(branch.args["true"]))
    default = node.args.get("default")
    args.append(reader.read(default) if default is not None else Literal(None))
    return Call("case", tuple(args))


def _cast(reader: _Reader, node: Any) -> Expr:
    target = data_type(node.args["to"])
    return _cast_to(reader.read(node.this), target)


def _cast_to(inner: Expr, target: pa.DataType) -> Expr:
    known = cast_literal(inner, target) if isinstance(inner, Literal) else None
    return known or Call("cast", (inner, Literal(None, target)))


def _arrow_cast(args: tuple[Expr, ...]) -> Expr:
    """``arrow_cast(x, 'Int8')``: CAST with an Arrow name of the type."""
    if len(args) != 2 or not isinstance(args[1], Literal) or not isinstance(args[1].value, str):
        raise ExpressionError(
            "arrow_cast takes a value and the name of an Arrow type, as in arrow_cast(x, 'Int8')"
        )
    target = arrow_type(args[1].value)
    if isinstance(args[0], Literal) or not pa.types.is_timestamp(target) or target.tz in (None, "UTC"):
        return _cast_to(args[0], target)
    # The clock of values without a zone is that of the new one, as in pylance.
    return Call("at_time_zone", (args[0], Literal(target.tz), Literal(target.unit)))


def _try_cast(reader: _Reader, node: Any) -> Expr:
    return Call("try_cast", (reader.read(node.this), Literal(None, data_type(node.args["to"]))))


def _interval(reader: _Reader, node: Any) -> Expr:
    """An interval: a length if it has neither months nor days."""
    text, unit = interval_text(node)
    period = parse_period(text, unit)
    if (period.months or period.days) and period.is_stored:
        return Literal(period.stored, PERIOD_TYPE)
    nanos = period.length()
    if nanos % 1000 and abs(nanos) < 2**63:
        return Literal(nanos, pa.duration("ns"))
    # Microseconds, unless there are too many of them.
    for name, per in (("us", 10**3), ("ms", 10**6), ("s", 10**9)):
        if nanos % per == 0 and -(2**63) <= nanos // per < 2**63:
            return Literal(nanos // per, pa.duration(name))
    raise ExpressionError(f"interval {printable(text)!r} is longer than any column could hold")


def _function(reader: _Reader, node: Any) -> Expr:
    args = tuple(reader.all(node.args.get("expressions")))
    name = str(node.this).lower()
    if name == "arrow_cast":
        return _arrow_cast(args)
    if name in OPERATORS or name in FORMS:
        raise unknown_function(name)
    return _array(args) if name in ("make_array", "make_list") else Call(name, args)


def _array(args: tuple[Expr, ...]) -> Expr:
    """A list: one literal if it holds plain constants of one kind."""
    literals = [a for a in args if isinstance(a, Literal) and not isinstance(a.value, tuple)]
    stated = {a.type for a in literals if a.value is not None}
    return (
        Call("make_array", args) if len(literals) < len(args) or len(stated) > 1 else list_literal(literals)
    )


def _bracket(reader: _Reader, node: Any) -> Expr:
    if any(type(key).__name__ == "Slice" for key in node.args["expressions"]):
        raise ExpressionError(
            f"a part of a list is written array_slice(l, 2, 3), with the first and the last position (at {_shown(node)})"
        )
    inner, keys = reader.read(node.this), reader.all(node.args["expressions"])
    if len(keys) != 1:
        raise ExpressionError("brackets hold one field name or one position")
    if isinstance(keys[0], Literal) and isinstance(keys[0].value, str):
        return _field(inner, keys[0].value)
    return Call("array_element", (inner, keys[0]))


def _extract(reader: _Reader, node: Any) -> Expr:
    return Call("date_part", (Literal(str(node.this.name).lower()), reader.read(node.args["expression"])))


def _at_time_zone(reader: _Reader, node: Any) -> Expr:
    return Call("at_time_zone", (reader.read(node.this), reader.read(node.args["zone"])))


def _substring(reader: _Reader, node: Any) -> Expr:
    start = node.args.get("start")
    args = [reader.read(node.this), reader.read(start) if start is not None else Literal(1)]
    length = node.args.get("length")
    return Call("substr", (*args, reader.read(length)) if length is not None else tuple(args))


def _trim(reader: _Reader, node: Any) -> Expr:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(
        str(node.args.get("position") or "").upper(), "btrim"
    )
    characters = node.args.get("expression")
    args: tuple[Expr, ...] = (reader.read(node.this),)
    return Call(name, args if characters is None else (*args, reader.read(characters)))


_TWO = frozenset({"this", "expression"})
_HANDLERS: dict[str, tuple[Callable[[_Reader, Any], Expr], frozenset[str]]] = {
    "And": (_chain("and", "And"), _TWO),
    "Or": (_chain("or", "Or"), _TWO),
    "DPipe": (_chain("||", "DPipe"), _TWO | {"safe"}),
    "Not": (lambda reader, node: negate(reader.read(node.this)), frozenset({"this"})),
    "EQ": (_binary("="), _TWO),
    "NEQ": (_binary("!="), _TWO),
    "LT": (_binary("<"), _TWO),
    "LTE": (_binary("<="), _TWO),
    "GT": (_binary(">"), _TWO),
    "GTE": (_binary(">="), _TWO),
    "NullSafeEQ": (_binary("is_not_distinct"), _TWO),
    "NullSafeNEQ": (lambda reader, node: negate(Call("is_not_distinct", reader.both(node))), _TWO),
    "Add": (_binary("+"), _TWO),
    "Sub": (_binary("-"), _TWO),
    "Mul": (_binary("*"), _TWO),
    "Div": (_binary("/"), _TWO | {"typed", "safe"}),
    "Mod": (_binary("%"), _TWO),
    "Neg": (_negative, frozenset({"this"})),
    "Is": (_is, _TWO),
    "In": (_in, frozenset({"this", "expressions"})),
    "Between": (_between, frozenset({"this", "low", "high", "symmetric"})),
    "Like": (_like("like"), _TWO | {"negate"}),
    "ILike": (_like("ilike"), _TWO | {"negate"}),
    # ``RLIKE`` and ``REGEXP``.
    "RegexpLike": (_like("regexp_like"), _TWO | {"negate"}),
    "Escape": (_escape, _TWO),
    "Case": (_case, frozenset({"this", "ifs", "default"})),
    "Cast": (_cast, frozenset({"this", "to", "_type"})),
    "TryCast": (_try_cast, frozenset({"this", "to", "safe", "_type"})),
    "Interval": (_interval, frozenset({"this", "unit", "fraction_in_string"})),
    "Anonymous": (_function, frozenset({"this", "expressions"})),
    "Array": (
        lambda reader, node: _array(tuple(reader.all(node.args.get("expressions")))),
        frozenset({"expressions"}),
    ),
    "Bracket": (_bracket, frozenset({"this", "expressions"})),
    "Extract": (_extract, _TWO),
    "AtTimeZone": (_at_time_zone, frozenset({"this", "zone"})),
    "Substring": (_substring, frozenset({"this", "start", "length"})),
    "Trim": (_trim, frozenset({"this", "expression", "position"})),
    "StrPosition": (
        lambda reader, node: Call("strpos", (reader.read(node.this), reader.read(node.args["substr"]))),
        frozenset({"this", "substr"}),
    ),
    "Column": (_column, frozenset({"this", "table", "db", "catalog"})),
    "Dot": (_column, _TWO),
    "Literal": (_literal, frozenset({"this", "is_string"})),
    "HexString": (_bytes, frozenset({"this"})),
    "RawString": (_double_quoted, frozenset({"this"})),
    "Boolean": (lambda reader, node: Literal(bool(node.this)), frozenset({"this"})),
    "Null": (lambda reader, node: Literal(None), frozenset()),
}
