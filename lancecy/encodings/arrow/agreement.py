"""Comparison of what the leaves of a nested column say about the structs and lists around them.

In files of 2.1 and later each leaf stores its own levels, so nulls and lengths of a struct or list are stored once for
each leaf below it. Leaves that differ have been damaged, and their rows cannot be told. Whether a struct is null matters
only where nothing around it is: sparse structures of 2.3 and levels differ about the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.blocks.memory import mask_of
from lancecy.encodings.blocks.select import offsets_of, stored_offsets
from lancecy.encodings.model.block import Block, FixedList, Listed, Pieces, Structured
from lancecy.records import dataclass
from lancecy.schema import Field

__all__ = ["Disagreement", "first_disagreement"]

Chain: TypeAlias = "tuple[Field, ...]"
_Node: TypeAlias = "Structured | Listed | FixedList"
_ONES = np.full(1 << 10, 255, np.uint8)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two leaves that differ.

    Attributes
    ----------
    leaf : int
        Number of the second of them; the first is the leaf before it.
    depth : int
        Number of the struct or list in the chains of both.
    about : "nulls" or "lengths"
    row : int
        The first row in which they differ.
    """

    leaf: int
    depth: int
    about: str
    row: int


def first_disagreement(chains: Sequence[Chain], blocks: Sequence[Block]) -> Disagreement | None:
    """The first leaves that differ about a struct or list around both; None if all agree.

    Parameters
    ----------
    chains : sequence of tuple of Field
        From the top-level field down to each leaf, depth first.
    blocks : sequence of Block
        The top-level field, with this leaf only; all of the same rows.

    Examples
    --------
    >>> top, a, b = Field("s", 0, logical_type="struct"), Field("a", 1), Field("b", 2)
    >>> one, other = Structured(2, {}), Structured(2, {}, np.array([2], np.uint8), 1)
    >>> first_disagreement([(top, a), (top, b)], [one, other])
    Disagreement(leaf=1, depth=0, about='nulls', row=0)
    """
    # Leaves below one node follow each other, so that comparing neighbours compares all of them.
    for leaf, ((one, other), pair) in enumerate(
        zip(pairwise(chains), pairwise(blocks), strict=True), start=1
    ):
        depth, num_shared = 0, _num_shared(one, other)
        mine, its = pair
        while depth < num_shared and _are_equal_structs(mine, its):
            mine, its, depth = _child(mine), _child(its), depth + 1
        if depth < num_shared:
            difference = _difference_in_pieces(*pair, num_shared)
            if difference is not None:
                return Disagreement(leaf, *difference)
    return None


def _are_equal_structs(one: Block, other: Block) -> bool:
    """Whether both are structs in one piece that are null in the same rows."""
    if not isinstance(one, Structured) or not isinstance(other, Structured):
        return False
    length, null_count = one.length, one.null_count
    if length != other.length or null_count != other.null_count:
        return False
    if null_count in (0, length):
        return True
    mine, its = (np.frombuffer(b.validity, np.uint8, (length + 7) >> 3) for b in (one, other))  # type: ignore[call-overload]
    # Bits after the last one mean nothing.
    is_last_equal = ((int(mine[-1]) ^ int(its[-1])) << (-length % 8)) & 255 == 0
    return is_last_equal and bool((mine[:-1] == its[:-1]).all())


def _difference_in_pieces(one: Block, other: Block, num_shared: int) -> tuple[int, str, int] | None:
    """Depth, kind and row of the first difference at the first ``num_shared`` depths."""
    above: list[tuple[_Node, ...]] = []
    nodes, others = tuple(_nodes([one])), tuple(_nodes([other]))
    for depth in range(num_shared):
        if depth:
            above.append(nodes)
            nodes, others = tuple(_nodes(map(_child, nodes))), tuple(_nodes(map(_child, others)))
        if not _have_equal_nulls(nodes, others):
            differs = (_masks(nodes) != _masks(others)) & _visible(above)
            if differs.any():
                return depth, "nulls", _row(int(differs.argmax()), above)
        if not _have_equal_lengths(nodes, others):
            # Lists below a null are compared too: their lengths say where the items of later lists begin.
            return depth, "lengths", _row(int((_lengths(nodes) != _lengths(others)).argmax()), above)
    return None


def _num_shared(one: Chain, other: Chain) -> int:
    """Nodes around both leaves."""
    depth = 0
    while depth < min(len(one), len(other)) - 1 and one[depth].id == other[depth].id:
        depth += 1
    return depth


def _nodes(blocks: Iterable[Block]) -> Iterator[_Node]:
    """The blocks without pieces, and without those of no rows."""
    for block in blocks:
        if isinstance(block, Pieces):
            yield from _nodes(block.blocks)
        elif isinstance(block, Structured | Listed | FixedList):
            if block.length:
                yield block
        elif block.length:
            raise TypeError(f"a {type(block).__name__} block has nothing below it")


def _child(node: Block) -> Block:
    if isinstance(node, Structured):
        return next(iter(node.children.values()))
    if isinstance(node, Listed | FixedList):
        return node.child
    raise TypeError(f"a {type(node).__name__} block has nothing below it")


def _have_equal_nulls(nodes: Sequence[_Node], others: Sequence[_Node]) -> bool:
    """Whether as many nodes are null, in the same places."""
    null_count, length = sum(n.null_count for n in nodes), sum(n.length for n in nodes)
    if null_count != sum(n.null_count for n in others) or length != sum(n.length for n in others):
        return False
    return null_count in (0, length) or bool(_validity(nodes).equals(_validity(others)))


def _have_equal_lengths(nodes: Sequence[_Node], others: Sequence[_Node]) -> bool:
    """Whether lists have as many items each."""
    if not nodes or not isinstance(nodes[0], Listed):
        return True
    as_stored = [n.length for n in nodes] == [n.length for n in others]
    return bool(_offsets(nodes, as_stored).equals(_offsets(others, as_stored)))


def _validity(nodes: Sequence[_Node]) -> pa.ChunkedArray:
    chunks = []
    for node in nodes:
        bits = node.validity if node.null_count else _ones((node.length + 7) >> 3)
        chunks.append(pa.Array.from_buffers(pa.bool_(), node.length, [None, pa.py_buffer(bits)], 0))
    return pa.chunked_array(chunks, pa.bool_())


def _ones(nbytes: int) -> NDArray[np.uint8]:
    return _ONES if nbytes <= _ONES.size else np.full(nbytes, 255, np.uint8)


def _offsets(nodes: Sequence[_Node], as_stored: bool) -> pa.ChunkedArray:
    """The offsets of lists, which say their lengths; or the lengths, if pieces have other rows."""
    lists = [node for node in nodes if isinstance(node, Listed)]
    numbers = [stored_offsets(node) if as_stored else np.diff(stored_offsets(node)) for node in lists]
    kind = pa.int64() if lists[0].offset_width == 8 else pa.int32()
    chunks = [pa.Array.from_buffers(kind, found.size, [None, pa.py_buffer(found)], 0) for found in numbers]
    return pa.chunked_array(chunks, kind)


# -- what each says ------------------------------------------------------------------------


def _visible(above: Sequence[Sequence[_Node]]) -> NDArray[np.bool_]:
    """Which values have no null node above them: (num_values,), or one truth value for all if nothing is above."""
    visible: NDArray[np.bool_] = np.ones(1, np.bool_)
    for nodes in above:
        visible = visible & _masks(nodes)
        if isinstance(nodes[0], FixedList):
            visible = visible.repeat(nodes[0].size)
        elif isinstance(nodes[0], Listed):
            visible = visible.repeat(_lengths(nodes))
    return visible


def _masks(nodes: Sequence[_Node]) -> NDArray[np.bool_]:
    """Which nodes are valid."""
    return np.concatenate([_mask(node) for node in nodes])


def _mask(node: _Node) -> NDArray[np.bool_]:
    return mask_of(node.validity, node.length) if node.null_count else np.ones(node.length, np.bool_)


def _lengths(nodes: Sequence[_Node]) -> NDArray[np.int64]:
    return np.concatenate([np.diff(offsets_of(node)) for node in nodes if isinstance(node, Listed)])


def _row(position: int, above: Sequence[Sequence[_Node]]) -> int:
    """The row of a value, from its number among those of its node; ``above`` are the nodes above it."""
    for nodes in reversed(above):
        if isinstance(nodes[0], FixedList):
            position //= nodes[0].size
        elif isinstance(nodes[0], Listed):
            position = int(np.searchsorted(_lengths(nodes).cumsum(), position, side="right"))
    return position
