"""Naming the Dask layer loads neither Dask nor pandas; using it does."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lancecy

NAMES = ["lancecy.dask", "lancecy.scan", "lancecy.dask.scan"]


@pytest.fixture(scope="module")
def loaded() -> list[str]:
    """What is loaded after each of the names, in one process: a line is what it and those before it load."""
    each = "".join(f"{name}; print(sorted(heavy & set(sys.modules)));" for name in NAMES)
    code = f"import sys, lancecy; heavy = {{'dask', 'pandas', 'distributed'}}; {each}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_there_before_dask_is(name: str, loaded: list[str]) -> None:
    assert loaded[NAMES.index(name)] == "[]"


def test_package_lists_what_it_offers() -> None:
    assert lancecy.scan is lancecy.dask.scan
    assert [name for name in lancecy.dask.__all__ if getattr(lancecy.dask, name, None) is None] == []
    assert set(lancecy.dask.__all__) <= set(dir(lancecy.dask))
    with pytest.raises(AttributeError, match="scam"):
        lancecy.dask.scam  # noqa: B018
