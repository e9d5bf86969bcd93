"""The schema of a dataset with ids, whose attributes are also the methods that pylance has under their names.

The names, ids and children of fields are values here and methods in pylance. Those of a :class:`LanceSchema` are
values that a call returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import TypeVar, cast

import pyarrow as pa

from lancecy.errors import ColumnNotFoundError
from lancecy.schema import Field, Schema
from lancecy.schema_wire import build_schema, encode_fields
from lancecy.table.operations.maps import CLUSTERING_KEY, mirror_keys
from lancecy.write.schemas import schema_of

__all__ = ["LanceField", "LanceSchema"]

_T_co = TypeVar("_T_co", covariant=True)
_values = attrgetter(*(part.name for part in fields(Field) if part.init))


class _Text(str):
    """Text that is its own method."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


class _Number(int):
    """A number that is its own method."""

    __slots__ = ()

    def __call__(self) -> int:
        return int(self)


class _Position(int):
    """The place in a key, counted from 1, that is its own method; 0 is no place."""

    __slots__ = ()

    def __call__(self) -> int | None:
        return int(self) or None


class _Fields(tuple[_T_co, ...]):
    """Fields that are their own method."""

    __slots__ = ()

    def __call__(self) -> list[_T_co]:
        return list(self)


class LanceField(Field):
    """A field of a :class:`LanceSchema`, equal to the :class:`lancecy.schema.Field` that it shows."""

    name: _Text
    id: _Number
    children: _Fields[LanceField]
    unenforced_primary_key_position: _Position

    @classmethod
    def of(cls, field: Field) -> LanceField:
        """The same field with methods.

        Parameters
        ----------
        field : lancecy.schema.Field
        """
        return field if isinstance(field, cls) else cls(*_values(field))

    def __post_init__(self) -> None:
        super().__post_init__()
        made = {
            "name": _Text(self.name),
            "id": _Number(self.id),
            "children": _Fields(map(LanceField.of, self.children)),
            "unenforced_primary_key_position": _Position(self.unenforced_primary_key_position),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and _values(self) == _values(other)

    __hash__ = Field.__hash__

    def is_unenforced_primary_key(self) -> bool:
        """Whether this is a column of the key that ``merge_insert`` takes by default."""
        return self.unenforced_primary_key

    def unenforced_clustering_key_position(self) -> int | None:
        """Place among the columns by which rows are clustered, counted from 1; None also for what is no number."""
        text = self.metadata.get(f"{CLUSTERING_KEY}:position", b"")
        # As in pylance: unsigned, of 32 bits.
        found = int(text) if re.fullmatch(rb"\+?[0-9]{1,20}", text) else 0
        return found if 0 < found < 1 << 32 else None

    def is_unenforced_clustering_key(self) -> bool:
        """Whether rows are clustered by this column."""
        return self.unenforced_clustering_key_position() is not None

    def to_arrow(self) -> pa.Field:
        """``arrow_field``, under pylance's name."""
        return self.arrow_field


class LanceSchema(Schema):
    """The columns of a table with their ids, under the names of lancecy and of pylance.

    Examples
    --------
    >>> import lancecy
    >>> schema = lancecy.dataset("example.lance").lance_schema
    >>> [field.name for field in schema.fields] == [field.name() for field in schema.fields()]
    True
    >>> schema.field("id").id, schema.field("id").id()
    (0, 0)
    """

    fields: _Fields[LanceField]

    def __init__(self, fields: Iterable[Field] = (), metadata: Mapping[str, bytes] | None = None) -> None:
        super().__init__(_Fields(map(LanceField.of, fields)), metadata or {})

    @classmethod
    def of(cls, schema: Schema) -> LanceSchema:
        """The same schema with methods.

        Parameters
        ----------
        schema : lancecy.schema.Schema
        """
        return cls(schema.fields, schema.metadata)

    @classmethod
    def from_pyarrow(cls, schema: pa.Schema) -> LanceSchema:
        """The schema of a new table: ids count from 0, parents before their children.

        Parameters
        ----------
        schema : pyarrow.Schema
        """
        made = schema_of(schema)
        messages = encode_fields(made.fields)
        for message in messages:
            mirror_keys(message)
        return cls.of(build_schema(messages, made.metadata))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and (self.fields, self.metadata) == (other.fields, other.metadata)

    __hash__ = Schema.__hash__

    def field(self, name: str) -> LanceField:
        """The field of this name; members of structs as ``"a.b"``.

        Parameters
        ----------
        name : str

        Raises
        ------
        ColumnNotFoundError
            There is none; the message lists similar names.
        """
        if name not in self._by_name and ("." in name or "`" in name):
            return cast(LanceField, self.path(self.resolve(name))[-1])
        return cast(LanceField, super().field(name))

    def field_case_insensitive(self, name: str) -> LanceField | None:
        """The field of this name, or the only one that differs from it in case; None if there is none.

        Parameters
        ----------
        name : str
        """
        try:
            return cast(LanceField, self.path(self.resolve_any_case(name))[-1])
        except ColumnNotFoundError:
            return None

    def unenforced_primary_key(self) -> list[LanceField]:
        """The columns of the key that ``merge_insert`` takes by default; those with a position come first."""
        found = [field for field in self.fields if field.unenforced_primary_key]
        return sorted(found, key=lambda field: field.unenforced_primary_key_position or len(found) + field.id)

    def unenforced_clustering_key(self) -> list[LanceField]:
        """The columns by which rows are clustered, in the order of their positions."""
        found = [field for field in self.fields if field.is_unenforced_clustering_key()]
        return sorted(found, key=lambda field: field.unenforced_clustering_key_position() or 0)
