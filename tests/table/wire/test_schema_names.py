"""Names of columns to paths of fields, with dots, backquotes and both."""

from __future__ import annotations

import pytest

from lancecy.errors import ColumnNotFoundError
from lancecy.expr.binding.binder import Names
from lancecy.schema import Field, Schema, split_name


def schema() -> Schema:
    inner = (Field("x.y", 3, 2, "int64"), Field("tick`s", 4, 2, "int64"))
    point = Field("p", 2, -1, "struct", children=inner)
    return Schema((Field("a.b", 0, -1, "int64"), Field("`q`", 1, -1, "int64"), point))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a.b", ("a.b",)),
        ("`a.b`", ("a.b",)),
        ("`q`", ("`q`",)),
        ("p.`x.y`", ("p", "x.y")),
        ("`p`.`tick``s`", ("p", "tick`s")),
    ],
)
def test_name_means_a_path(name: str, path: tuple[str, ...]) -> None:
    assert schema().resolve(name) == path


@pytest.mark.parametrize("name", ["p.x.y", "p.tick`s", "", ".", "p.", "``"])
def test_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(ColumnNotFoundError):
        schema().resolve(name)


@pytest.mark.parametrize("name", ["a.b", "p.`x.y`", "`p`.`tick``s`"])
def test_expressions_and_schemas_take_names_apart_alike(name: str) -> None:
    assert Names(schema().arrow).resolve([name], exact=True)[0] == schema().resolve(name)


def test_empty_parts_are_kept() -> None:
    assert split_name("a..`b.c```") == ["a", "", "b.c`"]
