"""Arrow arrays as JSON text, column by column.

What JSON lacks is written as ``text_values`` reads it: ISO 8601 for dates and times, Base64 for bytes, numbers for
durations, lists of ``{"key": …, "value": …}`` for maps. NaN and infinities become null.
"""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import UnsupportedError, printable

__all__ = ["base64_text", "check_dates", "json_rows", "plain_values"]

_TEXT = pa.large_string()
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
# What Arrow writes in place of a date that no calendar has.
_NO_DATE = "<value out of range"


def json_rows(batch: pa.RecordBatch) -> memoryview:
    """The rows of a batch as JSON lines, UTF-8.

    Parameters
    ----------
    batch : pyarrow.RecordBatch

    Raises
    ------
    UnsupportedError
        JSON has nothing for the type of a column, or for a date far from our time.

    Examples
    --------
    >>> print(bytes(json_rows(pa.record_batch({"a": [1, None], "b": ["x", "y"]}))).decode(), end="")
    {"a":1,"b":"x"}
    {"a":null,"b":"y"}
    """
    members = [
        _member(name, column, "") for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    lines = _object(members, batch.num_rows, "}\n")
    _, offsets, data = lines.buffers()
    first, last = (
        pa.Array.from_buffers(pa.int64(), len(lines) + 1, [None, offsets]).take([0, len(lines)]).to_pylist()
    )
    return memoryview(data or b"")[first:last]


def _member(name: str, array: pa.Array, above: str) -> pa.Array:
    return _joined(json.dumps(name, ensure_ascii=False) + ":", _json(array, above + name))


def _object(members: list[pa.Array], rows: int, end: str = "}") -> pa.Array:
    if not members:
        return pa.repeat(pa.scalar("{" + end, _TEXT), rows)
    inner = members[0] if len(members) == 1 else pc.binary_join_element_wise(*members, _scalar(","))
    return _joined("{", inner, end)


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, _TEXT)


def _joined(*parts: str | pa.Array) -> pa.Array:
    given = [_scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*given, _scalar(""))


def _json(array: pa.Array, path: str) -> pa.Array:
    """JSON text of every value, ``null`` of nulls."""
    array = plain_values(array)
    if pa.types.is_null(array.type):
        return pa.repeat(_scalar("null"), len(array))
    return pc.if_else(array.is_valid(), _values(array, path), _scalar("null"))


def plain_values(array: pa.Array) -> pa.Array:
    """The values without dictionary and extension type.

    Parameters
    ----------
    array : (n,) pyarrow.Array
    """
    if isinstance(array, pa.ExtensionArray):
        return plain_values(array.storage)
    return plain_values(array.dictionary_decode()) if isinstance(array, pa.DictionaryArray) else array


def _values(array: pa.Array, path: str) -> pa.Array:
    kind, types = array.type, pa.types
    if types.is_floating(kind):
        # Arrow has no test of float16.
        wide = array.cast(pa.float32()) if types.is_float16(kind) else array
        texts = array.cast(_TEXT)
        if pc.any(pc.equal(pc.trunc(wide), wide)).as_py():
            # Arrow writes 1.0 as 1, which readers would take for an integer.
            texts = pc.replace_substring_regex(texts, r"^(-?\d+)$", r"\1.0")
        return pc.if_else(pc.is_finite(wide), texts, _scalar("null"))
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return array.cast(_TEXT)
    if types.is_duration(kind):
        return array.cast(pa.int64()).cast(_TEXT)
    if types.is_string(kind) or types.is_large_string(kind):
        return _joined('"', _escaped(array.cast(_TEXT)), '"')
    if types.is_temporal(kind):
        texts = check_dates(array, path)
        return _joined('"', pc.replace_substring(texts, " ", "T", max_replacements=1), '"')
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return _joined('"', base64_text(array), '"')
    return _nested(array, path)


def _nested(array: pa.Array, path: str) -> pa.Array:
    kind, types = array.type, pa.types
    if types.is_struct(kind):
        pairs = zip(kind, array.flatten(), strict=True)
        return _object([_member(field.name, values, f"{path}.") for field, values in pairs], len(array))
    if types.is_map(kind):
        offsets = array.offsets
        entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        own = entries[offsets[0].as_py() : offsets[-1].as_py()]
        return _list(own, pc.subtract(offsets[1:], offsets[:-1]), path)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _list(array.flatten(), pc.list_value_length(array).fill_null(0), path)
    raise UnsupportedError(
        f"column {printable(path)!r} of type {kind} has no form in JSON: leave it out with --columns, or export to "
        "Arrow",
        feature=str(kind),
    )


def _list(values: pa.Array, lengths: pa.Array, path: str) -> pa.Array:
    """JSON lists of consecutive values, as many as the lengths say."""
    ends = pc.cumulative_sum(lengths.cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    texts = pa.LargeListArray.from_arrays(offsets, _json(values, f"{path}.item"))
    return _joined("[", pc.binary_join(texts, _scalar(",")), "]")


def _escaped(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, r'[\x00-\x1f"\\]')).as_py():
        return texts
    for character, escape in _ESCAPES:
        texts = pc.replace_substring(texts, character, escape)
    rare = pc.match_substring_regex(texts, r"[\x00-\x1f]").fill_null(False)
    if not pc.any(rare).as_py():
        return texts
    # Other control characters are rare: these values one by one.
    names = {chr(code): json.dumps(chr(code))[1:-1] for code in range(0x20)}
    table = str.maketrans(names)
    fixed = [text.translate(table) for text in texts.filter(rare).to_pylist()]
    return pc.replace_with_mask(texts, rare, pa.array(fixed, _TEXT))


def base64_text(array: pa.Array) -> pa.Array:
    """Base64 of bytes, null of null.

    Parameters
    ----------
    array : (n,) pyarrow.Array of bytes
    """
    texts = [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    return pa.array(texts, _TEXT)


def check_dates(array: pa.Array, path: str) -> pa.Array:
    """The text of dates and times; dates that no calendar has are refused.

    Parameters
    ----------
    array : (n,) pyarrow.Array of dates or times
    path : str
        Name of the column, for errors.

    Raises
    ------
    UnsupportedError
        A year is too far from ours.
    """
    try:
        texts = array.cast(_TEXT)
    except pa.ArrowNotImplementedError:
        raise UnsupportedError(
            f"column {printable(path)!r} of type {array.type} has no text: leave it out with --columns, or export to "
            "Arrow",
            feature=str(array.type),
        ) from None
    if pc.any(pc.starts_with(texts, _NO_DATE)).as_py():
        raise UnsupportedError(
            f"column {printable(path)!r} has a date that text cannot say: export to Parquet or Arrow",
            feature=str(array.type),
        )
    return texts
