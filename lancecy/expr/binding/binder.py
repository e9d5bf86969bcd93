"""The walk from an unbound tree to a bound one, and the helpers of its rules.

A :class:`Binder` binds one tree to one schema from the leaves up. The rules in the ``bind_*`` modules know the
requirements of an operation on its operands; they are functions of the binder, the call and ``wide``: whether
integers may be computed as bigint, because the type of the result stays inside the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import pyarrow as pa

from lancecy.errors import ColumnNotFoundError, ExpressionError, printable
from lancecy.expr.binding.arithmetic import cast_to, same_intervals
from lancecy.expr.describe import describe, describe_type
from lancecy.expr.evaluation.evaluate import compute
from lancecy.expr.evaluation.functions import ALIASES, BARE_CLOCK, CLOCK, COUNTS, unknown_function
from lancecy.expr.evaluation.values import Data
from lancecy.expr.kinds import common_type, family, is_clock, plain_type
from lancecy.expr.literals import settle
from lancecy.expr.nodes import Call, Column, Expr, Literal, literal_from_scalar, walk
from lancecy.schema import split_name

__all__ = ["Binder", "Names", "Rule", "counted"]


_MOST_NAMES = 10_000


class Names:
    """The names of one schema.

    Attributes
    ----------
    positions : dict of str to int
        Top-level columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._names: list[str] = schema.names
        self.positions: dict[str, int] = {name: index for index, name in enumerate(self._names)}
        self.unique = len(self.positions) == len(schema)

    def resolve(self, path: Sequence[str], exact: bool) -> tuple[tuple[str, ...], pa.DataType]:
        """Find the path of fields and the type of the last one.

        Parameters
        ----------
        path : sequence of str
            As written; a single name may contain dots, several names are nested fields.
        exact : bool
            Whether case matters.

        Raises
        ------
        ColumnNotFoundError
            The message has the nearest names.
        ExpressionError
            Two columns have the name, or it is that of a key of a map.
        """
        written = ".".join(path)
        readings = (
            [list(path), [written], split_name(written)]
            if len(path) > 1
            else [list(path), split_name(written)]
        )
        for fold in (False,) if exact else (False, True):
            for reading in readings:
                found = self._walk(reading, fold)
                if found is not None:
                    return found
        above = self._walk(list(path[:-1]), not exact) if len(path) > 1 else None
        if above is not None and pa.types.is_map(above[1]):
            call = printable(f"map_extract({'.'.join(above[0])}, '{path[-1]}')[1]")
            raise ExpressionError(f"a map has no members: write {call} for the value of this key")
        raise ColumnNotFoundError(written, self._known(written))

    def _walk(self, parts: Sequence[str], fold: bool) -> tuple[tuple[str, ...], pa.DataType] | None:
        place = _pick(self._names, self.positions, parts[0], fold)
        if place is None:
            return None
        if not self.unique and self._names.count(self._names[place]) > 1:
            raise ExpressionError(f"the schema has more than one column {printable(parts[0])!r}")
        field = self.schema.field(place)
        path = [field.name]
        for part in parts[1:]:
            if family(field.type) != "struct":
                return None
            children = [field.type.field(i) for i in range(field.type.num_fields)]
            positions = {child.name: i for i, child in enumerate(children)}
            place = _pick([c.name for c in children], positions, part, fold)
            if place is None:
                return None
            field = children[place]
            path.append(field.name)
        return tuple(path), field.type

    def _known(self, written: str) -> list[str]:
        """Names for the error; nested names only if a nested name was asked for."""
        if "." not in written:
            return list(self.positions)[:_MOST_NAMES]
        fields = (self.schema.field(i) for i in self.positions.values())
        return list(islice(_nested(fields), _MOST_NAMES))


def _pick(names: Iterable[str], positions: dict[str, int], wanted: str, fold: bool) -> int | None:
    if not fold:
        return positions.get(wanted)
    alike = [index for index, name in enumerate(names) if name.lower() == wanted.lower()]
    return alike[0] if len(alike) == 1 else None


def _nested(fields: Iterable[pa.Field]) -> Iterator[str]:
    stack = [(f.name, f.type) for f in fields][::-1]
    while stack:
        name, data_type = stack.pop()
        yield name
        if family(data_type) == "struct":
            children = [data_type.field(i) for i in range(data_type.num_fields)]
            stack += [(f"{name}.{child.name}", child.type) for child in reversed(children)]


_BOOL = pa.bool_()


class Binder:
    """Binds expressions to one schema.

    Attributes
    ----------
    schema : pa.Schema
    names : Names
    """

    def __init__(self, schema: pa.Schema, rules: Mapping[str, Rule], otherwise: Rule) -> None:
        self.schema = schema
        self.names = Names(schema)
        self._rules = rules
        self._otherwise = otherwise

    def root(self, expr: Expr) -> Expr:
        """Bind a whole tree: a bare column keeps its type, integers stay as narrow as they are."""
        found = counted(expr, _without_mark(self.value(expr, wide=False)))
        return settle(found) if isinstance(found, Literal) else found

    def value(self, expr: Expr, wide: bool = True) -> Expr:
        """Bind a node; literals may still be without a type.

        Raises
        ------
        ColumnNotFoundError, ExpressionError
        """
        if isinstance(expr, Column):
            return self.column(expr)
        if isinstance(expr, Literal):
            if isinstance(expr.value, tuple):
                members = tuple(Literal(value, expr.type) for value in expr.value)
                return self.value(Call("make_array", members), wide)
            return expr
        if not isinstance(expr, Call):
            raise TypeError(f"{type(expr).__name__} is not a node of an expression")
        return self._rules.get(expr.op, self._otherwise)(self, expr, wide)

    def column(self, column: Column) -> Expr:
        """Find a column in the schema."""
        try:
            path, data_type = self.names.resolve(column.path, column.exact)
        except ColumnNotFoundError:
            name = column.path[0].lower()
            if not column.exact and name in BARE_CLOCK:
                raise unknown_function(name) from None
            if not column.exact and name in CLOCK:
                raise ExpressionError(f"no column {name!r}; the function is written {name}()") from None
            raise
        return Column(path, True, data_type)

    def operand(self, expr: Expr, wide: bool = True) -> Expr:
        """Bind a node for Arrow's kernels: dictionaries decoded, extensions as their storage."""
        return _readable(self.value(expr, wide))

    def typed(self, expr: Expr, wide: bool = True) -> Expr:
        """Bind an operand; a literal gets its default type."""
        found = self.operand(expr, wide)
        return settle(found) if isinstance(found, Literal) else found

    def condition(self, expr: Expr, what: str) -> Expr:
        """Bind an operand that must be boolean.

        Raises
        ------
        ExpressionError
        """
        return as_condition(self.typed(expr), what)

    def text(self, expr: Expr, what: str) -> Expr:
        """Bind an operand that must be text.

        Raises
        ------
        ExpressionError
        """
        found = self.typed(expr)
        if isinstance(found, Literal) and found.value is None:
            return Literal(None, pa.string())
        if family(found.type) != "text":
            raise ExpressionError(
                f"{what} needs text, but {describe(found, 10)} is {describe_type(found.type)}; CAST it to string"
            )
        return found

    def alike(self, what: str, args: list[Expr], wide: bool) -> list[Expr]:
        """Convert operands to one common type.

        Raises
        ------
        ExpressionError
            They have none.
        """
        return self.unify(what, [self.typed(arg, wide) for arg in args])

    def unify(self, what: str, found: list[Expr]) -> list[Expr]:
        """Convert bound operands to one common type, as :meth:`alike` does.

        Raises
        ------
        ExpressionError
            They have none.
        """
        found = same_intervals(found)
        target: pa.DataType | None = pa.null()
        for one in found:
            target = common_type(target or pa.null(), one.type or pa.null())
            if target is None:
                names = ", ".join(dict.fromkeys(describe_type(f.type) for f in found))
                raise ExpressionError(
                    f"{what} has values of types that do not mix: {names}; CAST them to one"
                )
        return [cast_to(one, target or pa.null()) for one in found]

    def convert(self, inner: Expr, target: pa.DataType, op: str = "cast") -> Expr:
        """Convert explicitly; a trial shows whether the conversion exists.

        Raises
        ------
        ExpressionError
        """
        if family(target) != "timestamp" or target.tz is None:
            inner = _without_mark(inner)
        if inner.type == target:
            return inner
        if isinstance(inner, Literal) and inner.value is None:
            return Literal(None, target)
        return self.finish(op, (inner, Literal(None, target)))

    def finish(self, op: str, args: tuple[Expr, ...], data_type: pa.DataType | None = None) -> Expr:
        """The call with its result type, folded to a literal if all arguments are constants: not to a list or struct.

        Parameters
        ----------
        data_type : pa.DataType, optional
            Type of the result; without it the call is tried on one row of nulls.

        Raises
        ------
        ExpressionError
            Arrow has no such kernel for the types, or the call fails on the constants.
        """
        call = Call(op, args, data_type)
        constant = bool(args) and all(isinstance(arg, Literal) for arg in args)
        if not constant and data_type is not None:
            return call
        table = None if constant else self._sample(call)
        try:
            found = compute(call, table)
        except _FAILURES as error:
            empty = None if table is None else _without_rows(call, table)
            if empty is None and isinstance(error, ExpressionError):
                raise
            if empty is None:
                why = str(error).split("\n", maxsplit=1)[0]
                raise ExpressionError(f"{describe(call, 10)} does not work: {why}") from error
            found = empty
        # Lists, structs and maps have no literals.
        if isinstance(found, pa.Scalar) and not (found.is_valid and pa.types.is_nested(found.type)):
            return literal_from_scalar(found)
        return Call(op, args, found.type)

    def _sample(self, call: Call) -> pa.Table:
        """One row of nulls of the columns a call reads, to find its type and to check its constants.

        No row for calls that make maps, whose keys cannot be null.
        """
        names = dict.fromkeys(node.path[0] for node in walk(call) if isinstance(node, Column))
        rows = 0 if any(isinstance(node, Call) and node.op == "map" for node in walk(call)) else 1
        fields = [self.schema.field(self.names.positions[name]).with_nullable(True) for name in names]
        return pa.table([pa.nulls(rows, field.type) for field in fields], schema=pa.schema(fields))


_FAILURES = (pa.ArrowException, OverflowError, TypeError, ExpressionError)


def _without_rows(call: Call, sample: pa.Table) -> Data | None:
    """What a call that fails on a row of nulls gives for no rows; None if its constants or types are to blame.

    Functions such as coalesce() and concat() make values of nulls, which rows of the table need not have.
    """
    if sample.num_columns == 0:
        return None
    try:
        made = [compute(arg, sample) for arg in call.args if not isinstance(arg, Literal)]
        if not any(one.is_valid if isinstance(one, pa.Scalar) else one.null_count < len(one) for one in made):
            return None
    except _FAILURES:
        pass
    try:
        return compute(call, sample.slice(0, 0))
    except _FAILURES:
        return None


Rule: TypeAlias = Callable[[Binder, Call, bool], Expr]
"""Binds one kind of call; the bool is ``wide``."""


def as_condition(found: Expr, what: str) -> Expr:
    """Require that a bound expression is boolean.

    Raises
    ------
    ExpressionError
    """
    if isinstance(found, Literal) and found.value is None:
        return Literal(None, _BOOL)
    if isinstance(found, Call) and found.op == "regexp_match":
        # As a condition: whether there is a match, false for null.
        return Call("is_true", (Call("regexp_like", found.args, _BOOL),), _BOOL)
    if found.type != _BOOL:
        raise ExpressionError(
            f"{what} needs a condition, but {describe(found, 10)} is {describe_type(found.type)}"
        )
    return found


def counted(expr: Expr, found: Expr) -> Expr:
    """A number of elements as the unsigned integer that pylance returns; inside other expressions it is a bigint.

    Parameters
    ----------
    expr : Expr
        Before binding.
    found : Expr
        After it.
    """
    is_count = isinstance(expr, Call) and ALIASES.get(expr.op, expr.op) in COUNTS
    return cast_to(found, pa.uint64()) if is_count else found


def _without_mark(expr: Expr) -> Expr:
    """The time now as its clock in UTC shows it, in the type that pylance gives it; other values unchanged."""
    if not is_clock(expr.type):
        return expr
    shown = pa.timestamp("ns")
    if isinstance(expr, Literal):
        return Literal(expr.value, shown)
    return Call("cast", (expr, Literal(None, shown)), shown)


def _readable(expr: Expr) -> Expr:
    if expr.type is None:
        return expr
    if isinstance(expr, Literal):
        plain = plain_type(expr.type)
        return expr if plain == expr.type else Literal(expr.value, plain)
    if isinstance(expr.type, pa.BaseExtensionType):
        return _readable(Call("storage", (expr,), expr.type.storage_type))
    plain = plain_type(expr.type)
    if plain == expr.type:
        return expr
    # Dictionaries, views and half floats: unlike a cast, reading them as their plain type cannot fail.
    return Call("decoded", (expr,), plain)
