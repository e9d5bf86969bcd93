"""Naming the Spark layer does not load pyspark; using it does."""

from __future__ import annotations

import subprocess
import sys

import pytest

NAMES = ["lancecy.spark", "lancecy.spark.read", "lancecy.spark.spark_arrow_schema"]


@pytest.fixture(scope="module")
def loaded() -> list[str]:
    """Whether pyspark is loaded after each of the names, in one process: by it or by those before it."""
    each = "".join(f"{name}; print('pyspark' in sys.modules);" for name in NAMES)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, lancecy; {each}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_names_are_there_before_pyspark_is(name: str, loaded: list[str]) -> None:
    assert loaded[NAMES.index(name)] == "False"
