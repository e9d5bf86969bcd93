"""Results of a verification: plain values, text and HTML."""

from __future__ import annotations

import html
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from lancecy.scanning.explain import human_bytes

__all__ = ["Finding", "Verification"]

_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a table.

    Attributes
    ----------
    kind : str
        ``"manifest"``, ``"file"``, ``"column"``, ``"statistics"``, ``"deletions"``, ``"row ids"`` or ``"values"``.
    place : str
        Fragment, file, column and rows, as far as known.
    problem : str
    severity : str
        ``"damaged"``; ``"unsupported"``: probably intact, but this release cannot read it; ``"note"``: all rows
        can be read, but something else is wrong.
    """

    kind: str
    place: str
    problem: str
    severity: str = "damaged"

    def __str__(self) -> str:
        return f"{self.severity}: {self.place}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of :meth:`lancecy.Dataset.verify`; true if nothing is damaged.

    Attributes
    ----------
    uri : str
    version : int
    fragments, files, pages, rows : int
        Numbers that were checked; rows include deleted ones, pages are of every column.
    nbytes : int
        Encoded bytes read.
    checked_statistics : int
        Pages whose statistics were compared with their values.
    findings : tuple of Finding
    """

    uri: str
    version: int
    fragments: int
    files: int
    pages: int
    rows: int
    nbytes: int
    checked_statistics: int
    findings: tuple[Finding, ...]

    @property
    def is_ok(self) -> bool:
        """Whether nothing is damaged."""
        return all(finding.severity == "note" for finding in self.findings)

    def __bool__(self) -> bool:
        return self.is_ok

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {"ok": self.is_ok, **asdict(self)}

    def _facts(self) -> list[tuple[str, str]]:
        kinds = Counter(f.severity for f in self.findings)
        return [
            ("table", f"{self.uri} at version {self.version}"),
            ("fragments", f"{self.fragments:,} with {self.files:,} data files"),
            ("rows", f"{self.rows:,}"),
            ("pages", f"{self.pages:,}, {human_bytes(self.nbytes)}"),
            ("statistics", f"{self.checked_statistics:,} pages compared with their values"),
            ("result", ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()) or "no damage found"),
        ]

    def __str__(self) -> str:
        lines = [f"{name:>11}  {value}" for name, value in self._facts()]
        lines += [f"  {finding}" for finding in self.findings[:_SHOWN]]
        if len(self.findings) > _SHOWN:
            lines.append(f"  … and {len(self.findings) - _SHOWN:,} more")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = "<tr><th style='text-align:left'>{}</th><td style='text-align:left'>{}</td></tr>"
        rows = "".join(cell.format(html.escape(n), html.escape(v)) for n, v in self._facts())
        found = "".join(f"<li>{html.escape(str(f))}</li>" for f in self.findings[:_SHOWN])
        return f"<div><table>{rows}</table><ul>{found}</ul></div>"
