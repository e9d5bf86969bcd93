"""``array_to_string()`` and ``string_to_array()``."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow.conversions import filled, numbers_of
from lancecy.errors import ExpressionError
from lancecy.expr.evaluation import growth
from lancecy.expr.evaluation.casts import cast_values
from lancecy.expr.evaluation.lists import (
    Flat,
    by_rows,
    elements_of,
    flat_of,
    ranges,
    taken,
    with_nulls,
)
from lancecy.expr.evaluation.values import LONG_PATTERN, Data
from lancecy.expr.kinds import family

__all__ = ["joined", "split"]

_TEXTS = pa.list_(pa.string())


def joined(lists: Data, separator: Data, null_text: Data = None) -> Data:
    """The texts of the elements with a separator between them; nulls as ``null_text``, or not at all.

    Raises
    ------
    ExpressionError
        The elements have no text, or the result would exceed the allowance.
    """

    def run(rows: int, values: Any, between: Any, for_null: Any) -> pa.Array:
        flat = _leaves(flat_of(values, rows))
        texts = _texts(flat.values)
        separators, which = elements_of(between, rows)
        marks, index = elements_of(for_null, rows)
        if marks.null_count < len(marks) and texts.null_count:
            size = pc.sum(pc.cast(pc.binary_length(marks), pa.int64())).as_py()
            growth.charge("array_to_string()", size * (texts.null_count if len(marks) == 1 else 1))
            texts = pc.coalesce(texts, marks.take(pa.array(index[flat.rows])))
        kept = taken(_TEXTS, Flat(texts, flat.rows, flat.sizes, flat.valid), numbers_of(texts.is_valid()))
        sizes = np.asarray(pc.fill_null(pc.cast(pc.binary_length(separators), pa.int64()), 0))[which]
        growth.charge("array_to_string()", int((sizes * np.maximum(flat.sizes - 1, 0)).sum()))
        found = pc.binary_join(
            kept, separators if len(separators) == rows else separators.take(pa.array(which))
        )
        return pc.cast(found, pa.string())

    return by_rows(run, lists, separator, pa.scalar(None, pa.string()) if null_text is None else null_text)


def _leaves(flat: Flat) -> Flat:
    """The innermost elements of lists of lists, where a null list is a null."""
    while family(flat.values.type) == "list":
        inner = flat_of(flat.values, len(flat.values))
        counts = np.where(inner.valid, inner.sizes, 1)
        index = ranges(inner.starts, counts)
        missing = np.repeat(~inner.valid, counts)
        values = inner.values.take(pa.array(np.where(missing, 0, index), mask=missing))
        rows = np.repeat(flat.rows, counts)
        flat = Flat(values, rows, np.bincount(rows, minlength=len(flat.sizes)), flat.valid)
    return flat


def _texts(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.string())
    if pa.types.is_floating(kind):
        return _number_texts(values)
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise ExpressionError(f"array_to_string() has no text for elements of type {kind}")
    return pc.cast(cast_values(values, pa.string()), pa.string())


def _number_texts(values: pa.Array) -> pa.Array:
    """Numbers without exponents, as pylance writes them here: ``1``, ``0.1``, ``100000000000000000000``."""
    coded = values.dictionary_encode()
    numbers = np.asarray(
        pc.cast(coded.dictionary, pa.float32()) if values.type == pa.float16() else coded.dictionary
    )
    texts = [_number_text(number) for number in numbers]
    return pa.array(texts, pa.string()).take(coded.indices)


def _number_text(number: Any) -> str:
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else "inf" if number > 0 else "-inf"
    text = format(Decimal(str(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def split(texts: Data, separator: Data, null_text: Data = None) -> Data:
    """The parts of texts between separators: of an empty text none, and without a separator its characters.

    Raises
    ------
    ExpressionError
        The parts would exceed the allowance.
    """

    def run(rows: int, values: Any, between: Any, for_null: Any) -> pa.Array:
        array, index = elements_of(values, rows)
        if isinstance(values, pa.Scalar) and rows != 1:
            growth.charge("string_to_array()", rows * array.nbytes)
            array = array.take(pa.array(index))
        flat = _parts(array, between)
        marks, which = elements_of(for_null, rows)
        if marks.null_count == len(marks):
            return with_nulls(_TEXTS, flat.sizes, flat.values, flat.valid)
        hits = pc.equal(flat.values, marks.take(pa.array(which[flat.rows])))
        found = pc.if_else(filled(hits, False), pa.scalar(None, pa.string()), flat.values)
        return with_nulls(_TEXTS, flat.sizes, found, flat.valid)

    return by_rows(run, texts, separator, pa.scalar(None, pa.string()) if null_text is None else null_text)


def _parts(texts: pa.Array, separator: Any) -> Flat:
    valid = numbers_of(texts.is_valid())
    if isinstance(separator, pa.Scalar) and not separator.is_valid:
        return _characters(texts, valid)
    if isinstance(separator, pa.Scalar) and 0 < len(separator.as_py()) <= LONG_PATTERN:
        pattern = separator.as_py()
        counts = pc.add(pc.count_substring(texts, pattern=pattern), 1)
        growth.charge("string_to_array()", 8 * (pc.sum(pc.cast(counts, pa.int64())).as_py() or 0), "lists")
        pieces = flat_of(pc.split_pattern(texts, pattern=pattern), len(texts))
        some = numbers_of(filled(pc.greater(pc.binary_length(texts), 0), False))
        kept = some[pieces.rows]
        values = pc.cast(pieces.values.filter(pa.array(kept)), pa.string())
        return Flat(values, pieces.rows[kept], np.where(some, pieces.sizes, 0), valid)
    marks = [separator.as_py()] * len(texts) if isinstance(separator, pa.Scalar) else separator.to_pylist()
    lists = [_split(text, mark) for text, mark in zip(texts.to_pylist(), marks, strict=True)]
    growth.charge("string_to_array()", 8 * sum(map(len, lists)), "lists")
    return flat_of(
        pa.array(
            [None if text is None else one for text, one in zip(texts.to_pylist(), lists, strict=True)],
            _TEXTS,
        ),
        len(texts),
    )


def _split(text: str | None, separator: str | None) -> list[str]:
    if not text:
        return []
    if separator is None:
        return list(text)
    return text.split(separator) if separator else [text]


def _characters(texts: pa.Array, valid: Any) -> Flat:
    """Each character as a text: a piece of the bytes of all."""
    growth.charge(
        "string_to_array()", 8 * (pc.sum(pc.cast(pc.utf8_length(texts), pa.int64())).as_py() or 0), "lists"
    )
    dense = pc.cast(pc.fill_null(texts, ""), pa.large_string())
    _, ends, data = dense.buffers()
    bounds = np.frombuffer(ends, np.int64)[dense.offset :][[0, len(dense)]] if len(dense) else [0, 0]
    data = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[1]]
    begins = np.flatnonzero((data & 0xC0) != 0x80)
    offsets = pa.py_buffer(np.append(begins, len(data)).astype(np.int64))
    found = pa.Array.from_buffers(pa.large_string(), len(begins), [None, offsets, pa.py_buffer(data)])
    sizes = np.asarray(pc.fill_null(pc.utf8_length(texts), 0), dtype=np.int64)
    return Flat(pc.cast(found, pa.string()), np.repeat(np.arange(len(texts)), sizes), sizes, valid)
