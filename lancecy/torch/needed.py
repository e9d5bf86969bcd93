"""PyTorch, or an error that says how to install it."""

from __future__ import annotations

try:
    import torch
    import torch.distributed
    import torch.utils.data
    import torch.utils.dlpack
except ImportError as error:
    raise ImportError(f"lancecy.torch needs PyTorch ({error}): pip install 'lancecy[torch]'") from error

__all__ = ["torch"]
