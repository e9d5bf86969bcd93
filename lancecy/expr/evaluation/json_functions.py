"""Functions of JSON columns, on the stored form of the values.

All follow pylance 14. A key names the member of an object, or, written as a number, the element of an array; it finds
nothing in other values. Paths are those of ``json_paths``. Every function is null for a null row and a null key or
path, and, unless the table says otherwise, where nothing is found.

==================================  ================================================================================
``json_get(j, key)``                the value as stored JSON (large binary), for further JSON functions
``json_get_string(j, key)``         text as it is; numbers and booleans as JSON text; arrays and objects are an error
``json_get_int(j, key)``            a bigint: floats are rounded, halves away from zero; true is 1; text is read as a
                                    number; other values, and numbers beyond 64 bits, are an error
``json_get_float(j, key)``          a double: likewise; text may be ``inf`` or ``nan``
``json_get_bool(j, key)``           a boolean; the texts true, yes, false and no, in any case; others are an error
``json_extract(j, path)``           JSON text of the value, or of an array of several; JSON null is the text ``null``
``json_exists(j, path)``            whether the path leads to anything, JSON null included; never null
``json_array_contains(j, path, v)`` whether an array there has an element with the JSON text ``v``; text may lack its
                                    quotes; false if there is no array
``json_array_length(j, path)``      elements of the array; 0 for anything else; of several values, the first counts
==================================  ================================================================================

JSON null is null to the ``json_get_…`` functions that return no JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.json import (
    ALL_PARTS,
    FIRST_PART,
    ONE_VALUE,
    PathSteps,
    Scalars,
    array_has,
    found_by,
    scalars,
    select,
    to_stored,
    to_texts,
)
from lancecy.errors import ExpressionError, SchemaError, printable
from lancecy.expr.evaluation import growth
from lancecy.expr.evaluation.json_paths import element_steps, key_steps, path_steps
from lancecy.expr.evaluation.values import Data, by_chunk

__all__ = [
    "array_contains",
    "array_length",
    "exists",
    "extract",
    "get",
    "get_bool",
    "get_float",
    "get_int",
    "get_string",
    "number_text",
    "stored",
    "texts",
]

Mask: TypeAlias = NDArray[np.bool_]

_NULL, _INTEGER, _LARGE, _FLOAT, _FALSE, _TRUE, _TEXT, _ARRAY, _OBJECT = range(9)
"""Kinds of the kernel ``json_scalars``."""

_MOST_DIGITS = 18
_WHOLE = rf"^[+-]?[0-9]{{1,{_MOST_DIGITS}}}$"
_NUMBER = r"^[+-]?(?i:[0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|inf|infinity|nan)$"
_SHOWN = 60


def stored(values: Data) -> Data:
    """A JSON column in its stored form: read like that from files, otherwise made of its texts.

    Raises
    ------
    ExpressionError
        A text is no JSON.
    """

    def run(chunk: pa.Array) -> pa.Array:
        if not isinstance(chunk, pa.ExtensionArray):
            return pc.cast(chunk, pa.large_binary())
        try:
            return to_stored(chunk.storage)
        except SchemaError as error:
            raise ExpressionError(error.what) from error

    return values if pa.types.is_large_binary(values.type) else by_chunk(run, values)


def texts(values: Data) -> Data:
    """The JSON texts of a column in its stored form."""
    return by_chunk(to_texts, values)


def number_text(value: float) -> str:
    """A number as JSON writes it, with a dot or an exponent.

    Examples
    --------
    >>> number_text(2.0), number_text(1e16)
    ('2.0', '1e+16')
    """
    if not np.isfinite(value):
        return str(value)
    (text,) = to_texts(to_stored(pa.array([repr(value)]))).to_pylist()
    return str(text)


def _parts(
    name: str,
    values: Data,
    path: PathSteps | None,
    mode: int,
    kind: pa.DataType,
    run: Callable[[pa.Array], pa.Array],
) -> Data:
    """Apply ``run`` to the selected parts of every chunk; null of type ``kind`` without a path."""

    def of_chunk(chunk: pa.Array) -> pa.Array:
        if path is None:
            return pa.nulls(len(chunk), kind)
        return run(select(chunk, path, mode, lambda size: growth.charge(f"{name}()", size)))

    return by_chunk(of_chunk, values)


def _key(key: str | None) -> PathSteps | None:
    return None if key is None else key_steps(key)


def _path(path: str | None) -> PathSteps | None:
    return None if path is None else path_steps(path)


def get(values: Data, key: str | None) -> Data:
    """``json_get``."""
    return _parts("json_get", values, _key(key), ONE_VALUE, pa.large_binary(), lambda parts: parts)


def extract(values: Data, path: str | None) -> Data:
    """``json_extract``."""
    return _parts("json_extract", values, _path(path), ONE_VALUE, pa.string(), to_texts)


def exists(values: Data, path: str | None) -> Data:
    """``json_exists``."""

    def run(chunk: pa.Array) -> pa.Array:
        if path is None:
            return pa.nulls(len(chunk), pa.bool_())
        return _unless_null(chunk, found_by(chunk, path_steps(path)))

    return by_chunk(run, values)


def array_contains(values: Data, path: str | None, text: str | None) -> Data:
    """``json_array_contains``."""

    def run(chunk: pa.Array) -> pa.Array:
        if path is None or text is None:
            return pa.nulls(len(chunk), pa.bool_())
        elements = select(
            chunk, element_steps(path), ALL_PARTS, lambda size: growth.charge("json_array_contains()", size)
        )
        return _unless_null(chunk, array_has(elements, text))

    return by_chunk(run, values)


def array_length(values: Data, path: str | None) -> Data:
    """``json_array_length``."""

    def run(parts: pa.Array) -> pa.Array:
        found = scalars(parts)
        lengths = np.where(found.kinds == _ARRAY, found.integers, 0)
        return pa.array(lengths, mask=_nulls(parts))

    return _parts("json_array_length", values, _path(path), FIRST_PART, pa.int64(), run)


def get_string(values: Data, key: str | None) -> Data:
    """``json_get_string``."""

    def run(parts: pa.Array) -> pa.Array:
        found = scalars(parts)
        _refuse("json_get_string", "text", parts, found.kinds >= _ARRAY)
        nothing = pa.scalar(None, pa.string())
        written = pc.if_else(pa.array(found.kinds != _NULL), to_texts(parts, plain=True), nothing)
        if np.isfinite(found.floats).all():
            return written
        # JSON has no notation for these.
        names = [pa.scalar(name) for name in ("NaN", "inf", "-inf")]
        tests = [np.isnan(found.floats), found.floats == np.inf, found.floats == -np.inf]
        return pc.case_when(pc.make_struct(*map(pa.array, tests)), *names, written)

    return _parts("json_get_string", values, _key(key), ONE_VALUE, pa.string(), run)


def get_bool(values: Data, key: str | None) -> Data:
    """``json_get_bool``."""

    def run(parts: pa.Array) -> pa.Array:
        found = scalars(parts)
        truth, bad = found.kinds == _TRUE, np.isin(found.kinds, (_INTEGER, _LARGE, _FLOAT, _ARRAY, _OBJECT))
        places, written = _texts_of(parts, found)
        if places.size:
            lowered = pc.ascii_lower(written)
            yes, no = (
                pc.is_in(lowered, value_set=pa.array(words)).to_numpy(zero_copy_only=False)
                for words in (["true", "yes"], ["false", "no"])
            )
            truth[places], bad[places] = yes, ~(yes | no)
        _refuse("json_get_bool", "boolean", parts, bad)
        return pa.array(truth, mask=found.kinds == _NULL)

    return _parts("json_get_bool", values, _key(key), ONE_VALUE, pa.bool_(), run)


def get_float(values: Data, key: str | None) -> Data:
    """``json_get_float``."""

    def run(parts: pa.Array) -> pa.Array:
        found = scalars(parts)
        numbers, bad = found.floats, found.kinds >= _ARRAY
        numbers[found.kinds == _TRUE] = 1.0
        places, written = _texts_of(parts, found)
        bad[places] = _read_floats(places, written, numbers)
        _refuse("json_get_float", "number", parts, bad)
        return pa.array(numbers, mask=found.kinds == _NULL)

    return _parts("json_get_float", values, _key(key), ONE_VALUE, pa.float64(), run)


def get_int(values: Data, key: str | None) -> Data:
    """``json_get_int``."""

    def run(parts: pa.Array) -> pa.Array:
        found = scalars(parts)
        integers, numbers, rounded = found.integers, found.floats, found.kinds == _FLOAT
        integers[found.kinds == _TRUE] = 1
        bad = (found.kinds == _LARGE) | (found.kinds >= _ARRAY)
        places, written = _texts_of(parts, found)
        whole = _read_whole(places, written, integers)
        if not whole.all():
            places = places[~whole]
            bad[places] = _read_floats(places, written.filter(pa.array(~whole)), numbers)
            rounded[places] = ~bad[places]
        if rounded.any():
            bad |= _round(numbers, rounded, integers)
        _refuse("json_get_int", "integer of 64 bits", parts, bad)
        return pa.array(integers, mask=found.kinds == _NULL)

    return _parts("json_get_int", values, _key(key), ONE_VALUE, pa.int64(), run)


def _round(numbers: NDArray[np.float64], where: Mask, out: NDArray[np.int64]) -> Mask:
    """Round numbers, halves away from zero, and return where they are no integers of 64 bits."""
    some = numbers[where]
    with np.errstate(invalid="ignore"):
        whole = np.trunc(some)
        whole += np.where(np.abs(some - whole) >= 0.5, np.sign(some), 0.0)
        fits = (whole >= -(2.0**63)) & (whole < 2.0**63)
    out[where] = np.where(fits, whole, 0.0).astype(np.int64)
    bad = np.zeros(where.size, np.bool_)
    bad[where] = ~fits
    return bad


def _read_floats(places: NDArray[np.int64], written: pa.Array, out: NDArray[np.float64]) -> Mask:
    """Read texts as the numbers at some places, and return which texts are none."""
    fine = pc.match_substring_regex(written, _NUMBER)
    read = fine.to_numpy(zero_copy_only=False)
    out[places[read]] = pc.cast(written.filter(fine), pa.float64()).to_numpy()
    return np.asarray(~read)


def _read_whole(places: NDArray[np.int64], written: pa.Array, out: NDArray[np.int64]) -> Mask:
    """Read the texts that are integers at some places, and return which texts are."""
    # Digits alone are found much faster than by a pattern.
    few = pc.less_equal(pc.binary_length(written), _MOST_DIGITS)
    whole: Mask = pc.and_(pc.ascii_is_decimal(written), few).to_numpy(zero_copy_only=False)
    if not whole.all():
        whole |= pc.match_substring_regex(written, _WHOLE).to_numpy(zero_copy_only=False)
    plain = pc.ascii_ltrim(written.filter(pa.array(whole)), "+")
    out[places[whole]] = pc.cast(plain, pa.int64()).to_numpy()
    if whole.all():
        return whole
    # More digits may be too many, or zeros at the front.
    long = pc.match_substring_regex(written, r"^[+-]?[0-9]{19,}$")
    for number in np.flatnonzero(long.to_numpy(zero_copy_only=False)).tolist():
        text = written[number].as_py()
        digits = text.lstrip("+-").lstrip("0") or "0"
        value = (-1 if text[0] == "-" else 1) * int(digits) if len(digits) < 20 else 1 << 64
        if -(1 << 63) <= value < 1 << 63:
            out[places[number]], whole[number] = value, True
    return whole


def _texts_of(parts: pa.Array, found: Scalars) -> tuple[NDArray[np.int64], pa.Array]:
    """The rows of values that are text, and these texts."""
    places = np.flatnonzero(found.kinds == _TEXT)
    return places, to_texts(parts.take(pa.array(places)), plain=True) if places.size else pa.array(
        [], pa.string()
    )


def _nulls(values: pa.Array) -> Mask | None:
    return values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None


def _unless_null(rows: pa.Array, found: Mask) -> pa.Array:
    """Answers for rows, null where they are."""
    return pa.array(found, mask=_nulls(rows))


def _refuse(name: str, wanted: str, parts: pa.Array, bad: Mask) -> None:
    """Refuse values that cannot be converted.

    Raises
    ------
    ExpressionError
        The message has the first of them.
    """
    if not bad.any():
        return
    (text,) = to_texts(parts.slice(int(np.argmax(bad)), 1)).to_pylist()
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    raise ExpressionError(
        f"{name}() found {printable(shown)}, which is no {wanted}; test it first with json_extract(), or in CASE"
    )
