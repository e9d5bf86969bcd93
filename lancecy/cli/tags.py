"""``tag``: lists, creates, moves and deletes the tags of a table."""

from __future__ import annotations

from typing import Any

import click

from lancecy.api.datasets import Dataset
from lancecy.api.refs import TagDescription
from lancecy.cli.options import as_json, metadata_option, opened, pairs, place_options, reference
from lancecy.cli.output import show_json, show_rows, time_text
from lancecy.table.refs import MAIN
from lancecy.table.refs.reference import Reference

__all__ = ["tag"]


@click.command()
@place_options
@click.argument("action", type=click.Choice(["list", "create", "update", "delete"]), default="list")
@click.argument("name", required=False)
@click.argument("ref", type=reference, required=False)
@metadata_option
@as_json
def tag(
    action: str,
    name: str | None,
    ref: Reference,
    metadata: tuple[str, ...],
    as_json: bool,
    **table: Any,
) -> None:
    """List the tags of the table at URI; `create NAME [REF]`, `update NAME [REF]` and `delete NAME` change them.

    REF is the version that the tag names: 3, TAG, BRANCH:3 or BRANCH:latest. By default a new tag names the newest one.
    An update takes REF, --metadata, which replaces what is stored, or both.
    """
    _check(action, name, ref, metadata)
    ds = opened(**table)
    if action != "list":
        _change(ds, action, name or "", ref, pairs("--metadata", metadata))
    _show(ds, as_json)


def _check(action: str, name: str | None, ref: Reference, metadata: tuple[str, ...]) -> None:
    if (name is None) is not (action == "list"):
        raise click.UsageError("list takes no NAME" if name else f"{action} takes the NAME of a tag")
    if action in ("list", "delete") and (ref is not None or metadata):
        raise click.UsageError(f"{action} takes neither REF nor --metadata")
    if action == "update" and ref is None and not metadata:
        raise click.UsageError("update takes REF, the version that the tag names from now on, or --metadata")


def _change(ds: Dataset, action: str, name: str, ref: Reference, metadata: dict[str, str]) -> None:
    if action == "create":
        ds.tags.create(name, ref, metadata)
    elif action == "delete":
        ds.tags.delete(name)
    else:
        if ref is not None:
            ds.tags.update(name, ref)
        if metadata:
            ds.tags.replace_metadata(name, metadata)


def _show(ds: Dataset, as_json: bool) -> None:
    tags = ds.tags.list()
    if as_json:
        show_json([{"name": name, **entry} for name, entry in tags.items()])
    else:
        header = ("tag", "branch", "version", "created (UTC)", "updated (UTC)", "metadata")
        show_rows(header, [_cells(name, entry) for name, entry in tags.items()], right=["version"])


def _cells(name: str, entry: TagDescription) -> tuple[object, ...]:
    times = (time_text(entry["created_at"]), time_text(entry["updated_at"]))
    texts = ", ".join(f"{key}={value}" for key, value in entry["metadata"].items())
    return (name, entry["branch"] or MAIN, entry["version"], *times, texts)
