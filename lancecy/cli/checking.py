"""``inspect diff verify``: how a file is stored, what changed, whether a table is intact."""

from __future__ import annotations

import sys
from typing import Any

import click

from lancecy.api.repairs import repair as repair_table
from lancecy.changes.repair import TableRepair
from lancecy.cli.options import (
    as_json,
    column_option,
    names,
    opened,
    quiet_option,
    storage_pairs,
    table_options,
)
from lancecy.cli.output import bar, show_json, show_text
from lancecy.cli.wording import in_shell_terms
from lancecy.inspection import files as inspection

__all__ = ["diff", "inspect", "verify"]


@click.command()
@click.argument("file")
@click.option("--pages", is_flag=True, help="Show every page and its buffers.")
@as_json
def inspect(file: str, pages: bool, as_json: bool) -> None:
    """Show how the data file FILE stores its columns: pages, encodings, bytes per value."""
    found = inspection.inspect(file)
    if as_json:
        show_json(found.to_dict(pages))
        return
    show_text(str(found))
    for column in found.columns if pages else ():
        show_text(f"\n{column.name}")
        for number, page in enumerate(column.pages):
            spans = ", ".join(f"{size:,} at {position:,}" for position, size in page.buffers)
            show_text(f"  page {number}: {page.values:,} values, {page.encoding}; {spans or 'no buffers'}")


@click.command()
@table_options
@click.argument("old", type=int)
@click.argument("new", type=int, required=False)
@as_json
def diff(old: int, new: int | None, as_json: bool, **table: Any) -> None:
    """Show what changed in the table at URI from version OLD to version NEW (default: the latest)."""
    found = opened(**table).diff(old, new)
    if as_json:
        show_json(found.to_dict())
    else:
        show_text(str(found))


@click.command()
@table_options
@column_option
@click.option(
    "--repair", "mend", is_flag=True, help="First do what `lancecy repair` does, and say what that was."
)
@quiet_option
@as_json
def verify(columns: str | None, mend: bool, quiet: bool, as_json: bool, **table: Any) -> None:
    """Read every page and statistic of the table at URI; exit code 1 if something is damaged."""
    repaired = _repaired(**table) if mend else None
    ds = opened(**table)
    with bar(quiet or as_json) as progress:
        found = ds.verify(names(columns), progress=progress)
    if as_json:
        show_json(found.to_dict() if repaired is None else {**found.to_dict(), "repair": repaired.to_dict()})
    else:
        show_text(in_shell_terms(str(found) if repaired is None else f"{repaired}\n\n{found}"))
    sys.exit(0 if found.is_ok else 1)


def _repaired(
    uri: str, storage_options: tuple[str, ...], untrusted: bool, allowed_bases: tuple[str, ...], **_: Any
) -> TableRepair:
    return repair_table(
        uri, storage_pairs(storage_options), untrusted=untrusted, allowed_bases=allowed_bases or None
    )
