"""Values as they are shown: text, numbers, lines for vectors, pictures, and nested values that can be opened.

Every value is shortened before it becomes a Python object, so that a cell of a hundred megabytes costs no more than a
short one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.api.datasets import Dataset
from lancecy.blobs.files import BlobFile
from lancecy.errors import LanceError
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.ui.charts import line_points
from lancecy.ui.found_rows import RowPage, quoted
from lancecy.ui.options import Bounds
from lancecy.ui.pictures import HEAD_BYTES, image_type, is_bytes, stored
from lancecy.ui.texts import counted, escaped, shortened, size_text

__all__ = ["Cell", "Column", "columns_of", "type_text"]

Kind: TypeAlias = Literal["null", "text", "number", "bytes", "image", "vector", "nested"]

_FEWEST_OF_A_LINE = 4
_FIRST_NUMBERS = 8
_INDENT = "  "


@dataclass(frozen=True)
class Cell:
    """One value.

    Attributes
    ----------
    kind : str
        "null", "text", "number", "bytes", "image", "vector" or "nested".
    text : str
        The value, or what it is, in a few words.
    details : str
        More of it; "" if the text is all.
    points : str
        Of a vector, the points of its line.
    """

    kind: Kind
    text: str
    details: str = ""
    points: str = ""


@dataclass(frozen=True)
class Column:
    """The values of one column.

    Attributes
    ----------
    name, type : str
    field : Field
    cells : list of Cell
    is_right : bool
        Whether its values are aligned to the right.
    """

    name: str
    type: str
    field: Field
    cells: list[Cell]
    is_right: bool = False


def columns_of(ds: Dataset, fields: Sequence[Field], page: RowPage, bounds: Bounds) -> list[Column]:
    """The columns of some rows.

    Parameters
    ----------
    ds : Dataset
        For the first bytes of blobs.
    fields : sequence of Field
        Of the columns of the rows, in order.
    page : RowPage
    bounds : Bounds
    """
    found = []
    for field, values in zip(fields, page.rows.columns, strict=True):
        kind = field.arrow_type
        cells = _blobs(ds, field, page.ids) if field.is_blob else [*_cells(stored(values), bounds)]
        is_right = bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
        found.append(Column(escaped(field.name, 80), type_text(kind, 60), field, cells, is_right))
    return found


def type_text(kind: pa.DataType, most: int = 120) -> str:
    """The name of a type; a vector is written as its numbers and their count.

    Parameters
    ----------
    kind : pyarrow.DataType
    most : int
        Characters.

    Examples
    --------
    >>> type_text(pa.list_(pa.float32(), 768)), type_text(pa.int64())
    ('float[768]', 'int64')
    """
    if pa.types.is_fixed_size_list(kind) and not pa.types.is_nested(kind.value_type):
        return escaped(f"{kind.value_type}[{kind.list_size}]", most)
    return escaped(kind, most)


def _cells(array: pa.Array, bounds: Bounds) -> Iterator[Cell]:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield from _texts(array, bounds)
    elif is_bytes(kind):
        yield from _bytes(array)
    elif _is_vector(kind):
        yield from (_vector(scalar, bounds) for scalar in array)
    elif pa.types.is_nested(kind):
        yield from (_nested(scalar, bounds) for scalar in array)
    else:
        yield from (_plain(scalar, bounds) for scalar in array)


def _texts(array: pa.Array, bounds: Bounds) -> Iterator[Cell]:
    lengths = pc.utf8_length(array).to_pylist()
    kept = pc.utf8_slice_codeunits(array, 0, bounds.details + 1).to_pylist()
    for text, length in zip(kept, lengths, strict=True):
        if text is None:
            yield _NULL
        elif length <= bounds.text:
            yield Cell("text", escaped(text, 12 * bounds.text))
        else:
            more = f"\n… {length:,} characters in all" if length > bounds.details else ""
            yield Cell("text", escaped(text, bounds.text), _lines(text[: bounds.details]) + more)


def _lines(text: str) -> str:
    """The text with its line ends; other characters that are not printed are escaped."""
    return "\n".join(escaped(line, 12 * len(line) + 1) for line in text.split("\n"))


def _bytes(array: pa.Array) -> Iterator[Cell]:
    for number, size in enumerate(pc.binary_length(array).to_pylist()):
        if size is None:
            yield _NULL
            continue
        # A view: no more than the first bytes are copied.
        head = array[number].as_buffer()[: 2 * HEAD_BYTES].to_pybytes()
        yield _of_bytes(head, size)


def _of_bytes(head: bytes, size: int, what: str = "bytes") -> Cell:
    kind = image_type(head)
    if kind is not None:
        return Cell("image", f"{kind.partition('/')[2].upper()}, {size_text(size)}")
    start = head[:HEAD_BYTES].hex(" ")
    return Cell(
        "bytes", f"{size:,} {what}" + (f": {start}{' …' if size > HEAD_BYTES else ''}" if start else "")
    )


def _blobs(ds: Dataset, field: Field, ids: list[int]) -> list[Cell]:
    """Blobs by their sizes and first bytes."""
    try:
        files = ds.take_blobs(quoted(field.name), ids=ids) if ids else []
    except LanceError as error:
        # One that cannot be opened does not hide the others.
        if half := len(ids) // 2:
            return [*_blobs(ds, field, ids[:half]), *_blobs(ds, field, ids[half:])]
        return [_unreadable(error)]
    return [*map(_blob, files)]


def _blob(blob: BlobFile | None) -> Cell:
    if blob is None:
        return _NULL
    try:
        with blob:
            return _of_bytes(blob.read(2 * HEAD_BYTES), blob.size(), "bytes as blob")
    except LanceError as error:
        return _unreadable(error)


def _unreadable(error: LanceError) -> Cell:
    return Cell("text", escaped(f"cannot be read: {error}"))


# -- numbers and vectors ------------------------------------------------------------------------------


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_vector(kind: pa.DataType) -> bool:
    return bool(
        (pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind))
        and pa.types.is_floating(kind.value_type)
    )


def _vector(scalar: pa.Scalar, bounds: Bounds) -> Cell:
    if not scalar.is_valid:
        return _NULL
    values = scalar.values
    if len(values) < _FEWEST_OF_A_LINE:
        return _nested(scalar, bounds)
    shown = values.slice(0, bounds.items)
    text = f"{len(values):,} × {values.type}"
    numbers = np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
    listed = ", ".join(_number(one) for one in shown) + (" …" if len(values) > len(shown) else "")
    first = ", ".join(_number(one) for one in values.slice(0, _FIRST_NUMBERS))
    details = f"{text}\n[{first if len(values) <= _FIRST_NUMBERS else listed}]"
    return Cell("vector", text, details, line_points(numbers))


def _number(scalar: pa.Scalar) -> str:
    value = scalar.as_py()
    if value is None:
        return "null"
    if scalar.type == pa.float32():
        return str(np.float32(value))
    if scalar.type == pa.float16():
        return str(np.float16(value))
    return f"{value}"


def _plain(scalar: pa.Scalar, bounds: Bounds) -> Cell:
    if not scalar.is_valid:
        return _NULL
    if _is_number(scalar.type):
        return Cell("number", _number(scalar))
    return Cell("text", escaped(_value_text(scalar), bounds.text))


def _value_text(scalar: pa.Scalar) -> str:
    try:
        value = scalar.as_py()
    except (OverflowError, ValueError):
        # Python has no such value, such as a date in the year 5,881,580.
        return str(pa.array([scalar], scalar.type).to_string(skip_new_lines=True)[1:-1])
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


# -- nested values ------------------------------------------------------------------------------------


def _nested(scalar: pa.Scalar, bounds: Bounds) -> Cell:
    if not scalar.is_valid:
        return _NULL
    lines = [*_tree(scalar, bounds, "", bounds.depth)]
    flat = _flat(lines)
    if len(flat) <= bounds.text // 2:
        return Cell("text", flat)
    return Cell(
        "nested", _summary(scalar), shortened("\n".join(lines), bounds.details), shortened(flat, bounds.text)
    )


def _flat(lines: Sequence[str]) -> str:
    """The lines of a nested value as one, with commas between members."""
    text = ""
    for line in map(str.strip, lines):
        is_first = not text or text.endswith(("{", "["))
        text += line if is_first or line in "}]" else f", {line}"
    return text


def _summary(scalar: pa.Scalar) -> str:
    kind = scalar.type
    if pa.types.is_struct(kind):
        return f"struct of {counted(kind.num_fields, 'member')}"
    what = "map" if pa.types.is_map(kind) else "list"
    return f"{what} of {counted(len(scalar.values), 'item')}"


def _tree(scalar: pa.Scalar, bounds: Bounds, indent: str, depth: int) -> Iterator[str]:
    """A value as lines of text, no deeper and no longer than the bounds."""
    kind = scalar.type
    while isinstance(scalar, pa.ExtensionScalar):
        scalar, kind = scalar.value, scalar.type.storage_type
    if scalar is None or not scalar.is_valid:
        yield f"{indent}null"
    elif not pa.types.is_nested(kind):
        yield f"{indent}{_leaf(scalar, bounds)}"
    elif depth <= 0:
        yield f"{indent}…"
    else:
        is_struct = pa.types.is_struct(kind)
        opening, closing = "{}" if is_struct or pa.types.is_map(kind) else "[]"
        yield f"{indent}{opening}"
        members, total = _members(scalar, bounds)
        for name, member in members:
            lines = _tree(member, bounds, indent + _INDENT, depth - 1)
            if name is None:
                yield from lines
            else:
                yield f"{indent}{_INDENT}{name}: {next(lines).strip()}"
                yield from lines
        if total > len(members):
            yield f"{indent}{_INDENT}… {total - len(members):,} more"
        yield f"{indent}{closing}"


def _members(scalar: Any, bounds: Bounds) -> tuple[list[tuple[str | None, pa.Scalar]], int]:
    """The first members of a nested value with their names, and the number of all."""
    kind = scalar.type
    if pa.types.is_struct(kind):
        count = min(kind.num_fields, bounds.items)
        return [(escaped(kind.field(n).name, 60), scalar[n]) for n in range(count)], int(kind.num_fields)
    values = scalar.values
    shown = values.slice(0, bounds.items)
    if pa.types.is_map(kind):
        pairs = zip(shown.field(0), shown.field(1), strict=True)
        return [(_leaf(key, bounds), value) for key, value in pairs], len(values)
    return [(None, one) for one in shown], len(values)


def _leaf(scalar: pa.Scalar, bounds: Bounds) -> str:
    if not scalar.is_valid:
        return "null"
    kind = scalar.type
    if _is_number(kind):
        return _number(scalar)
    if is_bytes(kind):
        data = scalar.as_buffer()
        return f"{data.size:,} bytes: {data[:HEAD_BYTES].to_pybytes().hex(' ')}"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = scalar.as_buffer()[: 4 * bounds.text].to_pybytes().decode("utf-8", "ignore")
        return f'"{escaped(text, bounds.text)}"'
    return escaped(_value_text(scalar), bounds.text)


_NULL = Cell("null", "null")
