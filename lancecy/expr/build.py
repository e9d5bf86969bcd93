"""The builder: expressions from Python operators.

``col("a") > 5`` is a :class:`Term`, a thin wrapper that overloads operators; its ``.expr`` is the
:class:`~lancecy.expr.nodes.Expr` inside. Conditions are joined with ``&``, ``|`` and ``~``; ``and``, ``or`` and
``not`` cannot be overloaded and are refused.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from lancecy.errors import ExpressionError
from lancecy.expr.describe import describe
from lancecy.expr.nodes import Call, Column, Constant, Expr, Literal, chain, constant_of, negate

__all__ = ["Condition", "Filter", "Term", "as_expr", "between", "col", "is_in", "lit"]


class Condition(Protocol):
    """An expression of :func:`lancecy.col` or of pyarrow, for type checkers."""

    def is_null(self) -> Any:
        """Whether the value is null."""

    def isin(self, values: Any, /) -> Any:
        """Whether the value is one of these."""


Comparison: TypeAlias = tuple[str, str, Any]
"""Column, operator and value."""
Filter: TypeAlias = "str | Condition | Expr | Sequence[Comparison | Sequence[Comparison]] | None"
"""SQL text, an expression of lancecy or pyarrow, or comparisons of which all are true (of a list of lists, those of any);
None keeps every row."""


class Term:
    """An expression with Python's operators.

    Made by :func:`col` and :func:`lit`. Comparisons (``== != < <= > >=``), arithmetic
    (``+ - * / %``), ``&``, ``|``, ``~`` and the methods below give new terms.

    Attributes
    ----------
    expr : Expr
        The expression itself, hashable and picklable.

    Examples
    --------
    >>> from lancecy import col
    >>> (col("a") > 5) & ~col("s").is_null()
    <term a > 5 AND s IS NOT NULL>
    """

    __slots__ = ("expr",)

    expr: Expr

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    # Comparisons. __eq__ does not return a bool, so terms cannot be looked up; their ``expr`` can.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return self._binary("=", other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return self._binary("!=", other)

    def __lt__(self, other: object) -> Term:
        return self._binary("<", other)

    def __le__(self, other: object) -> Term:
        return self._binary("<=", other)

    def __gt__(self, other: object) -> Term:
        return self._binary(">", other)

    def __ge__(self, other: object) -> Term:
        return self._binary(">=", other)

    def __and__(self, other: object) -> Term:
        return Term(chain("and", (self.expr, as_expr(other))))

    def __rand__(self, other: object) -> Term:
        return Term(chain("and", (as_expr(other), self.expr)))

    def __or__(self, other: object) -> Term:
        return Term(chain("or", (self.expr, as_expr(other))))

    def __ror__(self, other: object) -> Term:
        return Term(chain("or", (as_expr(other), self.expr)))

    def __invert__(self) -> Term:
        return Term(negate(self.expr))

    def __add__(self, other: object) -> Term:
        return self._binary("+", other)

    def __radd__(self, other: object) -> Term:
        return Term(as_expr(other))._binary("+", self)

    def __sub__(self, other: object) -> Term:
        return self._binary("-", other)

    def __rsub__(self, other: object) -> Term:
        return Term(as_expr(other))._binary("-", self)

    def __mul__(self, other: object) -> Term:
        return self._binary("*", other)

    def __rmul__(self, other: object) -> Term:
        return Term(as_expr(other))._binary("*", self)

    def __truediv__(self, other: object) -> Term:
        return self._binary("/", other)

    def __rtruediv__(self, other: object) -> Term:
        return Term(as_expr(other))._binary("/", self)

    def __mod__(self, other: object) -> Term:
        return self._binary("%", other)

    def __rmod__(self, other: object) -> Term:
        return Term(as_expr(other))._binary("%", self)

    def __neg__(self) -> Term:
        return Term(Call("neg", (self.expr,)))

    def __getitem__(self, key: str | int) -> Term:
        """Field of a struct by name, or element of a list by position (1 is the first, -1 the last)."""
        if isinstance(key, str) and isinstance(self.expr, Column):
            return Term(Column((*self.expr.path, key)))
        if isinstance(key, str):
            return Term(Call("get_field", (self.expr, Literal(key))))
        if hasattr(key, "__index__") and not isinstance(key, bool):
            return Term(Call("array_element", (self.expr, Literal(operator.index(key)))))
        raise TypeError("a field is named by a string and a list element by an integer")

    def __iter__(self) -> Any:
        raise TypeError("a term is not a sequence")

    def __bool__(self) -> bool:
        raise TypeError(
            "a condition has no truth value before it meets data; "
            "join conditions with & | ~ (in parentheses) instead of and, or, not"
        )

    def __repr__(self) -> str:
        return f"<term {describe(self.expr, max_values=10)}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (Term, (self.expr,))

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return ("lancecy.Term", self.expr.__reduce__())

    def _binary(self, op: str, other: object) -> Term:
        return Term(Call(op, (self.expr, as_expr(other))))

    def isin(self, values: Iterable[object]) -> Term:
        """True where the value is one of ``values`` (a list, a set, an Arrow or NumPy array)."""
        return Term(is_in(self.expr, values))

    def between(self, low: object, high: object) -> Term:
        """True where ``low <= value <= high``."""
        return Term(between(self.expr, as_expr(low), as_expr(high)))

    def is_null(self) -> Term:
        """True where the value is null. NaN is not null."""
        return Term(Call("is_null", (self.expr,)))

    def is_not_null(self) -> Term:
        """True where the value is not null."""
        return ~self.is_null()

    def is_nan(self) -> Term:
        """True where the value is NaN."""
        return Term(Call("isnan", (self.expr,)))

    def like(self, pattern: str, escape: str = "\\") -> Term:
        """True where the text matches: ``%`` stands for any text, ``_`` for one character."""
        return Term(_like("like", self.expr, pattern, escape))

    def ilike(self, pattern: str, escape: str = "\\") -> Term:
        """:meth:`like`, without regard to case."""
        return Term(_like("ilike", self.expr, pattern, escape))

    def starts_with(self, prefix: str) -> Term:
        """True where the text begins with ``prefix``."""
        return Term(Call("starts_with", (self.expr, Literal(prefix))))

    def ends_with(self, suffix: str) -> Term:
        """True where the text ends with ``suffix``."""
        return Term(Call("ends_with", (self.expr, Literal(suffix))))

    def contains(self, part: str) -> Term:
        """True where the text contains ``part``."""
        return Term(Call("contains", (self.expr, Literal(part))))

    def cast(self, data_type: pa.DataType | str) -> Term:
        """The value converted to an Arrow type, given as a type or by its name in pyarrow ("int64")."""
        return self._cast("cast", data_type)

    def try_cast(self, data_type: pa.DataType | str) -> Term:
        """As :meth:`cast`, null where a value does not convert."""
        return self._cast("try_cast", data_type)

    def _cast(self, op: str, data_type: pa.DataType | str) -> Term:
        target = data_type if isinstance(data_type, pa.DataType) else pa.type_for_alias(data_type)
        return Term(Call(op, (self.expr, Literal(None, target))))


def col(name: str) -> Term:
    """A column, by name; fields of structs as ``col("a.b")`` or ``col("a")["b"]``.

    Examples
    --------
    >>> from lancecy import col
    >>> col("price") * 2 >= 10
    <term price * 2 >= 10>
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"a column is named by a string, not {name!r}")
    return Term(Column((name,)))


def lit(value: object, data_type: pa.DataType | None = None) -> Term:
    """A constant; with ``data_type``, a constant of exactly this type.

    Raises
    ------
    ExpressionError
        The value cannot be part of an expression, or does not fit the type.

    Examples
    --------
    >>> from lancecy import col, lit
    >>> lit(1) < col("a")
    <term 1 < a>
    """
    if data_type is None:
        return Term(as_expr(value))
    try:
        return Term(constant_of(pa.scalar(value, data_type)))
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise ExpressionError(f"{value!r} is not a value of type {data_type}") from error


def as_expr(value: object) -> Expr:
    """The expression in a term, or the literal for a plain value.

    Raises
    ------
    ExpressionError
    """
    if isinstance(value, Term):
        return value.expr
    return value if isinstance(value, Expr) else constant_of(value)


def is_in(expr: Expr, values: Iterable[object]) -> Expr:
    """``expr IN (values)`` with all values in one literal.

    Raises
    ------
    TypeError
        ``values`` is text or a single value.
    ExpressionError
        A value cannot be part of an expression.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"isin needs a list of values, not {values!r}")
    return among(expr, [constant_of(value) for value in values])


def among(expr: Expr, members: Sequence[Expr]) -> Expr:
    """``expr IN (members)``: equality with each member that is not a constant, as lists and structs are not."""
    literals: list[Literal] = []
    others: list[Expr] = []
    for member in members:
        if isinstance(member, Literal) and not isinstance(member.value, tuple):
            literals.append(member)
        else:
            others.append(Call("=", (expr, member)))
    return chain("or", [_in_list(expr, literals), *others] if literals or not others else others)


def _in_list(expr: Expr, literals: list[Literal]) -> Expr:
    """``expr IN (literals)``; constants of different types are tested list by list."""
    groups: dict[pa.DataType | None, list[Literal]] = {}
    for literal in literals:
        groups.setdefault(literal.type, []).append(literal)
    if len(groups) > 1 and None in groups and all(v.value is None for v in groups[None]):
        nulls = groups.pop(None)
        next(iter(groups.values())).extend(nulls)
    return chain("or", [Call("in", (expr, list_literal(group))) for group in groups.values() or [[]]])


def list_literal(literals: list[Literal]) -> Literal:
    """One literal for a list of them.

    Raises
    ------
    ExpressionError
        The values state different types.
    """
    stated = {literal.type for literal in literals if literal.value is not None}
    if len(stated) > 1:
        names = " and ".join(sorted("untyped" if t is None else str(t) for t in stated))
        raise ExpressionError(f"a list of values mixes the types {names}; convert them to one")
    values: tuple[Constant, ...] = tuple(literal.value for literal in literals)
    return Literal(values, stated.pop() if stated else None)


def between(expr: Expr, low: Expr, high: Expr) -> Expr:
    """``low <= expr AND expr <= high``."""
    return chain("and", (Call(">=", (expr, low)), Call("<=", (expr, high))))


def _like(op: str, expr: Expr, pattern: str, escape: str) -> Expr:
    if not isinstance(pattern, str) or not isinstance(escape, str) or len(escape) > 1:
        raise TypeError("a pattern is a string, and its escape one character or none")
    args = (expr, Literal(pattern))
    return Call(op, args if escape == "\\" else (*args, Literal(escape)))
