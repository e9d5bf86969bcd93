"""ZONEMAP: smallest and largest value, nulls and NaNs of each zone.

Source: sheet of indices, section B6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import values_of
from lancecy.index.row_sets import decode_row_set
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
    rows_per_zone : int
    """

    def __init__(self, kind: pa.DataType, rows_per_zone: int = ZONE_ROWS) -> None:
        self._kind = kind
        self._rows_per_zone = rows_per_zone
        self._zones = ZoneCutter(rows_per_zone)
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

    def packed(self) -> bytes:
        """All zones and nulls, for :meth:`add_packed` of another builder."""
        zones = self._table()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, zones.schema.with_metadata({NULLS: self._zones.nulls})) as stream:
            stream.write_batch(zones)
        return bytes(sink.getvalue())

    def add_packed(self, data: bytes, fragments: Sequence[int]) -> None:
        """Take the zones of another builder, with other ids of fragments: number n becomes ``fragments[n]``.

        Parameters
        ----------
        data : bytes
            From :meth:`packed`.
        fragments : sequence of int
        """
        with pa.ipc.open_stream(data) as stream:
            zones, nulls = stream.read_next_batch(), stream.schema.metadata[NULLS.encode()]
        least, most, *counts = zones.columns
        self._least.append(least)
        self._most.append(most)
        for nulls_of_zone, nans, number, *place in zip(*(c.to_pylist() for c in counts), strict=True):
            self._counts.append((nulls_of_zone, nans, fragments[number], *place))
        for number, rows in decode_row_set(np.frombuffer(nulls, np.uint8)):
            if rows is not None:
                self._zones.add_nulls(rows.astype(np.uint64) | np.uint64(fragments[number] << 32))

    def write(self, output: IndexOutput) -> None:
        """See ``IndexBuilder.write``."""
        zones = self._table()
        file = output.create(MAP_FILE, zones.schema)
        if zones.num_rows:
            file.write(zones)
        file.add_schema_metadata("rows_per_zone", str(self._rows_per_zone))
        file.add_schema_metadata(NULLS, str(file.add_global_buffer(self._zones.nulls)))
        file.finish()

    def close(self) -> None:
        """See ``IndexBuilder.close``."""

    def _table(self) -> pa.RecordBatch:
        """All zones, after the last values."""
        self._describe(self._zones.rest())
        counts = [pa.field(name, kind, nullable=False) for name, kind in _COUNTS.items()]
        schema = pa.schema([pa.field("min", self._kind), pa.field("max", self._kind), *counts])
        columns = zip(*self._counts, strict=True) if self._counts else [()] * len(_COUNTS)
        numbers = [values_of(column, kind) for column, kind in zip(columns, _COUNTS.values(), strict=True)]
        none = pa.nulls(0, self._kind)
        bounds = [pa.concat_arrays([none, *found]) for found in (self._least, self._most)]
        return pa.record_batch([*bounds, *numbers], schema=schema)

    def _describe(self, zones: Iterable[Zone]) -> None:
        least, most, none = [pa.nulls(0, self._kind)], [pa.nulls(0, self._kind)], pa.nulls(1, self._kind)
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
        return values_of([found["min"].as_py()], kind), values_of([found["max"].as_py()], kind)
    low, high = extremes(values)
    return values.slice(low, 1), values.slice(high, 1)


def _num_nans(values: pa.Array) -> int:
    if not pa.types.is_floating(values.type):
        return 0
    wide = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
    found: int | None = pc.sum(pc.is_nan(wide)).as_py()
    return found or 0
