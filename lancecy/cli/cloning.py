"""``clone``: makes a new table from one version of another."""

from __future__ import annotations

from typing import Any

import click

from lancecy.api.datasets import Dataset
from lancecy.changes.clone_files import clone_files
from lancecy.changes.deep_clone import copy_location
from lancecy.changes.shallow_clone import check_apart
from lancecy.cli.options import as_json, opened, quiet_option, storage_pairs, table_options
from lancecy.cli.output import bar, show_json, show_values
from lancecy.errors import ExistsError, printable
from lancecy.table.placement import check_new_place
from lancecy.table.refs import MAIN
from lancecy.table.snapshot import newest_snapshot

__all__ = ["clone"]


@click.command()
@table_options
@click.argument("target")
@click.option("--deep", is_flag=True, help="Copy all files, so that the clone needs no other table.")
@click.option("--verify", is_flag=True, help="With --deep: also compare the bytes of each copy.")
@click.option(
    "--protect",
    is_flag=True,
    help="Also make a tag on the cloned version, so that no cleanup of URI removes files the clone needs.",
)
@click.option("--protect-as", metavar="TAG", help="As --protect, with this name of the tag.")
@click.option(
    "--target-option",
    "target_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A storage option for TARGET; by default it has those of URI. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be cloned and copied.")
@quiet_option
@as_json
def clone(
    target: str,
    deep: bool,
    verify: bool,
    protect: bool,
    protect_as: str | None,
    target_options: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """Make the table TARGET from the newest version of the table at URI, or from that of --version, --tag or --branch.

    The clone uses the files of URI, and writes new ones into its own folder. With --deep it has copies of all files; an
    interrupted copy continues when the command is repeated.
    """
    if verify and not deep:
        raise click.UsageError("--verify compares the copies of --deep")
    if deep and (protect or protect_as is not None):
        raise click.UsageError("a deep clone has its own files and needs no --protect")
    ds, options = opened(**table), storage_pairs(target_options)
    facts = {"version": ds.version, "branch": ds.context.snapshot.manifest.branch or MAIN}
    if dry_run:
        _show("would clone:", {"uri": target, **facts, **_planned(ds, target, options, deep)}, as_json)
        return
    with bar(quiet or as_json) as progress:
        if deep:
            made = ds.deep_clone(target, storage_options=options, verify=verify, progress=progress)
        else:
            protection = protect if protect_as is None else protect_as
            made = ds.shallow_clone(target, storage_options=options, protect=protection)
    _show("cloned:", {"uri": made.uri, **facts, "rows": made.count_rows()}, as_json)


def _planned(ds: Dataset, target: str, options: dict[str, str] | None, deep: bool) -> dict[str, int]:
    """Rows of the clone, and what would be copied; refuses a place where there can be no clone."""
    source = ds.context.snapshot
    place = copy_location(source, target, options)
    check_apart(source.uri, place.uri)
    check_new_place(place, source.session)
    if newest_snapshot(place, source.session) is not None:
        raise ExistsError(
            f"there is a table at {printable(place.uri)} already", kind="dataset", name=place.uri
        )
    files = clone_files(source) if deep else None
    return {
        "rows": ds.count_rows(),
        "files_to_copy": len(files.files) if files else 0,
        "bytes_to_copy": files.nbytes if files else 0,
    }


def _show(said: str, facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json({"dry_run": said.startswith("would"), **facts})
        return
    show_values(facts, said=said)
