"""The physical columns of a 2.x file that hold a field.

The manifest lists the field ids of the file, each with the number of a column. In 2.0 every node of a schema
has a column, lists and structs included; from 2.1 on only leaves have one. In all versions a node may hold
everything below it in its own column: packed structs, fixed-size lists of structs (2.0), descriptors of blobs.
Fields below such a node are not listed.

Source: file sheet 2.0, section 3; file sheet 2.1, section 1.5; and what pylance 14 writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field as attribute
from dataclasses import replace
from functools import cached_property, lru_cache

from lancecy.encodings.arrow.assemble import pruned
from lancecy.errors import FormatError, printable
from lancecy.records import dataclass
from lancecy.schema import Field

__all__ = ["FieldColumns", "Leaf", "Placed", "column_numbers", "field_columns", "fields_with_column"]


def column_numbers(field_ids: Sequence[int], column_indices: Sequence[int]) -> dict[int, int]:
    """Column numbers of the fields that have a column of their own.

    Parameters
    ----------
    field_ids : sequence of int
        As in the manifest; negative ones are tombstones.
    column_indices : sequence of int
        Parallel to them; negative ones mean "no column of its own".

    Raises
    ------
    FormatError
        The lists differ in length, a field is listed twice, or two fields share a column.

    Examples
    --------
    >>> column_numbers([3, -2, 4, 5], [0, 1, -1, 2])
    {3: 0, 5: 2}
    """
    if len(field_ids) != len(column_indices):
        raise FormatError(f"the manifest names {len(field_ids)} fields and {len(column_indices)} columns")
    present = [field_id for field_id in field_ids if field_id >= 0]
    if len(set(present)) < len(present):
        raise FormatError("the manifest names a field of this file twice")
    pairs = zip(field_ids, column_indices, strict=True)
    found = {field_id: column for field_id, column in pairs if field_id >= 0 and column >= 0}
    if len(set(found.values())) < len(found):
        raise FormatError("the manifest names a column of this file twice")
    return found


def fields_with_column(field: Field, version: tuple[int, int]) -> Iterator[Field]:
    """Yield the nodes of a field that have a column in files written here, depth first.

    These are the leaves, in 2.0 also the nodes around them; none is below one that holds its children.

    Parameters
    ----------
    field : Field
    version : (major, minor)

    Examples
    --------
    >>> [node.name for node in fields_with_column(Field("a", 0, logical_type="int64"), (2, 1))]
    ['a']
    """
    is_last = not field.children or field.is_whole
    if is_last or version == (2, 0):
        yield field
    if not is_last:
        for child in field.children:
            yield from fields_with_column(child, version) if child.children else (child,)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A node whose column holds none of its parents' values (2.1 and later).

    Attributes
    ----------
    chain : tuple of Field
        From the top-level field down to the node, which has all its children in the file.
    part : Field
        The requested top-level field, pruned to this leaf.
    column : int
    """

    chain: tuple[Field, ...]
    part: Field
    column: int


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """One top-level field and its columns, the same in all files with the same columns.

    Attributes
    ----------
    whole : Field
        From ``FieldColumns.restored``.
    numbers : dict of field id to column number
        Of the nodes with a column of their own.
    packed : frozenset of int
        Ids of the nodes whose column holds everything below them.
    """

    whole: Field
    numbers: dict[int, int]
    packed: frozenset[int]


@lru_cache(maxsize=256)
def field_columns(
    field_ids: tuple[int, ...], column_indices: tuple[int, ...], fields: tuple[Field, ...]
) -> FieldColumns:
    """The fields of a file by their entry in the manifest; files with the same entry share them.

    Parameters
    ----------
    field_ids, column_indices : tuples of int
        As in the manifest.
    fields : tuple of Field
        Top level of the table's schema.

    Raises
    ------
    FormatError
        See :func:`column_numbers`.
    """
    listed = frozenset(field_id for field_id in field_ids if field_id >= 0)
    return FieldColumns(column_numbers(field_ids, column_indices), listed, fields)


@lru_cache(maxsize=4096)
def leaf_form(chains: tuple[tuple[Field, ...], ...]) -> object:
    """One object for equal leaves, whatever their columns."""
    return object()


_MOST_PLACED = 4096


@dataclass(frozen=True, eq=False)
class FieldColumns:
    """Fields of one file and their columns.

    Attributes
    ----------
    numbers : mapping of field id to column number
    listed : frozenset of int
        Ids in the manifest's list.
    fields : tuple of Field
        Top level of the table's schema.
    """

    numbers: Mapping[int, int]
    listed: frozenset[int]
    fields: tuple[Field, ...]
    _placed: dict[Field, Placed] = attribute(default_factory=dict, repr=False)
    _leaves: dict[tuple[Field, Field], tuple[tuple[Leaf, ...], object]] = attribute(
        default_factory=dict, repr=False
    )

    @cached_property
    def last_column(self) -> int:
        """The highest column number, -1 without columns."""
        return max(self.numbers.values(), default=-1)

    def placed(self, field: Field) -> Placed:
        """A (pruned) top-level field and its columns."""
        found = self._placed.get(field)
        if found is None:
            whole = self.restored(field)
            nodes = [node for node in whole.walk() if node.id in self.numbers]
            numbers = {node.id: self.numbers[node.id] for node in nodes}
            packed = frozenset(node.id for node in nodes if node.children and self.holds_all(node))
            if len(self._placed) >= _MOST_PLACED:
                self._placed.clear()
            found = self._placed[field] = Placed(whole, numbers, packed)
        return found

    @cached_property
    def ids(self) -> frozenset[int]:
        """Ids of all fields whose values the file holds."""
        below = [node.id for top in self.fields for node in self._hidden(top)]
        return self.listed.union(below) if below else self.listed

    def _hidden(self, top: Field) -> Iterator[Field]:
        """Yield everything below nodes that hold it all in their own column."""
        if not top.children:
            return
        for node in top.walk():
            if node.children and self.holds_all(node):
                yield from (below for child in node.children for below in child.walk())

    def holds_all(self, node: Field) -> bool:
        """Whether the column of this node also holds everything below it."""
        others = self.numbers.keys() - {node.id}
        if node.id not in self.numbers or not node.ids.isdisjoint(others):
            return False
        # All children of a struct may be in other files. Children listed without a column are in the struct's own.
        is_packed = node.is_said_packed or node.is_blob or node.is_fixed_list
        return is_packed or not self.listed.isdisjoint(node.ids - {node.id})

    @cached_property
    def _whole(self) -> dict[int, Field]:
        return {top.id: top for top in self.fields}

    def restored(self, field: Field) -> Field:
        """The (pruned) field; nodes with everything below them in one column get all children back.

        Blobs are as in ``Field.scanned``, unless they are requested as bytes.
        """
        whole = self._whole.get(field.id)
        return field if whole is None else self._restored(field, whole)

    def _restored(self, field: Field, whole: Field) -> Field:
        if not field.children:
            return field
        if whole.is_blob:
            return whole.scanned
        if self.holds_all(whole):
            return whole
        by_id = {child.id: child for child in whole.children}
        children = tuple(
            self._restored(child, by_id[child.id]) if child.id in by_id else child for child in field.children
        )
        return field if children == field.children else replace(field, children=children)

    def leaves(self, field: Field, whole: Field) -> tuple[tuple[Leaf, ...], object]:
        """The leaves of a top-level field, depth first, and an object that fields with equal leaves share.

        Parameters
        ----------
        field : Field
            The requested field.
        whole : Field
            The same field from ``restored``.

        Raises
        ------
        FormatError
            Part of the field has no column in this file.
        """
        found = self._leaves.get((field, whole))
        if found is None:
            leaves = tuple(self._leaves_below((whole,), field))
            found = leaves, leaf_form(tuple(leaf.chain for leaf in leaves))
            if len(self._leaves) >= _MOST_PLACED:
                self._leaves.clear()
            self._leaves[field, whole] = found
        return found

    def _leaves_below(self, chain: tuple[Field, ...], asked: Field) -> Iterator[Leaf]:
        node = chain[-1]
        column = self.numbers.get(node.id)
        if column is not None:
            part = pruned(asked, node.ids)
            yield Leaf(chain, asked if part is None else part, column)
        elif node.children:
            for child in node.children:
                yield from self._leaves_below((*chain, child), asked)
        else:
            raise FormatError(f"field {node.id} {printable(node.name)!r} has no column in this file")
