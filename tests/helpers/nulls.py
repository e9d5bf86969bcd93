"""Nulls read without their values, held against nulls of the values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lancecy
from lancecy.encodings.arrow.columns import ArrowArray, as_array, storage_of
from lancecy.rows import RowSelection
from lancecy.scanning.fragment import FragmentFiles
from lancecy.schema import Field
from lancecy.session import default

__all__ = ["assert_nulls_alone"]


def assert_nulls_alone(dataset: lancecy.Dataset) -> int:
    """Fail unless every column, and every child of a struct, has the same nulls read with values and without.

    For all rows, some, a range and the last one of each fragment. Gives how many columns were compared.
    """
    context, compared = dataset.context, 0
    for fragment in context.fragments:
        files = FragmentFiles.open(context.snapshot, fragment, default())
        if not files.tells_nulls:
            continue
        for top in context.snapshot.schema.fields:
            for chain in _below(top.scanned):
                for rows in _selections(files.num_rows):
                    _assert_same_nulls(files, chain, rows)
                compared += 1
    return compared


def _below(field: Field) -> Iterator[tuple[Field, ...]]:
    yield (field,)
    if field.is_struct:
        yield from ((field, *chain) for child in field.children for chain in _below(child))


def _selections(num_rows: int) -> list[RowSelection]:
    some = np.unique(np.random.default_rng(num_rows).integers(0, num_rows, 40))
    middle = RowSelection.range(num_rows, num_rows // 3, num_rows - num_rows // 4)
    return [RowSelection.all(num_rows), RowSelection.take(num_rows, some), middle]


def _assert_same_nulls(files: FragmentFiles, chain: tuple[Field, ...], rows: RowSelection) -> None:
    node = chain[-1]
    wanted = chain[0].pruned(node.ids) or chain[0]
    (values,) = files.read([wanted], rows, default())
    (stubs,) = files.read([wanted], rows, default(), {wanted: frozenset({node.id})})
    where = ".".join(field.name for field in chain)
    assert len(stubs) == len(rows), where
    assert _nulls(stubs, chain).equals(_nulls(values, chain)), f"{where} of {len(rows)} rows"


def _nulls(column: ArrowArray, chain: tuple[Field, ...]) -> pa.BooleanArray:
    for field in chain[1:]:
        column = pc.struct_field(storage_of(column), [field.name])
    return as_array(pc.is_null(column))
