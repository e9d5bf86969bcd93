"""``merge``: merges the rows of files into a table by keys."""

from __future__ import annotations

from typing import Any

import click

from lancecy.changes.merge_insert import MergeInsertBuilder
from lancecy.cli.options import as_json, opened, place_options, quiet_option
from lancecy.cli.output import bar, show_explanation, show_values
from lancecy.cli.sources import STANDARD, format_option, inputs, rows_of

__all__ = ["merge"]


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@place_options
@click.option(
    "--on",
    "keys",
    multiple=True,
    metavar="COLUMN",
    help="A key column; may be repeated. Default: the primary key of the table.",
)
@click.option(
    "--matched",
    type=click.Choice(["update", "delete", "fail", "keep"]),
    default="update",
    show_default=True,
    help="What happens to rows of the table that a row of FILE matches.",
)
@click.option(
    "--if",
    "condition",
    metavar="SQL",
    help='Update only if it is true, such as "source.changed > target.changed".',
)
@click.option("--no-insert", is_flag=True, help="Do not insert rows that match nothing.")
@click.option(
    "--delete-others",
    "others",
    metavar="SQL",
    help="Delete rows of the table that no row of FILE matches and for which it is true.",
)
@format_option
@click.option("--dry-run", is_flag=True, help="Only say which fragments, rows and bytes it would take.")
@quiet_option
@as_json
def merge(
    files: tuple[str, ...],
    keys: tuple[str, ...],
    matched: str,
    condition: str | None,
    no_insert: bool,
    others: str | None,
    kind: str | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """Merge the rows of FILE... (as for write) into the table at URI: update those with the same keys, insert others."""
    if table["uri"] == STANDARD:
        raise click.UsageError("the table is named last: lancecy merge - URI")
    if condition is not None and matched != "update":
        raise click.UsageError("--if is for --matched update")
    ds = opened(**table)
    builder = _configured(ds.merge_insert(keys or None), matched, condition, not no_insert, others)
    with inputs(files) as sources, bar(quiet or as_json) as progress:
        rows = rows_of(sources, kind, progress, ds.schema)
        found: Any = builder.explain(rows) if dry_run else builder.execute(rows, progress=progress)
    if dry_run:
        show_explanation(found, as_json)
        return
    counts = {f"{what}_rows": found[f"num_{what}_rows"] for what in ("inserted", "updated", "deleted")}
    show_values({"uri": ds.uri, "version": ds.version, **counts}, as_json)


def _configured(
    builder: MergeInsertBuilder, matched: str, condition: str | None, inserts: bool, others: str | None
) -> MergeInsertBuilder:
    if matched == "update":
        builder = builder.when_matched_update_all(condition)
    elif matched == "delete":
        builder = builder.when_matched_delete()
    elif matched == "fail":
        builder = builder.when_matched_fail()
    if inserts:
        builder = builder.when_not_matched_insert_all()
    return builder if others is None else builder.when_not_matched_by_source_delete(others)
