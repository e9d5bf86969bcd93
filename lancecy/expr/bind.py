"""An expression tied to a schema: names resolved, types checked, literals typed.

The bound tree consists of the same nodes, each with its type, in a smaller language:
constants are folded, literals have exactly the type of the column they are compared
with, implicit conversions are visible as casts, IS [NOT] DISTINCT FROM and the like are
spelled out. What it means is defined by ``evaluate``; ``falsify`` reads the same tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import pyarrow as pa

from lancecy.errors import ColumnNotFoundError, ExpressionError
from lancecy.expr import evaluate as _evaluate
from lancecy.expr.arithmetic import cast_to, operands
from lancecy.expr.describe import describe, describe_type
from lancecy.expr.functions import ALIASES, CLOCK, FUNCTIONS, Function, unknown_function
from lancecy.expr.kinds import common_type, family, is_number, plain_type
from lancecy.expr.literals import Gap, cast_literal, fit, settle, smallest
from lancecy.expr.names import Names
from lancecy.expr.nodes import (
    COMPARISONS,
    Call,
    Column,
    Constant,
    Expr,
    Literal,
    chain,
    literal_from_scalar,
    negate,
    walk,
)
from lancecy.expr.patterns import like_plan

__all__ = ["Bound", "bind"]

_BOOL = pa.bool_()
_COMPARABLE = frozenset(
    ("boolean", "integer", "float", "decimal", "text", "binary", "date", "timestamp", "time", "interval")
)


@dataclass(frozen=True, slots=True)
class Bound:
    """An expression bound to a schema. Immutable, picklable, compared by meaning.

    Attributes
    ----------
    expr : Expr
        The typed tree.
    type : pa.DataType
        Of its values.
    columns : tuple of str
        Top-level columns it reads, in schema order.
    paths : tuple of tuple of str
        Fields it reads, such as ``("a", "b")``, in schema order of their columns.
    """

    expr: Expr
    type: pa.DataType
    columns: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]

    def mask(self, table: pa.Table | pa.RecordBatch) -> pa.ChunkedArray | pa.Array:
        """Which rows satisfy this condition; see :func:`lancecy.expr.mask`."""
        return _evaluate.mask(self, table)

    def __str__(self) -> str:
        return describe(self.expr, max_values=10)


def bind(expr: Expr, schema: pa.Schema, *, boolean: bool = False) -> Bound:
    """Tie an expression to a schema.

    Parameters
    ----------
    expr : Expr
        From :func:`parse` or a term's ``.expr``.
    schema : pa.Schema
        Of the tables it will be evaluated on. Binding to the same object again costs microseconds.
    boolean : bool
        Require a condition, as a filter is.

    Raises
    ------
    ColumnNotFoundError
        A name is not in the schema; the nearest ones are named.
    ExpressionError
        Types do not fit, an unknown function, a constant part that fails.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bound = bind(parse("s.x > 5"), pa.schema({"s": pa.struct({"x": pa.int8()})}))
    >>> bound.columns, bound.paths, bound.type
    (('s',), (('s', 'x'),), DataType(bool))
    """
    return _bind_cached(expr, _Identity(schema), boolean)


class _Identity:
    """A schema compared by identity: hashing one by value takes longer than binding."""

    __slots__ = ("schema",)

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.schema is other.schema

    def __hash__(self) -> int:
        return id(self.schema)


@lru_cache(maxsize=256)
def _bind_cached(expr: Expr, key: _Identity, boolean: bool) -> Bound:
    binder = _Binder(key.schema)
    try:
        typed = binder.root(expr)
        if boolean:
            typed = binder.condition(typed, "a filter")
    except ExpressionError as error:
        error.text = error.text or describe(expr, max_values=10)
        raise
    paths = {node.path for node in walk(typed) if isinstance(node, Column)}
    order = binder.names.positions
    ordered = tuple(sorted(paths, key=lambda path: (order[path[0]], path)))
    columns = tuple(dict.fromkeys(path[0] for path in ordered))
    return Bound(typed, typed.type or pa.null(), columns, ordered)


class _Binder:
    """Binds one tree to one schema, from the leaves up."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.names = Names(schema)

    def root(self, expr: Expr) -> Expr:
        """The tree as a value of its own: a bare column keeps its type, integers stay as narrow as they are."""
        found = self.value(expr, wide=False)
        return settle(found) if isinstance(found, Literal) else found

    def value(self, expr: Expr, wide: bool = True) -> Expr:
        """A node bound; literals may still be without a type."""
        if isinstance(expr, Column):
            return self.column(expr)
        if isinstance(expr, Literal):
            if isinstance(expr.value, tuple):
                raise ExpressionError(
                    f"a list stands only after IN and in list functions, not {describe(expr, 10)}"
                )
            return expr
        if not isinstance(expr, Call):
            raise TypeError(f"{type(expr).__name__} is no node of an expression")
        rule = _RULES.get(expr.op)
        if rule is not None:
            return rule(self, expr, wide)
        return self.function(expr, wide)

    def column(self, column: Column) -> Expr:
        try:
            path, data_type = self.names.resolve(column.path, column.exact)
        except ColumnNotFoundError:
            if not column.exact and column.path[0].lower() in CLOCK:
                raise unknown_function(column.path[0]) from None
            raise
        return Column(path, True, data_type)

    def operand(self, expr: Expr, wide: bool = True) -> Expr:
        """A node whose values Arrow's kernels take: dictionaries decoded, extensions as their storage."""
        return _readable(self.value(expr, wide))

    def typed(self, expr: Expr, wide: bool = True) -> Expr:
        """An operand; a literal gets the type it has by itself."""
        found = self.operand(expr, wide)
        return settle(found) if isinstance(found, Literal) else found

    def condition(self, expr: Expr, what: str) -> Expr:
        """A bound node required to be boolean."""
        found = expr if expr.type is not None else self.typed(expr)
        if isinstance(found, Literal) and found.value is None:
            return Literal(None, _BOOL)
        if found.type != _BOOL:
            raise ExpressionError(
                f"{what} needs a condition, but {describe(found, 10)} is {describe_type(found.type)}"
            )
        return found

    def finish(self, op: str, args: tuple[Expr, ...], data_type: pa.DataType | None = None) -> Expr:
        """The call with its result type, folded to a literal when all arguments are constants."""
        call = Call(op, args, data_type)
        constant = bool(args) and all(isinstance(arg, Literal) for arg in args)
        if not constant and data_type is not None:
            return call
        table = None if constant else self._sample(call)
        try:
            found = _evaluate.compute(call, table)
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise ExpressionError(f"{describe(call, 10)} does not work: {_first_line(error)}") from error
        if isinstance(found, pa.Scalar):
            return literal_from_scalar(found)
        return Call(op, args, found.type)

    def _sample(self, call: Call) -> pa.Table:
        """One row of nulls of the columns a call reads: shows its type and whether its constants are any good."""
        names = dict.fromkeys(node.path[0] for node in walk(call) if isinstance(node, Column))
        fields = [self.schema.field(self.names.positions[name]).with_nullable(True) for name in names]
        return pa.table([pa.nulls(1, field.type) for field in fields], schema=pa.schema(fields))

    # Logic

    def logic(self, call: Call, wide: bool) -> Expr:
        """AND and OR: constants that decide nothing are dropped, operands that may fail come last."""
        word, decisive = call.op.upper(), call.op == "or"
        bound = [self.condition(self.typed(arg), word) for arg in call.args]
        if any(isinstance(arg, Literal) and arg.value is decisive for arg in bound):
            return Literal(decisive, _BOOL)
        kept = [arg for arg in bound if not (isinstance(arg, Literal) and arg.value is not None)]
        if not kept:
            return Literal(not decisive, _BOOL)
        if decisive:
            kept = _merge_equalities(kept)
        kept.sort(key=_evaluate.can_fail)
        joined = chain(call.op, kept)
        return (
            Call(call.op, joined.args, _BOOL) if isinstance(joined, Call) and joined.op == call.op else joined
        )

    def invert(self, call: Call, wide: bool) -> Expr:
        inner = self.condition(self.typed(call.args[0]), "NOT")
        if isinstance(inner, Call) and inner.op == "not":
            return inner.args[0]
        return self.finish("not", (inner,), _BOOL)

    def is_true(self, call: Call, wide: bool) -> Expr:
        return self.finish("is_true", (self.condition(self.typed(call.args[0]), "IS TRUE"),), _BOOL)

    def is_null(self, call: Call, wide: bool) -> Expr:
        inner = self.typed(call.args[0])
        if isinstance(inner, Literal):
            return Literal(inner.value is None, _BOOL)
        return Call("is_null", (inner,), _BOOL)

    # Comparisons

    def comparison(self, call: Call, wide: bool) -> Expr:
        left, right = (self.operand(arg) for arg in call.args)
        return self.compare(call.op, left, right)

    def compare(self, op: str, left: Expr, right: Expr) -> Expr:
        """A comparison of bound operands."""
        if isinstance(left, Literal) and not isinstance(right, Literal):
            left, right, op = right, left, COMPARISONS[op]
        if isinstance(left, Literal):
            left = settle(left)
        if isinstance(right, Literal):
            return self.with_constant(op, left, right)
        target = common_type(left.type or pa.null(), right.type or pa.null())
        if target is None or family(target) not in _COMPARABLE:
            if target is not None and family(target) == "null":
                return Literal(None, _BOOL)
            raise ExpressionError(
                f"{describe(left)} is {describe_type(left.type)} and {describe(right)} is "
                f"{describe_type(right.type)}: these cannot be compared; CAST one side"
            )
        return Call(op, (cast_to(left, target), cast_to(right, target)), _BOOL)

    def with_constant(self, op: str, left: Expr, right: Literal) -> Expr:
        """A comparison with a literal, which is brought to the type of the operand."""
        if right.value is None or family(left.type) == "null":
            return Literal(None, _BOOL)
        if isinstance(left, Literal) and left.value is None:
            return Literal(None, _BOOL)
        if family(left.type) not in _COMPARABLE:
            raise ExpressionError(f"{describe(left)} is {describe_type(left.type)}, which cannot be compared")
        try:
            placed = _fit_operand(left, right)
        except ExpressionError as error:
            raise ExpressionError(f"{describe(Call(op, (left, right)), 10)}: {error.what}") from error
        if isinstance(placed, Gap):
            return self.in_gap(op, left, placed)
        if placed.type != left.type:
            left = cast_to(left, placed.type or pa.null())
        return self.finish(op, (left, placed), _BOOL)

    def in_gap(self, op: str, left: Expr, gap: Gap) -> Expr:
        """A comparison with a constant between two values of the operand's type, or beyond all of them."""
        never = (left, smallest(left.type or pa.null()))
        if op == "!=":
            return negate(self.finish("<", never, _BOOL))
        neighbour = None if op == "=" else gap.below if op in ("<", "<=") else gap.above
        if neighbour is None:
            return self.finish("<", never, _BOOL)
        return self.finish("<=" if op in ("<", "<=") else ">=", (left, neighbour), _BOOL)

    def not_distinct(self, call: Call, wide: bool) -> Expr:
        left, right = (self.operand(arg) for arg in call.args)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Literal) and one.value is None:
                if isinstance(other, Literal):
                    return Literal(other.value is None, _BOOL)
                return Call("is_null", (other,), _BOOL)
        equal = self.finish("is_true", (self.compare("=", left, right),), _BOOL)
        if isinstance(left, Literal) or isinstance(right, Literal):
            return equal
        both = Call("and", (Call("is_null", (left,), _BOOL), Call("is_null", (right,), _BOOL)), _BOOL)
        return Call("or", (equal, both), _BOOL)

    def within(self, call: Call, wide: bool) -> Expr:
        """IN a list of constants, which are brought to the operand's type; those it cannot hold never match."""
        tested, listed = self.typed(call.args[0]), call.args[1]
        if not isinstance(listed, Literal) or not isinstance(listed.value, tuple):
            raise ExpressionError(f"IN takes a list of constants, not {describe(listed, 10)}")
        if not listed.value:
            return Literal(False, _BOOL)
        if family(tested.type) == "null" or (isinstance(tested, Literal) and tested.value is None):
            return Literal(None, _BOOL)
        if family(tested.type) not in _COMPARABLE:
            raise ExpressionError(
                f"{describe(tested)} is {describe_type(tested.type)}, which IN cannot compare"
            )
        values = self.members(tested, listed)
        if not values:
            return self.in_gap("=", tested, Gap(None, None))
        if values == [None]:
            return Literal(None, _BOOL)
        if len(set(values)) == 1:
            return self.finish("=", (tested, Literal(values[0], tested.type)), _BOOL)
        return self.finish("in", (tested, Literal(tuple(values), tested.type)), _BOOL)

    def members(self, tested: Expr, listed: Literal) -> list[Constant]:
        """The distinct values of a list as the operand's type holds them; NaN equals nothing and is left out."""
        found: dict[Constant, None] = {}
        for value in listed.value if isinstance(listed.value, tuple) else ():
            if value is None:
                found[None] = None
                continue
            placed = _fit_operand(tested, Literal(value, listed.type))
            if isinstance(placed, Gap) or placed.type != tested.type or placed.value != placed.value:
                continue
            found[placed.value] = None
        return list(_both_zeros(list(found), tested.type))

    def like(self, call: Call, wide: bool) -> Expr:
        tested, pattern = self.text(call.args[0], call.op.upper()), self.value(call.args[1])
        escape = self.value(call.args[2]) if len(call.args) > 2 else Literal("\\")
        parts = [p.value if isinstance(p, Literal) else 0 for p in (pattern, escape)]
        if None in parts:
            return Literal(None, _BOOL)
        if not all(isinstance(p, str) for p in parts):
            raise ExpressionError(f"{call.op.upper()} takes a pattern in quotes, not {describe(pattern)}")
        like_plan(str(parts[0]), str(parts[1]))
        args = (tested, Literal(parts[0], pa.string()), Literal(parts[1], pa.string()))
        return self.finish(call.op, args, _BOOL)

    # Values

    def text(self, expr: Expr, what: str) -> Expr:
        found = self.typed(expr)
        if isinstance(found, Literal) and found.value is None:
            return Literal(None, pa.string())
        if family(found.type) != "text":
            raise ExpressionError(
                f"{what} needs text, but {describe(found, 10)} is {describe_type(found.type)}; CAST it to string"
            )
        return found

    def concatenation(self, call: Call, wide: bool) -> Expr:
        parts = [self.typed(arg) for arg in call.args]
        if any(isinstance(p, Literal) and p.value is None for p in parts):
            return Literal(None, pa.string())
        large = any(p.type == pa.large_string() for p in parts)
        target = pa.large_string() if large else pa.string()
        return self.finish("||", tuple(self.convert(p, target) for p in parts))

    def arithmetic(self, call: Call, wide: bool) -> Expr:
        left, right = (self.operand(arg, wide) for arg in call.args)
        left, right = operands(call.op, left, right, wide)
        if any(isinstance(side, Literal) and side.value is None for side in (left, right)):
            return Literal(None, right.type if isinstance(left, Literal) else left.type)
        return self.finish(call.op, (left, right))

    def negative(self, call: Call, wide: bool) -> Expr:
        inner = self.typed(call.args[0], wide)
        if not is_number(inner.type) and family(inner.type) != "interval":
            raise ExpressionError(f"- needs a number, but {describe(inner)} is {describe_type(inner.type)}")
        if family(inner.type) == "integer":
            target = common_type(inner.type or pa.null(), pa.int64() if wide else pa.int8())
            inner = cast_to(inner, target or pa.int64())
        return self.finish("neg", (inner,))

    def cast(self, call: Call, wide: bool) -> Expr:
        target = call.args[1].type
        if target is None:
            raise ExpressionError("CAST without a type")
        inner = self.operand(call.args[0])
        if isinstance(inner, Literal):
            return cast_literal(inner, target) or self.convert(settle(inner), target, call.op)
        return self.convert(inner, target, call.op)

    def convert(self, inner: Expr, target: pa.DataType, op: str = "cast") -> Expr:
        """An explicit conversion, tried on no rows to see that there is one."""
        if inner.type == target:
            return inner
        if isinstance(inner, Literal) and inner.value is None:
            return Literal(None, target)
        return self.finish(op, (inner, Literal(None, target)))

    def case(self, call: Call, wide: bool) -> Expr:
        conditions = [self.condition(self.typed(c), "WHEN") for c in call.args[:-1:2]]
        values = self.alike("CASE", [*call.args[1::2], call.args[-1]], wide)
        return self.choose(conditions, values)

    def choose(self, conditions: list[Expr], values: list[Expr]) -> Expr:
        args = [part for pair in zip(conditions, values) for part in pair]
        return self.finish("case", (*args, values[-1]))

    def alike(self, what: str, args: list[Expr], wide: bool) -> list[Expr]:
        """Operands of one common type."""
        found = [self.typed(arg, wide) for arg in args]
        target: pa.DataType | None = pa.null()
        for one in found:
            target = common_type(target or pa.null(), one.type or pa.null())
            if target is None:
                names = ", ".join(dict.fromkeys(describe_type(f.type) for f in found))
                raise ExpressionError(
                    f"{what} has values of types that do not mix: {names}; CAST them to one"
                )
        return [cast_to(one, target or pa.null()) for one in found]

    # Functions

    def function(self, call: Call, wide: bool) -> Expr:
        name = ALIASES.get(call.op, call.op)
        lowered = _LOWERED.get(name)
        if lowered is not None and len(call.args) == lowered[0]:
            return lowered[1](self, call.args, wide)
        spec = FUNCTIONS.get(name)
        if spec is None or lowered is not None:
            raise unknown_function(call.op) if lowered is None else _wrong_count(call, lowered[0], lowered[0])
        if len(call.args) < spec.least or (spec.most is not None and len(call.args) > spec.most):
            raise _wrong_count(call, spec.least, spec.most)
        if spec.parameters[0] == "x" and spec.parameters[-1] == "x*":
            return self.finish(name, tuple(self.alike(f"{call.op}()", list(call.args), wide)))
        return self.finish(name, self.arguments(call, spec))

    def arguments(self, call: Call, spec: Function) -> tuple[Expr, ...]:
        """The arguments of a call as the function's parameters ask for them."""
        found: list[Expr] = []
        for index, arg in enumerate(call.args):
            letters = spec.parameter(index)
            if letters == "CL":
                found.append(self.list_argument(call, found[0], arg))
            elif letters[0] == "C":
                found.append(self.constant_argument(call, arg, letters[1]))
            elif found and letters == "x" and family(found[0].type) == "list":
                found.append(self.element_argument(call, found[0], arg))
            else:
                found.append(self.data_argument(call, arg, letters))
        return tuple(found)

    def data_argument(self, call: Call, arg: Expr, letter: str) -> Expr:
        found = self.typed(arg)
        if isinstance(found, Literal) and found.value is None:
            return Literal(None, _NULL_TYPES.get(letter, found.type))
        accepted, wanted = _ACCEPTED[letter]
        if accepted and family(found.type) not in accepted:
            raise ExpressionError(
                f"{call.op}() needs {wanted}, but {describe(found, 10)} is {describe_type(found.type)}; CAST it"
            )
        if letter == "f" and family(found.type) != "float":
            return cast_to(found, pa.float64())
        return found

    def constant_argument(self, call: Call, arg: Expr, letter: str) -> Expr:
        found = self.value(arg)
        kind = str if letter == "T" else int
        value = found.value if isinstance(found, Literal) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            wanted = "text in quotes" if letter == "T" else "an integer"
            raise ExpressionError(f"{call.op}() needs {wanted} here, a constant, not {describe(found, 10)}")
        if isinstance(value, int) and abs(value) > 2**31:
            raise ExpressionError(f"{value} is too large for {call.op}()")
        return Literal(value, pa.string() if letter == "T" else pa.int64())

    def list_argument(self, call: Call, column: Expr, arg: Expr) -> Expr:
        if not isinstance(arg, Literal) or not isinstance(arg.value, tuple):
            raise ExpressionError(
                f"{call.op}() needs a list of constants such as [1, 2], not {describe(arg, 10)}"
            )
        element = self.element_of(call, column)
        values = list(self.members(Column(("element",), True, element), arg))
        missing = call.op in ("array_has_all", "list_has_all") and any(
            isinstance(fit(Literal(v, arg.type), element), Gap) for v in arg.value if v is not None
        )
        # A value that the elements cannot have is in no list: NaN stands for it, or nothing does.
        return Literal((None,) if missing and not values else tuple(values), element)

    def element_argument(self, call: Call, column: Expr, arg: Expr) -> Expr:
        element, found = self.element_of(call, column), self.operand(arg)
        if not isinstance(found, Literal):
            raise ExpressionError(f"{call.op}() needs a constant to look for, not {describe(found, 10)}")
        placed = fit(found, element)
        return Literal(None, element) if isinstance(placed, Gap) else placed

    def element_of(self, call: Call, column: Expr) -> pa.DataType:
        element = column.type.value_type if column.type is not None else pa.null()
        if plain_type(element) != element or family(element) not in _COMPARABLE:
            raise ExpressionError(f"{call.op}() cannot compare elements of type {describe_type(element)}")
        return element

    def opaque(self, call: Call, wide: bool) -> Expr:
        """A part of a pyarrow expression that only pyarrow evaluates; its type is that of its values on no rows."""
        bound = Call("arrow", (call.args[0], *(self.value(arg) for arg in call.args[1:])))
        return self.finish("arrow", bound.args)


def _merge_equalities(parts: list[Expr]) -> list[Expr]:
    """``x = 1 OR x = 2`` is ``x IN (1, 2)``, which is one look-up however many there are."""
    groups: dict[Expr, dict[Constant, None]] = {}
    for part in parts:
        tested, values = _equality(part)
        if tested is not None:
            groups.setdefault(tested, {}).update(dict.fromkeys(values))
    merged: dict[Expr, None] = {}
    for part in parts:
        tested, _ = _equality(part)
        group = groups.get(tested) if tested is not None else None
        if tested is None or (group is not None and len(group) == 1):
            merged[part] = None
        elif group is not None:
            del groups[tested]
            listed = Literal(_both_zeros(list(group), tested.type), tested.type)
            merged[Call("in", (tested, listed), _BOOL)] = None
    return list(merged)


def _equality(part: Expr) -> tuple[Expr | None, tuple[Constant, ...]]:
    """The operand and the constants of ``x = c`` or ``x IN (c, …)``; None for anything else, NaN included."""
    if isinstance(part, Call) and part.op in ("=", "in") and isinstance(part.args[1], Literal):
        value = part.args[1].value
        if value == value:
            return part.args[0], value if isinstance(value, tuple) else (value,)
    return None, ()


def _both_zeros(values: list[Constant], data_type: pa.DataType | None) -> tuple[Constant, ...]:
    """Arrow's is_in tells the zeros of floats apart; comparisons do not."""
    if family(data_type) == "float" and 0.0 in values:
        return (*[v for v in values if v is None or v != 0.0], 0.0, -0.0)
    return tuple(values)


def _first_line(error: BaseException) -> str:
    return str(error).split("\n")[0]


def _wrong_count(call: Call, least: int, most: int | None) -> ExpressionError:
    wanted = str(least) if least == most else f"{least} or more" if most is None else f"{least} to {most}"
    return ExpressionError(f"{call.op}() takes {wanted} arguments, not {len(call.args)}")


def _readable(expr: Expr) -> Expr:
    if expr.type is None or isinstance(expr, Literal):
        return expr
    if isinstance(expr.type, pa.BaseExtensionType):
        return _readable(Call("storage", (expr,), expr.type.storage_type))
    plain = plain_type(expr.type)
    if plain == expr.type:
        return expr
    if pa.types.is_dictionary(expr.type):
        return Call("decode", (expr,), plain)
    return cast_to(expr, plain)


def _fit_operand(operand: Expr, literal: Literal) -> Literal | Gap:
    """Fit a literal to an operand; one read from half floats is fitted to those first."""
    target = operand.type or pa.null()
    inner = operand.args[0].type if isinstance(operand, Call) and operand.op == "cast" else None
    if inner is not None and pa.types.is_float16(inner) and target == pa.float32():
        placed = fit(literal, inner)
        sides = (placed.below, placed.above) if isinstance(placed, Gap) else (placed, None)
        one, two = (None if side is None else Literal(side.value, target) for side in sides)
        return Gap(one, two) if isinstance(placed, Gap) else (one or placed)
    return fit(literal, target)


_ACCEPTED: dict[str, tuple[tuple[str, ...], str]] = {
    "s": (("text",), "text"),
    "y": (("text", "binary"), "text or binary"),
    "f": (("integer", "float", "decimal"), "a number"),
    "n": (("integer", "float", "decimal"), "a number"),
    "l": (("list",), "a list"),
    "t": (("date", "timestamp"), "a date or timestamp"),
    "x": ((), ""),
}
_NULL_TYPES: dict[str, pa.DataType] = {
    "s": pa.string(),
    "y": pa.string(),
    "f": pa.float64(),
    "n": pa.float64(),
    "t": pa.timestamp("us"),
}

_Lowered = Callable[[_Binder, tuple[Expr, ...], bool], Expr]
_LOWERED: dict[str, tuple[int, _Lowered]] = {
    "if": (3, lambda binder, args, wide: binder.case(Call("case", args), wide)),
    "nullif": (
        2,
        lambda binder, args, wide: binder.case(Call("case", (Call("=", args), Literal(None), args[0])), wide),
    ),
    "mod": (2, lambda binder, args, wide: binder.arithmetic(Call("%", args), wide)),
}

_RULES: dict[str, Callable[[_Binder, Call, bool], Expr]] = {
    "and": _Binder.logic,
    "or": _Binder.logic,
    "not": _Binder.invert,
    "is_true": _Binder.is_true,
    "is_null": _Binder.is_null,
    "is_not_distinct": _Binder.not_distinct,
    **{op: _Binder.comparison for op in COMPARISONS},
    "in": _Binder.within,
    "like": _Binder.like,
    "ilike": _Binder.like,
    "||": _Binder.concatenation,
    **{op: _Binder.arithmetic for op in ("+", "-", "*", "/", "%")},
    "neg": _Binder.negative,
    "cast": _Binder.cast,
    "unsafe_cast": _Binder.cast,
    "case": _Binder.case,
    "arrow": _Binder.opaque,
}
