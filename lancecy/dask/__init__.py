"""Lance tables in Dask.

=====================  ====================================================================
``scan``               a table as a Dask DataFrame (``collection``)
``NestedArrowDtype``   the pandas dtype that keeps vectors, lists, structs, maps and
                       dictionaries intact through shuffles and Parquet (``dtypes``)
``to_frame``           an Arrow table as a DataFrame with the dtypes of a scan (``dtypes``)
=====================  ====================================================================

``aliases`` gives Arrow types names that parse back. Importing this package imports
neither Dask nor pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lancecy.dask.collection import scan as scan
    from lancecy.dask.dtypes import NestedArrowDtype as NestedArrowDtype
    from lancecy.dask.dtypes import to_frame as to_frame

__all__ = ["NestedArrowDtype", "scan", "to_frame"]

_HOMES = {
    "NestedArrowDtype": "lancecy.dask.dtypes",
    "scan": "lancecy.dask.collection",
    "to_frame": "lancecy.dask.dtypes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lancecy.dask' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
