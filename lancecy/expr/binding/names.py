"""Resolution of column names to paths in a schema.

A name is first looked up unchanged among the top-level columns, with its dots; then its dots separate fields of
structs. Backquotes around a part keep the dots in it. Unquoted names in SQL text may differ in case where
exactly one column fits, as in pylance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pyarrow as pa

from lancecy.errors import ColumnNotFoundError, ExpressionError, printable
from lancecy.expr.kinds import family
from lancecy.schema import split_name

__all__ = ["Names"]

_MOST_NAMES = 10_000


class Names:
    """The names of one schema.

    Attributes
    ----------
    positions : dict of str to int
        Top-level columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.positions: dict[str, int] = {name: index for index, name in enumerate(schema.names)}
        self.unique = len(self.positions) == len(schema)

    def resolve(self, path: Sequence[str], exact: bool) -> tuple[tuple[str, ...], pa.DataType]:
        """Find the path of fields and the type of the last one.

        Parameters
        ----------
        path : sequence of str
            As written; a single name may contain dots, several names are nested fields.
        exact : bool
            Whether case matters.

        Raises
        ------
        ColumnNotFoundError
            The message has the nearest names.
        ExpressionError
            Two columns have the name.
        """
        written = ".".join(path)
        readings = (
            [list(path), [written], split_name(written)]
            if len(path) > 1
            else [list(path), split_name(written)]
        )
        for fold in (False,) if exact else (False, True):
            for reading in readings:
                found = self._walk(reading, fold)
                if found is not None:
                    return found
        raise ColumnNotFoundError(written, self._known(written))

    def _walk(self, parts: Sequence[str], fold: bool) -> tuple[tuple[str, ...], pa.DataType] | None:
        place = _pick(self.schema.names, self.positions, parts[0], fold)
        if place is None:
            return None
        if not self.unique and self.schema.names.count(self.schema.names[place]) > 1:
            raise ExpressionError(f"the schema has more than one column {printable(parts[0])!r}")
        field = self.schema.field(place)
        path = [field.name]
        for part in parts[1:]:
            if family(field.type) != "struct":
                return None
            children = [field.type.field(i) for i in range(field.type.num_fields)]
            positions = {child.name: i for i, child in enumerate(children)}
            place = _pick([c.name for c in children], positions, part, fold)
            if place is None:
                return None
            field = children[place]
            path.append(field.name)
        return tuple(path), field.type

    def _known(self, written: str) -> list[str]:
        """Names for the error; nested names only if a nested name was asked for."""
        if "." not in written:
            return list(self.positions)[:_MOST_NAMES]
        fields = (self.schema.field(i) for i in self.positions.values())
        return list(islice(_nested(fields), _MOST_NAMES))


def _pick(names: Iterable[str], positions: dict[str, int], wanted: str, fold: bool) -> int | None:
    if not fold:
        return positions.get(wanted)
    alike = [index for index, name in enumerate(names) if name.lower() == wanted.lower()]
    return alike[0] if len(alike) == 1 else None


def _nested(fields: Iterable[pa.Field]) -> Iterator[str]:
    stack = [(f.name, f.type) for f in fields][::-1]
    while stack:
        name, data_type = stack.pop()
        yield name
        if family(data_type) == "struct":
            children = [data_type.field(i) for i in range(data_type.num_fields)]
            stack += [(f"{name}.{child.name}", child.type) for child in reversed(children)]
