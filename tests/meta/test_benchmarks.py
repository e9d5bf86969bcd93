"""Every benchmark runs, on little tables; what it measures is not looked at."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.meta.tree import ROOT, run_tool

BENCH = ROOT / "bench"
KINDS = ("time_", "track_", "peakmem_")
HELPERS = {"__init__", "far", "scale", "tables", "types"}


def _layers() -> list[str]:
    """Modules with benchmarks."""
    return sorted({path.stem for path in (BENCH / "benchmarks").glob("*.py")} - HELPERS)


def _suites() -> Iterator[tuple[str, type]]:
    for layer in _layers():
        module = import_module(f"benchmarks.{layer}")
        for name, suite in inspect.getmembers(module, inspect.isclass):
            if suite.__module__ == module.__name__ and not name.startswith("_"):
                yield f"{layer}.{name}", suite


def _run(suite: type) -> int:
    """Do what asv does with one class: cache, setup and every method for each combination of parameters."""
    params = getattr(suite, "params", ())
    axes = params if params and isinstance(params[0], list | tuple) else ([params] if params else [])
    given = [suite().setup_cache()] if hasattr(suite, "setup_cache") else []
    ran = 0
    for combination in product(*axes):
        arguments: list[Any] = [*given, *combination]
        for name in [n for n in dir(suite) if n.startswith(KINDS)]:
            instance = suite()
            if hasattr(instance, "setup"):
                instance.setup(*arguments)
            getattr(instance, name)(*arguments)
            if hasattr(instance, "teardown"):
                instance.teardown(*arguments)
            ran += 1
    return ran


@pytest.mark.slow
@pytest.mark.interop
def test_every_benchmark_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANCECY_BENCH_ROWS", "20000")
    ran = {name: _run(suite) for name, suite in _suites()}
    assert sorted({name.split(".")[0] for name in ran}) == _layers()
    layers = "bases dask_ encodings expr file kernels rowindex scan store table write".split()
    assert layers == _layers()
    assert [name for name, count in ran.items() if not count] == []


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_comparison_finds_equal_answers(version: str, tmp_path: Path) -> None:
    sizes = ["--rows", "20000", "--vectors", "2000", "--repeat", "1", "--version", version]
    done = run_tool("python", "bench/compare.py", *sizes, "--markdown", "--data", str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(lines) == 2 + 13
    assert "differs" not in done.stdout


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.s3
def test_comparison_on_an_object_store_finds_equal_answers() -> None:
    sizes = ["--rows", "20000", "--fragments", "3", "--many", "10", "--repeat", "1", "--delay", "0"]
    done = run_tool("python", "bench/compare_remote.py", *sizes, "--markdown")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(lines) == 2 + 18
    assert "differ" not in done.stdout


def test_asv_measures_this_repository() -> None:
    settings = json.loads((BENCH / "asv.conf.json").read_text())
    assert settings["repo"] == ".."
    assert (BENCH / settings["benchmark_dir"] / "__init__.py").is_file()


@pytest.mark.slow
@pytest.mark.s3
def test_one_and_three_servers_are_compared() -> None:
    """The answers of a table on one server and of one on three must be equal, or the comparison ends with an error."""
    works = "read-threads,read-stream,read-dask,write-threads,write-dask"
    sizes = ["--megabytes", "0.2", "--rate", "50", "--repeat", "1", "--works", works]
    done = run_tool("python", "bench/compare_buckets.py", *sizes, "--markdown")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(line.startswith("| ") for line in done.stdout.splitlines()) == 2 + len(works.split(","))
