"""Levels to nested values: the rules one by one, then random nested values against a model in plain Python."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from lancecy.encodings.model.block import FixedWidth, Listed
from lancecy.encodings.model.layouts import Layer
from lancecy.encodings.v21.repdef import LeafPage, build, rows_per_value
from lancecy.errors import FormatError
from lancecy.schema import Field
from tests.helpers.folded import folded
from tests.helpers.leaves import block_rows
from tests.helpers.pages21 import leaf_field

VI, VL, NI, NL, EL, NEL = (Layer(i) for i in range(1, 7))
ITEM = leaf_field("int16", "v", 9)


def levels(values: list[int] | None) -> Any:
    return None if values is None else np.array(values, np.uint16)


def page(
    layers: tuple[Layer, ...],
    rep: list[int] | None,
    definition: list[int] | None,
    values: list[int],
    num_rows: int,
) -> LeafPage:
    block = FixedWidth(len(values), 16, struct.pack(f"<{len(values)}h", *values))
    return LeafPage(layers, levels(rep), levels(definition), block, num_rows)


def rows(built: LeafPage, *chain: Field) -> list[Any]:
    return block_rows(build(built, chain), chain)


def nested(*kinds: str) -> tuple[Field, ...]:
    """A chain of fields of these types around ``ITEM``."""
    return (*(leaf_field(kind, f"f{i}", i + 1, children=(ITEM,)) for i, kind in enumerate(kinds)), ITEM)


@folded(
    ("layers", "rep", "definition", "values", "kinds", "expected"),
    [
        ((VI,), None, None, [1, 2], (), [1, 2]),
        ((NI,), None, [0, 1, 0], [1, 9, 2], (), [1, None, 2]),
        # Nulls are possible, but there are no levels: nothing is null.
        ((NI,), None, None, [1, 2], (), [1, 2]),
        ((NI, NI), None, [0, 1, 2], [1, 9, 9], ("struct",), [{"v": 1}, {"v": None}, None]),
        # A layer without nulls of its own does not mark values below a null struct as null.
        ((VI, NI), None, [0, 1], [1, 9], ("struct",), [{"v": 1}, None]),
        ((VI, VL), [1, 0, 1], None, [1, 2, 3], ("list",), [[1, 2], [3]]),
        ((VI, NL), [1, 1], [0, 1], [1], ("list",), [[1], None]),
        ((VI, EL), [1, 1], [0, 1], [1], ("list",), [[1], []]),
        ((VI, NEL), [1, 1, 1], [0, 1, 2], [1], ("list",), [[1], None, []]),
        ((NI, NEL), [1, 0, 1, 1], [0, 1, 2, 3], [1, 9], ("large_list",), [[1, None], None, []]),
        # A null struct above a list makes the list null, even if lists here are never null.
        (
            (VI, VL, NI),
            [1, 1, 0],
            [1, 0, 0],
            [1, 2],
            ("struct", "list"),
            [None, {"f1": [1, 2]}],
        ),
        # A null struct within a list keeps its place.
        ((VI, NI, EL), [1, 0, 1], [0, 1, 2], [1, 9], ("list.struct", "struct"), [[{"v": 1}, None], []]),
        # Lists of lists: 1 = null inside, 2 = empty inside, 3 = null outside, 4 = empty outside.
        (
            (VI, NEL, NEL),
            [2, 1, 1, 2, 2, 2],
            [0, 1, 2, 3, 4, 0],
            [1, 2],
            ("list", "list"),
            [[[1], None, []], None, [], [[2]]],
        ),
        ((VI, VI, EL), [1, 0, 1], [0, 0, 1], [1, 2], ("map", "struct"), [[{"v": 1}, {"v": 2}], []]),
    ],
)  # fmt: skip
def test_layers_become_blocks(
    layers: tuple[Layer, ...],
    rep: list[int] | None,
    definition: list[int] | None,
    values: list[int],
    kinds: tuple[str, ...],
    expected: list[Any],
) -> None:
    chain = nested(*kinds)
    assert rows(page(layers, rep, definition, values, len(expected)), *chain) == expected


def test_offsets_are_as_wide_as_the_field_says() -> None:
    for kind, width in (("list", 4), ("large_list", 8)):
        block = build(page((VI, VL), [1, 0], None, [1, 2], 1), nested(kind))
        assert isinstance(block, Listed)
        assert (block.offset_width, memoryview(block.offsets).nbytes) == (width, 2 * width)  # type: ignore[arg-type]


FIXED = (leaf_field("fixed_size_list:struct:2", "f", 1, children=(ITEM,)), leaf_field("struct", "s", 2), ITEM)


def test_fixed_lists_of_structs_repeat_the_levels_outside() -> None:
    built = page((NI, NI, NI), None, [0, 1, 2, 0, 3, 3], [1, 2, 3, 4, 5, 6], 6)
    assert rows(built, *FIXED) == [[{"v": 1}, {"v": None}], [None, {"v": 4}], None]
    assert rows_per_value(FIXED) == 2
    assert rows_per_value(nested("list")) == 1


def pair(*values: int | None) -> list[dict[str, int | None]]:
    return [{"v": value} for value in values]


@pytest.mark.parametrize(
    ("layers", "rep", "definition", "values", "expected"),
    [
        # As release 14 writes them: every level is stored twice.
        ((VI, VI, VI, VL), [1, 1, 1, 1, 0, 0], None, range(6), [[pair(0, 1)], [pair(2, 3), pair(4, 5)]]),
        (
            (NI, NI, NI, VL),
            [1, 1, 0, 0, 1, 1, 0, 0],
            [0, 1, 3, 3, 0, 0, 2, 0],
            range(8),
            [[pair(0, None), None], [pair(4, 5), [None, {"v": 7}]]],
        ),
        # That release cannot write null and empty lists here; their levels are stored twice as well.
        (
            (VI, VI, NI, NEL),
            [1, 1, 1, 1, 1, 1, 0, 0, 1, 1],
            [2, 2, 3, 3, 0, 0, 1, 1, 3, 3],
            range(4),
            [None, [], [pair(0, 1), None], []],
        ),
    ],
)
def test_fixed_lists_of_structs_in_lists(
    layers: tuple[Layer, ...],
    rep: list[int],
    definition: list[int] | None,
    values: range,
    expected: list[Any],
) -> None:
    chain = (leaf_field("list", "l", 7, children=(FIXED[0],)), *FIXED)
    built = page(layers, rep, definition, list(values), 2 * len(expected))
    assert rows(built, *chain) == expected


@pytest.mark.parametrize(
    ("rep", "definition", "values"),
    [
        ([1, 0], [0, 0], [1, 2]),
        ([1, 1, 1, 0], [0, 0, 0, 0], [1, 2, 3, 4]),
        ([1, 1, 1, 1], [0, 2, 0, 2], [1, 2]),
        ([1, 1, 1, 1], [0, 2, 2, 0], [1, 2]),
    ],
)
def test_items_of_a_fixed_list_that_are_in_different_lists(
    rep: list[int], definition: list[int], values: list[int]
) -> None:
    chain = (leaf_field("list", "l", 7, children=(FIXED[0],)), *FIXED)
    with pytest.raises(FormatError, match="fixed-size lists of 2"):
        build(page((NI, VI, VI, EL), rep, definition, values, len(rep)), chain)


def test_items_of_a_fixed_list_are_not_in_a_list_that_is_not_there() -> None:
    with pytest.raises(FormatError, match="levels differ"):
        build(page((VI, VL, VI, VI), [1, 2], None, [1, 2], 2), (*FIXED[:2], leaf_field("list", "l", 7), ITEM))


@folded(
    ("what", "built", "chain"),
    [
        ("2 layers in a column of 1", page((VI, VI), None, None, [1], 1), (ITEM,)),
        ("does not fit the schema", page((VI, VI), None, None, [1], 1), nested("list")),
        ("does not fit the schema", page((VI, VL), [1], None, [1], 1), nested("struct")),
        ("does not fit the schema", page((VL,), [1], None, [1], 1), (ITEM,)),
        ("levels are for 2 values, where 1", page((NI,), None, [0, 0], [1], 1), (ITEM,)),
        ("2 levels for 1 values", page((VI, NI), None, [0, 0], [1], 1), nested("struct")),
        ("lists have 1 items, where 2", page((VI, EL), [1, 1], [0, 1], [1, 2], 2), nested("list")),
        ("where 3 were to be read", page((VI, VL), [1, 0], None, [1, 2], 3), nested("list")),
        ("higher than the lists are deep", page((VI, VL), [1, 2], None, [1, 2], 2), nested("list")),
        ("without repetition levels", page((VI, VL), None, None, [1], 1), nested("list")),
        ("continues a list", page((VI, VL), [0, 1], None, [1, 2], 1), nested("list")),
        ("fixed-size lists of 2", page((VI, VI, VI), None, None, [1, 2, 3], 3), FIXED),
        (
            "list size",
            page((VI, VI), None, None, [1], 1),
            (leaf_field("fixed_size_list:struct:x", children=(ITEM,)), ITEM),
        ),
    ],
    ids=str,
)
def test_levels_that_do_not_fit_are_refused(what: str, built: LeafPage, chain: tuple[Field, ...]) -> None:
    with pytest.raises(FormatError, match=what):
        build(built, chain)


# -- a model ------------------------------------------------------------------------------


PAIR = "fixed_size_list:struct:2"


class Shredder:
    """Convert nested values to levels, recursively: the inverse of ``build``.

    Levels outside fixed-size lists are repeated once per item, even if there are no items.
    """

    def __init__(self, kinds: tuple[str, ...], layers: tuple[Layer, ...]) -> None:
        self.kinds, self.layers = kinds, layers[::-1]
        self.lists = sum(layer.is_list for layer in layers)
        self.first = []
        base = sum(layer.levels for layer in layers)
        for layer in self.layers:
            base -= layer.levels
            self.first.append(base + 1)
        self.rep: list[int] = []
        self.definition: list[int] = []
        self.values: list[int] = []

    def add(self, value: Any, depth: int = 0, rep: int | None = None, lists: int = 0) -> None:
        rep = self.lists if rep is None else rep
        layer, level = self.layers[depth], self.first[depth]
        if value is None:
            self.leave(rep, level, lists, depth)
        elif depth == len(self.kinds):
            self.leave(rep, 0, lists, depth, value)
        elif self.kinds[depth] == PAIR:
            for item in value:
                self.add(item, depth + 1, rep, lists)
        elif not layer.is_list:
            self.add(value[self.name(depth)], depth + 1, rep, lists)
        elif not value:
            self.leave(rep, level + (layer is NEL), lists, depth)
        else:
            for i, item in enumerate(value):
                self.add(item, depth + 1, rep if i == 0 else self.lists - lists - 1, lists + 1)

    def leave(self, rep: int, level: int, lists: int, depth: int, value: int = -1) -> None:
        times = 2 ** self.kinds[depth:].count(PAIR)
        self.rep += [rep] * times
        self.definition += [level] * times
        if lists == self.lists:
            self.values += [value] * times

    def name(self, depth: int) -> str:
        return "v" if depth + 1 == len(self.kinds) else f"f{depth + 1}"


def random_value(rng: np.random.Generator, shredder: Shredder, depth: int = 0) -> Any:
    layer = shredder.layers[depth]
    if layer in (NI, NL, NEL) and rng.random() < 0.2:
        return None
    if depth == len(shredder.kinds):
        return int(rng.integers(30_000))
    if shredder.kinds[depth] == PAIR:
        return [random_value(rng, shredder, depth + 1) for _ in range(2)]
    if not layer.is_list:
        return {shredder.name(depth): random_value(rng, shredder, depth + 1)}
    least = 0 if layer in (EL, NEL) else 1
    return [random_value(rng, shredder, depth + 1) for _ in range(rng.integers(least, 4))]


@folded("seed", range(60))
def test_random_nesting_is_rebuilt(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [["list"], ["struct"], ["large_list"]] + [[PAIR, "struct"]] * (seed % 2)
    kinds = tuple(kind for i in rng.integers(0, len(names), rng.integers(0, 5)) for kind in names[i])
    layers = tuple(
        Layer(int(rng.choice([2, 4, 5, 6] if kind in ("list", "large_list") else [1, 3])))
        for kind in ("leaf", *reversed(kinds))
    )
    shredder = Shredder(kinds, layers)
    expected = [random_value(rng, shredder) for _ in range(rng.integers(1, 200))]
    for value in expected:
        shredder.add(value)
    built = page(
        layers,
        shredder.rep if shredder.lists else None,
        shredder.definition if any(layer.levels for layer in layers) else None,
        shredder.values,
        len(expected) * rows_per_value(nested(*kinds)),
    )
    assert rows(built, *nested(*kinds)) == expected
