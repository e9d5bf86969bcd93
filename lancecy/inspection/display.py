"""Text and HTML of datasets and scans, for terminals and notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lancecy.errors import LanceError, printable
from lancecy.expr import describe
from lancecy.scanning.context import ScanContext
from lancecy.scanning.explain import human_bytes
from lancecy.scanning.request import ScanRequest
from lancecy.store.key_values.ddb_uri import shown_uri
from lancecy.table.answers import run_on
from lancecy.table.refs.places import main_location
from lancecy.table.refs.readable import ref_names
from lancecy.table.snapshot import Snapshot

__all__ = ["dataset_html", "dataset_text", "scanner_text", "summary"]

_MAX_COLUMNS = 24
_MAX_NAMES = 12


def _facts(context: ScanContext) -> list[tuple[str, str]]:
    """The main facts of a dataset as texts, from the manifest alone."""
    snapshot, manifest = context.snapshot, context.snapshot.manifest
    facts = [
        (
            "version",
            f"{snapshot.version}" + (f" of branch {printable(manifest.branch)}" if manifest.branch else ""),
        )
    ]
    if manifest.timestamp is not None:
        facts.append(("written", f"{manifest.timestamp:%Y-%m-%d %H:%M:%S} UTC"))
    if manifest.writer is not None:
        facts.append(("writer", printable(f"{manifest.writer.library} {manifest.writer.version}")))
    facts.append(("rows", _rows(context)))
    sizes = [file.size for fragment in manifest.fragments for file in fragment.files]
    files = f"{len(sizes):,} data file{'' if len(sizes) == 1 else 's'}"
    if sizes and all(sizes) and (manifest.data_version or "0.1") != "0.1":
        files += f", {human_bytes(sum(s or 0 for s in sizes))}"
    facts.append(("fragments", f"{len(manifest.fragments):,} in {files}"))
    facts.append(("file version", printable(manifest.data_version or "0.1")))
    if manifest.base_paths:
        names = [base.name or str(base.id) for base in manifest.base_paths.values()]
        facts.append(("bases", ", ".join(printable(n) for n in names)))
    if manifest.has_stable_row_ids:
        facts.append(("row ids", f"stable, next is {manifest.next_row_id:,}"))
    return facts


def summary(context: ScanContext) -> dict[str, Any]:
    """The main facts of a dataset as plain values; None for what the manifest does not state.

    Opens data files only if the manifest does not state their rows.
    """
    snapshot, manifest = context.snapshot, context.snapshot.manifest
    files = [file for fragment in manifest.fragments for file in fragment.files]
    sizes = [file.size for file in files]
    is_legacy = (manifest.data_version or "0.1") == "0.1"
    physical = sum(context.physical_rows(f) for f in context.fragments)
    live = int(context.row_starts()[-1])
    writer = manifest.writer
    return {
        "uri": shown_uri(snapshot.uri),
        "version": snapshot.version,
        "branch": manifest.branch,
        "written": None if manifest.timestamp is None else manifest.timestamp.isoformat(),
        "writer": None if writer is None else f"{writer.library} {writer.version}",
        "rows": live,
        "deleted_rows": physical - live,
        "columns": len(snapshot.schema.fields),
        "fragments": len(manifest.fragments),
        "data_files": len(files),
        # Old releases stated wrong sizes for 0.1 files.
        "bytes": None if is_legacy or not all(sizes) else sum(size or 0 for size in sizes),
        "file_version": manifest.data_version or "0.1",
        "bases": {str(base.id): base.name or base.path for base in manifest.base_paths.values()},
        "stable_row_ids": manifest.has_stable_row_ids,
        "config": dict(manifest.config),
        "metadata": dict(manifest.table_metadata),
    }


def _rows(context: ScanContext) -> str:
    known = all(f.physical_rows is not None for f in context.fragments)
    if not known and len(context.fragments) > 16:
        return "not in the manifest"
    try:
        live = int(context.row_starts()[-1])
        physical = sum(context.physical_rows(f) for f in context.fragments)
    except LanceError as error:
        return f"unreadable: {error}"
    return f"{live:,}" + (f" ({physical - live:,} deleted)" if physical != live else "")


def _columns(schema: pa.Schema) -> list[tuple[str, str]]:
    shown = [
        (printable(f.name), printable(f"{f.type}") + ("" if f.nullable else " not null"))
        for f in list(schema)[:_MAX_COLUMNS]
    ]
    if len(schema) > _MAX_COLUMNS:
        shown.append(("…", f"{len(schema) - _MAX_COLUMNS:,} more columns"))
    return shown


def dataset_text(context: ScanContext) -> str:
    """The text of a dataset, several lines."""
    columns = _columns(context.snapshot.schema.arrow)
    width = max((len(name) for name, _ in columns), default=0)
    lines = [f"lancecy.Dataset {printable(shown_uri(context.snapshot.uri))}"]
    lines += [f"  {name + ':':<13} {value}" for name, value in _facts(context)]
    lines.append("  columns:")
    lines += [f"    {name:<{width}}  {kind}" for name, kind in columns]
    return "\n".join(lines)


def _html_rows(pairs: list[tuple[str, str]]) -> str:
    cell = "<tr><th style='text-align:left'>{}</th><td style='text-align:left'>{}</td></tr>"
    return "".join(cell.format(html.escape(name), html.escape(value)) for name, value in pairs)


def dataset_html(context: ScanContext) -> str:
    """The HTML of a dataset for notebooks."""
    title = html.escape(printable(shown_uri(context.snapshot.uri)))
    columns = _html_rows(_columns(context.snapshot.schema.arrow))
    return (
        f"<div><strong>lancecy.Dataset</strong> <code>{title}</code>"
        f"<table>{_html_rows([*_facts(context), *_references(context.snapshot)])}</table>"
        f"<details open><summary>columns</summary><table>{columns}</table></details></div>"
    )


def _references(snapshot: Snapshot) -> list[tuple[str, str]]:
    """The names of tags and branches, by one listing; no error hides the rest of the dataset."""
    try:
        main = main_location(snapshot.location, snapshot.manifest.branch)
        tags, branches = run_on(ref_names(tries=1), main.open(snapshot.session))
    except LanceError as error:
        return [("tags, branches", f"cannot be listed: {error}")]
    named = (("tags", tags), ("branches", branches))
    return [(kind, _listed(names)) for kind, names in named if names]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(printable, names[:_MAX_NAMES]))
    return shown + (f", … ({len(names):,} in all)" if len(names) > _MAX_NAMES else "")


def scanner_text(context: ScanContext, request: ScanRequest, schema: pa.Schema) -> str:
    """The text of a scan, one or two lines; ``explain()`` has more."""
    parts = [f"columns={schema.names[:12]}"]
    if request.filter is not None:
        parts.append(f"filter={describe(request.filter)!r}")
    parts += [
        f"{name}={value}" for name, value in (("limit", request.limit), ("offset", request.offset)) if value
    ]
    return f"lancecy.Scanner of {printable(shown_uri(context.snapshot.uri))} version {context.snapshot.version}: {', '.join(parts)}"
