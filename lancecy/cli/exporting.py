"""``export``: the rows of a table as a file of another format."""

from __future__ import annotations

from typing import Any

import click

from lancecy.api.datasets import Dataset
from lancecy.cli.options import (
    as_json,
    column_option,
    filter_option,
    names,
    opened,
    quiet_option,
    table_options,
)
from lancecy.cli.output import bar, show_facts, show_json
from lancecy.cli.sinks import check_columns, format_of, opened_output, written
from lancecy.cli.sources import FORMATS, STANDARD
from lancecy.errors import printable
from lancecy.progress import Progress, Step

__all__ = ["export"]

# Batches are as small as this even if rows are large.
_BATCH_BYTES = 16 << 20
_STREAM_ENDING = ".arrows"


@click.command()
@table_options
@click.argument("file")
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), help="Format of the file. Default: by its ending."
)
@column_option
@filter_option
@click.option("-n", "--limit", type=click.IntRange(0), help="No more rows than this.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@quiet_option
@as_json
def export(
    file: str,
    kind: str | None,
    columns: str | None,
    filter_: str | None,
    limit: int | None,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """Write the rows of the table at URI to FILE (Parquet, CSV, TSV, Arrow, JSON lines; - is standard output)."""
    if as_json and file == STANDARD:
        raise click.UsageError("--json and the rows cannot both go to standard output: leave one out")
    chosen = format_of(file, kind)
    ds = opened(**table)
    with bar(quiet or as_json) as progress:
        facts = _exported(ds, file, chosen, overwrite, progress, (names(columns), filter_, limit))
    if as_json:
        show_json(facts)
    elif file != STANDARD:
        texts = {name: f"{v:,}" if isinstance(v, int) else printable(v) for name, v in facts.items()}
        show_facts(list(texts.items()))


def _exported(
    ds: Dataset,
    file: str,
    kind: str,
    overwrite: bool,
    progress: Progress,
    wanted: tuple[list[str] | None, str | None, int | None],
) -> dict[str, Any]:
    columns, condition, limit = wanted
    scan = ds.scanner(columns, condition, limit, batch_size_bytes=_BATCH_BYTES)
    schema = scan.schema
    check_columns(schema, kind)
    total = ds.count_rows() if condition is None else 0  # counting filtered rows would be a second scan
    if limit is not None:
        total = min(total, limit)
    is_stream = file == STANDARD or file.lower().endswith(_STREAM_ENDING)
    rows = 0
    with opened_output(file, overwrite) as output:
        with written(kind, output, schema, is_stream) as write:
            for batch in scan.to_batches():
                write(batch)
                rows += batch.num_rows
                progress(Step("export", rows, total, "rows", file))
        size = output.size
    progress(Step("export", rows, rows, "rows"))
    return {"file": file, "format": kind, "version": ds.version, "rows": rows, "bytes": size}
