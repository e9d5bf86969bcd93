"""The table that examples in docstrings and README read, see ``make_example.py``."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.meta.tree import ROOT

__all__ = ["EXAMPLE", "place_example"]

EXAMPLE = ROOT / "tests" / "golden" / "example.lance"


def place_example(folder: Path) -> Path:
    """Copy the example table to ``folder / "example.lance"``."""
    return Path(shutil.copytree(EXAMPLE, folder / EXAMPLE.name))
