"""Naming the Spark layer does not load pyspark; using it does."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["lancecy.spark", "lancecy.spark.read", "lancecy.spark.spark_arrow_schema"])
def test_names_are_there_before_pyspark_is(name: str) -> None:
    code = f"import sys, lancecy; {name}; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stdout.strip() == "False"
