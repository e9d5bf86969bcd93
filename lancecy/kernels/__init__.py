"""Arrays in, arrays out: the loops over bytes and values, compiled with Cython.

This is the only door to them. The functions know nothing of files, columns or types;
each checks every access against the memory it is given, works without the GIL, fills
arrays that the caller has allocated, and raises ``FormatError`` with the index of what
is wrong. ``LANCECY_KERNELS=reference`` in the environment takes their slow NumPy twins
of :mod:`lancecy.kernels.reference` instead; nothing does so silently.

=================  ==========================================================
``_spans``         copy_spans, gather_fixed, rows_to_pages
``_bits``          copy_bits
``_varwidth``      varwidth_offsets, list_offsets
``_dictionary``    check_codes
``_stats``         compare_bounds, compare_bytes_bounds (EQ, NE, LT, LE, GT, GE)
=================  ==========================================================
"""

from __future__ import annotations

import os
import sys

from lancecy.kernels._codes import EQ, GE, GT, LE, LT, NE

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "check_codes",
    "compare_bounds",
    "compare_bytes_bounds",
    "copy_bits",
    "copy_spans",
    "gather_fixed",
    "list_offsets",
    "rows_to_pages",
    "varwidth_offsets",
]

# Lance and Arrow are little-endian on disk and in memory; the kernels load values without swapping.
if sys.byteorder != "little":
    raise ImportError("lancecy runs on little-endian machines only")

_chosen = os.environ.get("LANCECY_KERNELS", "cython")

if _chosen == "reference":
    from lancecy.kernels.reference.bits import copy_bits
    from lancecy.kernels.reference.dictionary import check_codes
    from lancecy.kernels.reference.spans import copy_spans, gather_fixed, rows_to_pages
    from lancecy.kernels.reference.stats import compare_bounds, compare_bytes_bounds
    from lancecy.kernels.reference.varwidth import list_offsets, varwidth_offsets
elif _chosen == "cython":
    try:
        from lancecy.kernels._bits import copy_bits
        from lancecy.kernels._dictionary import check_codes
        from lancecy.kernels._spans import copy_spans, gather_fixed, rows_to_pages
        from lancecy.kernels._stats import compare_bounds, compare_bytes_bounds
        from lancecy.kernels._varwidth import list_offsets, varwidth_offsets
    except ImportError as error:
        raise ImportError(
            f"the compiled kernels of lancecy cannot be imported ({error}); in a checkout, build them with "
            "`python setup.py build_ext --inplace`, or set LANCECY_KERNELS=reference for slow NumPy ones"
        ) from error
else:
    raise ImportError(f"LANCECY_KERNELS is {_chosen!r}; it can be 'cython' (default) or 'reference'")
