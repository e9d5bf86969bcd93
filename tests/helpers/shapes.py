"""Columns of every shape that decides how a 2.x writer encodes them.

``SHAPES`` maps a name to a column: its data, whether its field is nullable, and the field metadata that asks the
writer for something. The builders are in ``shapes_numbers``, ``shapes_text``, ``shapes_nested`` and ``shapes_edges``.
``shapes_recorded.json`` says, per version, which encoding pylance 14.0.2 chooses for each, or that it refuses:
a shape that silently got another encoding would test nothing. ``python -m tests.helpers.shapes`` records anew.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.helpers import shapes_edges, shapes_nested, shapes_numbers, shapes_text
from tests.helpers.shapes_base import Shape

__all__ = [
    "RECORDED",
    "SHAPES",
    "VERSIONS",
    "describe_shape",
    "recorded",
    "shape_table",
    "write_shape",
    "written",
]

VERSIONS = ("2.0", "2.1", "2.2", "2.3")
SHAPES: Mapping[str, Shape] = {
    **shapes_numbers.shapes(),
    **shapes_text.shapes(),
    **shapes_nested.shapes(),
    **shapes_edges.shapes(),
}
RECORDED = Path(__file__).with_name("shapes_recorded.json")


@cache
def recorded() -> dict[str, dict[str, str | None]]:
    """Encodings by shape and version; None where pylance's writer refuses."""
    found: dict[str, dict[str, str | None]] = json.loads(RECORDED.read_text())
    return found


def written() -> list[tuple[str, str]]:
    """(version, shape) of all that pylance can write, and read again itself."""
    pairs = [(version, name) for version in VERSIONS for name in SHAPES]
    return [(v, n) for v, n in pairs if recorded()[n][v] is not None and (n, v) not in UNREADABLE]


UNREADABLE = frozenset({("fsl_struct_list", "2.2"), ("list_fsl_struct_null", "2.3")})
"""Written by pylance 14.0.2, which cannot read them back."""


@cache
def shape_table(name: str) -> pa.Table:
    """Columns ``id`` (row numbers, unless the shape wants to be alone) and ``v`` (the shape)."""
    shape = SHAPES[name]
    column = shape.make(np.random.default_rng(len(name) + sum(name.encode())))
    values = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    field = pa.field("v", values.type, shape.nullable, shape.metadata)
    if shape.alone:
        return pa.table([values], schema=pa.schema([field]))
    start, ids = 0, []
    for chunk in values.chunks:
        ids.append(pa.array(np.arange(start, start + len(chunk))))
        start += len(chunk)
    return pa.table(
        [pa.chunked_array(ids, pa.int64()), values], pa.schema([pa.field("id", pa.int64()), field])
    )


def write_shape(name: str, path: Path | str, version: str, **options: Any) -> Any:
    """Write a shape with pylance; returns its dataset."""
    import lance

    options = {
        "data_storage_version": version,
        "enable_v2_manifest_paths": True,
        "max_rows_per_file": 1 << 20,
        **options,
    }
    return lance.write_dataset(shape_table(name), str(path), **options)


def describe_shape(name: str, root: Path | str) -> str:
    """Encodings of the shape's column in a table that ``write_shape`` wrote."""
    from tests.helpers.layouts import describe_table

    return describe_table(root, skip=0 if SHAPES[name].alone else 1)


def record() -> int:
    """Write every shape in every version and note the encodings; refusals of the writer are noted as null."""
    found: dict[str, dict[str, str | None]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in SHAPES:
            found[name] = {}
            for version in VERSIONS:
                root = Path(scratch) / f"{name}-{version}"
                try:
                    write_shape(name, root, version)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:
                    # Refusals are errors of many kinds, panics of the Rust core among them.
                    print(name, version, str(error).splitlines()[0][:150], file=sys.stderr)
                    found[name][version] = None
                    continue
                found[name][version] = describe_shape(name, root)
    RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(record())
