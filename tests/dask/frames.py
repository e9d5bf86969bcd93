"""Arrow tables for the Dask tests, and the way back from a frame to one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from lancecy.interop.casts import cast_batch
from tests.helpers.tables import all_types, all_types_table

__all__ = ["cut_frame", "every_type", "from_frame", "plain_type"]


def every_type(rows: int, *, nulls: float = 0.2) -> pa.Table:
    """Every type a Lance table can hold, and some that only other Arrow tables have; ``row`` counts, ``group`` is ``row % 7``."""
    table = all_types_table(rows, nulls=nulls, types=all_types())
    rng = np.random.default_rng(11)
    words = pa.array([f"word {i}" if i % 5 else None for i in range(rows)])
    pairs = [[(f"k{j}", j) for j in range(i % 3)] if i % 7 else None for i in range(rows)]
    more = {
        "map": pa.array(pairs, pa.map_(pa.string(), pa.int32())),
        "string_view": words.cast(pa.string_view()),
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), _fixed(rng, rows, 16)),
        "tensor": pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.float32(), [2, 2]),
            pa.FixedSizeListArray.from_arrays(rng.random(rows * 4, np.float32), 4),
        ),
        "odd_names": pa.array([{"a: b": i, "<c>": None} for i in range(rows)], _odd_struct()),
    }
    columns = {**dict(zip(table.column_names, table.columns, strict=True)), **more}
    columns |= {"row": pa.array(range(rows)), "group": pa.array([i % 7 for i in range(rows)])}
    return pa.table(columns)


def _odd_struct() -> pa.DataType:
    return pa.struct(
        [pa.field("a: b", pa.int64(), False), pa.field("<c>", pa.float32(), metadata={"unit": "m"})]
    )


def _fixed(rng: np.random.Generator, rows: int, width: int) -> pa.Array:
    raw = rng.integers(0, 256, rows * width).astype(np.uint8).tobytes()
    return pa.array([raw[i * width : (i + 1) * width] for i in range(rows)], pa.binary(width))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """What a frame keeps of a type: storage of extension types, no views."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return pa.string() if pa.types.is_string_view(kind) else kind


def from_frame(frame: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    """The frame's columns as Arrow, in the types of the schema; dictionaries made anew."""
    kept = pa.schema([f.with_type(plain_type(f.type)) for f in schema])
    return pa.Table.from_arrays([_typed(pa.array(frame[f.name].array), f.type) for f in kept], schema=kept)


def _typed(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    found = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if found.type == kind:
        return found
    schema = pa.schema([("", kind)])
    batches = [cast_batch(pa.record_batch([chunk], names=[""]), schema) for chunk in found.chunks]
    return pa.Table.from_batches(batches, schema).column(0)


class cut_frame:
    """``cut_frame(frame, parts)[i]`` is one of ``parts`` equal slices; pickles, for ``from_map``."""

    def __init__(self, frame: pd.DataFrame, parts: int) -> None:
        self.frame = frame
        self.size = -(-len(frame) // parts)

    def __call__(self, part: int) -> Any:
        return self.frame.iloc[part * self.size : (part + 1) * self.size]
