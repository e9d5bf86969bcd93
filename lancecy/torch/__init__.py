"""Lance tables in PyTorch.

====================  ==========================================================================
``LanceDataset``      batches of tensors, divided among processes and workers (``data``)
``SafeLanceDataset``  rows by number, for samplers of PyTorch (``data``)
``get_safe_loader``   a ``DataLoader`` whose workers are spawned (``data``)
``to_tensor``         a record batch as tensors (``tensors``)
====================  ==========================================================================

``dist`` knows the place of this process among all and opens the table once per process, ``cache`` keeps batches of the first epoch. PyTorch is imported at the first use of one of these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancecy.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from lancecy.torch.data import LanceDataset as LanceDataset
    from lancecy.torch.data import SafeLanceDataset as SafeLanceDataset
    from lancecy.torch.data import get_safe_loader as get_safe_loader
    from lancecy.torch.tensors import to_tensor as to_tensor

_HOMES = {
    "lancecy.torch.data": "LanceDataset SafeLanceDataset get_safe_loader",
    "lancecy.torch.tensors": "to_tensor",
}

__getattr__, __dir__, __all__ = lazy_attributes(__name__, _HOMES)
