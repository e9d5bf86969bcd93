"""What an update would do: fragments it touches, rows it moves, bytes it reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lancecy.changes.assignments import Assignments
from lancecy.changes.delete import matching_rows
from lancecy.expr import describe
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.explain import explain, facts_table, human_bytes
from lancecy.scanning.plan import plan
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec

__all__ = ["TouchedFragment", "UpdateExplanation", "explain_rows"]

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class TouchedFragment:
    """A fragment whose rows an update moves.

    Attributes
    ----------
    fragment : int
    rows : int
        Live rows.
    updated_rows : int
        Those that move to new fragments.
    bytes_to_read, bytes_to_write : int
        Estimates by the size of the columns in its files.
    """

    fragment: int
    rows: int
    updated_rows: int
    bytes_to_read: int
    bytes_to_write: int


@dataclass(frozen=True, slots=True)
class UpdateExplanation:
    """What an update would do; ``str()`` and notebooks show it readably.

    Attributes
    ----------
    uri : str
    version : int
    assignments : tuple of str
        Such as ``"price = price * 1.1"``.
    where : str or None
    fragments : tuple of TouchedFragment
        Fragments with rows to update.
    num_fragments : int
        In the whole table.
    rows : int
        Live rows of the whole table.
    bytes_to_search : int
        Bytes read to find the rows, in all fragments.
    """

    uri: str
    version: int
    assignments: tuple[str, ...]
    where: str | None
    fragments: tuple[TouchedFragment, ...]
    num_fragments: int
    rows: int
    bytes_to_search: int

    @property
    def updated_rows(self) -> int:
        """Rows that move to new fragments."""
        return sum(line.updated_rows for line in self.fragments)

    @property
    def removed_fragments(self) -> int:
        """Fragments of which no row is left."""
        return sum(line.updated_rows == line.rows for line in self.fragments)

    @property
    def bytes_to_read(self) -> int:
        """Estimated bytes read, those for the search included."""
        return self.bytes_to_search + sum(line.bytes_to_read for line in self.fragments)

    @property
    def bytes_to_write(self) -> int:
        """Estimated bytes of the new data files."""
        return sum(line.bytes_to_write for line in self.fragments)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the attributes, and the sums over all fragments."""
        sums = ("updated_rows", "removed_fragments", "bytes_to_read", "bytes_to_write")
        return {**asdict(self), **{name: getattr(self, name) for name in sums}}

    def _facts(self) -> list[tuple[str, str]]:
        touched = f"{len(self.fragments):,} of {self.num_fragments:,} touched"
        removed = f", {self.removed_fragments:,} of them removed" if self.removed_fragments else ""
        return [
            ("update of", f"{self.uri} at version {self.version}"),
            *(("set", text) for text in self.assignments),
            ("where", self.where or "every row"),
            ("fragments", touched + removed),
            ("rows", f"{self.updated_rows:,} of {self.rows:,} move to new fragments"),
            ("bytes to read", human_bytes(self.bytes_to_read)),
            ("bytes to write", human_bytes(self.bytes_to_write)),
        ]

    def text(self, verbose: bool = False) -> str:
        """The description for people.

        Parameters
        ----------
        verbose : bool
            Show every touched fragment; otherwise the first ones.
        """
        lines = [f"{name:>14}  {value}" for name, value in self._facts()]
        shown = self.fragments if verbose else self.fragments[:_SHOWN]
        if shown:
            lines += ["", f"{'fragment':>8}  {'rows':>22}  {'read':>10}  {'write':>10}"]
        for line in shown:
            rows = f"{line.updated_rows:,}/{line.rows:,}"
            read, write = human_bytes(line.bytes_to_read), human_bytes(line.bytes_to_write)
            lines.append(f"{line.fragment:>8}  {rows:>22}  {read:>10}  {write:>10}")
        if len(self.fragments) > len(shown):
            lines.append(f"{'…':>8}  {len(self.fragments) - len(shown):,} more fragments")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return facts_table(self._facts())


def explain_rows(context: ScanContext, chosen: Assignments, request: ScanRequest) -> UpdateExplanation:
    """Explain an update: find its rows, and estimate the bytes of their columns.

    Parameters
    ----------
    context : ScanContext
    chosen : Assignments
    request : ScanRequest
        The scan of the update.

    Raises
    ------
    FormatError, StoreError
        The columns of the predicate cannot be read.
    """
    snapshot, search = context.snapshot, ScanRequest(columns=(), filter=request.filter)
    spec = ScanSpec(snapshot.location, snapshot.version, search)
    looked = explain(context, plan(context, search, spec), search)
    found = _updated_rows(context, search)
    return UpdateExplanation(
        uri=snapshot.uri,
        version=snapshot.version,
        assignments=tuple(map(str, chosen.items)),
        where=None if request.filter is None else describe(request.filter),
        fragments=tuple(_touched(context, request, number, count) for number, count in found.items()),
        num_fragments=len(context.fragments),
        rows=sum(map(context.live_rows, context.fragments)),
        bytes_to_search=looked.bytes_to_read,
    )


def _updated_rows(context: ScanContext, search: ScanRequest) -> Mapping[int, int]:
    """Number of rows to update by fragment."""
    if search.filter is not None:
        return {number: rows.size for number, rows in matching_rows(context, search).items()}
    live = {fragment.id: context.live_rows(fragment) for fragment in context.fragments}
    return {number: rows for number, rows in live.items() if rows}


def _touched(context: ScanContext, request: ScanRequest, number: int, updated: int) -> TouchedFragment:
    files, projection = context.files(number), context.projection(request)
    every = context.snapshot.schema.scanned.fields
    files.prepare(every, context.session)
    moved = [field for field in projection.fields if field not in projection.filter_fields]
    per_row = updated / max(1, files.num_rows)
    return TouchedFragment(
        number,
        context.live_rows(context.metadata(number)),
        updated,
        int(files.estimated_bytes(moved) * per_row),
        int(files.estimated_bytes(every) * per_row),
    )
