"""Dictionaries of 0.1 tables: one per field for the codes of all files, stored in the manifest file.

Files are written before all values are known, so the dictionaries of a write grow; known values keep their codes.
An existing table keeps its dictionaries; data appended to it must use them.

Files of 2.x have a dictionary in every page, and lancecy returns one per batch. pylance merges the dictionaries of the
pages it reads together, and fails if they have more values than the index type can count: :class:`Distinct` checks it.

Source: file sheet 0.1, section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.columns import as_array
from lancecy.encodings.arrow.conversions import array_of, filled, numbers_of, scalar_of
from lancecy.encodings.arrow.from_arrow import block_of, without_views
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.blocks.memory import mask_of
from lancecy.encodings.model.block import Block, Coded, FixedWidth, VariableWidth
from lancecy.encodings.v0.write import legacy_pages, refused
from lancecy.errors import FormatError, UnsupportedError, printable
from lancecy.schema import DictionaryRef, Field, parse_logical_type

__all__ = ["Dictionaries", "Distinct", "has_dictionaries", "no_codes", "placed"]


Int64 = NDArray[np.int64]


def has_dictionaries(fields: Iterable[Field]) -> bool:
    """Whether any field at or below these has a dictionary."""
    return any(node.logical_type.startswith("dict:") for top in fields for node in top.walk())


def placed(fields: Iterable[Field], refs: Mapping[int, DictionaryRef]) -> tuple[Field, ...]:
    """The fields, with the positions of their dictionaries."""
    if not refs:
        return tuple(fields)
    return tuple(
        replace(
            field,
            dictionary=refs.get(field.id, field.dictionary),
            children=placed(field.children, refs),
        )
        for field in fields
    )


class Dictionaries:
    """The dictionaries of a write, by field id.

    Parameters
    ----------
    known : mapping of field id to (Field, Block), optional
        Dictionaries that the table has; they do not grow.

    Examples
    --------
    >>> book, field = Dictionaries(), Field("d", 3, logical_type="dict:string:int8:false")
    >>> for words in (["a", "b"], ["c", "a"]):
    ...     coded = pa.array(words).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    ...     print(book.codes(field, block_of(coded, field)).values.tolist())
    [0, 1]
    [2, 0]
    """

    def __init__(self, known: Mapping[int, tuple[Field, Block]] | None = None) -> None:
        self._fields: dict[int, Field] = {}
        self._values: dict[int, pa.Array] = {}
        self._last: dict[int, tuple[Block, NDArray[Any], int]] = {}
        self._closed = frozenset(known or ())
        for number, (field, block) in (known or {}).items():
            self._fields[number] = field
            # An empty value of a table reads as null, so nulls are stored as empty values.
            self._values[number] = _array(block, field)

    @property
    def nbytes(self) -> int:
        """Bytes of the values so far."""
        return sum(values.nbytes for values in self._values.values())

    def codes(self, field: Field, block: Coded) -> FixedWidth:
        """Codes of the values in the table's dictionary; missing values are added to it.

        Raises
        ------
        UnsupportedError
            The dictionary cannot hold a value, lacks it and must not grow, or has too many values for its codes.
        """
        raw = np.frombuffer(block.codes.values, f"u{block.codes.bits // 8}", block.length)  # type: ignore[call-overload]
        new, of_null = self._recoding(field, block, raw)
        found = raw
        if not np.array_equal(new, np.arange(new.size)):
            out = np.empty(raw.nbytes, np.uint8)
            kernels.take_fixed(raw, new.view(np.uint8), raw.itemsize, out)
            found = out.view(raw.dtype)
        if block.codes.null_count:
            is_valid = mask_of(block.codes.validity, block.length)
            found = np.where(is_valid, found, found.dtype.type(of_null))
        return FixedWidth(block.length, block.codes.bits, found.view(np.uint8))

    def _recoding(self, field: Field, block: Coded, raw: NDArray[Any]) -> tuple[NDArray[Any], int]:
        """(num_values,) in the type of the codes: new codes, and the code of null."""
        has_null = block.codes.null_count > 0
        last = self._last.get(field.id)
        if last is not None and _is_same(last[0], block.dictionary) and (last[2] >= 0 or not has_null):
            new, of_null = last[1], last[2]
        else:
            new, of_null = self._looked_up(field, block, raw, has_null)
            self._last[field.id] = block.dictionary, new, of_null
        if (new < 0).any():
            self._check_used(field, block, raw, new)
            new = np.maximum(new, 0)
        # Codes in all-null rows may match no value.
        return (new if new.size else np.zeros(1, np.int64)).astype(raw.dtype), of_null

    def _looked_up(self, field: Field, block: Coded, raw: NDArray[Any], has_null: bool) -> tuple[Int64, int]:
        """(num_values,) int64: the code of each value, -1 for values missing from the table's dictionary."""
        values = _array(block.dictionary, field)
        known = self._values.get(field.id, values.slice(0, 0))
        self._fields.setdefault(field.id, field)
        most = _max_values(field)
        if field.id not in self._closed:
            grown = _extended(known, values, has_null)
            if len(grown) > most:
                used = array_of(np.unique(_valid(block, raw)))
                grown = _extended(known, values.take(used), has_null)
            if len(grown) > most:
                raise UnsupportedError(
                    f"column {printable(field.name)!r} has more values than its codes can tell apart, all of "
                    "which share one dictionary in a table of version 0.1: write version 2.0, or larger codes",
                    feature="dictionaries that differ",
                )
            known = self._values[field.id] = grown
        new = numbers_of(filled(pc.index_in(values, known, skip_nulls=True), -1).cast(pa.int64()))
        null = pc.index_in(scalar_of(None, known.type), known).as_py()
        if has_null and null is None:
            raise self._missing_value(field, "null")
        return new, -1 if null is None else null

    def _check_used(self, field: Field, block: Coded, raw: NDArray[Any], new: Int64) -> None:
        """Refuse values without a code, unless no row uses them."""
        used = _valid(block, raw)
        gone = used[new[used] < 0]
        if not gone.size:
            return
        value = _array(block.dictionary, field)[int(gone[0])].as_py()
        if value is None:
            raise refused(field.name, "empty values in a dictionary")
        raise self._missing_value(field, printable(repr(value)))

    def _missing_value(self, field: Field, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"column {printable(field.name)!r} has the value {what}, which the dictionary of the table lacks: a "
            "table of version 0.1 has one dictionary for all of its files; overwrite it with version 2.0, which has not",
            feature="dictionaries that differ",
        )

    def pages(self, position: int) -> tuple[bytes, dict[int, DictionaryRef]]:
        """The values as stored in a file, and their positions if they are written at ``position``.

        Parameters
        ----------
        position : int, bytes
        """
        parts, refs = [], {}
        for number in sorted(self._values):
            field = _value_field(self._fields[number])
            values = self._values[number]
            starts = np.array([0, len(values)], np.int64)
            (pages,) = legacy_pages(field, block_of(values, field), starts, position, no_codes)
            refs[number] = DictionaryRef(int(pages.positions[0]), len(values))
            parts.append(pages.buffer.tobytes())
            position += pages.buffer.size
        return b"".join(parts), refs


def _is_same(one: Block, other: Block) -> bool:
    """Whether two dictionaries share memory; ``one`` is kept alive, so its addresses are not reused."""
    if not isinstance(one, VariableWidth | FixedWidth) or type(one) is not type(other):
        return False
    names = ("values", "offsets") if isinstance(one, VariableWidth) else ("values",)
    pairs = [(np.asarray(getattr(one, name)), np.asarray(getattr(other, name))) for name in names]
    return one.length == other.length and all(a.ctypes.data == b.ctypes.data for a, b in pairs)


def _valid(block: Coded, raw: NDArray[Any]) -> NDArray[Any]:
    if block.codes.validity is None:
        return raw
    found: NDArray[Any] = raw[mask_of(block.codes.validity, block.length)]
    return found


def _extended(known: pa.Array, values: pa.Array, has_null: bool) -> pa.Array:
    """The known values and the new ones; a null is included if rows are null."""
    parts = [known, values.drop_null(), *([pa.nulls(1, known.type)] if has_null else [])]
    return as_array(pa.chunked_array([pa.concat_arrays(parts).unique()]))


def _max_values(field: Field) -> int:
    key = parse_logical_type(field.logical_type).index_type
    return int(1 << (key.bit_width - (1 if pa.types.is_signed_integer(key) else 0)))


def _value_field(field: Field) -> Field:
    """The field of the values as a column of their own, in which an empty text is a null."""
    return Field(field.name, field.id, logical_type=field.logical_type.split(":")[1])


def _array(block: Block, field: Field) -> pa.Array:
    """The values, with empty ones as nulls: a file has no other nulls."""
    values = as_array(to_arrow(block, _value_field(field)))
    if isinstance(block, VariableWidth):
        is_empty = pc.equal(pc.binary_length(values), 0)
        values = pc.if_else(is_empty, scalar_of(None, values.type), values)
    return values


def no_codes(field: Field, _block: Coded) -> FixedWidth:
    """Replaces ``Dictionaries.codes`` where no dictionaries can occur: in dictionary values and in statistics."""
    raise FormatError(f"the dictionary of column {field.name!r} is itself a dictionary column")


class Distinct:
    """Collects the dictionary values of a file's columns.

    Examples
    --------
    >>> words = pa.array(["a", "b"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    >>> seen = Distinct()
    >>> seen.note(words, Field("d", 0, logical_type="dict:string:int8:false"))
    """

    def __init__(self) -> None:
        self._known: dict[str, pa.Array] = {}

    def note(self, array: pa.Array, field: Field) -> None:
        """Add a page of a column.

        Parameters
        ----------
        array : pyarrow.Array
        field : Field
            Top-level.

        Raises
        ------
        UnsupportedError
            A dictionary of the file would have more values than its index type can count.
        """
        for path, found in _dictionaries(array, field.name):
            known = self._known.get(path)
            values = without_views(found.dictionary).drop_null()
            if known is not None and not known.equals(values):
                values = pa.chunked_array([known, values]).unique()
            self._known[path] = values
            index = found.type.index_type
            # Signed and unsigned types: pylance counts from 0.
            numbers = 1 << (index.bit_width - pa.types.is_signed_integer(index))
            if len(values) > numbers:
                raise UnsupportedError(
                    f"column {printable(path)!r} has more than {numbers:,} different values in one file, which indices of "
                    f"type {index} cannot number: cast it to a wider index type, or to {found.type.value_type}",
                    feature="dictionaries larger than their index type",
                )


def _dictionaries(array: pa.Array, path: str) -> Iterator[tuple[str, pa.DictionaryArray]]:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _dictionaries(array.storage, path)
    elif pa.types.is_dictionary(kind):
        yield path, array
    elif pa.types.is_struct(kind):
        for number, child in enumerate(kind):
            yield from _dictionaries(array.field(number), f"{path}.{child.name}")
    elif pa.types.is_map(kind):
        yield from _dictionaries(array.keys, f"{path}.{kind.key_field.name}")
        yield from _dictionaries(array.items, f"{path}.{kind.item_field.name}")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _dictionaries(array.values, f"{path}.{kind.value_field.name}")
