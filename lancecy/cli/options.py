"""Options shared by commands; opens the table that they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click import UsageError

from lancecy.api.datasets import Dataset, dataset

__all__ = [
    "as_csv",
    "as_json",
    "column_option",
    "filter_option",
    "names",
    "opened",
    "place_options",
    "quiet_option",
    "storage_pairs",
    "table_options",
    "version_options",
]

F = TypeVar("F", bound=Callable[..., Any])

quiet_option = click.option("--quiet", is_flag=True, help="No progress bar.")
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
as_csv = click.option("--csv", "as_csv", is_flag=True, help="CSV instead of a table.")
column_option = click.option(
    "-c", "--columns", help="Names separated by commas; nested columns with dots. Default: all columns."
)


def _joined(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> str | None:
    return " AND ".join(f"({one})" for one in given) if len(given) > 1 else (given[0] if given else None)


filter_option = click.option(
    "-f",
    "--filter",
    "--where",
    "filter_",
    multiple=True,
    callback=_joined,
    help="SQL condition, such as \"id < 10 AND s LIKE 'a%'\"; several are joined with AND.",
)


_storage_option = click.option(
    "-o",
    "--storage-option",
    "storage_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A storage option as in Dask and pandas, for example endpoint_url=http://localhost:9000. May be repeated.",
)


_allow_option = click.option(
    "--allow-base",
    "allowed_bases",
    multiple=True,
    metavar="PREFIX",
    help="A place that the table's base paths may lead to, such as gs://bucket. May be repeated.",
)


def place_options(function: F) -> F:
    """Add the argument URI and the storage options, for a command that changes a table."""
    return click.argument("uri")(_storage_option(_allow_option(function)))


def table_options(function: F) -> F:
    """Add the argument URI and the options for opening it."""
    for decorate in (
        click.option(
            "--untrusted", is_flag=True, help="Open a table from an untrusted source: see SECURITY.md."
        ),
        _allow_option,
        _storage_option,
        click.option(
            "--recover",
            is_flag=True,
            help="If the newest version cannot be read, open the newest readable one.",
        ),
    ):
        function = decorate(function)
    return click.argument("uri")(version_options(function))


def version_options(function: F) -> F:
    """Add the options that name a version."""
    return click.option("--version", type=int, help="This version instead of the latest.")(
        click.option(
            "--asof",
            metavar="TIME",
            help="The version of this time, such as '2024-05-01 12:00:00+02:00'; without a zone it is local time.",
        )(function)
    )


def opened(
    uri: str,
    version: int | None = None,
    storage_options: tuple[str, ...] = (),
    untrusted: bool = False,
    allowed_bases: tuple[str, ...] = (),
    asof: str | None = None,
    recover: bool = False,
) -> Dataset:
    """Open the table of a command.

    Raises
    ------
    UsageError
        A storage option has no ``=``, or two options name versions.
    LanceError
        The table cannot be opened.
    """
    if version is not None and asof is not None:
        raise UsageError("--version and --asof both name a version: give one of them")
    return dataset(
        uri,
        version,
        asof,
        storage_options=storage_pairs(storage_options),
        untrusted=untrusted,
        allowed_bases=allowed_bases or None,
        recover=recover,
    )


def storage_pairs(texts: tuple[str, ...]) -> dict[str, str] | None:
    """Storage options from KEY=VALUE texts.

    Raises
    ------
    UsageError
        A text has no ``=``.
    """
    pairs = [text.partition("=") for text in texts]
    wrong = [key for key, equals, _ in pairs if not equals]
    if wrong:
        raise UsageError(f"a storage option is KEY=VALUE, not {wrong[0]!r}")
    return {key: value for key, _, value in pairs} or None


def names(columns: str | None) -> list[str] | None:
    """Column names from the text of an option."""
    return None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
