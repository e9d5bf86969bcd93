"""The options of writing: completed by editors, checked by name, with one default each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
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
from lancecy.spark.sink import write as spark_write
from lancecy.spark.sink_options import SinkOptions

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
