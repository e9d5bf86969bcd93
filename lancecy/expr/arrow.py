"""pyarrow expressions to expression trees.

pyarrow hides the parts of an expression, but pickles it as an Arrow IPC file: the schema's metadata lists the tree
in prefix order (``call``, ``field_ref``, ``literal``, ``options``, ``end``; keys repeat), and one row of columns
holds literals and options::

    call greater   field_ref a   literal 0   end greater        column 0: [5]

A call with an equivalent here becomes a node; a search for text in a column becomes a ``search`` node around that, since
pyarrow finds the text in bytes, too, and the node does not. Any other call stays an opaque ``arrow`` node around its own
IPC bytes, which pyarrow evaluates and which prunes nothing.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError, printable
from lancecy.expr.build import list_literal
from lancecy.expr.nodes import (
    Call,
    Column,
    Expr,
    Literal,
    chain,
    constant_of,
    is_nan,
    literal_from_scalar,
    negate,
)
from lancecy.records import dataclass

__all__ = ["compute_opaque", "from_arrow", "search_in_bytes"]

_Pair = tuple[str, bytes]


def from_arrow(expression: pc.Expression) -> Expr:
    """Convert a pyarrow expression to a tree.

    Raises
    ------
    ExpressionError
        It refers to columns by position.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> from_arrow((pc.field("a") > 5) | pc.field("b").is_null())
    <call a > 5 OR b IS NULL>
    """
    try:
        _, (buffer,) = expression.__reduce__()
    except pa.ArrowNotImplementedError as error:
        raise ExpressionError(
            f"cannot read the pyarrow expression {printable(expression)}: {error}; refer to columns by name",
            text=str(expression),
        ) from error
    batch = pa.ipc.open_file(buffer).get_batch(0)
    return _Reader(batch, list(_metadata(batch.schema))).read()


class _ArrowSchema(ctypes.Structure):
    """The head of ``struct ArrowSchema`` of Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_void_p), ("name", ctypes.c_void_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> Iterator[_Pair]:
    """Yield key-value pairs of the schema in order, repeated keys included.

    ``Schema.metadata`` is a dictionary and keeps one pair per key; the C data interface, whose layout is fixed,
    has them all: an int32 count, then length and bytes of each key and value.
    """
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if not address:
        return
    (count,) = struct.unpack("i", ctypes.string_at(address, 4))
    address += 4
    for _ in range(count):
        pair = []
        for _side in range(2):
            (length,) = struct.unpack("i", ctypes.string_at(address, 4))
            pair.append(ctypes.string_at(address + 4, length))
            address += 4 + length
        yield pair[0].decode(), pair[1]


@dataclass(slots=True)
class _Frame:
    """A call whose end has not been read."""

    name: str
    start: int
    args: list[Expr | _Chain | None] = field(default_factory=list)
    options: dict[str, Any] | None = None


@dataclass(slots=True)
class _Chain:
    """An AND or OR still growing: pyarrow nests them two by two, thousands deep."""

    op: str
    parts: list[Expr]

    def finish(self) -> Expr:
        return chain(self.op, self.parts)


class _Reader:
    """Turns the pairs into a tree without recursion.

    A part without an equivalent here is None until the smallest call around it becomes opaque.
    """

    def __init__(self, batch: pa.RecordBatch, pairs: list[_Pair]) -> None:
        self.batch = batch
        self.pairs = pairs

    def read(self) -> Expr:
        stack = [_Frame("", 0)]
        index = 0
        while index < len(self.pairs):
            key, value = self.pairs[index]
            index += 1
            if key == "call":
                stack.append(_Frame(value.decode(), index - 1))
            elif key == "end":
                done = stack.pop()
                stack[-1].args.append(self.close(done, index))
            elif key == "options":
                stack[-1].options = self.options(int(value))
            elif key == "literal":
                stack[-1].args.append(self.literal(int(value)))
            else:
                levels = int(value) if key == "nested_field_ref" else 1
                first = index - 1 if key == "field_ref" else index
                stack[-1].args.append(self.column(first, levels))
                index = first + levels
        (root,) = stack[0].args
        if root is None:
            return self.opaque(0, len(self.pairs))
        return root.finish() if isinstance(root, _Chain) else root

    def column(self, first: int, levels: int) -> Column:
        refs = self.pairs[first : first + levels]
        if len(refs) < levels or any(key != "field_ref" for key, _ in refs):
            raise ExpressionError("a pyarrow expression refers to a column by position; refer to it by name")
        return Column(tuple(name.decode() for _, name in refs))

    def literal(self, index: int) -> Expr | None:
        try:
            return constant_of(self.batch.column(index)[0])
        except ExpressionError:
            return None

    def options(self, index: int) -> dict[str, Any]:
        """Fields of the options as Arrow scalars."""
        values = self.batch.column(index)
        return {f.name: pc.struct_field(values, f.name)[0] for f in values.type}

    def close(self, frame: _Frame, stop: int) -> Expr | _Chain:
        logic = {"and_kleene": "and", "or_kleene": "or"}.get(frame.name)
        if logic is not None and None not in frame.args:
            parts: list[Expr] = []
            for arg in frame.args:
                if not isinstance(arg, _Chain):
                    parts.append(arg)  # type: ignore[arg-type]
                elif arg.op == logic and not parts:
                    parts = arg.parts
                else:
                    parts.append(arg.finish())
            return _Chain(logic, parts)
        args = [arg.finish() if isinstance(arg, _Chain) else arg for arg in frame.args]
        rule = _RULES.get(frame.name)
        if rule is not None and None not in args:
            found = rule(tuple(args), frame.options or {})  # type: ignore[arg-type]
            if found is not None:
                return found
        return self.opaque(frame.start, stop)

    def opaque(self, start: int, stop: int) -> Expr:
        """Make a node around the IPC bytes of one part, with the columns it reads."""
        part = self.pairs[start:stop]
        batch = self.batch.replace_schema_metadata(pa.KeyValueMetadata(part))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        columns: dict[Column, None] = {}
        index = 0
        while index < len(part):
            key, value = part[index]
            levels = int(value) if key == "nested_field_ref" else 1
            if key in ("field_ref", "nested_field_ref"):
                first = index + (key == "nested_field_ref")
                columns[self.column(start + first, levels)] = None
                index = first + levels - 1
            index += 1
        return Call("arrow", (Literal(sink.getvalue().to_pybytes()), *columns))


# Nodes for calls. A rule returns None where the options have no equivalent node.

_Rule = Callable[[tuple[Expr, ...], dict[str, Any]], "Expr | None"]


def _plain(op: str) -> _Rule:
    return lambda args, options: Call(op, args)


def _is_null(args: tuple[Expr, ...], options: dict[str, Any]) -> Expr:
    null = Call("is_null", args)
    nan_too = "nan_is_null" in options and options["nan_is_null"].as_py()
    return chain("or", (null, Call("isnan", args))) if nan_too else null


def _is_in(args: tuple[Expr, ...], options: dict[str, Any]) -> Expr | None:
    """IN for Arrow's is_in, which is never null and can match nulls and NaN; IN can be null and matches neither."""
    behaviour = options["null_matching_behavior"].as_py() if "null_matching_behavior" in options else None
    match, skip = 0, 1
    if behaviour not in (match, skip):
        return None
    try:
        literals = [literal_from_scalar(value) for value in options["value_set"].values]
    except ExpressionError:
        return None
    present = [v for v in literals if v.value is not None]
    found: Expr = Call("in", (*args, list_literal(present)))
    if any(is_nan(v.value) for v in present):
        found = chain("or", (found, Call("isnan", args)))
    found = Call("is_true", (found,))
    matches_null = behaviour == match and len(present) < len(literals)
    return chain("or", (found, Call("is_null", args))) if matches_null else found


def _if_else(args: tuple[Expr, ...], options: dict[str, Any]) -> Expr | None:
    """IN in DuckDB's spelling: the membership where there is a value, else null."""
    valid, found, other = args
    is_true = isinstance(found, Call) and found.op == "is_true" and isinstance(found.args[0], Call)
    if not is_true or not isinstance(other, Literal) or other.value is not None:
        return None
    member = found.args[0]  # type: ignore[attr-defined]
    return member if member.op == "in" and valid == negate(Call("is_null", member.args[:1])) else None


def _cast(args: tuple[Expr, ...], options: dict[str, Any]) -> Expr | None:
    allowed = {value.as_py() for name, value in options.items() if name.startswith("allow_")}
    if "to_type" not in options or len(allowed) != 1:
        return None
    return Call("unsafe_cast" if True in allowed else "cast", (*args, Literal(None, options["to_type"].type)))


def _pattern(op: str) -> _Rule:
    def rule(args: tuple[Expr, ...], options: dict[str, Any]) -> Expr | None:
        if "pattern" not in options:
            return None
        try:
            text = options["pattern"].as_py()
        except UnicodeDecodeError:  # bytes, which only binary columns are asked for
            return None
        if not isinstance(text, str):
            return None
        ignore_case = "ignore_case" in options and options["ignore_case"].as_py()
        if op == "like":
            found = Call("ilike" if ignore_case else "like", (*args, Literal(text)))
        elif op == "regexp_like":
            found = Call(op, (*args, Literal(text), Literal("i" if ignore_case else "")))
        elif ignore_case:
            return None
        else:
            found = Call(op, (*args, Literal(text)))
        # Of a computed value, only text is searched.
        return Call("search", (found,)) if isinstance(args[0], Column) else found

    return rule


_RULES: dict[str, _Rule] = {
    "equal": _plain("="),
    "not_equal": _plain("!="),
    "less": _plain("<"),
    "less_equal": _plain("<="),
    "greater": _plain(">"),
    "greater_equal": _plain(">="),
    "invert": lambda args, options: negate(args[0]),
    "is_null": _is_null,
    "is_valid": lambda args, options: negate(Call("is_null", args)),
    "is_nan": _plain("isnan"),
    "is_in": _is_in,
    "if_else": _if_else,
    "cast": _cast,
    "add_checked": _plain("+"),
    "subtract_checked": _plain("-"),
    "multiply_checked": _plain("*"),
    "divide_checked": _plain("/"),
    "negate_checked": _plain("neg"),
    "match_like": _pattern("like"),
    "match_substring": _pattern("contains"),
    "match_substring_regex": _pattern("regexp_like"),
    "starts_with": _pattern("starts_with"),
    "ends_with": _pattern("ends_with"),
    "utf8_lower": _plain("lower"),
    "utf8_upper": _plain("upper"),
    "coalesce": _plain("coalesce"),
}


# Opaque parts

_SEARCHES: dict[str, Callable[..., pc.Expression]] = {
    "like": pc.match_like,
    "ilike": partial(pc.match_like, ignore_case=True),
    "contains": pc.match_substring,
    "regexp_like": pc.match_substring_regex,
    "starts_with": pc.starts_with,
    "ends_with": pc.ends_with,
}


def search_in_bytes(search: Call, column: Column) -> Call:
    """A search for text as an opaque part, for a column of bytes.

    Parameters
    ----------
    search : Call
        The argument of a "search" node.
    column : Column
        Bound.
    """
    text, *flags = (arg.value for arg in search.args[1:] if isinstance(arg, Literal))
    options = {"ignore_case": True} if "i" in flags else {}
    expression = _SEARCHES[search.op](pc.field(*column.path), text, **options)
    _, (buffer,) = expression.__reduce__()
    return Call("arrow", (Literal(buffer.to_pybytes()), Column(column.path)))


@lru_cache(maxsize=64)
def _expression(ipc: bytes) -> pc.Expression:
    return pc.Expression._deserialize(pa.py_buffer(ipc))


def compute_opaque(call: Call, table: pa.Table | pa.RecordBatch | None) -> Any:
    """Evaluate an ``arrow`` node with pyarrow's own engine, in row order."""
    from pyarrow import acero

    ipc, *columns = call.args
    names = dict.fromkeys(c.path[0] for c in columns if isinstance(c, Column))
    if table is None or not names:
        rows = pa.table({"": pa.nulls(1 if table is None else table.num_rows)})
    else:
        rows = pa.table({name: table.column(name) for name in names})
    expression = _expression(ipc.value)  # type: ignore[attr-defined]
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(rows)),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"])),
        ]
    )
    found = plan.to_table(use_threads=False).column("value")
    return found[0] if table is None else found
