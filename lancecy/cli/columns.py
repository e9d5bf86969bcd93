"""``columns``: lists, adds, renames, casts and drops the columns of a table."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa

from lancecy.changes.alter_columns import AlterColumn
from lancecy.cli.options import as_json, opened, place_options, quiet_option
from lancecy.cli.output import bar
from lancecy.cli.reading import show_columns
from lancecy.errors import LanceError
from lancecy.schema import parse_logical_type

__all__ = ["columns"]


@click.command()
@place_options
@click.option(
    "--add",
    multiple=True,
    metavar="NAME=SQL",
    help="A new column, computed from the others. May be repeated.",
)
@click.option(
    "--rename", multiple=True, metavar="COLUMN=NAME", help="The new name of a column. May be repeated."
)
@click.option(
    "--cast",
    multiple=True,
    metavar="COLUMN=TYPE",
    help="The new type of a column, such as int32 or timestamp:us:UTC. May be repeated.",
)
@click.option(
    "--not-null",
    "strict",
    multiple=True,
    metavar="COLUMN",
    help="A column that may have no nulls from now on. May be repeated.",
)
@click.option(
    "--nullable",
    "loose",
    multiple=True,
    metavar="COLUMN",
    help="A column that may have nulls. May be repeated.",
)
@click.option("--drop", multiple=True, metavar="COLUMN", help="A column to drop. May be repeated.")
@quiet_option
@as_json
def columns(
    add: tuple[str, ...],
    rename: tuple[str, ...],
    cast: tuple[str, ...],
    strict: tuple[str, ...],
    loose: tuple[str, ...],
    drop: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """List the columns of the table at URI, after changing them if that is asked for.

    COLUMN may be a member of a struct, such as s.x. First new columns are added, then columns are renamed and cast,
    both by their names before, and then dropped; each of the three makes a version.
    """
    new = dict(_pair("--add", "NAME=SQL", text) for text in add)
    changes = _alterations(rename, cast, strict, loose)
    ds = opened(**table)
    with bar(quiet or as_json) as progress:
        if new:
            ds.add_columns(new, progress=progress)
        if changes:
            ds.alter_columns(*changes, progress=progress)
        if drop:
            ds.drop_columns(list(drop))
    show_columns(ds, as_json)


def _alterations(
    rename: tuple[str, ...], cast: tuple[str, ...], strict: tuple[str, ...], loose: tuple[str, ...]
) -> list[AlterColumn]:
    """One alteration for each column that an option names."""
    found: dict[str, AlterColumn] = {}

    def of(path: str) -> AlterColumn:
        return found.setdefault(path, {"path": path})

    for text in rename:
        path, name = _pair("--rename", "COLUMN=NAME", text)
        of(path)["name"] = name
    for text in cast:
        path, name = _pair("--cast", "COLUMN=TYPE", text)
        of(path)["data_type"] = _type(name)
    for path in strict:
        of(path)["nullable"] = False
    for path in loose:
        of(path)["nullable"] = True
    return list(found.values())


def _pair(option: str, form: str, text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise click.UsageError(f"{option} takes {form}, not {text!r}")
    return name, value


def _type(text: str) -> pa.DataType:
    """The type of a name in Arrow or in the format."""
    try:
        return pa.type_for_alias(text)
    except ValueError:
        pass
    try:
        return parse_logical_type(text)
    except LanceError:
        raise click.UsageError(
            f"--cast: {text!r} is no type; some are int32, double, string, date32, timestamp:us:UTC, decimal:128:10:2"
        ) from None
