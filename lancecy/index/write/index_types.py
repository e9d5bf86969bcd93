"""The types of scalar indices: their names, what their entries say, and which columns they take.

Source: sheet of indices, sections B1.1, B1.2 and B1.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from inspect import signature
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from lancecy.errors import IndexTypeError
from lancecy.index.bounds import indexed_type
from lancecy.index.write.base import IndexBuilder
from lancecy.index.write.bitmap import BitmapBuilder
from lancecy.index.write.bloom_filter import PROBABILITY, BloomFilterBuilder
from lancecy.index.write.btree import BTreeBuilder
from lancecy.index.write.label_list import LabelListBuilder
from lancecy.index.write.zonemap import ZoneMapBuilder
from lancecy.index.write.zones import ZONE_ROWS
from lancecy.keyword_options import whole_number
from lancecy.records import dataclass

__all__ = ["INDEX_TYPES", "IndexConfig", "IndexKind", "IndexType", "configured", "title_of", "with_details"]

_MOST_ROWS = 1 << 20
"""Of a zone, whose values are in memory while it is made."""


class HasParameters(Protocol):
    """A type of index with parameters: :class:`IndexConfig`, or pylance's class of that name."""

    @property
    def index_type(self) -> str:
        """Name of the type."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Values by name."""


IndexKind: TypeAlias = "str | HasParameters"
"""The name of a type of index, or an :class:`IndexConfig`."""

TypeTest: TypeAlias = Callable[[pa.DataType], bool]


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """A type of index with its parameters, for ``create_scalar_index``.

    Attributes
    ----------
    index_type : str
        "btree", "bitmap", "labellist", "zonemap" or "bloomfilter", in any case.
    parameters : mapping
        ``rows_per_zone`` of a zone map (8192). ``number_of_items`` of a Bloom filter (8192), the rows of a zone, and
        ``probability`` (0.00057), the share of zones that are read in vain. ``zone_size`` of a B-tree is ignored.

    Examples
    --------
    >>> import lancecy
    >>> ds = lancecy.write_dataset({"n": range(9000)}, "memory://doc-index-config")
    >>> ds.create_scalar_index("n", lancecy.IndexConfig("zonemap", {"rows_per_zone": 1000}))
    >>> ds.index_statistics("n_idx")["indices"]
    [{'num_zones': 9, 'rows_per_zone': 1000}]
    """

    index_type: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


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
    holds : function of a pyarrow.DataType
        Whether it is made of values of that type.
    columns : str
        Those values, for messages.
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
    holds: TypeTest
    columns: str
    details: Callable[[pa.DataType], bytes] = _no_details
    has_row_ids: bool = False
    version: int = 0
    stable_version: int = 0

    def takes(self, data_type: pa.DataType) -> bool:
        """Whether it is made of columns of a type.

        Parameters
        ----------
        data_type : pyarrow.DataType
            Of the column, which may be an extension type.
        """
        return self.holds(indexed_type(data_type))

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


def _zone_details(kind: pa.DataType, rows_per_zone: int = ZONE_ROWS) -> bytes:
    """``{1: rows of a zone, 2: 0 or 1 by the type, 3: 1}``, as the reference implementation writes it."""
    types = pa.types
    is_second = types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)
    is_second |= types.is_large_binary(kind) or types.is_decimal128(kind)
    return b"\x08" + _varint(rows_per_zone) + bytes((0x10, is_second, 0x18, 1))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


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


def _zone_map(rows_per_zone: int = ZONE_ROWS) -> IndexType:
    return replace(
        INDEX_TYPES["ZONEMAP"],
        builder=partial(ZoneMapBuilder, rows_per_zone=_rows("rows_per_zone", rows_per_zone)),
        details=partial(_zone_details, rows_per_zone=rows_per_zone),
    )


def _bloom_filter(number_of_items: int = ZONE_ROWS, probability: float = PROBABILITY) -> IndexType:
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 < probability < 1:
        raise ValueError(f"probability of a Bloom filter is between 0 and 1, not {probability!r}")
    rows = _rows("number_of_items", number_of_items)
    return replace(
        INDEX_TYPES["BLOOMFILTER"],
        builder=partial(BloomFilterBuilder, rows_per_zone=rows, probability=float(probability)),
    )


def _b_tree(zone_size: int | None = None) -> IndexType:
    return INDEX_TYPES["BTREE"]


def _rows(name: str, value: int) -> int:
    rows = whole_number(name, value)
    if not 0 < rows <= _MOST_ROWS:
        raise ValueError(f"{name} is between 1 and {_MOST_ROWS:,}, not {rows:,}")
    return rows


_CONFIGURED: dict[str, Callable[..., IndexType]] = {
    "BTREE": _b_tree,
    "ZONEMAP": _zone_map,
    "BLOOMFILTER": _bloom_filter,
}


def configured(kind: IndexKind) -> IndexType:
    """The type of an index that is to be made.

    Parameters
    ----------
    kind : str or IndexConfig

    Raises
    ------
    IndexTypeError
        There is no such type.
    ValueError
        It has no such parameter, or a parameter is out of range.
    TypeError
        ``kind`` or a parameter has another type.
    """
    name = kind if isinstance(kind, str) else getattr(kind, "index_type", None)
    if not isinstance(name, str):
        raise TypeError(f"index_type is the name of a type of index or an IndexConfig, not {kind!r}")
    parameters = {} if isinstance(kind, str) else dict(kind.parameters)
    # pylance's names of these in an IndexConfig are one word.
    key = {"LABELLIST": "LABEL_LIST"}.get(name.upper(), name.upper())
    if key not in INDEX_TYPES:
        raise IndexTypeError(f"index_type is {name!r}; types that are written: {', '.join(INDEX_TYPES)}")
    make = _CONFIGURED.get(key)
    known = () if make is None else tuple(signature(make).parameters)
    for each in parameters:
        if each not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"a {key} index has no parameter {each!r}: {has}")
    return INDEX_TYPES[key] if make is None else make(**parameters)


def with_details(known: IndexType, details: bytes) -> IndexType:
    """The type of an index, with the parameters that the message of its details tells.

    Parameters
    ----------
    known : IndexType
    details : bytes
    """
    if known.name != "ZONEMAP" or details[:1] != b"\x08":
        return known
    rows = 0
    for position, byte in enumerate(details[1:4]):
        rows |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return _zone_map(rows) if 0 < rows <= _MOST_ROWS else known
    return known


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
