"""Descriptions of what a scan will read and skip."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from lancecy.errors import printable
from lancecy.expr import describe
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.context import ScanContext
from lancecy.scanning.filtering import question
from lancecy.scanning.plan import ScanPlan, planning_answers, planning_sources
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.sources import Answer, PageCount, answers, concerned
from lancecy.scanning.task import ScanUnit
from lancecy.schema import Field
from lancecy.table.manifest import Fragment

__all__ = ["Explanation", "FragmentLine", "explain", "facts_table", "human_bytes"]


def human_bytes(count: float) -> str:
    """Format a size for people.

    Examples
    --------
    >>> human_bytes(1536)
    '1.5 KiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A candidate source's answer about one fragment.

    Attributes
    ----------
    name : str
        "row ids", "indices", "statistics"; see ``lancecy.scanning.sources``.
    kind : str
        "exact": its proved conditions are not tested again on the rows it left. "at most": all conditions are
        tested. "unknown": it ruled out nothing.
    rows : int
        Live rows left by this source and those before it.
    proved : tuple of str
        Conditions that are true for all rows left.
    indices : tuple of str
        Names and types of the indices used.
    """

    name: str
    kind: str
    rows: int
    proved: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FragmentLine:
    """One fragment in an explanation.

    Attributes
    ----------
    fragment : int
    base : str
        "" for the dataset's own root, else name or id of the base.
    rows, kept_rows : int
        Live rows, and those left by all sources.
    pages, kept_pages : int
        Pages described by statistics, and those that may match.
    bytes, kept_bytes : int
        Encoded bytes of the selected columns: all, and an estimate of those read.
    stored_pages : int
        Pages of the selected columns, with or without statistics; of a nested column, pages of its first leaf.
    version : str
        Highest version of the data files: "0.1", "2.0", ...; "" if they were not opened.
    located_rows : int
        Live rows left by conditions on row ids, addresses and versions, which read no data file.
    sources : tuple of SourceLine
        Answers of the sources that were asked, in order.
    """

    fragment: int
    base: str
    rows: int
    kept_rows: int
    pages: int
    kept_pages: int
    bytes: int
    kept_bytes: int
    stored_pages: int = 0
    version: str = ""
    located_rows: int = 0
    sources: tuple[SourceLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Description of a scan; ``str()`` and notebooks show it readably.

    Attributes
    ----------
    uri : str
    version : int
    columns : tuple of str
    filter : str or None
    fragments : tuple of FragmentLine
    num_fragments : int
        In the whole table.
    search : str or None
        Which rows a search returns, and how it finds them. The other attributes then describe the scan that it
        compares, of the vectors.
    """

    uri: str
    version: int
    columns: tuple[str, ...]
    filter: str | None
    fragments: tuple[FragmentLine, ...]
    num_fragments: int
    search: str | None = None

    @property
    def kept_fragments(self) -> int:
        """Fragments with at least one row that may match."""
        return sum(1 for line in self.fragments if line.kept_rows)

    @property
    def rows(self) -> int:
        """Live rows of the described fragments."""
        return sum(line.rows for line in self.fragments)

    @property
    def located_rows(self) -> int:
        """Rows left by sources that read no data file, row ids among them."""
        return sum(line.located_rows for line in self.fragments)

    @property
    def kept_rows(self) -> int:
        """Rows that the filter has to test."""
        return sum(line.kept_rows for line in self.fragments)

    @property
    def pages(self) -> int:
        """Pages with statistics for the filter."""
        return sum(line.pages for line in self.fragments)

    @property
    def kept_pages(self) -> int:
        """Pages whose statistics do not rule out a match."""
        return sum(line.kept_pages for line in self.fragments)

    @property
    def stored_pages(self) -> int:
        """Pages of the selected columns, with or without statistics."""
        return sum(line.stored_pages for line in self.fragments)

    @property
    def bytes_to_read(self) -> int:
        """Upper estimate of the encoded bytes read; a filter may drop rows and read fewer."""
        return sum(line.kept_bytes for line in self.fragments)

    @property
    def bytes_total(self) -> int:
        """Encoded bytes of the selected columns without any pruning."""
        return sum(line.bytes for line in self.fragments)

    @property
    def sources(self) -> tuple[str, ...]:
        """Candidate sources that ruled out rows, or proved conditions, of some fragment."""
        told = (s.name for line in self.fragments for s in line.sources if s.kind != "unknown")
        return tuple(dict.fromkeys(told))

    def _left_by(self, name: str) -> str:
        """Rows left by a source and conditions it proved; a source was not asked where earlier ones sufficed."""
        told = [(line, next((s for s in line.sources if s.name == name), None)) for line in self.fragments]
        left = sum(line.kept_rows if s is None else s.rows for line, s in told)
        kinds = dict.fromkeys(s.kind for _, s in told if s is not None and s.kind != "unknown")
        proved = dict.fromkeys(text for _, s in told if s is not None for text in s.proved)
        shown = ", ".join([*kinds, *proved][: len(kinds) + 3])
        used = dict.fromkeys(index for _, s in told if s is not None for index in s.indices)
        by = f" by {', '.join(used)}" if used else ""
        return f"{left:,} of {self.rows:,} rows left{by} ({shown})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the attributes, the sums over all fragments, and each fragment."""
        sums = (
            "kept_fragments",
            "rows",
            "located_rows",
            "kept_rows",
            "pages",
            "kept_pages",
            "bytes_to_read",
            "bytes_total",
        )
        return {**asdict(self), **{name: getattr(self, name) for name in sums}}

    def _facts(self) -> list[tuple[str, str]]:
        shown = ", ".join(self.columns[:12]) + (
            f", … ({len(self.columns)} in all)" if len(self.columns) > 12 else ""
        )
        pages = f"no statistics used, {self.stored_pages:,} stored"
        if self.pages:
            pages = f"{self.kept_pages:,} of {self.pages:,} kept, {self.pages - self.kept_pages:,} pruned"
        skipped = self.num_fragments - self.kept_fragments
        return [
            ("scan of", f"{self.uri} at version {self.version}"),
            *((("search", self.search),) if self.search else ()),
            ("columns", shown or "none"),
            ("filter", self.filter or "none"),
            ("fragments", f"{self.kept_fragments:,} of {self.num_fragments:,} kept, {skipped:,} skipped"),
            *((name, self._left_by(name)) for name in self.sources),
            ("file versions", ", ".join(sorted({line.version for line in self.fragments} - {""})) or "none"),
            ("pages", pages),
            ("rows", f"{self.kept_rows:,} of {self.rows:,} to look at"),
            ("bytes to read", f"{human_bytes(self.bytes_to_read)} of {human_bytes(self.bytes_total)}"),
        ]

    def text(self, verbose: bool = False) -> str:
        """The description for people.

        Parameters
        ----------
        verbose : bool
            Show every fragment, and what each candidate source left of it; otherwise the first fragments.
        """
        lines = [f"{name:>13}  {value}" for name, value in self._facts()]
        shown = self.fragments if verbose else self.fragments[:20]
        if shown:
            lines.append("")
            lines.append(f"{'fragment':>8}  {'base':<12} {'rows':>18}  {'pages':>13}  {'bytes':>22}")
        for f in shown:
            base = (f.base or "(root)")[:12]
            rows, pages = f"{f.kept_rows:,}/{f.rows:,}", f"{f.kept_pages:,}/{f.pages:,}"
            size = f"{human_bytes(f.kept_bytes)}/{human_bytes(f.bytes)}"
            lines.append(f"{f.fragment:>8}  {base:<12} {rows:>18}  {pages:>13}  {size:>22}")
            if verbose:
                told = (f"{s.name}: {s.rows:,} rows left ({s.kind})" for s in f.sources)
                lines.extend(f"{'':>10}{line}" for line in told)
        if len(self.fragments) > len(shown):
            lines.append(f"{'…':>8}  {len(self.fragments) - len(shown):,} more fragments")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return facts_table(self._facts())


def facts_table(facts: Iterable[tuple[str, str]]) -> str:
    """Names and values as an HTML table.

    Parameters
    ----------
    facts : iterable of (str, str)

    Examples
    --------
    >>> facts_table([("rows", "3")]).count("<td")
    1
    """
    rows = "".join(
        f"<tr><th style='text-align:right'>{html.escape(n)}</th><td style='text-align:left'>{html.escape(v)}</td></tr>"
        for n, v in facts
    )
    return f"<table>{rows}</table>"


def explain(context: ScanContext, plan: ScanPlan, request: ScanRequest) -> Explanation:
    """Explain a scan: ask the candidate sources without reading data.

    Reads the metadata and statistics of the data files involved.
    """
    projection = plan.projection
    fields = {*projection.fields, *projection.filter_fields}
    lines: dict[int, FragmentLine] = {}
    for line in context.spread(
        lambda unit: _line(context, unit, projection, request), plan.units, lambda unit: unit.fragment
    ):
        lines[line.fragment] = _merged(lines.get(line.fragment), line)
    if request.use_stats and projection.conditions and _is_narrowed(context, plan, request):
        lines = {
            f.id: _whole(context, f, lines.get(f.id), fields, projection)
            for f in context.selected(request.fragments)
        }
    return Explanation(
        uri=context.snapshot.uri,
        version=context.snapshot.version,
        columns=tuple(printable(name) for name in plan.schema.names),
        filter=None if request.filter is None else describe(request.filter),
        fragments=tuple(lines.values()),
        num_fragments=len(context.fragments),
    )


def _line(context: ScanContext, unit: ScanUnit, projection: Projection, request: ScanRequest) -> FragmentLine:
    """Describe the read of one unit."""
    fields = list({*projection.fields, *projection.filter_fields})
    files = context.files(unit.fragment)
    files.prepare(fields, context.session)
    live = kept = files.live(unit.start, unit.stop)
    told: list[SourceLine] = []
    located, pages = len(live), PageCount()
    rows = RowSelection.range(files.num_rows, unit.start, unit.stop)
    asked = concerned(context.sources, context.snapshot, projection) if request.use_stats else ()
    for answer in answers(asked, question(context, files, projection), rows):
        kept = files.living(answer.rows)
        told.append(_source_line(answer, len(kept)))
        if not answer.source.reads_files:
            located = len(kept)
        pages = PageCount(pages.total + answer.found.pages.total, pages.kept + answer.found.pages.kept)
    size = files.estimated_bytes(fields) / max(1, files.num_rows)
    return FragmentLine(
        fragment=unit.fragment,
        base=_base_name(context, unit.fragment),
        rows=len(live),
        kept_rows=len(kept),
        pages=pages.total,
        kept_pages=pages.kept,
        bytes=int(size * len(live)),
        kept_bytes=int(size * len(kept)),
        stored_pages=files.num_pages(fields),
        version=".".join(map(str, files.version)),
        located_rows=located,
        sources=tuple(told),
    )


def _source_line(answer: Answer, rows: int) -> SourceLine:
    proved = tuple(describe(condition, max_values=10) for condition in answer.found.proved)
    return SourceLine(answer.source.name, answer.found.kind, rows, proved, answer.found.names)


def _is_narrowed(context: ScanContext, plan: ScanPlan, request: ScanRequest) -> bool:
    """Whether sources left out rows when the scan was planned."""
    fragments = context.selected(request.fragments)
    return plan.num_rows < sum(context.live_rows(fragment) for fragment in fragments)


def _merged(first: FragmentLine | None, second: FragmentLine) -> FragmentLine:
    """Merge the lines of two units of one fragment; both see the same pages, so page counts are not added."""
    if first is None:
        return second
    return replace(
        first,
        rows=first.rows + second.rows,
        kept_rows=first.kept_rows + second.kept_rows,
        bytes=first.bytes + second.bytes,
        kept_bytes=first.kept_bytes + second.kept_bytes,
        located_rows=first.located_rows + second.located_rows,
        sources=tuple(_merged_sources(first.sources, second.sources)),
    )


def _merged_sources(first: Sequence[SourceLine], second: Sequence[SourceLine]) -> Iterator[SourceLine]:
    """Merge the sources of two units: a source was not asked because no row was left, so it left none."""
    others = {line.name: line for line in second}
    for line in first:
        other = others.pop(line.name, None)
        yield line if other is None else replace(line, rows=line.rows + other.rows)
    yield from others.values()


def _whole(
    context: ScanContext,
    fragment: Fragment,
    line: FragmentLine | None,
    fields: set[Field],
    projection: Projection,
) -> FragmentLine:
    """Line of a fragment of which the plan has only the rows that sources left, or none."""
    rows = context.live_rows(fragment)
    size = int(rows * context.bytes_per_row(fragment, list(fields)))
    if line is None:
        told = tuple(_planned_sources(context, fragment, projection))
        return FragmentLine(
            fragment.id, _base_name(context, fragment.id), rows, 0, 0, 0, size, 0, sources=told
        )
    return replace(line, rows=rows, bytes=max(line.bytes, size))


def _planned_sources(
    context: ScanContext, fragment: Fragment, projection: Projection
) -> Iterator[SourceLine]:
    """Answers of planning sources about a fragment that the plan leaves out; its data files are not opened."""
    num_rows = context.physical_rows(fragment)
    deleted = context.snapshot.deletions(fragment, num_rows)
    sources = planning_sources(context, projection)
    for answer in planning_answers(context, fragment, RowSelection.all(num_rows), projection, sources):
        rows = answer.rows if deleted is None else answer.rows.minus(deleted.offsets)
        yield _source_line(answer, len(rows))


def _base_name(context: ScanContext, fragment_id: int) -> str:
    bases = context.snapshot.manifest.base_paths
    names = []
    for file in context.metadata(fragment_id).files:
        if file.base_id is not None:
            base = bases.get(file.base_id)
            names.append(printable((base.name if base is not None else None) or f"base {file.base_id}"))
    return ", ".join(dict.fromkeys(names))
