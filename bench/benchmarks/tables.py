"""The two tables of the benchmarks, and the comparison of results.

``scalars``: seven columns of the usual kinds; ``vectors``: ids, captions and float32 embeddings.
Both come from a seeded generator, so every engine on every machine sees the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["MAKERS", "cached", "fingerprint", "scalars", "vectors", "write_ipc", "write_lance"]

DIMENSION = 768
ROWS_PER_FILE = 1 << 20
IPC_BATCH_ROWS = 1 << 17


def scalars(rows: int) -> pa.Table:
    """``rows`` x 7: sorted int64 and timestamp, float64, int32 of 1,000 values, dictionary, string, bool."""
    random = np.random.default_rng(7)
    ordinal = np.arange(rows, dtype=np.int64)
    syllables = np.array([f"w{n:05d}" for n in range(5000)])
    values = random.standard_normal(rows)
    keys = random.integers(0, 1000, rows, dtype=np.int32)
    codes = random.integers(0, 100, rows, dtype=np.int8)
    words = np.char.add(syllables[random.integers(0, 5000, rows)], syllables[random.integers(0, 5000, rows)])
    return pa.table(
        {
            "id": ordinal,
            "ts": pa.array(ordinal * 1000, pa.timestamp("us")),
            "x": values,
            "k": keys,
            "cat": pa.DictionaryArray.from_arrays(codes, pa.array([f"cat-{n:02d}" for n in range(100)])),
            "s": pa.array(words),
            "flag": random.random(rows) < 0.5,
        }
    )


def vectors(rows: int, dimension: int = DIMENSION) -> pa.Table:
    """``rows`` ids, captions of about 70 bytes, and vectors of ``dimension`` float32."""
    flat = np.random.default_rng(8).standard_normal(rows * dimension, dtype=np.float32)
    sentence = "a caption for row number {} with some more words in it to be realistic"
    return pa.table(
        {
            "id": np.arange(rows, dtype=np.int64),
            "caption": [sentence.format(n) for n in range(rows)],
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(flat), dimension),
        }
    )


MAKERS: dict[str, Callable[[int], pa.Table]] = {"scalars": scalars, "vectors": vectors}


def write_lance(table: pa.Table, path: Path, version: Any = "legacy") -> None:
    """Write with pylance, default row groups of 1,024."""
    import lance

    lance.write_dataset(table, str(path), data_storage_version=version, max_rows_per_file=ROWS_PER_FILE)


def write_ipc(table: pa.Table, path: Path) -> None:
    """Write one uncompressed Arrow IPC file, to be memory-mapped."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=IPC_BATCH_ROWS)


def cached(folder: Path, kind: str, rows: int, form: str) -> Path:
    """Path of a table, written on first use; ``form`` is ``ipc`` or a storage version of pylance."""
    path = folder / f"{kind}-{rows}.{form}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial_path = path.with_suffix(path.suffix + ".partial")
        write = write_ipc if form == "ipc" else partial(write_lance, version=form)
        write(MAKERS[kind](rows), partial_path)
        partial_path.rename(path)
    return path


def _total(column: pa.ChunkedArray) -> Any:
    """One number that depends on every value of a column, so that every byte must be read."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        total = 0
        for chunk in column.chunks:
            sizes = np.array([len(word) for word in chunk.dictionary.to_pylist()])
            total += int(sizes[np.asarray(chunk.indices)].sum())
        return total
    if pa.types.is_fixed_size_list(kind):
        return round(
            sum(float(np.asarray(chunk.flatten()).sum(dtype=np.float64)) for chunk in column.chunks), 1
        )
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.sum(pc.binary_length(column)).as_py()
    total = pc.sum(column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column).as_py()
    return round(total, 3) if isinstance(total, float) else total


def fingerprint(table: pa.Table) -> tuple[Any, ...]:
    """Row count and one total per column; equal for equal tables, whatever their chunks."""
    return (table.num_rows, *(_total(column) for column in table.columns))
