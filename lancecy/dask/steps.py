"""Steps of Dask that go wrong with Arrow's columns, replaced for columns with lancecy's dtypes.

=====================================  ===================================================================
``set_index``, ``sort_values``         times are looked up in Dask's divisions, which are NumPy's: TypeError
``describe``                           pandas makes no numbers of Arrow's times: TypeError
``std``, ``var`` of several columns    NumPy makes no numbers of pandas' null: TypeError
``sum``, ``mean`` of several columns   pandas' sum of a partition with NaN is null, and Dask leaves it out
=====================================  ===================================================================

:func:`register` makes Dask convert such columns first, or keep such nulls. Frames keep their dtypes. It replaces methods
of Dask's expressions, which are not a stable interface: importing this module raises ``ImportError`` or
``AttributeError`` if they are not there, and ``dtypes`` then leaves these steps to Dask.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from dask.dataframe.dask_expr import _describe, _expr, _reductions, _shuffle

__all__ = ["register"]


class FrameSum(_reductions.Sum):
    """Sums of several columns, null where those of a partition are null."""

    @property
    def combine_kwargs(self) -> dict[str, Any]:  # type: ignore[override]
        """Arguments of the sum of sums."""
        return {"skipna": False, "axis": self.axis}

    @property
    def aggregate_kwargs(self) -> dict[str, Any]:  # type: ignore[override]
        """The same for the last step."""
        return self.combine_kwargs


class FrameProd(_reductions.Prod):
    """Products of several columns, null where those of a partition are null."""

    combine_kwargs = FrameSum.combine_kwargs
    aggregate_kwargs = FrameSum.aggregate_kwargs


def register() -> None:
    """Replace the steps in this process; does nothing the second time."""
    for kind, replaced in (
        (_shuffle._SetPartitionsPreSetIndex, _looked_up),
        (_describe.DescribeNumeric, _described),
        (_reductions.Var, _varied),
        (_reductions.Sum, _summed(FrameSum)),
        (_reductions.Prod, _summed(FrameProd)),
    ):
        if not hasattr(kind.__dict__.get("_lower"), "__wrapped__"):
            kind._lower = _before(kind._lower, kind, replaced)  # type: ignore[method-assign]


def _before(lower: Callable[[Any], Any], kind: type, replaced: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The last rewrite of expressions of this very class, after one of lancecy's."""

    @functools.wraps(lower)
    def rewrite(step: Any) -> Any:
        better = replaced(step) if type(step) is kind else None
        return lower(step) if better is None else better

    return rewrite


def _looked_up(step: Any) -> Any:
    # Dask compares dates, times of day and numbers as they are.
    return _converted(step, _numpy_time(_arrow_type(step.frame._meta.dtype)))


def _described(step: Any) -> Any:
    kind = _arrow_type(step.frame._meta.dtype)
    is_date = pa.types.is_date(kind)
    return _converted(step, np.dtype("datetime64[s]") if is_date else _numpy_time(kind))


def _varied(step: Any) -> Any:
    types, meta = pa.types, step.frame._meta
    if meta.ndim == 1:
        return None
    tests = (types.is_integer, types.is_floating, types.is_decimal)
    kinds = {name: _arrow_type(dtype) for name, dtype in meta.dtypes.items()}
    return _converted(
        step, {name: "float64" for name, kind in kinds.items() if any(test(kind) for test in tests)}
    )


def _summed(kind: type) -> Callable[[Any], Any]:
    def replaced(step: Any) -> Any:
        meta = step.frame._meta
        if meta.ndim == 1 or not step.skipna or step.axis != 0:
            return None
        has_floats = any(pa.types.is_floating(_arrow_type(dtype)) for dtype in meta.dtypes)
        return kind(*step.operands) if has_floats else None

    return replaced


def _converted(step: Any, dtypes: Any) -> Any:
    return type(step)(_expr.AsType(step.frame, dtypes), *step.operands[1:]) if dtypes else None


def _numpy_time(kind: pa.DataType) -> Any:
    """NumPy's dtype, or pandas', for timestamps and durations."""
    import pandas as pd

    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pd.DatetimeTZDtype(kind.unit, kind.tz)
    if pa.types.is_timestamp(kind):
        return np.dtype(f"datetime64[{kind.unit}]")
    return np.dtype(f"timedelta64[{kind.unit}]") if pa.types.is_duration(kind) else None


def _arrow_type(dtype: object) -> pa.DataType:
    return dtype.pyarrow_dtype if getattr(dtype, "is_of_lancecy", False) else pa.null()  # type: ignore[attr-defined]
