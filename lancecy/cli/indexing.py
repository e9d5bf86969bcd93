"""``index``: lists, makes, describes, drops and optimizes the indices of a table."""

from __future__ import annotations

from typing import Any

import click

from lancecy.api.datasets import Dataset
from lancecy.cli.options import as_json, message_option, opened, place_options, quiet_option
from lancecy.cli.output import bar, show_facts, show_json, show_rows, time_text
from lancecy.errors import printable
from lancecy.index.write.index_types import INDEX_TYPES
from lancecy.inspection.indices import DescribedIndex
from lancecy.scanning.explain import human_bytes

__all__ = ["index"]

_ACTIONS = ("list", "create", "zonemaps", "stats", "drop", "optimize")


@click.command()
@place_options
@click.argument("action", type=click.Choice(_ACTIONS), default="list")
@click.argument("subjects", nargs=-1)
@click.option(
    "--type",
    "index_type",
    type=click.Choice([*INDEX_TYPES], case_sensitive=False),
    default="BTREE",
    show_default=True,
    help="Of a new index.",
)
@click.option("--name", help="Of a new index. Default: the column's name and _idx.")
@click.option(
    "--keep", is_flag=True, help="Fail if there is an index of that name, which is replaced otherwise."
)
@click.option(
    "--merge",
    type=click.IntRange(0),
    help="optimize: newest segments that become one with the fragments that none covers. Default: 1.",
)
@click.option("--retrain", is_flag=True, help="optimize: make the indices anew.")
@message_option
@quiet_option
@as_json
def index(
    action: str,
    subjects: tuple[str, ...],
    index_type: str,
    name: str | None,
    keep: bool,
    merge: int | None,
    retrain: bool,
    message: str | None,
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """List the indices of the table at URI; `create COLUMN`, `stats NAME`, `drop NAME` and `optimize [NAME ...]` do what they say.

    `zonemaps [COLUMN ...]` makes zone maps of these columns, or of all, in one pass over the table. `optimize` makes
    indices cover the rows that were added since they were made.
    """
    _check(action, subjects)
    ds = opened(**table)
    if action == "stats":
        _show_statistics(ds, subjects[0], as_json)
        return
    with bar(quiet or as_json) as progress:
        if action == "create":
            ds.create_scalar_index(
                subjects[0], index_type, name, replace=not keep, commit_message=message, progress=progress
            )
        elif action == "zonemaps":
            ds.create_zonemaps(subjects or None, commit_message=message, progress=progress)
        elif action == "drop":
            ds.drop_index(subjects[0], commit_message=message)
        elif action == "optimize":
            ds.optimize.optimize_indices(
                num_indices_to_merge=merge,
                index_names=subjects or None,
                retrain=retrain,
                commit_message=message,
                progress=progress,
            )
    _show(ds, as_json)


def _check(action: str, subjects: tuple[str, ...]) -> None:
    if action == "create" and len(subjects) != 1:
        raise click.UsageError("create takes one COLUMN")
    if action in ("stats", "drop") and len(subjects) != 1:
        raise click.UsageError(f"{action} takes the NAME of one index")
    if action == "list" and subjects:
        raise click.UsageError("list takes no NAME")


def _show(ds: Dataset, as_json: bool) -> None:
    found = ds.describe_indices()
    rows = ds.count_rows()
    if as_json:
        show_json([_facts(each, rows) for each in found])
        return
    header = ("index", "type", "columns", "segments", "rows", "not covered", "size", "made (UTC)")
    numbers = ["segments", "rows", "not covered", "size"]
    show_rows(header, [_cells(each, rows) for each in found], right=numbers)


def _facts(each: DescribedIndex, rows: int) -> dict[str, Any]:
    return {
        "name": each.name,
        "type": each.index_type,
        "columns": list(each.field_names),
        "segments": len(each.segments),
        "rows": each.num_rows_indexed,
        "rows_not_covered": rows - each.num_rows_indexed,
        "bytes": each.total_size_bytes,
    }


def _cells(each: DescribedIndex, rows: int) -> tuple[object, ...]:
    size = each.total_size_bytes
    times = [segment.created_at for segment in each.segments if segment.created_at is not None]
    return (
        each.name,
        each.index_type,
        ", ".join(each.field_names),
        len(each.segments),
        f"{each.num_rows_indexed:,}",
        f"{rows - each.num_rows_indexed:,}",
        "" if size is None else human_bytes(size),
        time_text(max(times)) if times else "",
    )


def _show_statistics(ds: Dataset, name: str, as_json: bool) -> None:
    told = ds.index_statistics(name)
    if as_json:
        show_json(told)
        return
    facts = [
        (key.replace("_", " "), f"{value:,}")
        for key, value in told.items()
        if key.startswith("num_") and isinstance(value, int)
    ]
    for number, segment in enumerate(told["segments"]):
        text = ", ".join(f"{key} {value}" for key, value in segment.items())
        facts.append((f"segment {number}", printable(text)))
    show_facts([("name", printable(name)), ("type", told["index_type"]), *facts])
