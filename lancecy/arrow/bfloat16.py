"""Numbers of bfloat16: the upper half of a float32, as an Arrow extension type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

__all__ = ["BFloat16", "BFloat16Array", "BFloat16Type", "bfloat16_array", "cast"]

_WIDTH = 2


def _to_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round to the nearest bfloat16, halves to the even one; a NaN stays one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def _from_bits(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


class BFloat16(float):
    """One number of bfloat16: a float, rounded to eight bits of precision.

    Parameters
    ----------
    value : float

    Examples
    --------
    >>> BFloat16(1.1)
    1.1015625
    """

    def __new__(cls, value: float) -> Self:
        return super().__new__(cls, _from_bits(_to_bits(np.array([value], np.float32)))[0])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The number in two bytes, the lower one first.

        Parameters
        ----------
        data : bytes

        Raises
        ------
        ValueError
            Not two bytes.
        """
        if len(data) != _WIDTH:
            raise ValueError(f"a bfloat16 has two bytes, not {len(data)}")
        return cls(_from_bits(np.frombuffer(data, "<u2"))[0])

    def as_float(self) -> float:
        """The number as a plain float."""
        return float(self)


class BFloat16Type(pa.ExtensionType):  # type: ignore[misc]
    """The extension type ``lance.bfloat16`` over ``fixed_size_binary[2]``."""

    def __init__(self) -> None:
        super().__init__(pa.binary(_WIDTH), "lance.bfloat16")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> BFloat16Type:
        return cls()

    def __arrow_ext_class__(self) -> type[BFloat16Array]:
        return BFloat16Array

    def __arrow_ext_scalar_class__(self) -> type[_BFloat16Scalar]:
        return _BFloat16Scalar

    def __reduce__(self) -> tuple[Any, ...]:
        return BFloat16Type, ()


class _BFloat16Scalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One value of an array; ``as_py`` gives a :class:`BFloat16` or None."""

    def as_py(self, **options: Any) -> BFloat16 | None:
        return None if self.value is None else BFloat16.from_bytes(self.value.as_py(**options))


class BFloat16Array(pa.ExtensionArray):  # type: ignore[misc]
    """An array of bfloat16; made by :func:`bfloat16_array` and by reading."""

    def to_string(self, *args: Any, **options: Any) -> str:
        """The numbers as text, which ``repr`` and ``print`` show.

        Parameters
        ----------
        *args, **options
            For :meth:`pyarrow.Array.to_string`.

        Examples
        --------
        >>> bfloat16_array([1.1, None]).to_string(indent=0).split()
        ['[', '1.1015625,', 'null', ']']
        """
        text: str = _floats(self, pa.float32()).to_string(*args, **options)
        return text

    def to_float32(self) -> NDArray[np.float32]:
        """(n,) float32 with the same values, NaN for nulls.

        Examples
        --------
        >>> bfloat16_array([1.5, None]).to_float32()
        array([1.5, nan], dtype=float32)
        """
        values = _from_bits(self._bits())
        if self.null_count:
            values[self.is_null().to_numpy(zero_copy_only=False)] = np.nan
        return values

    def to_numpy(self, zero_copy_only: bool = False) -> NDArray[Any]:
        """(n,) array of ``ml_dtypes.bfloat16`` if ml_dtypes is installed, as in pylance; otherwise of float32.

        Parameters
        ----------
        zero_copy_only : bool
            Accepted as in pyarrow, and ignored.

        Raises
        ------
        ValueError
            There are nulls, for which :meth:`to_float32` has NaN.
        """
        if self.null_count:
            raise ValueError("nulls have no value in NumPy: to_float32 gives NaN for them")
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            return _from_bits(self._bits())
        return self._bits().view(bfloat16)

    @classmethod
    def from_numpy(cls, array: NDArray[Any]) -> BFloat16Array:
        """The array for (n,) numbers of ``ml_dtypes.bfloat16``, or of floats, which are rounded.

        Parameters
        ----------
        array : (n,) floats

        Raises
        ------
        ValueError
            Not floats, or not one-dimensional.
        """
        is_bfloat16 = array.dtype.name == "bfloat16"
        if array.ndim != 1 or not (is_bfloat16 or array.dtype.kind == "f"):
            raise ValueError(
                f"numbers of bfloat16 need floats in one dimension, not {array.dtype} in {array.ndim}"
            )
        if is_bfloat16:
            return _array(np.ascontiguousarray(array).view(np.uint16), None)
        return _array(_to_bits(array.astype(np.float32)), None)

    def _bits(self) -> NDArray[np.uint16]:
        data = self.storage.buffers()[1]
        if data is None:
            return np.zeros(len(self), np.uint16)
        return np.frombuffer(data, "<u2", len(self), self.storage.offset * _WIDTH)


def bfloat16_array(values: Iterable[float | None] | ArrayLike | pa.Array) -> BFloat16Array:
    """An Arrow array of bfloat16, rounded to the nearest.

    Parameters
    ----------
    values : iterable of float or None, or an array of floats

    Examples
    --------
    >>> bfloat16_array([1.1, None, 2]).to_pylist()
    [1.1015625, None, 2.0]
    """
    if isinstance(values, np.ndarray) and values.dtype.name == "bfloat16":
        return BFloat16Array.from_numpy(values)
    if not isinstance(values, pa.Array | pa.ChunkedArray | np.ndarray):
        values = pa.array(list(values), pa.float64())  # type: ignore[arg-type]
    found = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    floats = pc.cast(found, pa.float32(), safe=False)
    floats = floats.combine_chunks() if isinstance(floats, pa.ChunkedArray) else floats
    missing = floats.is_null().to_numpy(zero_copy_only=False) if floats.null_count else None
    return _array(_to_bits(pc.fill_null(floats, 0).to_numpy()), missing)


def _array(bits: NDArray[np.uint16], missing: NDArray[np.bool_] | None) -> BFloat16Array:
    validity = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    storage = pa.Array.from_buffers(pa.binary(_WIDTH), bits.size, [validity, pa.py_buffer(bits)])
    found: BFloat16Array = pa.ExtensionArray.from_storage(BFloat16Type(), storage)
    return found


def cast(arr: pa.Array, target_type: pa.DataType | str, *args: Any, **options: Any) -> pa.Array:
    """Cast as :func:`pyarrow.compute.cast` does, and also between floats and bfloat16.

    Parameters
    ----------
    arr : pyarrow.Array
    target_type : pyarrow.DataType or str
        Also ``"bfloat16"`` and ``"bf16"``; fixed-size lists of these types as well.
    *args, **options
        For :func:`pyarrow.compute.cast`, where it does the cast.

    Raises
    ------
    ValueError
        bfloat16 and a type that is not of floats, or fixed-size lists of different sizes.

    Examples
    --------
    >>> cast(cast(pa.array([1.1, None]), "bfloat16"), pa.float32()).to_pylist()
    [1.1015625, None]
    """
    target = BFloat16Type() if target_type in ("bfloat16", "bf16") else target_type
    if _is_bfloat16(arr.type):
        return _floats(arr, target)
    if _is_bfloat16(target):
        if not pa.types.is_floating(arr.type):
            raise ValueError(f"only floats can become bfloat16, not {arr.type}")
        return bfloat16_array(arr)
    both = isinstance(target, pa.DataType) and pa.types.is_fixed_size_list(target)
    if both and pa.types.is_fixed_size_list(arr.type):
        return _vectors(arr, target, args, options)
    return pc.cast(arr, target, *args, **options)


def _is_bfloat16(kind: object) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "lance.bfloat16"


def _floats(arr: pa.Array, target: pa.DataType | str) -> pa.Array:
    wanted = pa.type_for_alias(target) if isinstance(target, str) else target
    if not pa.types.is_floating(wanted):
        raise ValueError(f"bfloat16 can only become floats, not {wanted}")
    own = pa.ExtensionArray.from_storage(BFloat16Type(), arr.storage)
    missing = arr.is_null().to_numpy(zero_copy_only=False)
    return pa.array(own.to_float32(), mask=missing).cast(wanted, safe=False)


def _vectors(arr: pa.Array, target: pa.DataType, args: Any, options: Any) -> pa.Array:
    if arr.type.list_size != target.list_size:
        raise ValueError(f"lists of {arr.type.list_size} cannot become lists of {target.list_size}")
    size = target.list_size
    values = cast(arr.values.slice(arr.offset * size, len(arr) * size), target.value_type, *args, **options)
    mask = arr.is_null() if arr.null_count else None
    return pa.FixedSizeListArray.from_arrays(values, size, mask=mask)
