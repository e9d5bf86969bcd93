"""Prints asv results as tables for ``README.md``.

    python bench/publish.py [FILE …]        tables of these files of benchmarks/, by default all

Reads the newest results of ``make bench``. A row is a benchmark with its parameters; if there are several, the last
parameter makes the columns.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / ".asv" / "results"


def newest() -> dict[str, Any]:
    """The results of the last run."""
    files = [p for p in RESULTS.glob("*/*.json") if p.name != "machine.json"]
    if not files:
        sys.exit("no results: run make bench first")
    found: dict[str, Any] = json.loads(max(files, key=lambda p: p.stat().st_mtime).read_text())
    return found


def said(value: float | None, kind: str) -> str:
    """A number with its unit; the kind is the prefix of the benchmark's name."""
    if value is None or value != value:
        return "-"
    if kind == "time":
        scale, unit = next((s, u) for s, u in ((1.0, "s"), (1e-3, "ms"), (0, "µs")) if value >= s)
        return f"{value / (scale or 1e-6):.3g} {unit}"
    if kind == "peakmem":
        return f"{value / 2**20:,.0f} MiB"
    return f"{value:,.4g}"


def rows(
    name: str, values: list[float | None], parameters: list[list[str]]
) -> Iterator[tuple[str, list[str], list[str]]]:
    """(label, column heads, figures) of every row of a benchmark."""
    kind = name.rpartition(".")[2].partition("_")[0]
    texts = [[text.strip("'") for text in choices] for choices in parameters]
    *outer, heads = texts or [[""]]
    figures = [said(value, kind) for value in values]
    for number, choice in enumerate(itertools.product(*outer)):
        label = " ".join([f"`{name.partition('.')[2]}`", *choice])
        yield label, heads, figures[number * len(heads) : (number + 1) * len(heads)]


def tables(chosen: list[str]) -> Iterator[str]:
    """Markdown, one table for all rows of a file that have the same columns."""
    results = newest()
    place = results["result_columns"].index
    by_heads: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, found in sorted(results["results"].items()):
        module = name.partition(".")[0]
        if found is None or found[place("result")] is None or (chosen and module not in chosen):
            continue
        for label, heads, figures in rows(name, found[place("result")], found[place("params")]):
            by_heads.setdefault((module, tuple(heads)), []).append(f"| {label} | {' | '.join(figures)} |")
    for (module, columns), lines in by_heads.items():
        yield (
            f"| {module} | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}\n" + "\n".join(lines) + "\n"
        )


if __name__ == "__main__":
    print("\n".join(tables(sys.argv[1:])))
