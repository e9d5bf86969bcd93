"""Lance tables in PyTorch.

====================  ==========================================================================
``LanceDataset``      batches of tensors, divided among processes and workers (``data``)
``SafeLanceDataset``  rows by number, for samplers of PyTorch (``data``)
``get_safe_loader``   a ``DataLoader`` whose workers are spawned (``data``)
``to_tensor``         a record batch as tensors (``tensors``)
====================  ==========================================================================

``dist`` knows the place of this process among all, ``handle`` opens the table once per process, ``cache`` keeps batches
of the first epoch. PyTorch is imported at the first use of one of these names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lancecy.torch.data import LanceDataset as LanceDataset
    from lancecy.torch.data import SafeLanceDataset as SafeLanceDataset
    from lancecy.torch.data import get_safe_loader as get_safe_loader
    from lancecy.torch.tensors import to_tensor as to_tensor

__all__ = ["LanceDataset", "SafeLanceDataset", "get_safe_loader", "to_tensor"]

_HOMES = {
    "LanceDataset": "lancecy.torch.data",
    "SafeLanceDataset": "lancecy.torch.data",
    "get_safe_loader": "lancecy.torch.data",
    "to_tensor": "lancecy.torch.tensors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lancecy.torch' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
