"""``info schema head count versions log explain``: the contents of a table; ``inspect diff verify``: how it is stored."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

import click
import pyarrow as pa

from lancecy.api.datasets import Dataset
from lancecy.api.repairs import repair as repair_table
from lancecy.changes.log import LogEntry, version_log
from lancecy.changes.repair import TableRepair
from lancecy.changes.transactions import Transaction, transactions_by_version
from lancecy.cli.options import (
    as_csv,
    as_json,
    branch_uri,
    column_option,
    filter_option,
    names,
    opened,
    quiet_option,
    reference,
    storage_pairs,
    table_options,
)
from lancecy.cli.output import (
    bar,
    in_shell_terms,
    show_csv,
    show_json,
    show_rows,
    show_text,
    show_values,
    time_text,
)
from lancecy.inspection import files as inspection
from lancecy.schema import Field
from lancecy.table.refs.reference import Reference

__all__ = [
    "count",
    "diff",
    "explain",
    "head",
    "info",
    "inspect",
    "log",
    "schema",
    "show_columns",
    "verify",
    "versions",
]


@click.command()
@table_options
@as_json
def info(as_json: bool, **table: Any) -> None:
    """Show the table at URI: version, rows, fragments, files, bases."""
    ds = opened(**table)
    facts = ds.summary()
    if not as_json:
        facts = {name: value for name, value in facts.items() if value not in (None, {})}
    show_values(facts, as_json)


@click.command()
@table_options
@as_json
def schema(as_json: bool, **table: Any) -> None:
    """Show the columns of the table at URI: names, types, field ids."""
    show_columns(opened(**table), as_json)


def show_columns(ds: Dataset, as_json: bool) -> None:
    """Show the columns of a table."""
    rows = [row for top in ds.lance_schema.fields for row in _field_rows(top)]
    if as_json:
        show_json(rows)
    else:
        header = ("column", "type", "null", "field id", "logical type")
        show_rows(header, [_schema_cells(row) for row in rows], right=["field id"])


def _schema_cells(row: dict[str, Any]) -> tuple[object, ...]:
    name = "  " * row["depth"] + row["name"].rpartition(".")[2]
    return (name, row["type"], "yes" if row["nullable"] else "no", row["id"], row["logical_type"])


def _field_rows(node: Field, above: str = "", depth: int = 0) -> list[dict[str, Any]]:
    name = f"{above}{node.name}"
    row = {
        "name": name,
        "type": str(node.arrow_type),
        "nullable": node.nullable,
        "id": node.id,
        "logical_type": node.logical_type,
        "depth": depth,
    }
    return [row, *(r for child in node.children for r in _field_rows(child, f"{name}.", depth + 1))]


@click.command()
@table_options
@click.option(
    "-n",
    "--rows",
    "--limit",
    "rows",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="How many rows.",
)
@column_option
@filter_option
@as_json
def head(rows: int, columns: str | None, filter_: str | None, as_json: bool, **table: Any) -> None:
    """Show the first rows of the table at URI."""
    found = opened(**table).head(rows, columns=names(columns), filter=filter_)
    values = [[_value(scalar) for scalar in column] for column in found.columns]
    lines = list(zip(*values, strict=True))
    if as_json:
        show_json([dict(zip(found.column_names, line, strict=True)) for line in lines])
    else:
        show_rows(found.column_names, lines)


def _value(scalar: pa.Scalar) -> Any:
    """The Python value, or Arrow's text if Python has none (such as a date in the year 5,881,580)."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return pa.array([scalar], scalar.type).to_string(skip_new_lines=True)[1:-1]


@click.command()
@table_options
@filter_option
@as_json
def count(filter_: str | None, as_json: bool, **table: Any) -> None:
    """Count the rows of the table at URI, or those that pass a filter."""
    found = opened(**table).count_rows(filter_)
    if as_json:
        show_json({"rows": found})
    else:
        show_text(str(found))


@click.command()
@table_options
@as_json
def versions(as_json: bool, **table: Any) -> None:
    """List all versions of the table at URI, the newest last."""
    ds = opened(**table)
    made = transactions_by_version(ds.context.snapshot)
    found = [_with_transaction(version, made.get(version["version"])) for version in ds.versions()]
    if as_json:
        show_json(found)
    else:
        header = ("version", "written (UTC)", "operation", "rows", "message")
        rows = [
            (
                v["version"],
                time_text(v["timestamp"]),
                v["operation"] or "unknown",
                _rows(v),
                v["message"] or "",
            )
            for v in found
        ]
        show_rows(header, rows, right=["version", "rows"])


def _with_transaction(version: dict[str, Any], made: Transaction | None) -> dict[str, Any]:
    """A version with the operation that made it and the message of its commit."""
    if made is None:
        return {**version, "operation": None, "message": None}
    return {**version, "operation": made.operation_name, "message": made.commit_message}


@click.command()
@table_options
@click.option("-n", "--limit", type=click.IntRange(1), help="Only so many versions; 50 for --graph.")
@click.option("--graph", is_flag=True, help="Draw the versions of all branches, with their tags.")
@as_json
@as_csv
def log(limit: int | None, graph: bool, as_json: bool, as_csv: bool, **table: Any) -> None:
    """Show what made each version of the table at URI, the newest first.

    Rows are those that were written and those that were deleted: an update that moves rows does both.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two forms of output: give one of them")
    if graph:
        _show_graph(limit or _GRAPH_VERSIONS, as_json, as_csv, table)
        return
    found = [entry.to_dict() for entry in version_log(opened(**table).context.snapshot, limit)]
    if as_json:
        show_json(found)
    elif as_csv:
        show_csv([field.name for field in fields(LogEntry)], [list(entry.values()) for entry in found])
    else:
        show_rows(_LOG_HEADER, [_log_cells(entry) for entry in found], right=["version", "rows", "+", "-"])


_GRAPH_VERSIONS = 50


def _show_graph(limit: int, as_json: bool, as_csv: bool, table: dict[str, Any]) -> None:
    if as_csv:
        raise click.UsageError("--graph is a picture: --json gives it as values")
    if any(table[name] is not None for name in ("version", "tag", "branch", "asof")):
        raise click.UsageError("--graph shows all branches, from their newest versions on")
    found = opened(**table).history_graph(limit)
    if as_json:
        show_json(found.to_dict())
    else:
        show_text(str(found))


_LOG_HEADER = ("version", "written (UTC)", "writer", "operation", "rows", "+", "-", "details", "message")


def _log_cells(entry: dict[str, Any]) -> tuple[object, ...]:
    counts = [entry[name] for name in ("rows", "rows_added", "rows_removed")]
    return (
        entry["version"],
        time_text(entry["timestamp"]),
        entry["writer"] or "unknown",
        entry["operation"] or "unknown",
        *("unknown" if count is None else f"{count:,}" for count in counts),
        entry["details"],
        entry["message"] or "",
    )


def _rows(version: dict[str, Any]) -> str:
    return f"{int(version['metadata']['total_rows']):,}"


@click.command()
@table_options
@column_option
@filter_option
@as_json
def explain(columns: str | None, filter_: str | None, as_json: bool, **table: Any) -> None:
    """Show what a scan of the table at URI would read and skip."""
    found = opened(**table).scanner(names(columns), filter_).explain()
    if as_json:
        show_json(found.to_dict())
    else:
        show_text(str(found))


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
@click.argument("old", type=reference)
@click.argument("new", type=reference, required=False)
@as_json
def diff(old: Reference, new: Reference, as_json: bool, **table: Any) -> None:
    """Show what changed in the table at URI from version OLD to version NEW (default: the latest).

    Versions are written 3, TAG, BRANCH:3 or BRANCH:latest, where main is the table without a branch.
    """
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
    uri: str,
    storage_options: tuple[str, ...],
    untrusted: bool,
    allowed_bases: tuple[str, ...],
    branch: str | None,
    **_: Any,
) -> TableRepair:
    place = branch_uri(uri, branch, storage_options, untrusted, allowed_bases)
    return repair_table(
        place, storage_pairs(storage_options), untrusted=untrusted, allowed_bases=allowed_bases or None
    )
