"""Record batches as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as kinds

from lancecy.errors import SchemaError, UnsupportedError, printable
from lancecy.records import dataclass
from lancecy.torch.needed import torch

__all__ = ["Tensors", "to_tensor"]

Tensors: TypeAlias = "torch.Tensor | list[Any]"
"""Values of one column."""

_BFLOAT16 = "lance.bfloat16"
_BFLOAT16_STORAGE = pa.binary(2)


def to_tensor(
    batch: pa.RecordBatch | pa.Table | Mapping[str, Any],
    *,
    uint64_as_int64: bool = True,
    copy: bool | None = None,
) -> dict[str, Tensors] | Tensors:
    """Convert a record batch to tensors.

    Parameters
    ----------
    batch : RecordBatch, Table or mapping of str to Array, of n rows
    uint64_as_int64 : bool
        Return uint64 as int64, which more operations of PyTorch accept; values from 2**63 on become negative.
    copy : bool, optional
        True copies all values. False copies none that PyTorch can read as they are: a tensor must then not be
        written to, as it may lie in a mapped file, and writing would end the process. None copies what must not be
        written to, so that every tensor can be changed in place.

    Returns
    -------
    dict of str to (Tensor or list), or Tensor, or list
        By column; the value itself if there is only one column.

        =====================================  =======================================================
        integers, floats, booleans, bfloat16   (n,) tensor of the same dtype
        fixed-size lists, fixed-shape tensors  (n, size) tensor, with one more axis per list in a list
        lists of numbers                       list of n tensors
        text, bytes                            list of n values, None for null
        =====================================  =======================================================

        Fixed-size lists of two-byte values are bfloat16: without pylance they have no other mark.
        Null is NaN among floats.

    Raises
    ------
    SchemaError
        Null among integers, booleans or lists, which have no such value.
    UnsupportedError
        A type that tensors do not have, such as times and structs.

    Examples
    --------
    >>> import lancecy
    >>> from lancecy.torch import to_tensor
    >>> rows = lancecy.dataset("example.lance").head(2, columns=["id", "vec"])
    >>> to_tensor(rows)["vec"].shape
    torch.Size([2, 4])
    """
    if isinstance(batch, pa.Table):
        batch = batch.combine_chunks()
    names = batch.schema.names if isinstance(batch, pa.RecordBatch | pa.Table) else list(batch)
    marked = _marked_bfloat16(batch.schema) if isinstance(batch, pa.RecordBatch | pa.Table) else set()
    converter = _Converter(uint64_as_int64, copy)
    found = {
        name: converter.column(printable(name), batch[name], _BFLOAT16 if name in marked else "")
        for name in names
    }
    return next(iter(found.values())) if len(found) == 1 else found


def _marked_bfloat16(schema: pa.Schema) -> set[str]:
    """Columns that are marked as bfloat16 and have no registered extension type."""
    key, value = b"ARROW:extension:name", _BFLOAT16.encode()
    return {f.name for f in schema if f.metadata and f.metadata.get(key) == value}


@dataclass
class _Converter:
    uint64_as_int64: bool
    copy: bool | None
    seen: set[int] = field(default_factory=set)

    def column(self, name: str, values: Any, extension: str = "") -> Tensors:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if not isinstance(values, pa.Array):
            raise UnsupportedError(
                f"column {name!r} holds {type(values).__name__}, not Arrow values: "
                "convert it with a to_tensor_fn of your own",
                feature="to_tensor",
            )
        if isinstance(values.type, pa.BaseExtensionType):
            extension, values = values.type.extension_name, values.storage
        if extension == _BFLOAT16:
            return self._bfloat16(values)
        return self._plain(name, values)

    def _plain(self, name: str, values: pa.Array) -> Tensors:
        of = values.type
        if kinds.is_dictionary(of):
            return self._plain(name, values.dictionary_decode())
        if kinds.is_floating(of):
            return self._floats(values)
        if kinds.is_integer(of):
            found = self._fixed_width(_without_nulls(name, values))
            is_wide = self.uint64_as_int64 and found.dtype == torch.uint64
            return found.view(torch.int64) if is_wide else found
        if kinds.is_boolean(of):
            return torch.from_numpy(_without_nulls(name, values).to_numpy(zero_copy_only=False).copy())
        if kinds.is_fixed_size_list(of):
            return self._vectors(name, values)
        if kinds.is_list(of) or kinds.is_large_list(of):
            return self._lists(name, values)
        if _is_text(of):
            return list(values.to_pylist())
        raise _unsupported(name, of)

    def _vectors(self, name: str, values: pa.Array) -> Tensors:
        size, extension = values.type.list_size, ""
        items = values.values.slice(values.offset * size, len(values) * size)
        if items.type == _BFLOAT16_STORAGE:
            extension = _BFLOAT16
        found = self.column(name, items, extension)
        if isinstance(found, list):
            return list(values.to_pylist())
        found = found.reshape(len(values), size, *found.shape[1:])
        if values.null_count:
            if not found.is_floating_point():
                raise _has_nulls(name, values.type)
            found = _with_nans(found, values)
        return found

    def _lists(self, name: str, values: pa.Array) -> Tensors:
        offsets = _without_nulls(name, values).offsets.to_numpy()
        first = int(offsets[0]) if len(values) else 0
        items = values.values.slice(first, int(offsets[-1]) - first if len(values) else 0)
        found = self.column(name, items)
        if isinstance(found, list):
            return list(values.to_pylist())
        return list(torch.split(found, (offsets[1:] - offsets[:-1]).tolist())) if len(values) else []

    def _floats(self, values: pa.Array) -> torch.Tensor:
        found = self._fixed_width(values)
        return _with_nans(found, values) if values.null_count else found

    def _bfloat16(self, values: pa.Array) -> torch.Tensor:
        bits = pa.Array.from_buffers(
            pa.uint16(), len(values), [None, values.buffers()[1]], offset=values.offset
        )
        found = self._fixed_width(bits).view(torch.bfloat16)
        return _with_nans(found, values) if values.null_count else found

    def _fixed_width(self, values: pa.Array) -> torch.Tensor:
        """Values of any of the number types, whatever lies under nulls."""
        data = values.buffers()[1]
        if values.null_count:
            values = pa.Array.from_buffers(values.type, len(values), [None, data], offset=values.offset)
        # Two columns of the same expression are one array: a change of one tensor must not be seen in the other.
        is_own = data is not None and data.is_mutable and data.address not in self.seen
        if data is not None:
            self.seen.add(data.address)
        if self.copy is False or (is_own and not self.copy):
            return torch.utils.dlpack.from_dlpack(values)
        # NumPy copies, as PyTorch would use several threads for each batch: where others work too, they wait long.
        return torch.from_numpy(values.to_numpy().copy())


def _with_nans(found: torch.Tensor, values: pa.Array) -> torch.Tensor:
    """A copy with NaN where the values are null."""
    found = found.clone()
    found[torch.from_numpy(values.is_null().to_numpy(zero_copy_only=False).copy())] = float("nan")
    return found


def _without_nulls(name: str, values: pa.Array) -> pa.Array:
    if values.null_count:
        raise _has_nulls(name, values.type)
    return values


def _has_nulls(name: str, of: pa.DataType) -> SchemaError:
    is_nested = pa.types.is_nested(of)
    other = "" if is_nested else f", or replace nulls with columns={{{name!r}: 'coalesce({name}, 0)'}}"
    return SchemaError(
        f"column {name!r} has nulls, and tensors of {of} have none: leave these rows out with "
        f"filter={f'{name} IS NOT NULL'!r}{other}"
    )


def _is_text(of: pa.DataType) -> bool:
    tests = (
        kinds.is_string,
        kinds.is_large_string,
        kinds.is_string_view,
        kinds.is_binary,
        kinds.is_large_binary,
        kinds.is_binary_view,
        kinds.is_fixed_size_binary,
    )
    return any(test(of) for test in tests)


def _unsupported(name: str, of: pa.DataType) -> UnsupportedError:
    if kinds.is_temporal(of):
        remedy = f"read it as numbers with columns={{{name!r}: 'CAST({name} AS BIGINT)'}}"
    elif kinds.is_decimal(of):
        remedy = f"read it as floats with columns={{{name!r}: 'CAST({name} AS DOUBLE)'}}"
    elif kinds.is_struct(of) and of.num_fields:
        remedy = f"name its fields, such as columns={[f'{name}.{of.field(0).name}']}"
    else:
        remedy = "leave it out with columns=[…]"
    return UnsupportedError(
        f"column {name!r} is {printable(of)}, which tensors do not have: {remedy}, "
        "or convert it with a to_tensor_fn of your own",
        feature="to_tensor",
    )
