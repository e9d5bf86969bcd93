"""The row-id index against a dictionary: moved, deleted and doubly stored rows, and what damaged tables say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, LanceError, LimitError
from lancecy.kernels import rowindex_jit
from lancecy.table.manifest import Fragment
from lancecy.table.rows import id_index as rowindex
from lancecy.table.rows import id_index_build as rowindex_build
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.rows.id_index import Keys, RowIndex, Slots
from lancecy.table.rows.id_index_build import build_index, index_rows
from lancecy.table.rows.row_ids import ArraySegment, HolesSegment, RangeSegment, RowIdSequence, Segment
from lancecy.table.wire.row_ids import decode_row_ids
from tests.helpers.builders import make_fragment, row_id_sequence, segment
from tests.helpers.folded import folded

TOP = 2**64 - 1


@pytest.fixture(params=["numba", "numpy"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each implementation in turn, however little there is to do."""
    chosen = rowindex_jit.COMPILED if request.param == "numba" else rowindex_jit.TWINS
    stand_in = SimpleNamespace(implementation=lambda _num_ids: chosen)
    for module in (rowindex, rowindex_build):
        monkeypatch.setattr(module, "rowindex_jit", stand_in)


each_kernel = pytest.mark.usefixtures("kernels")


def sequence_of(*segments: Segment) -> RowIdSequence:
    return RowIdSequence(
        segments, np.concatenate(([0], np.cumsum([part.count for part in segments]))).astype(np.int64)
    )


def u64(*values: int) -> NDArray[np.uint64]:
    return np.array(values, np.uint64)


def rows(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


class Table:
    """What the index asks of a snapshot: serialized sequences and deleted offsets by fragment id."""

    def __init__(
        self, sequences: Mapping[int, RowIdSequence | None], deleted: Mapping[int, Sequence[int]]
    ) -> None:
        self.sequences = sequences
        self.deleted = deleted
        self.read: list[int] = []
        self.fragments = tuple(make_fragment(number) for number in sequences)

    def row_ids(self, fragment: Fragment) -> RowIdSequence | None:
        return self.sequences[fragment.id]

    def deletions(self, fragment: Fragment) -> DeletionVector | None:
        if fragment.id not in self.deleted:
            return None
        self.read.append(fragment.id)
        return DeletionVector(rows(*self.deleted[fragment.id]))


def found_in(index: RowIndex, ids: Sequence[int]) -> list[int | None]:
    addresses, found = index.find(u64(*ids))
    return [a if hit else None for a, hit in zip(addresses.tolist(), found.tolist())]


# -- against a model ----------------------------------------------------------

KINDS = ("range", "range_with_holes", "range_with_bitmap", "sorted_array", "array")


def pieces_of(ids: list[int], draw: st.DrawFn) -> list[Any]:
    """Segments that together are the ids, in their order, of whatever kinds hold them."""
    made, rest = [], ids
    while rest:
        part = rest[: draw(st.integers(1, len(rest)))]
        rest = rest[len(part) :]
        ascending = all(a < b for a, b in pairwise(part))
        narrow = ascending and part[-1] - part[0] < 5000
        consecutive = narrow and part[-1] - part[0] == len(part) - 1
        kinds = [k for k, fits in zip(KINDS, (consecutive, narrow, narrow, ascending, True)) if fits]
        width = 16 if max(part) - min(part) < 2**16 else 64
        made.append(segment(draw(st.sampled_from(kinds)), part, width))
    return made


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, list[int]], dict[int, list[int]], dict[int, RowIdSequence]]:
    """A table after appends, updates, deletions and compactions: ids and deleted offsets by fragment."""
    ids: dict[int, list[int]] = {}
    gone: dict[int, list[int]] = {}
    following, fragment = draw(st.sampled_from([0, 0, 2**32 - 5, 2**63 - 9])), draw(st.sampled_from([0, 7]))

    def living() -> list[tuple[int, int, int]]:
        return [(f, at, ids[f][at]) for f in ids for at in range(len(ids[f])) if at not in gone[f]]

    def add(new: list[int]) -> None:
        nonlocal fragment
        ids[fragment], gone[fragment] = new, []
        fragment += draw(st.integers(1, 3))

    for step in draw(
        st.lists(st.sampled_from(["append", "delete", "move", "compact"]), min_size=1, max_size=9)
    ):
        if step == "append" or not living():
            count = draw(st.integers(1, 30))
            add(list(range(following, following + count)))
            following += count + draw(st.sampled_from([0, 0, 3, 4000]))
            continue
        if step == "compact":
            taken = draw(st.lists(st.sampled_from(sorted(ids)), min_size=1, unique=True))
            kept = [n for f, _, n in living() if f in taken]
            for f in taken:
                del ids[f], gone[f]
            add(kept or [following])
            following += not kept
            continue
        picked = draw(st.lists(st.sampled_from(living()), max_size=15, unique=True))
        for f, at, _ in picked:
            gone[f].append(at)
        if step == "move" and picked:
            moved = [n for _, _, n in picked]
            add(draw(st.sampled_from([moved, sorted(moved)])))
    sequences = {
        f: decode_row_ids(row_id_sequence(*pieces_of(list_, draw)), len(list_)) for f, list_ in ids.items()
    }
    return ids, {f: sorted(at) for f, at in gone.items() if at}, sequences


@each_kernel
@settings(max_examples=settings().max_examples * 4 // 3)
@given(histories())
def test_ids_of_any_history_lead_to_the_living_row(
    history: tuple[dict[int, list[int]], dict[int, list[int]], dict[int, RowIdSequence]],
) -> None:
    ids, gone, sequences = history
    places: dict[int, list[tuple[int, bool]]] = {}
    for f, numbers in ids.items():
        for at, number in enumerate(numbers):
            places.setdefault(number, []).append(((f << 32) + at, at not in gone.get(f, ())))
    index = index_rows(Table(sequences, gone))
    asked = sorted({n + step for n in places for step in (-1, 0, 1) if 0 <= n + step <= TOP} | {0, TOP})

    for number, address in zip(asked, found_in(index, asked), strict=True):
        known = places.get(number, [])
        living = [place for place, alive in known if alive]
        if living:
            assert [address] == living, number
        else:  # nothing, or a deleted row that whoever reads it will leave out
            assert address is None or address in [place for place, _ in known], number


@each_kernel
def test_order_and_duplicates_are_the_callers() -> None:
    index = build_index([(1, sequence_of(ArraySegment(10, np.array([5, 0, 9], np.uint16))), None)])
    assert found_in(index, [19, 10, 19, 11, 15]) == [2**32 + 2, 2**32 + 1, 2**32 + 2, None, 2**32]
    assert found_in(index, []) == []


@each_kernel
def test_moved_and_deleted_rows() -> None:
    """Fragment 0 has lost ids 3 to 5 to fragment 2 and id 8 for good."""
    moved = ArraySegment(0, np.array([5, 3, 4], np.uint32))
    parts = [(0, sequence_of(RangeSegment(0, 10)), rows(3, 4, 5, 8)), (2, sequence_of(moved), None)]
    index = build_index(parts)
    assert found_in(index, range(11)) == [
        0, 1, 2, (2 << 32) + 1, (2 << 32) + 2, 2 << 32, 6, 7, None, 9, None,
    ]  # fmt: skip
    assert len(index) == 9


@each_kernel
def test_ids_at_the_end_of_their_type() -> None:
    parts = [
        (0, sequence_of(RangeSegment(TOP - 3, TOP)), None),
        (2**32 - 1, sequence_of(ArraySegment(TOP - 9, np.array([9, 0], np.uint64))), None),
    ]
    last = (2**32 - 1) << 32
    assert found_in(build_index(parts), [TOP - 3, TOP - 1, TOP, TOP - 9, 2**63, 0]) == [
        0, 2, last, last + 1, None, None,
    ]  # fmt: skip


@each_kernel
def test_of_nothing() -> None:
    for parts in ([], [(3, sequence_of(), None)], [(3, sequence_of(RangeSegment(4, 5)), rows(0))]):
        index = build_index(parts)
        assert (len(index), found_in(index, [4, 0])) == (0, [None, None])
    empty = ArraySegment(4, np.empty(0, np.uint16))
    index = build_index(
        [(0, sequence_of(RangeSegment(0, 9), RangeSegment(4, 4), empty, RangeSegment(1, 1)), None)]
    )
    assert (len(index), found_in(index, [0, 8, 9])) == (9, [0, 8, None])


# -- size ---------------------------------------------------------------------


def test_a_thousand_million_ids_in_ranges_take_kilobytes() -> None:
    parts = [(i, sequence_of(RangeSegment(i * 10**6, (i + 1) * 10**6)), None) for i in range(1000)]
    index = build_index(parts)
    assert len(index) == 10**9
    assert index.nbytes < 40_000
    assert found_in(index, [123_456_789]) == [(123 << 32) + 456_789]


@pytest.mark.parametrize("bits", [17, 40, 63])
def test_ids_in_no_order_take_no_more_than_16_bytes_each(bits: int) -> None:
    ids = np.unique(np.random.default_rng(3).integers(0, 2**bits, 60_000, np.uint64))
    np.random.default_rng(4).shuffle(ids)
    index = build_index([(1, sequence_of(ArraySegment(0, ids)), None)])
    assert index.nbytes <= 16 * ids.size + 200
    assert found_in(index, ids[:3].tolist()) == [2**32, 2**32 + 1, 2**32 + 2]


@folded(("missing", "most"), [(0, 300), (1, 300), (1000, 40_000), (50_000, 1_700_000), (400_000, 10_000_000)])
@folded("kind", ["range_with_holes", "range_with_bitmap", "deleted"])
def test_ranges_with_gaps_take_what_their_gaps_take(kind: str, missing: int, most: int) -> None:
    count = 1_000_000
    holes = np.sort(np.random.default_rng(5).choice(count, missing, replace=False))
    present = np.ones(count, np.bool_)
    present[holes] = False
    if kind == "deleted":
        index = build_index([(0, sequence_of(RangeSegment(7, 7 + count)), holes)])
        offsets = np.flatnonzero(present)
    else:
        data = row_id_sequence(gappy(kind, 7, present))
        sequence = decode_row_ids(data, count - missing)
        assert sequence.nbytes <= 8 * missing + 300
        index = build_index([(0, sequence, None)])
        offsets = np.arange(count - missing)
    assert index.nbytes <= most
    addresses, found = index.find(np.arange(count, dtype=np.uint64) + np.uint64(7))
    assert np.array_equal(found, present)
    assert np.array_equal(addresses[found], offsets.astype(np.uint64))


def gappy(kind: str, start: int, present: NDArray[np.bool_]) -> Any:
    """A segment of a range without some, made without writing out its ids."""
    message = segment("range", [], span=(0, 1))
    if kind == "range_with_bitmap":
        part = message.range_with_bitmap
        part.bitmap = np.packbits(present, bitorder="little").tobytes()
    else:
        part = message.range_with_holes
        part.holes.u32_array.base = start
        part.holes.u32_array.offsets = np.flatnonzero(~present).astype("<u4").tobytes()
    part.start, part.end = start, start + present.size
    return message


@each_kernel
@pytest.mark.parametrize(("step", "form"), [(1, Slots), (2, Slots), (4, Keys), (1 << 40, Keys)])
def test_ids_that_lie_close_together_have_slots(step: int, form: type) -> None:
    """What is found does not depend on the form; ids between, below and above are not there."""
    low = 77
    ids = low + np.random.default_rng(1).permutation(1000).astype(np.uint64) * np.uint64(step)
    index = build_index([(4, sequence_of(ArraySegment(0, ids)), rows(0, 999))])
    assert type(index.singles) is form
    assert len(index) == 998
    assert index.nbytes <= 16 * 998 + 200
    addresses, found = index.find(ids)
    np.testing.assert_array_equal(found, np.isin(np.arange(1000), [0, 999], invert=True))
    np.testing.assert_array_equal(addresses[1:999], (4 << 32) + np.arange(1, 999, dtype=np.uint64))
    missing = u64(0, low - 1, low + 1000 * step, TOP, *([low + 1] if step > 1 else []))
    assert not index.find(missing)[1].any()
    assert not index.find(missing)[0].any()


def test_strays_far_away_leave_the_directory_to_the_other_ids() -> None:
    near = [RangeSegment(1000 + 10 * i, 1000 + 10 * i + 3) for i in range(2000)]
    strays = (RangeSegment(0, 2), RangeSegment(1 << 60, (1 << 60) + 2))
    index = build_index([(0, sequence_of(strays[0], *near, strays[1]), None)])
    fullest = np.diff(index.runs.directory.starts.astype(np.int64)).max()
    assert fullest <= 2000 // 256 + 2
    asked = u64(0, 1, 2, 999, 1000, 1002, 1003, 20990, 20993, 1 << 60, (1 << 60) + 2)
    assert index.find(asked)[1].tolist() == [
        True,
        True,
        False,
        False,
        True,
        True,
        False,
        True,
        False,
        True,
        False,
    ]


def test_consecutive_ids_in_arrays_become_runs() -> None:
    offsets = np.concatenate([np.arange(5000), np.arange(9000, 14_000)]).astype(np.uint32)
    index = build_index([(0, sequence_of(ArraySegment(3, offsets)), None)])
    assert index.nbytes < 300
    assert found_in(index, [3, 5002, 5003, 9003, 14_002]) == [0, 4999, None, 5000, 9999]


def test_most_ids_an_index_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rowindex_build, "_MOST", 5)
    part = sequence_of(ArraySegment(0, np.array([4, 0, 2], np.uint16)))
    with pytest.raises(LimitError, match="more than 5 row ids"):
        build_index([(0, part, None), (1, part, None)])


# -- deletion files -----------------------------------------------------------


def test_deletion_files_are_read_where_ids_overlap_only() -> None:
    def ranges(*spans: tuple[int, int]) -> dict[int, RowIdSequence]:
        return {i: sequence_of(RangeSegment(*span)) for i, span in enumerate(spans)}

    apart = Table(ranges((0, 10), (20, 30), (10, 20)), {0: [1], 1: [2], 2: [3]})
    assert len(index_rows(apart)) == 30
    assert apart.read == []

    within = Table(ranges((0, 100), (200, 300), (40, 41)), {0: [40], 1: [2]})
    index = index_rows(within)
    assert within.read == [0]
    assert found_in(index, [39, 40, 41]) == [39, 2 << 32, 41]


def test_an_id_stored_twice_in_one_fragment() -> None:
    twice = sequence_of(RangeSegment(0, 5), ArraySegment(0, np.array([2], np.uint16)))
    table = Table({4: twice, 5: sequence_of(RangeSegment(50, 60))}, {4: [2]})
    assert found_in(index_rows(table), [2, 3]) == [(4 << 32) + 5, (4 << 32) + 3]


# -- damaged tables -----------------------------------------------------------


@each_kernel
@folded(
    ("one", "two", "id"),
    [
        (RangeSegment(0, 10), RangeSegment(9, 12), 9),
        (RangeSegment(0, 2**32), RangeSegment(5, 6), 5),
        (RangeSegment(0, 10), ArraySegment(0, np.array([77, 4], np.uint16)), 4),
        (ArraySegment(5, np.array([60, 4], np.uint16)), ArraySegment(0, np.array([77, 9], np.uint16)), 9),
        (HolesSegment(0, 10, rows(3)), RangeSegment(4, 5), 4),
        (RangeSegment(TOP - 5, TOP), RangeSegment(TOP - 2**31, TOP - 4), TOP - 5),
    ],
)
def test_two_living_rows_with_one_id_are_refused(one: Segment, two: Segment, id: int) -> None:
    for first, second in ((one, two), (two, one)):
        with pytest.raises(FormatError, match=f"two rows have the row id {id}$"):
            index_rows(Table({1: sequence_of(first), 2: sequence_of(second)}, {}))


def test_a_fragment_without_ids_is_refused() -> None:
    with pytest.raises(FormatError, match="fragment 3 of a table with stable row ids"):
        index_rows(Table({2: sequence_of(RangeSegment(0, 1)), 3: None}, {}))


@settings(max_examples=settings().max_examples * 2 // 3)
@given(st.lists(st.tuples(st.integers(0, TOP), st.integers(0, 2**32)), max_size=12))
def test_claims_of_huge_ranges_cost_nothing(spans: list[tuple[int, int]]) -> None:
    claimed = {i: sequence_of(RangeSegment(a, min(TOP, a + n))) for i, (a, n) in enumerate(spans)}
    try:
        index = index_rows(Table(claimed, {}))
    except LanceError:
        return
    assert index.nbytes < 2000


MEMORY = """
import resource
from pathlib import Path
from lancecy.errors import LanceError
from lancecy.table.wire.row_ids import decode_row_ids
from lancecy.table.rows.id_index_build import build_index
from tests.helpers.builders import row_id_sequence, segment
# Beside what is used already: the address sanitizer takes terabytes of addresses for itself.
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (640 << 20), used + (640 << 20)))
half = segment("range", [], span=(0, 2**32 - 1))
parts = [(i, decode_row_ids(row_id_sequence(segment("range", [], span=(i << 40, (i << 40) + 2**32))), None), None)
         for i in range(4000)]
assert len(build_index(parts)) == 4000 << 32
for data in (row_id_sequence(segment("range", [], span=(0, 2**64 - 1))), row_id_sequence(half, half)):
    try:
        decode_row_ids(data, None)
        raise SystemExit("admitted")
    except LanceError:
        pass
"""


def test_hostile_ranges_fit_little_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


# -- which kernels do it ------------------------------------------------------

BUILD = {"check_runs"}
GAPPY = {*BUILD, "live_runs", "fill_directory", "find_runs"}
SLOTTED = {*BUILD, "array_runs", "fill_slots", "slots_in_runs", "find_slots"}
SORTED = {
    *BUILD,
    "array_runs",
    "copy_keys",
    "sort_pairs",
    "first_repeat",
    "keys_in_runs",
    "fill_directory",
    "find_keys",
}
WIDE = [n * 2**40 for n in range(60, 0, -1)]
GAPS = [n for n in range(5000) if n % 100]

FORMS: dict[str, tuple[list[tuple[RowIdSequence, list[int]]], set[str]]] = {}


def form(name: str, kernels: set[str], *parts: tuple[list[Any], list[int]]) -> None:
    """A name, what is to do it, and segments and deleted rows of each fragment."""
    made = [(decode_row_ids(row_id_sequence(*pieces), None), gone) for pieces, gone in parts]
    FORMS[name] = made, kernels


RANGE = {*BUILD, "fill_directory", "find_runs"}
form("range", RANGE, ([segment("range", [], span=(0, 5000))], []))
form("range, deleted rows", GAPPY, ([segment("range", [], span=(0, 5000))], [7, 9]))
form("range with holes", GAPPY, ([segment("range_with_holes", GAPS)], []))
form("range with holes, deleted rows", GAPPY, ([segment("range_with_holes", GAPS)], [7, 9]))
form("range with bitmap", GAPPY, ([segment("range_with_bitmap", GAPS)], []))
form("range with bitmap, deleted rows", GAPPY, ([segment("range_with_bitmap", GAPS)], [0]))
form("sorted array", SLOTTED, ([segment("sorted_array", list(range(0, 900, 2)))], []))
form("array", SLOTTED, ([segment("array", list(range(900, 0, -1)))], []))
form("array, deleted rows", SLOTTED, ([segment("array", list(range(900, 0, -1)))], [3]))
form("wide array", SORTED, ([segment("array", WIDE, 64)], []))
form("wide array, deleted rows", SORTED, ([segment("array", WIDE, 64)], [5]))
form(
    "short runs",
    {*SLOTTED, "live_runs", "expand_holes"},
    ([segment("range", [], span=(0, 900))], list(range(0, 900, 2))),
)
form(
    "segments of several forms",
    GAPPY | SLOTTED,
    ([segment("range", [], span=(0, 5000)), segment("array", list(range(9000, 8000, -1)))], [3]),
)
form(
    "ids that moved to another fragment",
    GAPPY | SLOTTED,
    ([segment("range", [], span=(0, 5000))], list(range(21, 41))),
    ([segment("array", list(range(40, 20, -1)))], []),
)
form(
    "ranges in no order",
    {*RANGE, "sort_pairs"},
    ([segment("range", [], span=(50, 90))], []),
    ([segment("range", [], span=(0, 50))], []),
)


@folded("name", FORMS)
def test_numba_does_the_work_for_every_form(name: str) -> None:
    """Counted: what is called with machine code; no twin is."""
    parts, expected = FORMS[name]
    called: dict[str, int] = {}

    def native(kernel: str, arguments: tuple[Any, ...]) -> Any:
        called[kernel] = called.get(kernel, 0) + 1
        found = original(kernel, arguments)
        assert found is not None
        return found

    original = rowindex_jit._native
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rowindex_jit._State, "is_chosen", True)
        patch.setattr(rowindex_jit, "_native", native)
        index = build_index([(i, sequence, rows(*gone)) for i, (sequence, gone) in enumerate(parts)])
        for i, (sequence, gone) in enumerate(parts):
            addresses, found = index.find(sequence.ids(0, len(sequence)))
            alive = np.delete(np.arange(len(sequence)), gone)
            assert np.array_equal(addresses[alive], (i << 32) + alive.astype(np.uint64)), name
            assert found[alive].all()
    assert set(called) == expected, name
    assert all(count >= 1 for count in called.values())
