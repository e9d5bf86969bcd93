"""Options shared by commands; opens the table that they name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click import UsageError

from lancecy.api.datasets import Dataset, dataset
from lancecy.table.refs.reference import Reference

__all__ = [
    "Listed",
    "allow_option",
    "as_csv",
    "as_json",
    "branch_uri",
    "column_option",
    "filter_option",
    "message_option",
    "metadata_option",
    "names",
    "opened",
    "pairs",
    "place_options",
    "quiet_option",
    "reference",
    "storage_pairs",
    "table_options",
    "untrusted_option",
    "version_options",
]

F = TypeVar("F", bound=Callable[..., Any])

_NEWEST = "latest"


class Listed(click.Group):
    """Lists its commands in the order added, each with the first paragraph of its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Click's own summary of a command ends at the first dot, such as the one of "FILE...", and is cut.
        rows = [(name, _summary(command)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _summary(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def reference(text: str) -> Reference:
    """A version as users write it: ``3``, the name of a tag, ``branch:3`` or ``branch:latest``.

    Raises
    ------
    UsageError
        A text with a colon is neither of the last two.

    Examples
    --------
    >>> reference("3"), reference("v1.0"), reference("team/dev:3"), reference("main:latest")
    (3, 'v1.0', ('team/dev', 3), ('main', None))
    """
    branch, colon, version = text.rpartition(":")
    if not colon:
        return int(version) if _is_number(version) else version
    if not branch or not (_is_number(version) or version == _NEWEST):
        raise UsageError(f"{text!r} is no version; versions are written 3, TAG, BRANCH:3 or BRANCH:{_NEWEST}")
    return branch, None if version == _NEWEST else int(version)


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal()


message_option = click.option("-m", "--message", help="Message stored with the version.")
quiet_option = click.option("--quiet", is_flag=True, help="No progress bar.")
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
as_csv = click.option("--csv", "as_csv", is_flag=True, help="CSV instead of a table.")
metadata_option = click.option(
    "--metadata", multiple=True, metavar="KEY=VALUE", help="Text that is stored with it. May be repeated."
)
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


allow_option = click.option(
    "--allow-base",
    "allowed_bases",
    multiple=True,
    metavar="PREFIX",
    help="A place that the table's base paths may lead to, such as gs://bucket. May be repeated.",
)

untrusted_option = click.option(
    "--untrusted", is_flag=True, help="Open a table from an untrusted source: see SECURITY.md."
)


_replica_option = click.option(
    "--replica",
    "replicas",
    multiple=True,
    metavar="BASE=PLACE",
    help="A place with copies of the files of a base, the nearest first. May be repeated.",
)


_branch_option = click.option(
    "--branch", metavar="NAME", help="This branch of the table; main is the table without a branch."
)


def place_options(function: F) -> F:
    """Add the argument URI, the storage options and the branch, for a command that changes a table.

    The command gets the URI of the branch.
    """

    @functools.wraps(function)
    def on_branch(
        *,
        uri: str,
        branch: str | None,
        storage_options: tuple[str, ...],
        allowed_bases: tuple[str, ...],
        **options: Any,
    ) -> Any:
        place = branch_uri(uri, branch, storage_options, allowed_bases=allowed_bases)
        return function(uri=place, storage_options=storage_options, allowed_bases=allowed_bases, **options)

    return click.argument("uri")(_branch_option(_storage_option(allow_option(on_branch))))  # type: ignore[return-value]


def branch_uri(
    uri: str,
    branch: str | None,
    storage_options: tuple[str, ...] = (),
    untrusted: bool = False,
    allowed_bases: tuple[str, ...] = (),
) -> str:
    """The URI of a branch of the table at a URI, or of one of its other branches; the same URI for no branch.

    Raises
    ------
    LanceError
        There is no such branch, or the table cannot be opened.
    """
    if branch is None:
        return uri
    with warnings.catch_warnings():
        # Only the place is wanted here; the command opens the version, and warns of what it finds.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = dataset(
            uri,
            (branch, None),
            storage_options=storage_pairs(storage_options),
            untrusted=untrusted,
            allowed_bases=allowed_bases or None,
            recover=True,
        )
    return found.location.uri


def table_options(function: F) -> F:
    """Add the argument URI and the options for opening it."""
    for decorate in (
        untrusted_option,
        allow_option,
        _replica_option,
        _storage_option,
        _branch_option,
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
    for decorate in (
        click.option(
            "--asof",
            metavar="TIME",
            help="The version of this time, such as '2024-05-01 12:00:00+02:00'; without a zone it is local time.",
        ),
        click.option("--tag", metavar="NAME", help="The version that this tag names."),
        click.option(
            "--version",
            type=reference,
            metavar="REF",
            help=f"This version instead of the latest: 3, TAG, BRANCH:3 or BRANCH:{_NEWEST}.",
        ),
    ):
        function = decorate(function)
    return function


def opened(
    uri: str,
    version: Reference = None,
    storage_options: tuple[str, ...] = (),
    untrusted: bool = False,
    allowed_bases: tuple[str, ...] = (),
    asof: str | None = None,
    recover: bool = False,
    branch: str | None = None,
    tag: str | None = None,
    replicas: tuple[str, ...] = (),
) -> Dataset:
    """Open the table of a command.

    Raises
    ------
    UsageError
        A storage option or a replica has no ``=``, or two options name versions.
    LanceError
        The table cannot be opened.
    """
    return dataset(
        uri,
        _one_version(version, asof, branch, tag),
        asof,
        storage_options=storage_pairs(storage_options),
        untrusted=untrusted,
        allowed_bases=allowed_bases or None,
        recover=recover,
        replicas=_replicas(replicas),
    )


def _replicas(given: tuple[str, ...]) -> dict[str | None, list[str]]:
    """Places by base; a pair without ``=`` is refused."""
    found: dict[str | None, list[str]] = {}
    for one in given:
        base, equals, place = one.partition("=")
        if not equals or not place:
            raise UsageError(f"a replica is written BASE=PLACE, not {one!r}")
        found.setdefault(base, []).append(place)
    return found


def _one_version(version: Reference, asof: str | None, branch: str | None, tag: str | None) -> Reference:
    """The version that the options name; None for the newest one."""
    named = {"--version": version, "--tag": tag, "--asof": asof}
    given = [option for option, value in named.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} both name a version: give one of them")
    if branch is None:
        return version if tag is None else tag
    if tag is not None or isinstance(version, str | tuple):
        raise UsageError(
            f"{given[0]} names the branch too: leave --branch out; --branch goes with a number or --asof"
        )
    return (branch, version)


def storage_pairs(texts: tuple[str, ...]) -> dict[str, str] | None:
    """Storage options from KEY=VALUE texts.

    Raises
    ------
    UsageError
        A text has no ``=``.
    """
    return pairs("a storage option", texts) or None


def pairs(what: str, texts: tuple[str, ...]) -> dict[str, str]:
    """A dictionary from KEY=VALUE texts.

    Parameters
    ----------
    what : str
        What the error calls a text.
    texts : tuple of str

    Raises
    ------
    UsageError
        A text has no ``=``.
    """
    found = [text.partition("=") for text in texts]
    wrong = [key for key, equals, _ in found if not equals]
    if wrong:
        raise UsageError(f"{what} is KEY=VALUE, not {wrong[0]!r}")
    return {key: value for key, _, value in found}


def names(columns: str | None) -> list[str] | None:
    """Column names from the text of an option."""
    if columns is None:
        return None
    found = [name.strip() for name in columns.split(",") if name.strip()]
    if not found:
        raise UsageError("--columns names no column: leave it out for all columns")
    return found
