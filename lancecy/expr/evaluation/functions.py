"""The functions filters may call: their parameters and kernels.

:data:`FUNCTIONS` is the whole list. A parameter is one letter: ``s`` text, ``y`` text or
binary, ``f`` a number taken as floating point, ``n`` a number as it is, ``l`` a list,
``t`` a date or timestamp, ``d`` a date, time, timestamp or text of one, ``p`` one of these or an interval, ``u`` a
number or one of these, ``v`` an interval, ``z`` a timestamp, ``i`` an integer, ``k`` an integer or
text of one, ``r`` a struct, ``j`` JSON in its stored form, ``x`` anything, ``C`` a
constant handed over as a Python value (``CT`` text, ``CI`` an integer, ``CL`` a list, ``CS`` text, also written as a
number or a boolean, or null). A trailing ``?`` makes it optional and
``*`` repeats it. Kernels take Arrow arrays or scalars and give back the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.errors import ExpressionError, nearest
from lancecy.expr.evaluation import growth, json_functions
from lancecy.expr.evaluation import instant_functions as instants
from lancecy.expr.evaluation.calendar import make_date, make_time
from lancecy.expr.evaluation.constants import contains, is_ascii
from lancecy.expr.evaluation.instants import date_part, date_trunc
from lancecy.expr.evaluation.patterns import regex_match
from lancecy.expr.evaluation.values import LONG_PATTERN, by_chunk, by_text, rounded
from lancecy.records import dataclass

__all__ = [
    "ALIASES",
    "BARE_CLOCK",
    "CLOCK",
    "FUNCTIONS",
    "Function",
    "any_element",
    "element",
    "length",
    "unknown_function",
]


# -- lists ------------------------------------------------------------------------------------


def any_element(lists: Any, test: Callable[[pa.Array], Any]) -> Any:
    """Where any element of a list passes ``test``: boolean, null where the list is null."""

    def run(chunk: pa.Array) -> pa.Array:
        hits = pc.fill_null(test(pc.list_flatten(chunk)), False).to_numpy(zero_copy_only=False)
        found = np.zeros(len(chunk), dtype=bool)
        found[np.repeat(np.arange(len(chunk)), _sizes(chunk))[hits]] = True
        return with_nulls_of(chunk, found)

    return by_chunk(run, lists)


def _sizes(chunk: pa.Array) -> NDArray[np.int64]:
    """Number of elements of each list that list_flatten keeps: it drops elements under null lists."""
    return np.asarray(pc.fill_null(pc.list_value_length(chunk), 0), dtype=np.int64)


def with_nulls_of(chunk: pa.Array, found: NDArray[np.bool_]) -> pa.Array:
    """Array of ``found``, null where ``chunk`` is null."""
    if chunk.null_count == 0:
        return pa.array(found)
    return pa.array(found, mask=pc.is_null(chunk).to_numpy(zero_copy_only=False))


def length(lists: Any) -> Any:
    """Number of elements: int64, null where the list is null."""
    return pc.cast(pc.list_value_length(lists), pa.int64())


def element(lists: Any, positions: Any) -> Any:
    """The element at a position: 1 is the first, -1 the last; null where the list has none there.

    Parameters
    ----------
    lists : pa.Array or pa.ChunkedArray
    positions : pa.Array or pa.ChunkedArray of int64, as many; or pa.Scalar
        Nulls and 0 are no position.
    """
    if isinstance(positions, pa.Scalar):
        places = np.broadcast_to(np.int64(positions.as_py() or 0), len(lists))
    else:
        places = np.asarray(pc.fill_null(positions, 0), dtype=np.int64)
    if not isinstance(lists, pa.ChunkedArray):
        return _elements(lists, places)
    starts = np.cumsum([0, *map(len, lists.chunks)])
    found = [
        _elements(chunk, places[first : first + len(chunk)])
        for chunk, first in zip(lists.chunks, starts[:-1], strict=True)
    ]
    return pa.chunked_array(found, lists.type.value_type)


def _elements(chunk: pa.Array, places: NDArray[np.int64]) -> pa.Array:
    sizes = _sizes(chunk)
    starts = np.cumsum(sizes) - sizes
    index = starts + np.where(places > 0, places - 1, sizes + places)
    missing = (places == 0) | (places > sizes) | (places < -sizes)
    return pc.list_flatten(chunk).take(pa.array(np.where(missing, 0, index), mask=missing))


@dataclass(frozen=True, slots=True)
class Function:
    """The parameters (see the module's docstring) and kernel of a function."""

    parameters: tuple[str, ...]
    kernel: Callable[..., Any]

    @property
    def least(self) -> int:
        """Fewest arguments."""
        return sum(p[-1] not in "?*" for p in self.parameters)

    @property
    def most(self) -> int | None:
        """Most arguments; None if unbounded."""
        return None if self.parameters and self.parameters[-1][-1] == "*" else len(self.parameters)

    def parameter(self, index: int) -> str:
        """Letters of the parameter for argument ``index``."""
        return self.parameters[min(index, len(self.parameters) - 1)].rstrip("?*")


def _as_int32(values: Any) -> Any:
    return pc.cast(values, pa.int32())


def _position(values: Any, part: str) -> Any:
    # Arrow counts bytes, SQL counts characters: here those that a split leaves before the match.
    if part == "":
        return _as_int32(pc.if_else(pc.is_valid(values), 1, pa.scalar(None, pa.int32())))
    if len(part) > LONG_PATTERN:
        return by_text(lambda text: text.find(part) + 1, values, pa.int32())
    before = pc.list_element(pc.split_pattern(values, pattern=part, max_splits=1), 0)
    place = pc.add(_as_int32(pc.utf8_length(before)), pa.scalar(1, pa.int32()))
    return pc.if_else(pc.match_substring(values, pattern=part), place, pa.scalar(0, pa.int32()))


def _split_part(values: Any, separator: str, number: int) -> Any:
    if number == 0:
        raise ExpressionError("split_part() counts parts from 1, or from -1 at the end")
    if not 0 < len(separator) <= LONG_PATTERN or abs(number) > LONG_PATTERN:
        return by_text(partial(_part, separator=separator, number=number), values, values.type)

    def run(chunk: pa.Array) -> pa.Array:
        parts = pc.split_pattern(chunk, pattern=separator, max_splits=abs(number), reverse=number < 0)
        found = pc.fill_null(element(parts, pa.scalar(number)), "")
        return pc.if_else(chunk.is_valid(), found, pa.scalar(None, chunk.type))

    return by_chunk(run, values)


def _part(text: str, separator: str, number: int) -> str:
    """One part of a text; a list of all parts may take many times the memory of the text."""
    if number < 0:
        return _part(text[::-1], separator[::-1], -number)[::-1]
    if not separator:
        return text if number == 1 else ""
    if text.count(separator) < number - 1:
        return ""
    start = 0
    for _ in range(number - 1):
        start = text.index(separator, start) + len(separator)
    end = text.find(separator, start)
    return text[start:] if end < 0 else text[start:end]


def _pad(left: bool) -> Callable[..., Any]:
    return lambda values, width, fill=" ": growth.pad(values, width, fill, left)


def _substring(values: Any, start: int, length: int | None = None) -> Any:
    if length is not None and length < 0:
        raise ExpressionError("the length of a substring cannot be negative")
    # Positions count from 1; positions before the text exist and are empty, as in SQL.
    stop = None if length is None else max(0, start - 1 + length)
    return pc.utf8_slice_codeunits(values, start=max(0, start - 1), stop=stop)


def _left(values: Any, count: int) -> Any:
    return pc.utf8_slice_codeunits(values, start=0, stop=count)


def _right(values: Any, count: int) -> Any:
    if count > 0:
        return pc.utf8_slice_codeunits(values, start=-count)
    if count == 0:
        return pc.utf8_slice_codeunits(values, start=0, stop=0)
    return pc.utf8_slice_codeunits(values, start=-count)


def _trim(kernel: Callable[..., Any]) -> Callable[..., Any]:
    return lambda values, characters=" ": kernel(values, characters=characters)


def _regexp(values: Any, pattern: str, flags: str = "") -> Any:
    extra = set(flags) - set("ims")
    if extra:
        raise ExpressionError(f"regular expression flags are i, m and s, not {''.join(sorted(extra))!r}")
    inline = "".join(f for f in "ms" if f in flags)
    return regex_match(values, f"(?{inline}){pattern}" if inline else pattern, "i" in flags)


def _concat(*values: Any) -> Any:
    # concat() skips nulls, unlike ||. Arrow's option to skip nulls leaves out rows that have nothing else.
    return growth.join("concat()", *(pc.coalesce(v, pa.scalar("", v.type)) for v in values))


def _extreme(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        kind = values[0].type
        through = None
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            # Arrow has no such kernel for instants with a zone, whose values are in UTC.
            through = pa.int64()
        elif pa.types.is_fixed_size_binary(kind):
            # Arrow's kernel reads the wrong rows of a slice.
            through = pa.binary()
        if through is None:
            return kernel(*values)
        return pc.cast(kernel(*(pc.cast(v, through) for v in values)), kind)

    return run


def _choice(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        growth.mixed(name, values)
        return kernel(*values)

    return run


def _of_text(of_ascii: Callable[[Any], Any], of_any: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of texts, many times as fast where these are ASCII."""
    return lambda values: of_ascii(values) if is_ascii(values) else of_any(values)


_characters = _of_text(pc.binary_length, pc.utf8_length)


def _octets(values: Any) -> Any:
    return _as_int32(pc.binary_length(values))


def _abs(values: Any) -> Any:
    return pc.abs_checked(values)


def _log(first: Any, second: Any = None) -> Any:
    return pc.log10(first) if second is None else pc.logb(second, first)


def _is_nan(values: Any) -> Any:
    if pa.types.is_floating(values.type):
        return pc.is_nan(values)
    return pc.if_else(pc.is_valid(values), False, pa.scalar(None, pa.bool_()))


def _has(values: Any, wanted: Any) -> Any:
    return any_element(values, lambda flat: pc.equal(flat, wanted))


def _has_any(values: Any, wanted: pa.Array) -> Any:
    return any_element(values, lambda flat: pc.is_in(flat, value_set=wanted))


def _power(base: Any, exponent: Any) -> Any:
    return pc.power(pc.cast(base, pa.float64()), pc.cast(exponent, pa.float64()))


def _signum(values: Any) -> Any:
    return pc.cast(pc.sign(values), values.type)


def _function(parameters: str, kernel: Callable[..., Any]) -> Function:
    return Function(tuple(parameters.split()), kernel)


FUNCTIONS: dict[str, Function] = {
    "lower": _function("s", _of_text(pc.ascii_lower, pc.utf8_lower)),
    "upper": _function("s", _of_text(pc.ascii_upper, pc.utf8_upper)),
    "length": _function("s", lambda values: _as_int32(_characters(values))),
    "octet_length": _function("y", _octets),
    "bit_length": _function("y", lambda values: pc.multiply(_octets(values), pa.scalar(8, pa.int32()))),
    "starts_with": _function("s CT", lambda values, text: pc.starts_with(values, pattern=text)),
    "ends_with": _function("s CT", lambda values, text: pc.ends_with(values, pattern=text)),
    "contains": _function("s CT", contains),
    "regexp_match": _function("s CT CT?", _regexp),
    "regexp_like": _function("s CT CT?", _regexp),
    "regexp_count": _function("s CT", growth.count_matches),
    "regexp_replace": _function("s CT CT CT?", growth.replace_matches),
    "split_part": _function("s CT CI", _split_part),
    "lpad": _function("s CI CT?", _pad(left=True)),
    "rpad": _function("s CI CT?", _pad(left=False)),
    "strpos": _function("s CT", _position),
    "replace": _function("s CT CT", growth.replace),
    "reverse": _function("s", pc.utf8_reverse),
    "btrim": _function("s CT?", _trim(pc.utf8_trim)),
    "ltrim": _function("s CT?", _trim(pc.utf8_ltrim)),
    "rtrim": _function("s CT?", _trim(pc.utf8_rtrim)),
    "substr": _function("s CI CI?", _substring),
    "left": _function("s CI", _left),
    "right": _function("s CI", _right),
    "repeat": _function("s CI", growth.repeat),
    "concat": _function("s s*", _concat),
    "concat_ws": _function("CT s s*", growth.join_with),
    "abs": _function("n", _abs),
    "ceil": _function("f", pc.ceil),
    "floor": _function("f", pc.floor),
    "round": _function("f CI?", rounded),
    "trunc": _function("f", pc.trunc),
    "sqrt": _function("f", pc.sqrt),
    "exp": _function("f", pc.exp),
    "ln": _function("f", pc.ln),
    "log": _function("f f?", _log),
    "log10": _function("f", pc.log10),
    "log2": _function("f", pc.log2),
    "power": _function("f f", _power),
    "sin": _function("f", pc.sin),
    "cos": _function("f", pc.cos),
    "tan": _function("f", pc.tan),
    "signum": _function("f", _signum),
    "isnan": _function("n", _is_nan),
    "coalesce": _function("x x*", _choice("coalesce()", pc.coalesce)),
    "greatest": _function("x x*", _choice("greatest()", _extreme(pc.max_element_wise))),
    "least": _function("x x*", _choice("least()", _extreme(pc.min_element_wise))),
    "at_time_zone": _function("u CT CT?", instants.at_time_zone),
    "date_bin": _function("v d d?", instants.date_bin),
    "date_part": _function("CT p", lambda part, values: date_part(part, instants.as_instants(values))),
    "date_trunc": _function("CT d", lambda part, values: date_trunc(part, instants.as_instants(values))),
    "from_unixtime": _function("i CT?", instants.from_unixtime),
    "make_date": _function("k k k", make_date),
    "make_time": _function("k k k", make_time),
    "to_char": _function("p s", instants.to_char),
    "to_date": _function("u s*", instants.to_date),
    "to_local_time": _function("z", instants.to_local_time),
    "to_time": _function("d s*", instants.to_time),
    "to_timestamp": _function("u s*", instants.to_timestamp),
    "to_timestamp_micros": _function("u s*", instants.unix_reader("to_timestamp_micros", "us")),
    "to_timestamp_millis": _function("u s*", instants.unix_reader("to_timestamp_millis", "ms")),
    "to_timestamp_nanos": _function("u s*", instants.unix_reader("to_timestamp_nanos", "ns")),
    "to_timestamp_seconds": _function("u s*", instants.unix_reader("to_timestamp_seconds", "s")),
    "to_unixtime": _function("u s*", instants.to_unixtime),
    "array_has": _function("l x", _has),
    "array_has_any": _function("l CL", _has_any),
    "array_length": _function("l", length),
    "array_element": _function("l i", element),
    "empty": _function("l", lambda values: pc.equal(length(values), 0)),
    "get_field": _function("r CT", pc.struct_field),
    "json_get": _function("j CS", json_functions.get),
    "json_get_string": _function("j CS", json_functions.get_string),
    "json_get_int": _function("j CS", json_functions.get_int),
    "json_get_float": _function("j CS", json_functions.get_float),
    "json_get_bool": _function("j CS", json_functions.get_bool),
    "json_extract": _function("j CS", json_functions.extract),
    "json_exists": _function("j CS", json_functions.exists),
    "json_array_contains": _function("j CS CS", json_functions.array_contains),
    "json_array_length": _function("j CS", json_functions.array_length),
}

ALIASES: dict[str, str] = {
    "array_contains": "array_has",
    "array_empty": "empty",
    "cardinality": "array_length",
    "char_length": "length",
    "character_length": "length",
    "date_format": "to_char",
    "date_truncate": "date_trunc",
    "datepart": "date_part",
    "datetrunc": "date_trunc",
    "ifnull": "coalesce",
    "instr": "strpos",
    "is_nan": "isnan",
    "list_contains": "array_has",
    "list_element": "array_element",
    "list_empty": "empty",
    "list_has": "array_has",
    "list_has_all": "array_has_all",
    "list_has_any": "array_has_any",
    "list_length": "array_length",
    "nvl": "coalesce",
    "pow": "power",
    "sign": "signum",
    "substring": "substr",
    "trim": "btrim",
}
"""Other names of the same functions."""

LOWERED = ("array_has_all", "arrow_typeof", "if", "mod", "nullif")
"""Functions that the binder expresses by others."""

CLOCK = ("current_date", "current_time", "current_timestamp", "now", "today")
"""Functions of the time, which ``clock.fix_clock`` replaces by values before a tree is bound."""

BARE_CLOCK = ("current_date", "current_time", "current_timestamp")
"""Those that may be called without parentheses, as in standard SQL."""

_RANDOM = ("random", "uuid")
_FAMILY = re.compile(r"^(array_|date_|json_|regexp_|to_).*")


def unknown_function(name: str) -> ExpressionError:
    """The error for a function that cannot be called: unknown, or without a value here."""
    if name in CLOCK:
        return ExpressionError(
            f"{name} has a value in scans and deletes only; elsewhere lancecy.expr.fix_clock puts the time in"
        )
    if name in _RANDOM:
        return ExpressionError(
            f"{name} would differ from task to task of one scan; put the value itself into the filter"
        )
    known = [*FUNCTIONS, *ALIASES, *LOWERED, *CLOCK]
    # The names of all functions would not fit into a message.
    shown = {_FAMILY.sub(r"\1*", each) for each in (*FUNCTIONS, *LOWERED)}
    close = nearest(name, known)
    hint = f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(sorted(shown))}"
    return ExpressionError(f"no function {name!r}; {hint}")
