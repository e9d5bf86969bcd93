"""The columns of an old version as those of a newer one: renamed, added and dropped columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lancecy.records import dataclass
from lancecy.schema import Field, Schema

__all__ = ["OldColumns", "ids_agree", "old_columns"]

# No field of a table has these ids, so that fields with them read as null.
_LARGEST_ID = (1 << 31) - 1


def ids_agree(old: Schema, new: Schema) -> bool:
    """Whether all field ids that two schemas share stand for columns of the same name, and all names for one id.

    Then it does not matter which of the two tells columns apart.

    Parameters
    ----------
    old, new : Schema

    Examples
    --------
    >>> ids_agree(Schema((Field("a", 0),)), Schema((Field("a", 0), Field("b", 1))))
    True
    >>> ids_agree(Schema((Field("a", 0),)), Schema((Field("b", 0),)))
    False
    """
    before = dict(_named(old.fields))
    by_name = {path: number for number, path in before.items()}
    return all(
        before.get(number, path) == path and by_name.get(path, number) == number
        for number, path in _named(new.fields)
    )


def _named(fields: Sequence[Field], above: tuple[str, ...] = ()) -> Iterator[tuple[int, tuple[str, ...]]]:
    for field in fields:
        yield field.id, (*above, field.name)
        yield from _named(field.children, (*above, field.name))


@dataclass(frozen=True)
class OldColumns:
    """The columns of an old version as those of a newer one.

    Attributes
    ----------
    schema : Schema
        Names and order of the newer version, ids of the old one. A column that the old one lacks has an id of no
        file, and reads as null.
    cast : mapping of str to str
        Top-level columns of another type in the old version, which read as null too: what differs.
    """

    schema: Schema
    cast: Mapping[str, str]


def old_columns(old: Schema, new: Schema, same_ids: frozenset[int]) -> OldColumns:
    """The columns of ``old`` as those of ``new``.

    Parameters
    ----------
    old, new : Schema
    same_ids : frozenset of int
        Ids that stand for one column in both. Other columns are found by their names.

    Examples
    --------
    >>> before, after = Schema((Field("a", 0, logical_type="int64"),)), Field("b", 0, logical_type="int64")
    >>> [(field.name, field.id) for field in old_columns(before, Schema((after,)), frozenset({0})).schema.fields]
    [('b', 0)]
    """
    names = _Names(same_ids)
    fields, cast = [], {}
    for field in new.fields:
        try:
            fields.append(names.as_stored(field, old.fields, ()))
        except _TypeChangeError as change:
            cast[field.name] = str(change)
            fields.append(_missing(field))
    return OldColumns(Schema(tuple(fields), new.metadata), cast)


class _TypeChangeError(Exception):
    """A column has another type in the old version."""


@dataclass(frozen=True)
class _Names:
    """Matches fields of two schemas."""

    same_ids: frozenset[int]

    def as_stored(self, field: Field, among: Sequence[Field], above: tuple[str, ...]) -> Field:
        """The field with the ids of its counterpart among some fields of the old version."""
        found = self._counterpart(field, among)
        if found is None:
            return _missing(field)
        path = (*above, field.name)
        if (found.logical_type, found.is_blob) != (field.logical_type, field.is_blob):
            raise _TypeChangeError(f"{'.'.join(path)} was {_type_name(found)} and is {_type_name(field)}")
        # Elements of lists and entries of maps have no names of their own.
        unnamed = not field.is_struct and len(field.children) == len(found.children)
        children = tuple(
            self.as_stored(child, (found.children[place],) if unnamed else found.children, path)
            for place, child in enumerate(field.children)
        )
        nullable = field.nullable or found.nullable
        return replace(found, name=field.name, nullable=nullable, metadata=field.metadata, children=children)

    def _counterpart(self, field: Field, among: Sequence[Field]) -> Field | None:
        if field.id in self.same_ids:
            return next((other for other in among if other.id == field.id), None)
        free = (other for other in among if other.id not in self.same_ids)
        return next((other for other in free if other.name == field.name), None)


def _type_name(field: Field) -> str:
    return "a blob" if field.is_blob else field.logical_type


def _missing(field: Field) -> Field:
    """The field with ids of no file."""
    children = tuple(_missing(child) for child in field.children)
    return replace(field, id=_LARGEST_ID - field.id, nullable=True, children=children)
