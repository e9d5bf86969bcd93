"""``write delete update restore cleanup bases repair``: commands that change a table."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click
import pyarrow as pa
from click import UsageError

from lancecy.api.datasets import Dataset
from lancecy.api.repairs import repair as repair_table
from lancecy.api.writers import write_dataset
from lancecy.changes.options import WRITE_DEFAULTS
from lancecy.cli.options import (
    as_json,
    filter_option,
    message_option,
    opened,
    place_options,
    quiet_option,
    reference,
    storage_pairs,
    version_options,
)
from lancecy.cli.output import bar, show_explanation, show_json, show_rows, show_text, show_values
from lancecy.cli.sources import STANDARD, format_option, inputs, rows_of
from lancecy.errors import DatasetNotFoundError, printable
from lancecy.table.refs import MAIN
from lancecy.table.refs.reference import Reference
from lancecy.write.targets import DatasetBasePath

__all__ = ["age", "ask", "bases", "cleanup", "delete", "repair", "restore", "update", "write"]

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@place_options
@click.option(
    "--mode",
    type=click.Choice(["create", "append", "overwrite"]),
    default="create",
    show_default=True,
    help="Make a new table, add rows, or replace all rows.",
)
@format_option
@click.option(
    "--file-version", help="Version of the data files: 0.1, 2.0, 2.1 or 2.2. Default: the table's, or 2.1."
)
@click.option(
    "--base",
    "new_bases",
    multiple=True,
    metavar="NAME=PATH",
    help="A base path of a new table, besides its folder.",
)
@click.option(
    "--to",
    "targets",
    multiple=True,
    metavar="NAME",
    help="Base that data files are written to; several take turns. By default the bases of --base, or the folder of the table.",
)
@click.option(
    "--rows-per-file", type=click.IntRange(1), default=WRITE_DEFAULTS["max_rows_per_file"], show_default=True
)
@click.option("--stable-row-ids", is_flag=True, help="Rows of a new table have ids that survive compaction.")
@message_option
@quiet_option
@as_json
def write(
    files: tuple[str, ...],
    uri: str,
    storage_options: tuple[str, ...],
    allowed_bases: tuple[str, ...],
    mode: Any,
    kind: str | None,
    file_version: str | None,
    new_bases: tuple[str, ...],
    targets: tuple[str, ...],
    rows_per_file: int,
    stable_row_ids: bool,
    message: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the rows of FILE... (Parquet, CSV, TSV, Arrow, JSON lines; - is standard input) to the table at URI."""
    if uri == STANDARD:
        raise UsageError("the table is named last: lancecy write - URI")
    named = [_base(text) for text in new_bases]
    with inputs(files) as sources, bar(quiet or as_json) as progress:
        table = _columns(uri, storage_options, allowed_bases) if mode == "append" else None
        made = write_dataset(
            rows_of(sources, kind, progress, table),
            uri,
            mode=mode,
            data_storage_version=file_version,
            enable_stable_row_ids=stable_row_ids,
            initial_bases=named,
            # Bases that are named are used.
            target_bases=targets or [base.name or "" for base in named] or None,
            max_rows_per_file=rows_per_file,
            commit_message=message,
            storage_options=storage_pairs(storage_options),
            allowed_bases=allowed_bases or None,
        )
    _show(made, {"rows": made.count_rows()}, as_json)


def _columns(uri: str, storage_options: tuple[str, ...], allowed_bases: tuple[str, ...]) -> pa.Schema | None:
    """The columns of the table, None if there is no table yet."""
    try:
        return opened(uri, None, storage_options, allowed_bases=allowed_bases).schema
    except DatasetNotFoundError:
        return None


def _base(text: str) -> DatasetBasePath:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise UsageError(f"a base is NAME=PATH, not {text!r}")
    return DatasetBasePath(path, name=name)


def _show(made: Dataset, facts: dict[str, Any], as_json: bool) -> None:
    show_values({"uri": made.uri, "version": made.version, **facts}, as_json)


@click.command()
@place_options
@click.argument("predicate")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Only count the rows.")
@as_json
def delete(
    predicate: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """Delete the rows of the table at URI for which PREDICATE, SQL such as "id < 10", is true."""
    ds = opened(**table)
    if dry_run or not yes:
        count = ds.count_rows(predicate)
        if dry_run:
            _show(ds, {"rows_to_delete": count, "rows": ds.count_rows()}, as_json)
            return
        ask(f"Delete {count:,} of {ds.count_rows():,} rows of {printable(ds.uri)}?")
    _show(ds, {"deleted_rows": ds.delete(predicate)["num_deleted_rows"]} | {"version": ds.version}, as_json)


@click.command()
@place_options
@click.option(
    "--set",
    "assignments",
    multiple=True,
    required=True,
    metavar="COLUMN=SQL",
    help="A column, or a member of a struct such as s.x, and its new value. May be repeated.",
)
@filter_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask before every row is updated.")
@click.option("--dry-run", is_flag=True, help="Only say which fragments, rows and bytes it would take.")
@quiet_option
@as_json
def update(
    assignments: tuple[str, ...],
    filter_: str | None,
    yes: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """Update the rows of the table at URI that --where chooses: --set 'price=price * 1.1' --where 'id < 10'."""
    updates = dict(map(_assignment, assignments))
    if len(updates) < len(assignments):
        raise UsageError("--set has a column twice")
    ds = opened(**table)
    if dry_run:
        show_explanation(ds.explain_update(updates, filter_), as_json)
        return
    if filter_ is None and not yes:
        ask(f"Update all {ds.count_rows():,} rows of {printable(ds.uri)}?")
    with bar(quiet or as_json) as progress:
        done = ds.update(updates, filter_, progress=progress)
    _show(ds, {"updated_rows": done["num_rows_updated"]}, as_json)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise UsageError(f"--set takes COLUMN=SQL, such as 'price=price * 1.1', not {text!r}")
    return name.strip(), value.strip()


def ask(question: str) -> None:
    """Ask for confirmation; the command ends if the answer is no.

    Raises
    ------
    UsageError
        There is no terminal to ask on.
    """
    if not _is_terminal():
        raise UsageError("cannot ask for confirmation without a terminal: use --yes, or --dry-run first")
    click.confirm(question, abort=True, err=True)


@click.command()
@place_options
@click.argument("number", metavar="[VERSION]", type=reference, required=False)
@version_options
@click.option("--dry-run", is_flag=True, help="Only say what would be restored.")
@as_json
def restore(
    number: Reference,
    version: Reference,
    asof: str | None,
    tag: str | None,
    dry_run: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """Make VERSION of the table at URI, or the one of --asof, the newest again; later versions stay in the history."""
    if (number, version, asof, tag).count(None) != 3:
        raise UsageError("restore takes one of VERSION, --version, --asof and --tag")
    wanted = next((each for each in (number, version, tag) if each is not None), None)
    ds = opened(version=wanted, asof=asof, **table)
    if isinstance(wanted, str | tuple):
        _check_same_branch(ds, opened(**table))
    if dry_run:
        newest = ds.checkout_latest()
        facts = {"would_restore": ds.version, "rows": newest.count_rows(), "rows_after": ds.count_rows()}
        _show(newest, facts, as_json)
        return
    restored = ds.version
    ds.restore()
    _show(ds, {"restored": restored, "rows": ds.count_rows()}, as_json)


def _check_same_branch(wanted: Dataset, here: Dataset) -> None:
    """Refuse a version of another branch, where it would be restored."""
    branch = wanted.context.snapshot.manifest.branch
    if branch != here.context.snapshot.manifest.branch:
        name = printable(branch or MAIN)
        raise UsageError(
            f"this is version {wanted.version} of {name}, and a version is restored on its own branch: "
            f"--branch {name} {wanted.version}"
        )


@click.command()
@place_options
@click.option("--older-than", metavar="AGE", help="Such as 7d, 12h or 2w. Default: two weeks.")
@click.option("--retain", type=click.IntRange(1), help="Keep this many of the newest versions.")
@click.option(
    "--delete-unverified",
    is_flag=True,
    help="Also remove recent files of no version; not while the table is written to.",
)
@click.option("--keep-tagged", is_flag=True, help="Keep tagged versions, instead of refusing.")
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@quiet_option
@as_json
def cleanup(
    older_than: str | None,
    retain: int | None,
    delete_unverified: bool,
    keep_tagged: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """Remove old versions of the table at URI, the files that only they need, and leftovers of failed writes."""
    ds = opened(**table)
    with bar(quiet or as_json) as progress:
        found = ds.cleanup_old_versions(
            None if older_than is None else age(older_than),
            retain,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=not keep_tagged,
            dry_run=dry_run,
            progress=progress,
        )
    if as_json:
        show_json({"dry_run": dry_run, **asdict(found)})
    else:
        # The line above them says whether they were removed.
        values = {name.removesuffix("_removed"): value for name, value in asdict(found).items()}
        show_values(values, said="would remove:" if dry_run else "removed:")


def age(text: str) -> timedelta:
    """An age from text such as 7d.

    Raises
    ------
    UsageError
        The text is no age, or the age is too large.
    """
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(f"an age is a number and one of s, m, h, d, w, such as 7d, not {text!r}")
    try:
        return timedelta(**{_UNITS[found[2]]: float(found[1])})
    except OverflowError:
        raise UsageError(f"the age {text} is too large") from None


@click.command()
@place_options
@click.argument("action", type=click.Choice(["list", "add", "relocate", "copy"]), default="list")
@click.argument("base", required=False)
@click.argument("path", required=False)
@click.option(
    "--dataset-root", is_flag=True, help="The new base is a table's folder: data files go to data/ below it."
)
@click.option("--force", is_flag=True, help="Relocate also to a place that lacks files of the base.")
@click.option("--health", is_flag=True, help="List also whether each base and its replicas answer.")
@filter_option
@quiet_option
@as_json
def bases(
    action: str,
    base: str | None,
    path: str | None,
    dataset_root: bool,
    force: bool,
    health: bool,
    filter_: str | None,
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """List the base paths of the table at URI; `add NAME PATH` adds one, `relocate NAME PATH` changes its path.

    `copy NAME` copies data files to a base and reads them from there: of the fragments with rows that pass the filter, or of all.
    The name "" is the table's own folder.
    """
    ds = opened(**table)
    if action != "list":
        _change_bases(ds, action, base, path, dataset_root, force, filter_, quiet or as_json)
    rows = _base_rows(ds, health)
    if as_json:
        show_json(rows)
    else:
        header = ("id", "name", "path", "files", "bytes", *(("health", "error") if health else ()))
        lines = [
            line
            for row in rows
            for line in (row, *({"name": "replica", **r} for r in row.get("replicas", ())))
        ]
        cells = [[_base_cell(line.get(key)) for key in header] for line in lines]
        show_rows(header, cells, right=["id", "files", "bytes"], longest=500)


def _base_cell(value: object) -> object:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else value


def _change_bases(
    ds: Dataset,
    action: str,
    base: str | None,
    path: str | None,
    dataset_root: bool,
    force: bool,
    condition: str | None,
    quiet: bool,
) -> None:
    if action == "copy":
        if base is None or path is not None:
            raise UsageError("copy takes NAME of the base")
        with bar(quiet) as progress:
            ds.copy_files(filter=condition, base=base or None, progress=progress)
        return
    if base is None or path is None:
        raise UsageError(f"{action} takes NAME and PATH of the base")
    if action == "add":
        ds.add_bases([DatasetBasePath(path, name=base, is_dataset_root=dataset_root)])
    else:
        ds.relocate_base(base, path, force=force)


@click.command()
@place_options
@as_json
def repair(uri: str, storage_options: tuple[str, ...], allowed_bases: tuple[str, ...], as_json: bool) -> None:
    """Make the table at URI writable again: set damaged manifests aside, and assign missing row ids."""
    found = repair_table(uri, storage_pairs(storage_options), allowed_bases=allowed_bases or None)
    ds = opened(uri, None, storage_options, allowed_bases=allowed_bases)
    if not as_json:
        show_text(str(found))
        return
    facts = {"fragments": len(found.fragments), "rows": found.rows, "indices_dropped": len(found.indices)}
    _show(ds, {**facts, "next_row_id": found.next_row_id, "set_aside": found.to_dict()["set_aside"]}, as_json)


def _base_rows(ds: Dataset, health: bool) -> list[dict[str, Any]]:
    rows = []
    for base in ds.bases(check=health):
        row: dict[str, Any] = {
            "id": base.id,
            "name": base.name,
            "path": base.path,
            "is_dataset_root": base.is_dataset_root,
            "files": base.num_files,
            "bytes": base.num_bytes,
        }
        places = [asdict(place) for place in base.replicas]
        if health:
            row |= {"health": base.health, "seconds": base.seconds, "error": base.error, "replicas": places}
        rows.append(row)
    return rows


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
