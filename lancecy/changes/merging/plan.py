"""What a merge reads and writes, for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lancecy.changes.merging.clauses import Rules
from lancecy.changes.merging.matching import Matches
from lancecy.changes.merging.source import Source
from lancecy.expr import describe
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.explain import human_bytes

__all__ = ["MergePlan", "merge_plan", "plan_text"]


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What a merge would do; its text is a report.

    Attributes
    ----------
    on : tuple of str
        Key columns.
    num_source_rows : int
    num_inserted_rows, num_updated_rows, num_deleted_rows : int
        As ``execute`` returns them.
    fragments : tuple of int
        Ids of the fragments that lose rows.
    num_fragments : int
        Fragments of the table.
    num_rows_read : int
        Rows of the table whose keys are read.
    bytes_to_read : int, bytes
        Estimate, decoded.
    bytes_to_write : int, bytes
        Estimate, decoded.
    """

    on: tuple[str, ...]
    num_source_rows: int
    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int
    fragments: tuple[int, ...]
    num_fragments: int
    num_rows_read: int
    bytes_to_read: int
    bytes_to_write: int

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, for ``json.dumps``."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"merge of {self.num_source_rows:,} rows on {', '.join(self.on)}",
                f"  insert  {self.num_inserted_rows:,} rows",
                f"  update  {self.num_updated_rows:,} rows",
                f"  delete  {self.num_deleted_rows:,} rows",
                f"  touch   {len(self.fragments):,} of {self.num_fragments:,} fragments",
                f"  read    {self.num_rows_read:,} rows, about {human_bytes(self.bytes_to_read)}",
                f"  write   about {human_bytes(self.bytes_to_write)}",
            ]
        )


def merge_plan(
    context: ScanContext, source: Source, rules: Rules, matches: Matches, in_place: bool = False
) -> MergePlan:
    """The plan of a merge whose matches are known.

    Parameters
    ----------
    context : ScanContext
    source : Source
    rules : Rules
    matches : Matches
    in_place : bool
        Whether columns of whole fragments are written instead of rows.
    """
    num_rows = sum(context.live_rows(fragment) for fragment in context.fragments)
    per_row = _bytes_per_row(context, rules.of_target)
    copied = _bytes_per_row(context, rules.kept) * matches.rows.size
    written = matches.rows.size + matches.num_inserted
    share = source.nbytes * written / max(1, source.num_rows)
    if in_place:
        touched = sum(context.physical_rows(context.metadata(number)) for number in matches.gone)
        share, copied = 0.0, _bytes_per_row(context, _written(rules)) * touched
    return MergePlan(
        rules.on,
        source.num_rows,
        matches.num_inserted,
        matches.rows.size,
        matches.num_deleted,
        tuple(sorted(matches.gone)),
        len(context.fragments),
        min(matches.num_read, num_rows),
        int(per_row * matches.num_read + copied),
        int(share + copied),
    )


def plan_text(context: ScanContext, rules: Rules, verbose: bool, in_place: bool = False) -> str:
    """What a merge of any rows with these columns reads and writes.

    Parameters
    ----------
    context : ScanContext
    rules : Rules
    verbose : bool
        Also the fragments.
    in_place : bool
        As for :func:`merge_plan`.
    """
    clauses, num_rows = rules.clauses, sum(context.live_rows(fragment) for fragment in context.fragments)
    matched: str = clauses.matched
    if rules.condition is not None:
        matched += f" if {describe(rules.condition.expr)}"
    absent = "keep" if not clauses.deletes else "delete"
    if rules.deleted is not None:
        absent += f" if {describe(rules.deleted.expr)}"
    size = _bytes_per_row(context, rules.of_target) * num_rows
    lines = [
        f"merge on {', '.join(rules.on)}",
        f"  matched                {matched}",
        f"  not matched            {'insert' if clauses.inserts else 'ignore'}",
        f"  not matched by source  {absent}",
        f"  read                   {', '.join(rules.of_target)} of {num_rows:,} rows, about {human_bytes(size)}",
        f"  write                  {', '.join(rules.given) or 'nothing'}",
    ]
    if in_place:
        lines[-1] = f"  write in place         {', '.join(_written(rules))} of fragments with matching rows"
    elif rules.kept and clauses.matched == "update":
        lines.append(f"  copy of updated rows   {', '.join(rules.kept)}")
    if verbose:
        lines += [f"  fragment {part.id}: {context.live_rows(part):,} rows" for part in context.fragments]
    return "\n".join(lines)


def _written(rules: Rules) -> tuple[str, ...]:
    """The columns that are written in place."""
    return tuple(name for name in rules.given if name not in rules.on)


def _bytes_per_row(context: ScanContext, names: tuple[str, ...]) -> float:
    """Mean decoded bytes of a row of some columns, from the metadata."""
    fields = [context.snapshot.schema.scanned.field(name) for name in names]
    numbers = context.indices(None)
    return float(context.row_bytes(numbers, fields).mean()) if fields and numbers.size else 0.0
