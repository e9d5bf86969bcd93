"""The types of scalar indices: their names, what their entries say, and which columns they take.

Source: sheet of indices, sections B1.1, B1.2 and B1.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from lancecy.index.write.base import IndexBuilder
from lancecy.index.write.bitmap import BitmapBuilder
from lancecy.index.write.bloom_filter import BloomFilterBuilder
from lancecy.index.write.btree import BTreeBuilder
from lancecy.index.write.label_list import LabelListBuilder
from lancecy.index.write.zonemap import ZoneMapBuilder
from lancecy.index.write.zones import ZONE_ROWS
from lancecy.records import dataclass

__all__ = ["INDEX_TYPES", "IndexType", "title_of"]

TypeTest: TypeAlias = Callable[[pa.DataType], bool]


def _no_details(kind: pa.DataType) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class IndexType:
    """A type of index that is written.

    Attributes
    ----------
    name : str
        As given to ``create_scalar_index``.
    title : str
        As ``list_indices`` shows it.
    details_type : str
        Full name of the message of its details.
    builder : function of a pyarrow.DataType
        Makes the builder for values of that type.
    takes : function of a pyarrow.DataType
        Whether it is made of columns of that type.
    columns : str
        Those columns, for messages.
    details : function of a pyarrow.DataType
        The message of its details.
    has_row_ids : bool
        Whether it names rows by their stable row ids where the table has these, and not by their addresses.
    version : int
        Version of its layout, in tables without stable row ids.
    stable_version : int
        The same, in tables with stable row ids.
    """

    name: str
    title: str
    details_type: str
    builder: Callable[[pa.DataType], IndexBuilder]
    takes: TypeTest
    columns: str
    details: Callable[[pa.DataType], bytes] = _no_details
    has_row_ids: bool = False
    version: int = 0
    stable_version: int = 0

    def version_for(self, has_stable_row_ids: bool) -> int:
        """Version of its layout.

        Parameters
        ----------
        has_stable_row_ids : bool
            Whether the table has stable row ids.
        """
        return self.stable_version if has_stable_row_ids else self.version


def _is_scalar(kind: pa.DataType) -> bool:
    types = pa.types
    is_bytes = types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind)
    is_bytes |= types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return bool(is_bytes or types.is_primitive(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _is_hashed(kind: pa.DataType) -> bool:
    types = pa.types
    is_other = types.is_float16(kind) or types.is_decimal(kind) or types.is_duration(kind)
    is_other |= types.is_boolean(kind) or types.is_fixed_size_binary(kind)
    return _is_scalar(kind) and not is_other


def _is_list_of_scalars(kind: pa.DataType) -> bool:
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_scalar(kind.value_type)


def _zone_details(kind: pa.DataType) -> bytes:
    """``{1: rows of a zone, 2: 0 or 1 by the type, 3: 1}``, as the reference implementation writes it."""
    types = pa.types
    is_second = types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)
    is_second |= types.is_large_binary(kind) or types.is_decimal128(kind)
    rows = bytes((ZONE_ROWS & 0x7F | 0x80, ZONE_ROWS >> 7))
    return b"\x08" + rows + bytes((0x10, is_second, 0x18, 1))


_SCALARS = "numbers, booleans, strings, binary values, decimals, dates, times or durations"

INDEX_TYPES: dict[str, IndexType] = {
    each.name: each
    for each in (
        IndexType(
            "BTREE",
            "BTree",
            "lance.table.BTreeIndexDetails",
            BTreeBuilder,
            _is_scalar,
            _SCALARS,
            stable_version=1,
        ),
        IndexType(
            "BITMAP",
            "Bitmap",
            "lance.table.BitmapIndexDetails",
            BitmapBuilder,
            _is_scalar,
            _SCALARS,
            has_row_ids=True,
        ),
        IndexType(
            "LABEL_LIST",
            "LabelList",
            "lance.table.LabelListIndexDetails",
            LabelListBuilder,
            _is_list_of_scalars,
            f"lists of {_SCALARS}",
            has_row_ids=True,
            version=1,
            stable_version=1,
        ),
        IndexType(
            "ZONEMAP",
            "ZoneMap",
            "lance.table.ZoneMapIndexDetails",
            ZoneMapBuilder,
            _is_scalar,
            _SCALARS,
            details=_zone_details,
        ),
        IndexType(
            "BLOOMFILTER",
            "BloomFilter",
            "lance.index.pb.BloomFilterIndexDetails",
            BloomFilterBuilder,
            _is_hashed,
            "integers, floats of 32 or 64 bits, strings, binary values, dates or times",
        ),
    )
}
"""Types of indices by name."""

_TITLES = {
    "BTreeIndexDetails": "BTree",
    "BitmapIndexDetails": "Bitmap",
    "LabelListIndexDetails": "LabelList",
    "ZoneMapIndexDetails": "ZoneMap",
    "BloomFilterIndexDetails": "BloomFilter",
    "NGramIndexDetails": "NGram",
    "InvertedIndexDetails": "Inverted",
    "VectorIndexDetails": "Vector",
    "FragmentReuseIndexDetails": "FragmentReuse",
    "MemWalIndexDetails": "MemWal",
}


def title_of(details_type: str) -> str:
    """The name of a type of index for people, "Unknown" for others.

    Parameters
    ----------
    details_type : str
        Full name of the message of its details.

    Examples
    --------
    >>> title_of("lance.table.BTreeIndexDetails")
    'BTree'
    """
    return _TITLES.get(details_type.rpartition(".")[2], "Unknown")
