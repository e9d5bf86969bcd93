"""``import lancecy`` costs next to nothing: no heavy library, no thread, no child process."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

HEAVY = (
    "dask",
    "distributed",
    "fsspec",
    "llvmlite",
    "numba",
    "pandas",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyspark",
    "rich",
    "s3fs",
    "sqlglot",
    "torch",
)

# NumPy's own threads (BLAS) are there before lancecy comes.
PROBE = """
import json, os, sys, threading
import numpy, pyarrow
tasks = "/proc/self/task"
native = lambda: len(os.listdir(tasks)) if os.path.isdir(tasks) else 0
before = native()
for statements in sys.argv[1:]:
    exec(statements)
    print(json.dumps({
        "modules": sorted(sys.modules), "threads": threading.active_count(), "native": native() - before,
    }))
"""
STATEMENTS = (
    "import lancecy",
    "import lancecy; lancecy.dataset",
    "import lancecy; lancecy.dataset; lancecy.col; lancecy.LanceError",
    "import lancecy; lancecy.expr.parse; lancecy.interop.record_batches",
    "import lancecy; lancecy.sampler.FullScanSampler; lancecy.torch",
)


@functools.cache
def _probe() -> dict[str, dict[str, object]]:
    """What is there after each of the statements, which one process runs one after another."""
    command = [sys.executable, "-c", PROBE, *STATEMENTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    return dict(zip(STATEMENTS, map(json.loads, done.stdout.splitlines()), strict=True))


def _loaded(seen: dict[str, object]) -> set[str]:
    return set(HEAVY) & set(cast("list[str]", seen["modules"]))


@pytest.mark.parametrize("statements", STATEMENTS)
def test_import_loads_nothing_heavy(statements: str) -> None:
    assert _loaded(_probe()[statements]) == set()


@pytest.mark.parametrize("statements", STATEMENTS[:2])
def test_import_starts_no_thread(statements: str) -> None:
    seen = _probe()[statements]
    assert seen["threads"] == 1
    assert seen["native"] == 0


def test_import_alone_needs_neither_numpy_nor_pyarrow() -> None:
    command = [
        sys.executable,
        "-c",
        "import sys, lancecy; print('numpy' in sys.modules, 'pyarrow' in sys.modules)",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout.split() == ["False", "False"]


def test_public_names_are_listed_and_resolve() -> None:
    import lancecy

    assert lancecy.__all__ == sorted(lancecy.__all__)
    assert [name for name in lancecy.__all__ if getattr(lancecy, name, None) is None] == []
    assert set(lancecy.__all__) <= set(dir(lancecy))


def test_missing_packages_are_named_with_what_installs_them() -> None:
    script = """
import sys
sys.modules["lance_namespace"] = None
import lancecy.namespace
from lancecy.cli import run
for statement in ("lancecy.namespace.DirectoryNamespace", "import lancecy.ui"):
    try:
        exec(statement)
    except ImportError as error:
        print(error)
sys.argv[1:] = ["ns", "ls", "."]
run()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "lancecy.namespace needs lance_namespace: pip install 'lancecy[namespace]'",
        "lancecy.ui needs lance_namespace: pip install 'lancecy[ui]'",
    ]
    error = "lancecy: `lancecy ns` needs lance_namespace: pip install 'lancecy[namespace]'\n"
    assert (done.returncode, done.stderr) == (2, error)


def test_unknown_name_is_an_attribute_error() -> None:
    import lancecy

    with pytest.raises(AttributeError, match="datasett"):
        lancecy.datasett  # noqa: B018


def test_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    import lancecy

    assert lancecy.__version__ == version("lancecy")


def test_package_is_typed() -> None:
    import lancecy

    assert Path(lancecy.__file__).with_name("py.typed").is_file()


def test_reads_of_the_format_load_no_code_that_changes_tables() -> None:
    """Spark loads the module in a new process for each step of a query."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys, lancecy.spark.source; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stdout.split()
    assert "lancecy.scanning.plan" in loaded
    assert [name for name in loaded if name.startswith(("lancecy.changes", "lancecy.write"))] == []
