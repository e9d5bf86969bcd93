"""Naming the Dask layer loads neither Dask nor pandas; using it does."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lancecy


@pytest.mark.parametrize("name", ["lancecy.dask", "lancecy.scan", "lancecy.dask.scan"])
def test_names_are_there_before_dask_is(name: str) -> None:
    code = (
        f"import sys, lancecy; {name}; print(sorted({{'dask', 'pandas', 'distributed'}} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stdout.strip() == "[]"


def test_package_lists_what_it_offers() -> None:
    assert lancecy.scan is lancecy.dask.scan
    assert [name for name in lancecy.dask.__all__ if getattr(lancecy.dask, name, None) is None] == []
    assert set(lancecy.dask.__all__) <= set(dir(lancecy.dask))
    with pytest.raises(AttributeError, match="scam"):
        lancecy.dask.scam  # noqa: B018
