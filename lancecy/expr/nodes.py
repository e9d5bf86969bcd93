"""The expression tree: columns, literals and calls.

One node type stands for every operator and function; :data:`OPERATORS` has the notation of each operator. Nodes
are immutable, hashable and small when pickled. The same three classes serve before and after binding: a bound
node has its Arrow type, an unbound one has ``type`` None (an unbound literal has a type if one was stated). No
tree is deeper than ``Limits.nesting``, so that recursion over one is safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from decimal import Decimal
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from lancecy.errors import ExpressionError, printable
from lancecy.expr.periods import Period
from lancecy.limits import DEFAULT_LIMITS
from lancecy.records import dataclass

__all__ = [
    "COMPARISONS",
    "FORMS",
    "OPERATORS",
    "Call",
    "Column",
    "Constant",
    "Expr",
    "Literal",
    "Operator",
    "chain",
    "check_text",
    "conjuncts",
    "constant_of",
    "is_nan",
    "literal_from_scalar",
    "literal_of",
    "negate",
    "walk",
]

Constant: TypeAlias = "bool | int | float | Decimal | str | bytes | tuple[Constant, ...] | None"


@dataclass(frozen=True, slots=True)
class Operator:
    """Notation of an operator: its symbol, and its precedence (larger binds tighter)."""

    symbol: str
    precedence: int


OPERATORS: dict[str, Operator] = {
    "or": Operator("OR", 1),
    "and": Operator("AND", 2),
    "not": Operator("NOT", 3),
    "is_null": Operator("IS NULL", 4),
    "is_true": Operator("IS TRUE", 4),
    "is_not_distinct": Operator("IS NOT DISTINCT FROM", 4),
    "=": Operator("=", 5),
    "!=": Operator("!=", 5),
    "<": Operator("<", 5),
    "<=": Operator("<=", 5),
    ">": Operator(">", 5),
    ">=": Operator(">=", 5),
    "in": Operator("IN", 6),
    "like": Operator("LIKE", 6),
    "ilike": Operator("ILIKE", 6),
    "||": Operator("||", 9),
    "+": Operator("+", 10),
    "-": Operator("-", 10),
    "*": Operator("*", 11),
    "/": Operator("/", 11),
    "%": Operator("%", 11),
    "neg": Operator("-", 12),
}
"""Operators; every other ``Call.op`` is the name of a function, or one of :data:`FORMS`."""

FORMS = frozenset(
    ("arrow", "case", "cast", "decoded", "search", "storage", "stored", "try_cast", "unsafe_cast")
)
"""Calls that only this package makes; filter text cannot name them."""

COMPARISONS: dict[str, str] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparison operators, and their mirror images for exchanged sides."""


class Expr:
    """A node of an expression: :class:`Column`, :class:`Literal` or :class:`Call`.

    Equal nodes mean the same; the hash is computed once, so that a tree is a cheap dictionary key.
    Python's operators are not overloaded here (``==`` compares); :func:`lancecy.col` builds
    expressions with operators.

    Attributes
    ----------
    type : pa.DataType or None
        Type of the values once bound to a schema.
    """

    __slots__ = ()

    type: pa.DataType | None
    _hash: int

    def _key(self) -> tuple[object, ...]:
        raise TypeError("Expr is abstract")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Expr) or self.__class__ is not other.__class__:
            return False
        return self._hash == other._hash and self._key() == other._key()

    def __hash__(self) -> int:
        return self._hash

    def __dask_tokenize__(self) -> tuple[object, ...]:
        """Everything but the hash, which differs between processes."""
        return (self.__class__.__name__, self._key())

    text: ClassVar[Callable[[Expr], str]] = staticmethod(object.__repr__)
    """The tree as SQL text; ``describe`` sets it."""

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__.lower()} {Expr.text(self)}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Column(Expr):
    """A column by its path.

    Attributes
    ----------
    path : tuple of str
        Unbound: names as written; a single name may still contain dots. Bound: one field per level.
    exact : bool
        False for an unquoted name in SQL text, which may also differ in case.
    type : pa.DataType or None
        Set by binding.
    """

    path: tuple[str, ...]
    exact: bool = True
    type: pa.DataType | None = None
    _hash: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(("column", self.path, self.exact)))

    def _key(self) -> tuple[object, ...]:
        return (self.path, self.exact, self.type)

    def __reduce__(self) -> tuple[object, ...]:
        return (Column, (self.path, self.exact, self.type))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(Expr):
    """A constant, or a tuple of constants for lists.

    Attributes
    ----------
    value : None, bool, int, float, Decimal, str, bytes or tuple of these
        For a temporal type: the integer Arrow stores.
    type : pa.DataType or None
        None: the literal takes the type of the operand it is compared or combined with.
        For a tuple: the type of its elements.
    """

    value: Constant
    type: pa.DataType | None = None
    _hash: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((_value_key(self.value), _type_id(self))))

    def _key(self) -> tuple[object, ...]:
        return (_value_key(self.value), self.type)

    def __reduce__(self) -> tuple[object, ...]:
        return (Literal, (self.value, self.type))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expr):
    """An operator or function applied to arguments.

    Attributes
    ----------
    op : str
        A key of :data:`OPERATORS` or the lower-case name of a function.
    args : tuple of Expr
        ``and``, ``or`` and ``||`` take any number; ``cast`` takes the operand and a null literal of the
        target type; ``case`` takes condition, value, …, default.
    type : pa.DataType or None
        Type of the result; set by binding.
    """

    op: str
    args: tuple[Expr, ...]
    type: pa.DataType | None = None
    depth: int = field(init=False, repr=False, default=1)
    _hash: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        depth = 1 + max((a.depth for a in self.args if isinstance(a, Call)), default=0)
        if depth > DEFAULT_LIMITS.nesting:
            raise ExpressionError(
                f"the expression is nested more than {DEFAULT_LIMITS.nesting} deep; "
                "long chains belong in AND, OR or IN, which do not nest"
            )
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "_hash", hash((self.op, self.args, _type_id(self))))

    def _key(self) -> tuple[object, ...]:
        return (self.op, self.args, self.type)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return ("Call", self.op, tuple(arg.__dask_tokenize__() for arg in self.args), self.type)

    def __reduce__(self) -> tuple[object, ...]:
        return (Call, (self.op, self.args, self.type))


def _value_key(value: Constant) -> object:
    # 1, 1.0 and True are equal in Python but not in a query, nor are the two zeros, nor 1.0 and 1.00, whose types as
    # decimals differ; NaN does not equal itself.
    if isinstance(value, tuple):
        # Long lists of keys: numbers of one class differ where their values do.
        return ("int", value) if set(map(type, value)) == {int} else tuple([_value_key(v) for v in value])
    if isinstance(value, float):
        return ("float", repr(value))
    if isinstance(value, Decimal):
        return ("Decimal", str(value))
    return (value.__class__.__name__, value)


def _type_id(node: Expr) -> int:
    # Cheaper to hash than the type; extension types written in Python need not be hashable.
    return -1 if node.type is None else int(node.type.id)


def literal_of(value: object) -> Literal:
    """Make a literal of a Python, NumPy or Arrow value.

    Plain numbers, strings, bytes and booleans take the type of the column they meet; dates and
    times, NumPy's included, and Arrow scalars keep their own.

    Raises
    ------
    ExpressionError
        Expressions cannot hold values of this kind.

    Examples
    --------
    >>> literal_of(5)
    <literal 5>
    """
    if isinstance(value, str):
        check_text(value)
    if value is None or isinstance(value, (bool, int, float, str, bytes, Decimal)):
        return Literal(_plain(value))
    if isinstance(value, (bytearray, memoryview)):
        return Literal(bytes(value))
    if isinstance(value, pa.Scalar):
        return literal_from_scalar(value)
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":
        return literal_of(value.item())
    if isinstance(value, (np.datetime64, np.timedelta64)) and np.isnat(value):
        return Literal(None)
    if isinstance(getattr(value, "asm8", None), np.generic):
        return _of_pandas(value)
    try:
        one: Any = np.asarray([value]) if isinstance(value, np.generic) else [value]
        return literal_from_scalar(pa.array(one, from_pandas=True)[0])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ExpressionError(f"a {type(value).__name__} cannot be part of an expression") from error


def constant_of(value: object) -> Expr:
    """The literal of a value, or the call that makes it: a list of a list or array, a struct of a mapping, a map.

    Raises
    ------
    ExpressionError
        Expressions cannot hold values of this kind.

    Examples
    --------
    >>> constant_of([1, 2])
    <call make_array(1, 2)>
    """
    if isinstance(value, pa.Scalar) and value.is_valid:
        if isinstance(value, pa.MapScalar):
            return Call("map", (constant_of(value.values.field(0)), constant_of(value.values.field(1))))
        if isinstance(value, (pa.ListScalar, pa.FixedSizeListScalar)):
            value = value.values
        elif isinstance(value, pa.StructScalar):
            value = dict(value)
    if isinstance(value, (list, tuple, pa.Array)) or (isinstance(value, np.ndarray) and value.ndim):
        return Call("make_array", tuple(constant_of(item) for item in value))
    if isinstance(value, Mapping):
        return Call("named_struct", tuple(constant_of(part) for pair in value.items() for part in pair))
    return literal_of(value)


def _of_pandas(value: Any) -> Literal:
    """A Timestamp or Timedelta of pandas: Arrow's conversion of Python objects drops its nanoseconds."""
    found = literal_of(value.asm8)
    if found.type is None or getattr(value, "tz", None) is None:
        return found
    return Literal(found.value, pa.timestamp(found.type.unit, tz="UTC"))


def check_text(text: str) -> None:
    """Refuse unpaired surrogates: no column can hold them, and no later library accepts them.

    Raises
    ------
    ExpressionError
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ExpressionError(
            f"{printable(text)!r} has half a character, U+{ord(text[error.start]):04X}, at position {error.start}"
        ) from None


def _plain(value: Any) -> Constant:
    # Subclasses (enums, numpy.float64; not pandas' NaT) become the builtin they extend.
    builtins: tuple[Any, ...] = (bool, int, float, str, bytes)
    kind = next((kind for kind in builtins if isinstance(value, kind)), None)
    plain: Constant = value if kind is None else kind(value)
    return plain


def literal_from_scalar(scalar: Any) -> Literal:
    """Make a typed literal with the value of an Arrow scalar.

    Raises
    ------
    ExpressionError
        Lists, structs and other types without literals.
    """
    kind: pa.DataType = scalar.type
    types = pa.types
    if types.is_dictionary(kind):
        return literal_from_scalar(scalar.value) if scalar.is_valid else Literal(None, kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return literal_from_scalar(scalar.value) if scalar.is_valid else Literal(None, kind.storage_type)
    if not scalar.is_valid:
        return Literal(None, kind)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return Literal(int(scalar.value), kind)
    value = scalar.as_py()
    if types.is_interval(kind):
        return Literal(Period(*value).stored, kind)
    if types.is_floating(kind):
        return Literal(float(value), kind)
    if isinstance(value, (bool, int, str, bytes, Decimal)):
        return Literal(value, kind)
    raise ExpressionError(f"a constant of type {kind} cannot be part of an expression")


def chain(op: str, parts: Iterable[Expr]) -> Expr:
    """Join the parts by an associative operator; nested parts of the same operator are flattened.

    Examples
    --------
    >>> chain("and", [chain("and", [Column(("a",)), Column(("b",))]), Column(("c",))])
    <call a AND b AND c>
    """
    flat: list[Expr] = []
    for part in parts:
        if isinstance(part, Call) and part.op == op:
            flat.extend(part.args)
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Call(op, tuple(flat))


def negate(expr: Expr) -> Expr:
    """NOT of an expression; a double negation cancels (in three-valued logic too)."""
    if isinstance(expr, Call) and expr.op == "not":
        return expr.args[0]
    return Call("not", (expr,), expr.type)


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The conditions joined by AND at the top of an expression; the expression itself if it is only one."""
    return expr.args if isinstance(expr, Call) and expr.op == "and" else (expr,)


def is_nan(value: Constant) -> bool:
    """Whether a constant is a floating-point NaN."""
    return isinstance(value, float) and math.isnan(value)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield every node of the tree, parents before children."""
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(reversed(node.args))
