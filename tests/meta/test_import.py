"""``import lancecy`` costs next to nothing: no heavy library, no thread, no child process."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

pytestmark = pytest.mark.slow

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


READS = (
    "ds.to_table()",
    "ds.head(2), ds.take([2, 0]), ds.count_rows(), list(ds.to_batches())",
    "ds.to_table(columns=['i'], filter='i = 2', with_row_id=True)",
    "ds.to_table(filter='i IN (1, 2) OR (x > 0.5 AND s = \\'b\\')')",
    "ds.to_table(filter='NOT (x > 0.5) AND b', columns=['v', 's'])",
    "ds.to_table(columns={'j': 'i % 2'}, order_by=['x'], limit=2)",
    "ds.count_rows('s LIKE \\'%a%\\' AND b IS NOT NULL')",
    "ds.to_table(nearest={'column': 'v', 'q': [0.0, 1.0], 'k': 2}, columns=['i'])",
    "ds.scanner(filter='x > 0.6').explain(), ds.versions(), ds.validate()",
)
CHANGES = (
    "ds.insert(ds.to_table(limit=1))",
    "ds.update({'x': 'x + 1'}, where='x > 0.6')",
    "ds.delete('i = 5')",
    "ds.merge_insert('i').when_matched_update_all().when_not_matched_insert_all().execute(ds.to_table(limit=2))",
    "ds.optimize.compact_files()",
    "ds.create_scalar_index('i', 'BTREE'), ds.create_scalar_index('s', 'BITMAP')",
    "ds.create_scalar_index('x', 'ZONEMAP'), ds.create_scalar_index('b', 'BITMAP')",
    "ds.add_columns({'y': 'i * 2'}), ds.drop_columns(['b'])",
    "lancecy.write_dataset(ds.to_table(), ds.uri + '-copy')",
)
TABLES = {"one file": 1, "three files": 3}


def _made(folder: Path, files: int, with_indices: bool) -> str:
    """A table of four rows in each file."""
    import numpy as np
    import pyarrow as pa

    import lancecy

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8, dtype=np.float32)), 2)
    columns = {
        "i": [1, 2, 3, 5],
        "x": [0.1, 0.7, None, 2.0],
        "s": ["a", "b", None, "c"],
        "b": [True, None, False, True],
    }
    path = str(folder / "t")
    for _ in range(files):
        ds = lancecy.write_dataset(pa.table({**columns, "v": vectors}), path, mode="append")
    for kind, column in (("BTREE", "i"), ("BITMAP", "s"), ("ZONEMAP", "x")) if with_indices else ():
        ds.create_scalar_index(column, kind)
    return path


def _importing(path: str, statements: tuple[str, ...], module: str) -> list[str]:
    """The statements after which a new process has imported the module."""
    lines = "".join(f"{each}\nprint({module!r} in sys.modules)\n" for each in statements)
    script = f"import lancecy, sys\nds = lancecy.dataset({path!r})\n{lines}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=200
    )
    seen = done.stdout.split()
    assert len(seen) == len(statements)
    return [each for each, loaded in zip(statements, seen, strict=True) if loaded == "True"]


@pytest.mark.parametrize("with_indices", [True, False])
@pytest.mark.parametrize("files", TABLES.values(), ids=TABLES)
def test_reads_do_without_pandas(files: int, with_indices: bool, tmp_path: Path) -> None:
    """pyarrow's own conversions import it, which takes longer than such a read."""
    assert _importing(_made(tmp_path, files, with_indices), READS, "pandas") == []


@pytest.mark.parametrize("with_indices", [True, False])
def test_changes_do_without_pandas(with_indices: bool, tmp_path: Path) -> None:
    assert _importing(_made(tmp_path, 3, with_indices), CHANGES, "pandas") == []


def test_look_ups_by_key_do_without_the_parser(tmp_path: Path) -> None:
    look_ups = ("ds.to_table(filter='i = 2')", "ds.count_rows('x >= 1')", "ds.delete('i=3')")
    assert _importing(_made(tmp_path, 3, True), look_ups, "sqlglot") == []


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
