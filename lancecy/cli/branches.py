"""``branch``: lists, creates, describes and deletes the branches of a table, and brings one to its parent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from lancecy.api.branches import BranchEntry
from lancecy.api.datasets import Dataset
from lancecy.cli.options import (
    as_json,
    metadata_option,
    opened,
    pairs,
    place_options,
    quiet_option,
    reference,
)
from lancecy.cli.output import bar, show_facts, show_json, show_rows, show_text, show_values, time_text
from lancecy.cli.writing import age, ask
from lancecy.errors import printable
from lancecy.records import dataclass
from lancecy.table.refs import MAIN
from lancecy.table.refs.reference import Reference

__all__ = ["branch"]


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments of the command, but for the table and the action."""

    name: str
    ref: Reference
    metadata: dict[str, str]
    older_than: timedelta
    yes: bool
    dry_run: bool
    quiet: bool
    as_json: bool


def _list(ds: Dataset, asked: _Request) -> None:
    branches = ds.branches.list()
    if asked.as_json:
        show_json([{"name": name, **entry} for name, entry in branches.items()])
    else:
        header = ("branch", "from", "version", "created (UTC)", "metadata")
        show_rows(header, [_cells(name, entry) for name, entry in branches.items()], right=["version"])


def _cells(name: str, entry: BranchEntry) -> tuple[object, ...]:
    created = time_text(datetime.fromtimestamp(entry["create_at"], UTC))
    parent = entry["parent_branch"] or MAIN
    return (name, parent, entry["parent_version"], created, _texts(entry["metadata"]))


def _texts(values: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _create(ds: Dataset, asked: _Request) -> None:
    ds.create_branch(asked.name, asked.ref)
    if asked.metadata:
        ds.branches.replace_metadata(asked.name, asked.metadata)
    _list(ds, asked)


def _update(ds: Dataset, asked: _Request) -> None:
    if not asked.metadata:
        raise click.UsageError("update takes --metadata, which replaces that of the branch")
    ds.branches.replace_metadata(asked.name, asked.metadata)
    _list(ds, asked)


def _describe(ds: Dataset, asked: _Request) -> None:
    found = ds.branches.describe(asked.name)
    if asked.as_json:
        show_json(found)
        return
    facts = (
        ("name", printable(found["name"])),
        ("from", f"version {found['parent_version']} of {printable(found['parent_branch'] or MAIN)}"),
        ("created", f"{time_text(found['created_at'])} UTC"),
        ("versions", f"{len(found['versions']):,}, the newest is {max(found['versions'], default='none')}"),
        ("own files", f"{found['num_files']:,}"),
        ("bytes", f"{found['nbytes']:,}"),
        ("metadata", printable(_texts(found["metadata"])) or "none"),
    )
    show_facts(facts)


def _delete(ds: Dataset, asked: _Request) -> None:
    if asked.dry_run:
        if not asked.as_json:
            show_text("would delete:")
        _describe(ds, asked)
        return
    if not asked.yes:
        found = ds.branches.describe(asked.name)
        counts = f"{len(found['versions']):,} versions and {found['num_files']:,} own files"
        ask(f"Delete the branch {printable(asked.name)} with {counts}?")
    ds.branches.delete(asked.name, older_than=asked.older_than)
    _list(ds, asked)


def _leftovers(ds: Dataset, asked: _Request) -> None:
    found = ds.branches.list_leftovers()
    if asked.as_json:
        show_json([{"name": name, **entry} for name, entry in found.items()])
        return
    rows = [
        (name, f"{entry['num_files']:,}", f"{entry['nbytes']:,}", time_text(entry["modified"]))
        for name, entry in found.items()
    ]
    show_rows(("branch", "files", "bytes", "modified (UTC)"), rows, right=["files", "bytes"])


def _remove_leftover(ds: Dataset, asked: _Request) -> None:
    ds.branches.remove_leftover(asked.name, older_than=asked.older_than)
    _leftovers(ds, asked)


def _fast_forward(ds: Dataset, asked: _Request) -> None:
    before = ds.latest_version
    with bar(asked.quiet or asked.as_json) as progress:
        done = ds.fast_forward(asked.name, progress, dry_run=asked.dry_run)
    if asked.as_json:
        show_json({"uri": ds.uri, "branch": asked.name, "dry_run": asked.dry_run, **asdict(done)})
        return
    said = "would copy:" if asked.dry_run else "copied:"
    show_values(asdict(done), said=said if done.version != before else "nothing to do:")


_ACTIONS: dict[str, Callable[[Dataset, _Request], None]] = {
    "list": _list,
    "create": _create,
    "update": _update,
    "describe": _describe,
    "delete": _delete,
    "leftovers": _leftovers,
    "remove-leftover": _remove_leftover,
    "fast-forward": _fast_forward,
}
_WITHOUT_NAME = ("list", "leftovers")
_WITH_DRY_RUN = ("delete", "fast-forward")


@click.command()
@place_options
@click.argument("action", type=click.Choice(list(_ACTIONS)), default="list")
@click.argument("name", required=False)
@click.argument("ref", type=reference, required=False)
@metadata_option
@click.option(
    "--older-than",
    default="7d",
    show_default=True,
    metavar="AGE",
    help="Files and marks of other processes of this age belong to processes that died, for delete and remove-leftover.",
)
@click.option("-y", "--yes", is_flag=True, help="Delete without asking for confirmation.")
@click.option("--dry-run", is_flag=True, help="Only say what delete or fast-forward would do.")
@quiet_option
@as_json
def branch(
    action: str,
    name: str | None,
    ref: Reference,
    metadata: tuple[str, ...],
    older_than: str,
    yes: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """List the branches of the table at URI; other actions create, describe or delete one, or bring it to its parent.

    \b
    create NAME [REF]     starts from the newest version, or from 3, TAG, BRANCH:3 or BRANCH:latest
    update NAME           replaces its --metadata
    describe NAME         versions, files and bytes of its own
    delete NAME           deletes it, and the files that only it has
    leftovers             lists what interrupted creations and deletions left
    remove-leftover NAME  removes that
    fast-forward NAME     makes its newest version the next one of the table it was made from
    """  # noqa: D301 - click keeps the lines of a paragraph with this character.
    if (name is None) is not (action in _WITHOUT_NAME):
        raise click.UsageError(f"{action} takes no NAME" if name else f"{action} takes the NAME of a branch")
    if ref is not None and action != "create":
        raise click.UsageError(f"{action} takes no REF")
    if dry_run and action not in _WITH_DRY_RUN:
        raise click.UsageError(f"{action} has no --dry-run; {' and '.join(_WITH_DRY_RUN)} have")
    asked = _Request(
        name or "", ref, pairs("--metadata", metadata), age(older_than), yes, dry_run, quiet, as_json
    )
    _ACTIONS[action](opened(**table), asked)
