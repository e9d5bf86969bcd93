"""The functions filters may call: their parameters and kernels.

:data:`FUNCTIONS` is the whole list. A parameter is one letter: ``s`` text, ``a`` text or
what is written as text, ``y`` text or binary, ``f`` a number taken as floating point, ``d`` the same or a decimal, ``n`` a
number as it is, ``l`` a list, ``t`` a date or timestamp, ``q`` a date, time, timestamp or text of one, ``p`` one of these or
an interval, ``u`` a number or one of these, ``g`` an interval, ``z`` a timestamp, ``i`` an integer, ``k`` an integer or
text of one, ``w`` an integer as it is, ``r`` a struct, ``j`` JSON in its stored form, ``x`` anything, ``C`` a
constant handed over as a Python value (``CT`` text, ``CI`` an integer, ``CL`` a list, ``CS`` text, also written as a
number or a boolean, or null), ``D`` the same or a column (``DT``, ``DI``, and ``DS`` text or what is written as text), where
a null is an Arrow scalar. Of functions that make lists or compare their elements, ``L`` is a list and ``e`` an element, all
with one type of elements, ``v`` any value and ``m`` a map. A trailing ``?`` makes it optional and
``*`` repeats it. Kernels take Arrow arrays or scalars and give back the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError, nearest
from lancecy.expr.evaluation import (
    characters,
    digests,
    growth,
    json_functions,
    list_edits,
    list_search,
    list_shapes,
    list_texts,
    matches,
    mathematics,
    structs,
)
from lancecy.expr.evaluation import instant_functions as instants
from lancecy.expr.evaluation.calendar import make_date, make_time
from lancecy.expr.evaluation.constants import contains, is_ascii
from lancecy.expr.evaluation.instants import date_part, date_trunc
from lancecy.expr.evaluation.lists import element, length
from lancecy.expr.evaluation.rows import by_group, either
from lancecy.expr.evaluation.series import series
from lancecy.expr.evaluation.values import LONG_PATTERN, by_chunk, by_text
from lancecy.records import dataclass

__all__ = [
    "ALIASES",
    "BARE_CLOCK",
    "CLOCK",
    "COUNTS",
    "FUNCTIONS",
    "Function",
    "unknown_function",
]


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


def _count(values: Any, counted: Any) -> Any:
    return pc.cast(values, characters.count_type(counted))


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
    _check_part(number)
    if not 0 < len(separator) <= LONG_PATTERN or abs(number) > LONG_PATTERN:
        return by_text(partial(_part, separator=separator, number=number), values, values.type)

    def run(chunk: pa.Array) -> pa.Array:
        parts = pc.split_pattern(chunk, pattern=separator, max_splits=abs(number), reverse=number < 0)
        found = pc.fill_null(element(parts, pa.scalar(number)), "")
        return pc.if_else(chunk.is_valid(), found, pa.scalar(None, chunk.type))

    return by_chunk(run, values)


def _check_part(number: int) -> None:
    if number == 0:
        raise ExpressionError("split_part() counts parts from 1, or from -1 at the end")


def _part_of_row(text: str, separator: str, number: int) -> str:
    _check_part(number)
    return _part(text, separator, number)


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
    constant = partial(_padded_to, left=left)
    return either(constant, partial(growth.padded, left=left))


def _padded_to(values: Any, width: int, fill: str = " ", *, left: bool) -> Any:
    return growth.pad(values, width, fill, left)


def _substring(values: Any, start: int, length: int | None = None) -> Any:
    first, stop = _bounds(start, length)
    return pc.utf8_slice_codeunits(values, start=first, stop=stop)


def _substring_of_row(text: str, start: int, length: int | None = None) -> str:
    return text[slice(*_bounds(start, length))]


def _bounds(start: int, length: int | None) -> tuple[int, int | None]:
    if length is not None and length < 0:
        raise ExpressionError("the length of a substring cannot be negative")
    # Positions count from 1; positions before the text exist and are empty, as in SQL.
    return max(0, start - 1), None if length is None else max(0, start - 1 + length)


def _left(values: Any, count: int) -> Any:
    return pc.utf8_slice_codeunits(values, start=0, stop=count)


def _right(values: Any, count: int) -> Any:
    if count > 0:
        return pc.utf8_slice_codeunits(values, start=-count)
    if count == 0:
        return pc.utf8_slice_codeunits(values, start=0, stop=0)
    return pc.utf8_slice_codeunits(values, start=-count)


def _trim(kernel: Callable[..., Any], of_row: Callable[[str, str], str]) -> Callable[..., Any]:
    return either(lambda values, characters=" ": kernel(values, characters=characters), of_row)


def _replace_matches(values: Any, pattern: Any, replacement: Any, flags: Any = "") -> Any:
    run = either(growth.replace_matches, growth.replace_matches, apply=by_group)
    return run(values, pattern, replacement, flags)


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
        elif pa.types.is_boolean(kind):
            through = pa.uint8()
        elif pa.types.is_fixed_size_binary(kind):
            # Arrow's kernel reads the wrong rows of a slice.
            through = pa.binary()
        if through is None:
            return kernel(*values)
        return pc.cast(kernel(*(pc.cast(v, through) for v in values)), kind)

    return run


def _greatest(*values: Any) -> Any:
    found = _extreme(pc.max_element_wise)(*values)
    if not pa.types.is_floating(found.type):
        return found
    # In pylance NaN is above all other numbers.
    for one in values:
        found = pc.if_else(pc.fill_null(pc.is_nan(one), False), pa.scalar(math.nan, found.type), found)
    return found


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
    return _count(pc.binary_length(values), values)


def _bits(values: Any) -> Any:
    found = _octets(values)
    return pc.multiply(found, pa.scalar(8, found.type))


def _starts_with(values: Any, text: str) -> Any:
    return pc.starts_with(values, pattern=text)


def _ends_with(values: Any, text: str) -> Any:
    return pc.ends_with(values, pattern=text)


def _strpos(values: Any, part: Any) -> Any:
    kind = characters.count_type(values)
    found = either(_position, lambda text, other: text.find(other) + 1, kind)(values, part)
    return pc.cast(found, kind)


def _abs(values: Any) -> Any:
    return pc.abs_checked(values)


def _is_nan(values: Any) -> Any:
    if pa.types.is_floating(values.type):
        return pc.is_nan(values)
    return pc.if_else(pc.is_valid(values), False, pa.scalar(None, pa.bool_()))


def _power(base: Any, exponent: Any) -> Any:
    return pc.power(pc.cast(base, pa.float64()), pc.cast(exponent, pa.float64()))


def _signum(values: Any) -> Any:
    return pc.cast(pc.sign(values), values.type)


def _function(parameters: str, kernel: Callable[..., Any]) -> Function:
    return Function(tuple(parameters.split()), kernel)


_SHA = ("sha224", "sha256", "sha384", "sha512")

FUNCTIONS: dict[str, Function] = {
    "lower": _function("s", _of_text(pc.ascii_lower, pc.utf8_lower)),
    "upper": _function("s", _of_text(pc.ascii_upper, pc.utf8_upper)),
    "length": _function("a", lambda values: _count(_characters(values), values)),
    "octet_length": _function("y", _octets),
    "bit_length": _function("y", _bits),
    "ascii": _function("s", characters.code_point),
    "chr": _function("i", characters.character),
    "initcap": _function("s", characters.initial_capitals),
    "levenshtein": _function("s s", characters.distance),
    "overlay": _function("a DS DI DI?", characters.overlay),
    "to_hex": _function("w", characters.to_hex),
    "translate": _function("a DS DS", characters.translate),
    "find_in_set": _function("a DS", characters.place_in_set),
    "substr_index": _function("a DS DI", characters.first_parts),
    "starts_with": _function("s DT", either(_starts_with, str.startswith, pa.bool_())),
    "ends_with": _function("s DT", either(_ends_with, str.endswith, pa.bool_())),
    "contains": _function("s DT", either(contains, str.__contains__, pa.bool_())),
    "regexp_match": _function("a DS DS?", matches.match),
    "regexp_like": _function("s DT DT?", matches.like),
    "regexp_count": _function("a DS DI? DS?", matches.count),
    "regexp_instr": _function("a DS DI? DI? DS? DI?", matches.place),
    "regexp_replace": _function("a DS DS DT?", _replace_matches),
    "split_part": _function("s DT DI", either(_split_part, _part_of_row)),
    "lpad": _function("a DI DS?", _pad(left=True)),
    "rpad": _function("a DI DS?", _pad(left=False)),
    "strpos": _function("s DT", _strpos),
    "replace": _function("s DT DT", either(growth.replace, characters.replaced)),
    "reverse": _function("a", pc.utf8_reverse),
    "btrim": _function("s DT?", _trim(pc.utf8_trim, str.strip)),
    "ltrim": _function("s DT?", _trim(pc.utf8_ltrim, str.lstrip)),
    "rtrim": _function("s DT?", _trim(pc.utf8_rtrim, str.rstrip)),
    "substr": _function("s DI DI?", either(_substring, _substring_of_row)),
    "left": _function("a DI", either(_left, lambda text, count: text[:count])),
    "right": _function("a DI", either(_right, lambda text, count: text[-count:] if count else "")),
    "repeat": _function("s DI", either(growth.repeat, growth.repeated)),
    "concat": _function("a a*", _concat),
    "concat_ws": _function("DS a a*", growth.join_with),
    "md5": _function("y", digests.md5),
    **{name: _function("y", partial(digests.digest, algorithm=name)) for name in _SHA},
    "digest": _function("y CT", digests.digest),
    "encode": _function("y CT", digests.encode),
    "decode": _function("y CT", digests.decode),
    "abs": _function("n", _abs),
    "ceil": _function("f", pc.ceil),
    "floor": _function("f", pc.floor),
    "round": _function("d DI?", mathematics.round_to),
    "trunc": _function("f DI?", mathematics.trunc_to),
    "sqrt": _function("f", pc.sqrt),
    "exp": _function("f", pc.exp),
    "ln": _function("f", pc.ln),
    "log": _function("f f?", mathematics.log),
    "log10": _function("f", pc.log10),
    "log2": _function("f", pc.log2),
    "power": _function("f f", _power),
    "sin": _function("f", pc.sin),
    "cos": _function("f", pc.cos),
    "tan": _function("f", pc.tan),
    "cot": _function("f", mathematics.cot),
    "acos": _function("f", pc.acos),
    "asin": _function("f", pc.asin),
    "atan": _function("f", pc.atan),
    "atan2": _function("f f", pc.atan2),
    "sinh": _function("f", pc.sinh),
    "cosh": _function("f", pc.cosh),
    "tanh": _function("f", pc.tanh),
    "asinh": _function("f", pc.asinh),
    "acosh": _function("f", pc.acosh),
    "atanh": _function("f", pc.atanh),
    "cbrt": _function("f", mathematics.cbrt),
    "degrees": _function("f", mathematics.scaled(180.0 / math.pi)),
    "radians": _function("f", mathematics.scaled(math.pi / 180.0)),
    "factorial": _function("i", mathematics.factorial),
    "gcd": _function("i i", mathematics.gcd),
    "lcm": _function("i i", mathematics.lcm),
    "iszero": _function("n", mathematics.is_zero),
    "nanvl": _function("f f", mathematics.nan_value),
    "signum": _function("f", _signum),
    "isnan": _function("n", _is_nan),
    "coalesce": _function("x x*", _choice("coalesce()", pc.coalesce)),
    "greatest": _function("x x*", _choice("greatest()", _greatest)),
    "least": _function("x x*", _choice("least()", _extreme(pc.min_element_wise))),
    "at_time_zone": _function("u CT CT?", instants.at_time_zone),
    "date_bin": _function("g q q?", instants.date_bin),
    "date_part": _function("CT p", lambda part, values: date_part(part, instants.as_instants(values))),
    "date_trunc": _function("CT q", lambda part, values: date_trunc(part, instants.as_instants(values))),
    "from_unixtime": _function("i CT?", instants.from_unixtime),
    "make_date": _function("k k k", make_date),
    "make_time": _function("k k k", make_time),
    "to_char": _function("p s", instants.to_char),
    "to_date": _function("u s*", instants.to_date),
    "to_local_time": _function("z", instants.to_local_time),
    "to_time": _function("q s*", instants.to_time),
    "to_timestamp": _function("u s*", instants.to_timestamp),
    "to_timestamp_micros": _function("u s*", instants.unix_reader("to_timestamp_micros", "us")),
    "to_timestamp_millis": _function("u s*", instants.unix_reader("to_timestamp_millis", "ms")),
    "to_timestamp_nanos": _function("u s*", instants.unix_reader("to_timestamp_nanos", "ns")),
    "to_timestamp_seconds": _function("u s*", instants.unix_reader("to_timestamp_seconds", "s")),
    "to_unixtime": _function("u s*", instants.to_unixtime),
    "array_has": _function("l x", list_search.has),
    "array_has_any": _function("l CL", list_search.has_any),
    "array_has_all": _function("L L", list_search.has_all),
    "array_length": _function("L i?", list_shapes.extent),
    "array_element": _function("l i", element),
    "array_any_value": _function("L", list_search.any_value),
    "array_append": _function("L e", list_edits.append),
    "array_compact": _function("L", list_edits.compact),
    "array_concat": _function("L L*", list_edits.concat),
    "array_dims": _function("L", list_shapes.dimensions),
    "array_distance": _function("L L", list_shapes.distance),
    "array_distinct": _function("L", list_search.distinct),
    "array_except": _function("L L", list_search.without),
    "array_intersect": _function("L L", list_search.intersect),
    "array_max": _function("L", list_search.extreme(largest=True)),
    "array_min": _function("L", list_search.extreme(largest=False)),
    "array_ndims": _function("L", list_shapes.number_of_dimensions),
    "array_pop_back": _function("L", list_edits.pop(at_end=True)),
    "array_pop_front": _function("L", list_edits.pop(at_end=False)),
    "array_position": _function("L e i?", list_search.position),
    "array_positions": _function("L e", list_search.positions),
    "array_prepend": _function("e L", list_edits.prepend),
    "array_remove": _function("L e", list_search.remove(1)),
    "array_remove_all": _function("L e", list_search.remove(None)),
    "array_remove_n": _function("L e i", list_search.remove(1)),
    "array_repeat": _function("v i", list_edits.repeat),
    "array_replace": _function("L e e", list_search.replace(1)),
    "array_replace_all": _function("L e e", list_search.replace(None)),
    "array_replace_n": _function("L e e i", list_search.replace(1)),
    "array_resize": _function("L i e?", list_edits.resize),
    "array_reverse": _function("L", list_edits.reverse),
    "array_slice": _function("L i i i?", list_edits.sliced),
    "array_sort": _function("L CS? CS?", list_edits.sort),
    "array_to_string": _function("L s s?", list_texts.joined),
    "array_union": _function("L L", list_search.union),
    "arrays_zip": _function("L L*", list_edits.zipped),
    "cardinality": _function("L", list_shapes.cardinality),
    "flatten": _function("L", list_edits.flatten),
    "generate_series": _function("i i? i?", series("generate_series", closed=True)),
    "make_array": _function("e*", list_edits.make),
    "range": _function("i i? i?", series("range", closed=False)),
    "string_to_array": _function("s s s?", list_texts.split),
    "named_struct": _function("v v v*", structs.named_struct),
    "struct": _function("v v*", structs.struct),
    "map": _function("v v", structs.map_of),
    "make_map": _function("e e*", structs.make_map),
    "map_entries": _function("m", structs.entries),
    "map_extract": _function("m v", structs.extract),
    "map_keys": _function("m", structs.map_keys),
    "map_values": _function("m", structs.map_values),
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
    "array_cat": "array_concat",
    "array_contains": "array_has",
    "array_empty": "empty",
    "array_extract": "array_element",
    "array_indexof": "array_position",
    "array_join": "array_to_string",
    "array_push_back": "array_append",
    "array_push_front": "array_prepend",
    "arrays_overlap": "array_has_any",
    "char_length": "length",
    "character_length": "length",
    "date_format": "to_char",
    "date_truncate": "date_trunc",
    "datepart": "date_part",
    "datetrunc": "date_trunc",
    "element_at": "map_extract",
    "instr": "strpos",
    "is_nan": "isnan",
    **{
        f"list_{name}": f"array_{name}"
        for name in (
            "any_value append compact concat dims distance distinct element except has has_all has_any intersect length "
            "max ndims pop_back pop_front position positions prepend remove remove_all remove_n repeat replace "
            "replace_all replace_n resize reverse slice sort to_string union"
        ).split()
    },
    "list_cat": "array_concat",
    "list_contains": "array_has",
    "list_empty": "empty",
    "list_extract": "array_element",
    "list_indexof": "array_position",
    "list_join": "array_to_string",
    "list_push_back": "array_append",
    "list_push_front": "array_prepend",
    "list_zip": "arrays_zip",
    "make_list": "make_array",
    "nvl": "ifnull",
    "position": "strpos",
    "pow": "power",
    "row": "struct",
    "sign": "signum",
    "string_to_list": "string_to_array",
    "substring": "substr",
    "substring_index": "substr_index",
    "trim": "btrim",
}
"""Other names of the same functions."""

COUNTS = ("array_length", "array_ndims", "array_position", "cardinality")
"""Functions whose numbers are unsigned in pylance."""

LOWERED = ("array_has_all", "arrow_typeof", "if", "ifnull", "mod", "nullif", "nvl2", "pi")
"""Functions that the binder expresses by others."""

CLOCK = ("current_date", "current_time", "current_timestamp", "now", "today")
"""Functions of the time, which ``clock.fix_clock`` replaces by values before a tree is bound."""

BARE_CLOCK = ("current_date", "current_time", "current_timestamp")
"""Those that may be called without parentheses, as in standard SQL."""

_RANDOM = ("random", "uuid")
# Functions of Spark and other engines for parts of a time.
_PARTS = ("day", "hour", "minute", "month", "quarter", "second", "week", "year")


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
    if name in _PARTS:
        return ExpressionError(f"no function {name!r}; write date_part('{name}', x)")
    close = nearest(name, [*FUNCTIONS, *ALIASES, *LOWERED, *CLOCK])
    hint = f"did you mean {', '.join(close)}?" if close else "the documentation of filters lists all"
    return ExpressionError(f"no function {name!r}; {hint}")
