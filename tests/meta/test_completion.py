"""Editors and notebooks: every option of every public function and method is in its signature and is completed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jedi
import pyarrow as pa
import pytest

import lancecy


def public_calls(objects: dict[str, Any]) -> Iterator[tuple[str, list[inspect.Parameter]]]:
    """What a user can call, as written, with its parameters."""
    for name, found in objects.items():
        owner = found if inspect.ismodule(found) else type(found)
        for attribute in lancecy.__all__ if owner is lancecy else dir(owner):
            value = getattr(owner, attribute)
            # A protocol of users' own classes is not called, and neither are the classes of Arrow's arrays.
            is_array = isinstance(value, type) and issubclass(value, pa.Array)
            is_call = callable(value) and not is_array and not getattr(value, "_is_protocol", False)
            if is_call and not attribute.startswith("_"):
                parameters = inspect.signature(value).parameters.values()
                yield f"{name}.{attribute}", [one for one in parameters if one.name != "self"]


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path: Path = tmp_path_factory.mktemp("completion") / "t"
    ds = lancecy.write_dataset({"id": [1, 2]}, path)
    return {"lancecy": lancecy, "ds": ds, "fragment": ds.get_fragments()[0], "scanner": ds.scanner()}


def test_no_signature_hides_its_options(objects: dict[str, Any]) -> None:
    calls = dict(public_calls(objects))
    assert {"lancecy.scan", "lancecy.write_dataset", "ds.to_table", "ds.append", "fragment.to_table"} <= set(
        calls
    )
    hidden = [call for call, given in calls.items() if any(one.kind is one.VAR_KEYWORD for one in given)]
    assert not hidden


@pytest.mark.slow
def test_every_option_is_completed(objects: dict[str, Any]) -> None:
    missing = {}
    for call, parameters in public_calls(objects):
        wanted = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        completed = {one.name for one in jedi.Interpreter(f"{call}(", [objects]).complete()}
        lacking = {name for name in wanted if f"{name}=" not in completed}
        if lacking:
            missing[call] = lacking
    assert not missing
