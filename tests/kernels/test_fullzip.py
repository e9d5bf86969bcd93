"""zip_fixed and zip_variable, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError, TruncatedError
from tests.helpers.folded import folded
from tests.kernels.both import CYTHON, REFERENCE, Kernels, i64, memory_of

FAR = 2**63 - 1
LISTS = bytes.fromhex("0407000000 0008000000 05 06 0409000000")
"""list<int32> [[7, 8], null, [], [9]]: 1 bit of repetition above 2 of definition."""
STRINGS = bytes.fromhex("000100000061 01 0000000000 0003000000636363")
"""["a", null, "", "ccc"]: 1 bit of definition."""


def fixed(
    kernels: Kernels,
    memory: bytes,
    spans: list[tuple[int, int]] | None = None,
    *,
    word_bytes: int = 1,
    def_bits: int = 2,
    width: int = 4,
    visible: int = 0,
    max_rep: int = 1,
    max_def: int = 2,
    entries: int = 50,
    slots: int = 50,
    with_levels: bool = True,
) -> tuple[list[int], list[int], list[bytes]]:
    spans = [(0, len(memory))] if spans is None else spans
    rep, definition = (np.full(entries, 77, np.uint16) if with_levels else None for _ in range(2))
    values = np.full(slots * width, 0xEE, np.uint8)
    count, filled = kernels.zip_fixed(
        memory_of(memory),
        i64(*(start for start, _ in spans)),
        i64(*(stop for _, stop in spans)),
        word_bytes,
        def_bits,
        width,
        visible,
        max_rep,
        max_def,
        rep,
        definition,
        values,
    )
    out = values.tobytes()
    assert set(out[filled * width :]) <= {0xEE}
    found = [out[i * width : (i + 1) * width] for i in range(filled)]
    if rep is None or definition is None:
        return [count], [], found
    assert (rep[count:] == 77).all() and (definition[count:] == 77).all()
    return rep[:count].tolist(), definition[:count].tolist(), found


def variable(
    kernels: Kernels,
    memory: bytes,
    spans: list[tuple[int, int]] | None = None,
    *,
    word_bytes: int = 1,
    def_bits: int = 1,
    length_bytes: int = 4,
    visible: int = 0xFFFF,
    max_rep: int = 0,
    max_def: int = 1,
    entries: int = 50,
    slots: int = 50,
) -> tuple[list[int], list[int], list[bytes]]:
    spans = [(0, len(memory))] if spans is None else spans
    rep, definition = np.full((2, entries), 77, np.uint16)
    starts, lengths = np.full((2, slots), 77)
    count, filled = kernels.zip_variable(
        memory_of(memory),
        i64(*(start for start, _ in spans)),
        i64(*(stop for _, stop in spans)),
        word_bytes,
        def_bits,
        length_bytes,
        visible,
        max_rep,
        max_def,
        rep,
        definition,
        starts,
        lengths,
    )
    found = [memory[a : a + n] for a, n in zip(starts[:filled].tolist(), lengths[:filled].tolist())]
    return rep[:count].tolist(), definition[:count].tolist(), found


def i4(*values: int) -> list[bytes]:
    return [value.to_bytes(4, "little") for value in values]


def test_lists_of_integers(kernels: Kernels) -> None:
    assert fixed(kernels, LISTS) == ([1, 0, 1, 1, 1], [0, 0, 1, 2, 0], i4(7, 8, 9))


def test_some_rows_of_lists(kernels: Kernels) -> None:
    assert fixed(kernels, LISTS, [(10, 11), (12, 17)]) == ([1, 1], [1, 0], i4(9))


def test_a_null_that_is_visible_has_a_value(kernels: Kernels) -> None:
    memory = bytes.fromhex("0007000000 0100000000 0009000000")
    result = fixed(kernels, memory, def_bits=1, visible=1, max_rep=0, max_def=1)
    assert result == ([0, 0, 0], [0, 1, 0], i4(7, 0, 9))


@folded("width", [1, 2, 3, 4, 8, 16, 33])
@folded("word_bytes", [0, 1, 2, 4])
def test_values_of_any_width(kernels: Kernels, width: int, word_bytes: int) -> None:
    values = [bytes(range(i, i + width)) for i in range(5)]
    memory = b"".join(bytes(word_bytes) + value for value in values)
    assert fixed(kernels, memory, width=width, word_bytes=word_bytes)[2] == values
    assert fixed(kernels, memory, width=width, word_bytes=word_bytes, with_levels=False) == ([5], [], values)


@pytest.mark.parametrize(
    ("word_bytes", "def_bits", "rep", "definition"), [(2, 9, 100, 300), (4, 16, 50_000, 65_535), (2, 0, 9, 0)]
)
def test_wide_control_words(
    kernels: Kernels, word_bytes: int, def_bits: int, rep: int, definition: int
) -> None:
    memory = ((rep << def_bits) | definition).to_bytes(word_bytes, "little") + b"v"
    arguments: dict[str, Any] = {"word_bytes": word_bytes, "def_bits": def_bits, "max_rep": rep}
    result = fixed(kernels, memory, width=1, visible=0xFFFF, max_def=definition, **arguments)
    assert result == ([rep], [definition], [b"v"])


def test_values_without_bytes(kernels: Kernels) -> None:
    assert fixed(kernels, b"\0\1\0", width=0, slots=0, visible=1)[1] == [0, 1, 0]


def test_strings(kernels: Kernels) -> None:
    assert variable(kernels, STRINGS) == ([0] * 4, [0, 1, 0, 0], [b"a", b"", b"", b"ccc"])


def test_some_rows_of_strings(kernels: Kernels) -> None:
    assert variable(kernels, STRINGS, [(6, 7), (12, 20)])[2] == [b"", b"ccc"]


def test_strings_with_wide_lengths_and_without_words(kernels: Kernels) -> None:
    memory = (2).to_bytes(8, "little") + b"ab" + bytes(8)
    assert variable(kernels, memory, word_bytes=0, def_bits=0, length_bytes=8)[2] == [b"ab", b""]


def test_lists_of_strings_have_no_slot_for_an_empty_list(kernels: Kernels) -> None:
    memory = bytes.fromhex("04 01000000 61 01 07")
    result = variable(kernels, memory, def_bits=2, visible=1, max_rep=1, max_def=3)
    assert result == ([1, 0, 1], [0, 1, 3], [b"a", b""])


@folded("cut", range(1, 17))
def test_a_fixed_entry_that_is_cut_off_is_refused(kernels: Kernels, cut: int) -> None:
    ends = {5, 10, 11, 12, 17}
    if 17 - cut in ends:
        assert len(fixed(kernels, LISTS[:-cut])[0]) == sorted(ends).index(17 - cut) + 1
    else:
        with pytest.raises(FormatError, match="cut off") as caught:
            fixed(kernels, LISTS[:-cut])
        assert caught.value.position == sum(end < 17 - cut for end in ends)


@folded("cut", [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12])
def test_a_string_that_is_cut_off_is_refused(kernels: Kernels, cut: int) -> None:
    with pytest.raises(FormatError, match="cut off") as caught:
        variable(kernels, STRINGS[:-cut])
    assert caught.value.position == (3 if cut < 8 else 2)


@folded("length", [5, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
def test_a_length_beyond_the_span_is_refused(kernels: Kernels, length: int) -> None:
    memory = length.to_bytes(8, "little") + b"four"
    with pytest.raises(FormatError, match="cut off"):
        variable(kernels, memory, word_bytes=0, length_bytes=8)


@folded(("word", "def_bits"), [(3, 2), (0b1000, 2), (0xFF, 2), (4, 1)])
def test_levels_beyond_the_layers_are_refused(kernels: Kernels, word: int, def_bits: int) -> None:
    memory = bytes(5) + bytes([word]) + bytes(8)
    with pytest.raises(FormatError, match="level 1") as caught:
        fixed(kernels, memory, def_bits=def_bits, max_rep=1, max_def=2)
    assert caught.value.position == 1
    with pytest.raises(FormatError, match="level 1"):
        variable(kernels, memory, def_bits=def_bits, max_rep=1, max_def=2)


def test_more_entries_than_there_is_room_for_are_refused(kernels: Kernels) -> None:
    with pytest.raises(FormatError, match="more than") as caught:
        fixed(kernels, LISTS, entries=3)
    assert caught.value.position == 3
    with pytest.raises(FormatError, match="more than") as caught:
        fixed(kernels, LISTS, slots=2)
    assert caught.value.position == 4
    with pytest.raises(FormatError, match="more than") as caught:
        variable(kernels, STRINGS, slots=1)
    assert caught.value.position == 1


@folded(
    ("span", "error"),
    [((-1, 5), FormatError), ((9, 5), FormatError), ((0, 18), TruncatedError), ((0, FAR), TruncatedError)],
)
def test_spans_outside_memory_are_refused(
    kernels: Kernels, span: tuple[int, int], error: type[Exception]
) -> None:
    for walk in (fixed, variable):
        with pytest.raises(error, match="run 1") as caught:
            walk(kernels, LISTS, [(0, 0), span])
        assert getattr(caught.value, "position", None) == 1


@folded(
    "wrong",
    [
        {"word_bytes": 3},
        {"def_bits": 32},
        {"def_bits": -1},
        {"visible": -1},
        {"max_rep": 65536},
        {"max_def": -1},
    ],
)
def test_words_and_levels_must_be_possible(kernels: Kernels, wrong: dict[str, Any]) -> None:
    for walk in (fixed, variable):
        with pytest.raises(ValueError, match="word_bytes|levels") as caught:
            walk(kernels, b"", **wrong)
        assert not isinstance(caught.value, FormatError)


def test_entries_need_bytes(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="value_bytes"):
        fixed(kernels, b"", word_bytes=0, width=0, slots=0)
    with pytest.raises(ValueError, match="length_bytes"):
        variable(kernels, b"", length_bytes=2)


def test_outputs_must_fit_each_other(kernels: Kernels) -> None:
    levels, values = np.empty(2, np.uint16), np.empty(7, np.uint8)
    words = (1, 0, 2, 0, 0, 0)
    with pytest.raises(ValueError, match="whole number"):
        kernels.zip_fixed(memory_of(), i64(), i64(), *words, None, None, values)
    with pytest.raises(ValueError, match="out_rep and out_def"):
        kernels.zip_fixed(memory_of(), i64(), i64(), *words, levels, levels[:1].copy(), values[:6].copy())
    with pytest.raises(ValueError, match="out_starts"):
        kernels.zip_variable(memory_of(), i64(), i64(), 1, 0, 4, 0, 0, 0, None, None, i64(1), i64())
    with pytest.raises(ValueError, match="starts and stops"):
        kernels.zip_variable(memory_of(), i64(), i64(1), 1, 0, 4, 0, 0, 0, None, None, i64(1), i64(1))


@st.composite
def pages(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]], dict[str, Any]]:
    """Entries of a page, optionally with a changed byte, and spans over them."""
    word_bytes, width = draw(st.sampled_from([0, 1, 2])), draw(st.sampled_from([1, 4, 5, 8]))
    parts = draw(st.lists(st.tuples(st.sampled_from([0, 0, 1, 4, 5, 6]), st.binary(max_size=5)), max_size=20))
    cuts, memory = [0], b""
    for word, value in parts:
        memory += word.to_bytes(4, "little")[:word_bytes]
        memory += len(value).to_bytes(4, "little") + value if width == 5 else value.ljust(width, b".")
        cuts.append(len(memory))
    if memory and draw(st.booleans()):
        at = draw(st.integers(0, len(memory) - 1))
        memory = memory[:at] + bytes([draw(st.integers(0, 255))]) + memory[at + 1 :]
    edges = sorted(draw(st.lists(st.sampled_from(cuts), max_size=6)))
    spans = [(0, len(memory)), *zip(edges[::2], edges[1::2])]
    levels = {
        "visible": draw(st.sampled_from([0, 1, 0xFFFF])),
        "max_rep": 1,
        "max_def": draw(st.integers(1, 3)),
    }
    room = {"entries": draw(st.sampled_from([4, 200])), "slots": draw(st.sampled_from([3, 200]))}
    return memory, spans, {"word_bytes": word_bytes, "def_bits": 2, **levels, **room}


@given(pages(), st.sampled_from([1, 4, 5, 8]), st.sampled_from([4, 8]))
def test_walks_agree_with_their_twins(
    page: tuple[bytes, list[tuple[int, int]], dict[str, Any]], width: int, length_bytes: int
) -> None:
    memory, spans, arguments = page

    def call(kernels: Kernels, walk: Any, **more: int) -> object:
        try:
            return walk(kernels, memory, spans, **arguments, **more)
        except FormatError as error:
            return type(error), error.position, str(error)

    assert call(CYTHON, fixed, width=width) == call(REFERENCE, fixed, width=width)
    more = {"length_bytes": length_bytes}
    assert call(CYTHON, variable, **more) == call(REFERENCE, variable, **more)
