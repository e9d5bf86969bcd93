"""ZONEMAP: smallest and largest value, nulls and NaNs of each zone.

Source: sheet of indices, section B6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.index.write.base import IndexBuilder, IndexOutput, IndexPart
from lancecy.index.write.order import extremes
from lancecy.index.write.parts import nulls_of
from lancecy.index.write.zones import ZONE_ROWS, Zone, ZoneCutter
from lancecy.index.zones import MAP_FILE, NULLS

__all__ = ["ZoneMapBuilder"]

UInt64: TypeAlias = NDArray[np.uint64]

_COUNTS = {
    "null_count": pa.uint32(),
    "nan_count": pa.uint32(),
    "fragment_id": pa.uint64(),
    "zone_start": pa.uint64(),
    "zone_length": pa.uint64(),
}


class ZoneMapBuilder(IndexBuilder):
    """Builder of a ZONEMAP index.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the values.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._zones = ZoneCutter()
        self._least: list[pa.Array] = []
        self._most: list[pa.Array] = []
        self._counts: list[tuple[int, ...]] = []

    def add(self, values: pa.Array, ids: UInt64) -> None:
        """See ``IndexBuilder.add``; values come in table order."""
        self._describe(self._zones.add(values, ids))

    def add_part(self, part: IndexPart) -> None:
        """See ``IndexBuilder.add_part``."""
        file = part.file(MAP_FILE)
        self._zones.add_nulls(nulls_of(file))
        least, most, *counts = file.read(["min", "max", *_COUNTS])
        if file.num_rows:
            self._least.append(least)
            self._most.append(most)
            self._counts += zip(*(column.to_pylist() for column in counts), strict=True)

    def renumbered(self, fragments: Sequence[int]) -> Self:
        """This builder, after the last values, with other ids of fragments: number n becomes ``fragments[n]``.

        Parameters
        ----------
        fragments : sequence of int
            Ascending.
        """
        self._describe(self._zones.rest())
        self._zones.renumber(fragments)
        self._counts = [(nulls, nans, fragments[n], *place) for nulls, nans, n, *place in self._counts]
        return self

    def write(self, output: IndexOutput) -> None:
        """See ``IndexBuilder.write``."""
        self._describe(self._zones.rest())
        kind = self._kind
        counts = [pa.field(name, number, nullable=False) for name, number in _COUNTS.items()]
        schema = pa.schema([pa.field("min", kind), pa.field("max", kind), *counts])
        file = output.create(MAP_FILE, schema)
        if self._counts:
            columns = zip(*self._counts, strict=True)
            numbers = [
                pa.array(column, number) for column, number in zip(columns, _COUNTS.values(), strict=True)
            ]
            bounds = [pa.concat_arrays(self._least), pa.concat_arrays(self._most)]
            file.write(pa.record_batch([*bounds, *numbers], schema=schema))
        file.add_schema_metadata("rows_per_zone", str(ZONE_ROWS))
        file.add_schema_metadata(NULLS, str(file.add_global_buffer(self._zones.nulls)))
        file.finish()

    def close(self) -> None:
        """See ``IndexBuilder.close``."""

    def _describe(self, zones: Iterable[Zone]) -> None:
        least, most, none = [pa.array([], self._kind)], [pa.array([], self._kind)], pa.nulls(1, self._kind)
        for zone in zones:
            values = zone.values
            if values.null_count == len(values):
                low = high = none
            else:
                low, high = _bounds(values)
            least.append(low)
            most.append(high)
            nans = _num_nans(values)
            self._counts.append((values.null_count, nans, zone.fragment, zone.start, zone.length))
        # Copies, because slices would keep the whole arrays.
        self._least.append(pa.concat_arrays(least))
        self._most.append(pa.concat_arrays(most))


def _bounds(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Smallest and largest value, each as an array."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        found = pc.min_max(values)
        return pa.array([found["min"].as_py()], kind), pa.array([found["max"].as_py()], kind)
    low, high = extremes(values)
    return values.slice(low, 1), values.slice(high, 1)


def _num_nans(values: pa.Array) -> int:
    if not pa.types.is_floating(values.type):
        return 0
    wide = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
    found: int | None = pc.sum(pc.is_nan(wide)).as_py()
    return found or 0
