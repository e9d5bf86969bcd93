"""``compact``: merges small fragments and removes deleted rows from the files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from lancecy.api.datasets import Dataset
from lancecy.changes.compact import Compaction
from lancecy.changes.compaction_options import CompactionOptions
from lancecy.cli.options import as_json, message_option, opened, place_options, quiet_option
from lancecy.cli.output import bar, show_values

__all__ = ["compact"]


@click.command()
@place_options
@click.option(
    "--target-rows",
    type=click.IntRange(1),
    help="Fragments with fewer rows are merged. Default: the table's configuration, or 1,048,576.",
)
@click.option(
    "--deleted-share",
    type=click.FloatRange(0, 1),
    help="Fragments with a larger share of deleted rows are rewritten. Default: the table's configuration, or 0.1.",
)
@click.option("--reencode", is_flag=True, help="Encode all values anew, so that small pages are merged too.")
@message_option
@click.option("--dry-run", is_flag=True, help="Only say what would be rewritten.")
@quiet_option
@as_json
def compact(
    target_rows: int | None,
    deleted_share: float | None,
    reencode: bool,
    message: str | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """Merge small neighbouring fragments of the table at URI, and remove deleted rows from its files."""
    ds = opened(**table)
    options: CompactionOptions = {
        "target_rows_per_fragment": target_rows,
        "materialize_deletions_threshold": deleted_share,
        "compaction_mode": "reencode" if reencode else None,
    }
    if dry_run:
        _show(ds, "would rewrite:", _planned(ds, options), as_json)
        return
    with bar(quiet or as_json) as progress:
        done = ds.optimize.compact_files(**options, commit_message=message, progress=progress)
    _show(ds, "rewrote:" if done.fragments_removed else "nothing to do:", asdict(done), as_json)


def _planned(ds: Dataset, options: CompactionOptions) -> dict[str, int]:
    parts = [part for task in Compaction.plan(ds, options).tasks for part in task.fragments]
    return {
        "fragments_removed": len(parts),
        "files_removed": sum(len(part.files) + (part.deletion_file is not None) for part in parts),
        "rows": sum(part.num_rows for part in parts),
        "deleted_rows": sum(part.num_deletions for part in parts),
        "bytes": sum(file.size or 0 for part in parts for file in part.files),
    }


def _show(ds: Dataset, said: str, facts: dict[str, int], as_json: bool) -> None:
    told: dict[str, Any] = {
        "uri": ds.uri,
        "version": ds.version,
        **facts,
        "fragments": len(ds.get_fragments()),
    }
    show_values(told, as_json, said)
