"""Costs of reading rows: picked one by one, or all of them and then filtered.

Measured on memory-mapped files of every version, with filters of 0.01 % to 30 %. The figures need to be right
within a factor of two only: where both ways cost the same, either will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lancecy.rows import RowSelection
from lancecy.scanning.fragment import FragmentFiles
from lancecy.schema import Field

__all__ = ["pick_is_cheaper"]

_TEXTS = frozenset(("string", "large_string", "binary", "large_binary", "json"))


@dataclass(frozen=True, slots=True)
class _Costs:
    """Costs in nanoseconds.

    Attributes
    ----------
    fixed, text, listed : (float, float)
        To find a run of picked rows, and to decode a row: in leaves of one width, of texts, and of lists.
    byte, text_byte, json_byte : float
        To decode a stored byte: in a column without texts and JSON, with texts, and with JSON.
    """

    fixed: tuple[float, float]
    text: tuple[float, float]
    listed: tuple[float, float]
    byte: float
    text_byte: float
    json_byte: float


_LEGACY = _Costs((25.0, 1.5), (60.0, 5.0), (100.0, 5.0), 0.1, 0.1, 1.2)
_PAGES = _Costs((70.0, 2.0), (230.0, 5.0), (230.0, 5.0), 0.1, 0.1, 1.2)
# Chunks are unpacked whole for levels and symbols, however few rows are wanted.
_CHUNKS = _Costs((130.0, 3.0), (200.0, 8.0), (250.0, 6.0), 0.2, 3.0, 3.0)


_SHORT_RUN = 150.0
"""Extra cost of finding a run of some rows, compared with a single row."""


def pick_is_cheaper(files: FragmentFiles, wanted: Field, rows: RowSelection, picked: RowSelection) -> bool:
    """Whether reading picked rows beats reading all candidates and filtering.

    Parameters
    ----------
    files : FragmentFiles
    wanted : Field
        Top-level field, pruned.
    rows : RowSelection
        Candidates.
    picked : RowSelection
        The candidates that are returned.
    """
    costs = _CHUNKS if files.in_chunks else _PAGES if files.version >= (2, 0) else _LEGACY
    run, row, byte = _of_field(costs, wanted)
    row += byte * files.estimated_bytes([wanted]) / max(1, files.num_rows)
    budget = (len(rows) - len(picked)) * row
    return len(picked) * run < budget or _num_runs(picked) * (run + _SHORT_RUN) < budget


@lru_cache(maxsize=4096)
def _of_field(costs: _Costs, wanted: Field) -> tuple[float, float, float]:
    """Nanoseconds per run, per row and per byte."""
    run = row = 0.0
    byte = costs.byte
    for node in wanted.walk():
        if node.is_list or node.is_map:
            more = costs.listed
        elif node.logical_type in _TEXTS:
            more = costs.text
            byte = max(byte, costs.json_byte if node.logical_type == "json" else costs.text_byte)
        elif node.children:
            continue
        else:
            more = costs.fixed
        run, row = run + more[0], row + more[1]
    return run, row, byte


def _num_runs(rows: RowSelection) -> int:
    """Number of ranges of neighbouring rows."""
    if rows.indices is None:
        return 0 if rows.starts is None else int(rows.starts.size)
    return int(np.count_nonzero(np.diff(rows.indices) != 1)) + 1
