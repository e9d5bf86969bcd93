"""The options of writing: completed by editors, checked by name, with one default each."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import lancecy
from lancecy.changes.options import (
    WRITE_DEFAULTS,
    CommitOptions,
    FragmentOptions,
    InsertOptions,
    WriteOptions,
    requests_of,
)
from lancecy.spark.options import SinkOptions
from lancecy.spark.sink import write as spark_write
from tests.meta.tree import ROOT

WAYS: list[tuple[Callable[..., Any], type[Any]]] = [
    (lancecy.write_dataset, WriteOptions),
    (lancecy.write_dask, WriteOptions),
    (spark_write, WriteOptions),
    (lancecy.write_fragments, FragmentOptions),
    (lancecy.commit, CommitOptions),
    (lancecy.Dataset.insert, InsertOptions),
    (lancecy.Dataset.append, InsertOptions),
]
IDS = [f"{function.__module__}.{function.__qualname__}" for function, _ in WAYS]


def positional(function: Callable[..., Any]) -> list[str]:
    kinds = inspect.signature(function).parameters.values()
    return [p.name for p in kinds if p.kind is p.POSITIONAL_OR_KEYWORD]


def test_every_option_has_a_default() -> None:
    assert set(WRITE_DEFAULTS) == set(WriteOptions.__annotations__)
    for kind in (FragmentOptions, CommitOptions, InsertOptions):
        assert set(kind.__annotations__) < set(WRITE_DEFAULTS)


@pytest.mark.parametrize(("function", "kind"), WAYS, ids=IDS)
def test_signatures_list_every_option(function: Callable[..., Any], kind: type[Any]) -> None:
    parameters = inspect.signature(function).parameters
    expected = {name: WRITE_DEFAULTS[name] for name in kind.__annotations__}
    assert {name: parameters[name].default for name in expected} == expected
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in expected)


@pytest.mark.parametrize(("function", "kind"), WAYS, ids=IDS)
def test_misspelt_option_is_named_with_its_neighbour(function: Callable[..., Any], kind: type[Any]) -> None:
    with pytest.raises(TypeError, match=r"takes no argument 'durabilty'; did you mean 'durability'\?"):
        function(None, None, durabilty="none")
    if kind is InsertOptions:
        with pytest.raises(TypeError, match="takes no argument 'storage_options'"):
            function(None, None, storage_options={})


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lancecy.write_dataset, ["data_obj", "uri", "schema", "mode"]),
        (lancecy.write_dask, ["data", "uri", "schema", "mode"]),
        (spark_write, ["df", "uri", "mode"]),
        (lancecy.write_fragments, ["data", "uri", "schema"]),
        (lancecy.commit, ["uri", "operation", "read_version"]),
        (lancecy.Dataset.insert, ["self", "data"]),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_positional_arguments_are_those_of_pylance(
    function: Callable[..., Any], names: Sequence[str]
) -> None:
    assert positional(function) == names


def test_values_have_the_same_defaults() -> None:
    written, commit = requests_of("create", {})
    assert (written.limits.max_rows, written.durable, commit.durable) == (1 << 20, True, True)
    assert SinkOptions().max_rows_per_file == written.limits.max_rows
    with pytest.raises(TypeError, match="max_rows_per_file is a whole number"):
        requests_of("create", {"max_rows_per_file": None})


@pytest.mark.slow
def test_type_checker_finds_mistakes_of_users(tmp_path: Path) -> None:
    right = [
        'ds = lancecy.write_dataset({"a": [1]}, "t", None, "create", max_rows_per_file=3, session=None)',
        'ds.insert({"a": [1]}, mode="overwrite", commit_message="m")',
        'ds.append({"a": [1]}, target_bases=["b"])',
        'lancecy.write_fragments({"a": [1]}, ds, writer_number=1, max_rows_per_group=5)',
        "lancecy.commit(ds, lancecy.LanceOperation.Append([]), enable_v2_manifest_paths=False)",
    ]
    mistakes = {
        'lancecy.write_dataset({"a": [1]}, "t", durabilty="none")': "durabilty",
        'lancecy.write_fragments({"a": [1]}, "t", commit_message="m")': "commit_message",
        'ds.insert({"a": [1]}, storage_options={})': "storage_options",
        'lancecy.commit(ds, lancecy.LanceOperation.Append([]), durability="maybe")': "durability",
    }
    lines = ["import lancecy", *right, *mistakes]
    (tmp_path / "user.py").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", "user.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("user.py") and "error" in line]
    # An overloaded function gets two errors on its line.
    assert len({line.split(":")[1] for line in found}) == len(mistakes), done.stdout
    for number, (line, name) in enumerate(mistakes.items(), len(right) + 2):
        assert any(text.startswith(f"user.py:{number}:") and name in text for text in found), (line, found)
