"""Compares lancecy and pylance over all Arrow types: scans, takes and filters of one column beside a key.

usage: python bench/compare_types.py [--rows 200000] [--versions 2.0,2.1] [--types list,struct] [--works take] [--repeat 5]
                                     [--each] [--discard] [--markdown] [--json FILE]

Each table has a key (0, 1, ...), random numbers and one column of the type, in four files that pylance wrote. Both engines
read the same files through a dataset that stays open, as in a program that asks more than once; the first turn, which
parses metadata, is not counted. Engines take turns; medians are compared: the ratio is pylance's time divided by
lancecy's. After each work one byte of every 4 KiB of the result is read, so that mapped files are paid for.

scan    the column of all rows
take    1,000 random rows
filter  the column where a random number is below a hundredth of its range
range   the column where the key is in one of a hundred equal ranges

Before it is measured, every answer of lancecy is compared with pylance's.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from benchmarks.types import COLUMNS, column
from compare import machine

VERSIONS = ("0.1", "2.0", "2.1", "2.2")
FILES = 4
TAKEN = 1000
Work: TypeAlias = Callable[[Any], pa.Table]
Cell: TypeAlias = tuple[float, float]
"""Medians of lancecy and of pylance, in seconds."""


def works(rows: int) -> dict[str, Work]:
    """The works by name; each takes an open dataset."""
    some = np.sort(np.random.default_rng(3).choice(rows, min(TAKEN, rows), replace=False)).tolist()
    low, many = rows // 2, rows // 100
    return {
        "scan": lambda dataset: dataset.to_table(columns=["v"]),
        "take": lambda dataset: dataset.take(some, columns=["v"]),
        "filter": lambda dataset: dataset.to_table(columns=["v"], filter="r < 10000"),
        "range": lambda dataset: dataset.to_table(
            columns=["v"], filter=f"key >= {low} and key < {low + many}"
        ),
    }


def written(folder: Path, name: str, rows: int, version: str) -> Path | None:
    """Path of the table, written on first use; None if the version cannot hold the type."""
    import lance

    path = folder / f"{name.replace(' ', '-')}-{rows}.{version}"
    refused, begun = (path.with_name(f"{path.name}.{end}") for end in ("refused", "partial"))
    if path.exists() or refused.exists():
        return path if path.exists() else None
    folder.mkdir(parents=True, exist_ok=True)
    ordinal = np.arange(rows, dtype=np.int64)
    numbers = np.random.default_rng(5).integers(0, 1_000_000, rows, dtype=np.int32)
    table = pa.table({"key": ordinal, "r": numbers, "v": column(name, rows)})
    form: Any = "legacy" if version == "0.1" else version
    try:
        lance.write_dataset(table, str(begun), data_storage_version=form, max_rows_per_file=-(-rows // FILES))
    except (OSError, ValueError, RuntimeError, BaseException) as error:
        if isinstance(error, KeyboardInterrupt | MemoryError):
            raise
        refused.write_text(str(error))
        return None
    begun.rename(path)
    return path


def touch(table: pa.Table) -> int:
    """Read one byte of every page of memory of the table."""
    total = 0
    for values in table.columns:
        for chunk in values.chunks:
            total += sum(_touched(buffer) for buffer in chunk.buffers() if buffer is not None)
    return total


def _touched(buffer: pa.Buffer) -> int:
    return int(np.frombuffer(buffer, np.uint8)[::4096].sum()) if buffer.size else 0


def measured(work: Work, engines: list[Any], repeat: int) -> Cell:
    """Median seconds of each engine, the engines taking turns."""
    seconds: list[list[float]] = [[] for _ in engines]
    for turn in range(repeat + 1):
        for mine, dataset in zip(seconds, engines, strict=True):
            started = time.perf_counter()
            touch(work(dataset))
            if turn:
                mine.append(time.perf_counter() - started)
    first, second = (statistics.median(mine) for mine in seconds)
    return first, second


def differs(one: pa.Table, other: pa.Table, version: str) -> bool:
    """Whether two answers differ; 0.1 has no nulls but those of texts, and pylance does not tell them all."""
    if one.num_rows != other.num_rows:
        return True
    if version == "0.1":
        return False
    left, right = (_decoded(t.column("v")).combine_chunks() for t in (one, other))
    return not left.equals(right)


def _decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values without dictionaries, which Arrow cannot join where they hold nulls."""
    if not pa.types.is_dictionary(values.type):
        return values
    return pa.chunked_array([chunk.dictionary_decode() for chunk in values.chunks], values.type.value_type)


def cells(chosen: argparse.Namespace, version: str) -> Iterator[tuple[str, str, Cell]]:
    """Type, work and medians of the chosen types and works."""
    import lance

    import lancecy

    todo = works(chosen.rows)
    for name in chosen.types:
        path = written(chosen.data, name, chosen.rows, version)
        if path is None:
            continue
        engines = [lancecy.dataset(str(path)), lance.dataset(str(path))]
        for label in chosen.works:
            work = todo[label]
            try:
                mine, theirs = (work(dataset) for dataset in engines)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt | MemoryError):
                    raise
                print(f"{version} {label} {name}: left out, {str(error).splitlines()[0][:120]}", flush=True)
                continue
            if differs(mine, theirs, version):
                raise SystemExit(f"{version} {label} {name}: the answers differ")
            del mine, theirs
            yield name, label, measured(work, engines, chosen.repeat)
        del engines
        gc.collect()
        if chosen.discard:
            shutil.rmtree(path)


def ratio(cell: Cell) -> float:
    """How many times as long pylance takes."""
    return cell[1] / cell[0]


def geometric_mean(found: dict[str, Cell]) -> float:
    """The mean over the types of one work."""
    return math.exp(statistics.fmean(math.log(ratio(cell)) for cell in found.values()))


def show(version: str, found: dict[str, dict[str, Cell]], markdown: bool) -> None:
    """One row for each work: mean, number of types below 1, the worst ones."""
    for label, mine in found.items():
        worst = sorted(mine, key=lambda name: ratio(mine[name]))[:6]
        slower = sum(ratio(cell) < 1 for cell in mine.values())
        names = ", ".join(f"{name} {ratio(mine[name]):.2f}" for name in worst)
        row = [version, label, f"{geometric_mean(mine):.2f}", f"{slower} of {len(mine)}", names]
        print("| " + " | ".join(row) + " |" if markdown else "  ".join(row), flush=True)


def chosen_names(text: str | None, known: list[str]) -> list[str]:
    """Names of an argument, all known ones if there is none."""
    names = text.split(",") if text else known
    wrong = [name for name in names if name not in known]
    if wrong:
        raise SystemExit(f"unknown: {', '.join(wrong)}; known: {', '.join(known)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000, help="rows of each table")
    parser.add_argument("--repeat", type=int, default=5, help="number of counted turns")
    parser.add_argument("--versions", help="names separated by commas; all by default")
    parser.add_argument("--types", help="names separated by commas; all by default")
    parser.add_argument("--works", help="names separated by commas; all by default")
    parser.add_argument(
        "--data", type=Path, default=Path(__file__).parent / ".data" / "types", help="folder for the tables"
    )
    parser.add_argument("--each", action="store_true", help="print every cell: milliseconds and ratio")
    parser.add_argument("--discard", action="store_true", help="remove each table once it is measured")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", type=Path, help="add all medians to this file")
    chosen = parser.parse_args()
    chosen.types = chosen_names(chosen.types, list(COLUMNS))
    chosen.works = chosen_names(chosen.works, list(works(100)))
    print(f"{chosen.rows:,} rows in {FILES} files, medians of {chosen.repeat} turns; {machine()}\n")
    if chosen.markdown:
        print(
            "| version | work | mean | types below 1.0 | worst |\n| --- | --- | ---: | ---: | --- |",
            flush=True,
        )
    kept = json.loads(chosen.json.read_text()) if chosen.json and chosen.json.exists() else {}
    for version in chosen_names(chosen.versions, list(VERSIONS)):
        found: dict[str, dict[str, Cell]] = {label: {} for label in chosen.works}
        for name, label, cell in cells(chosen, version):
            found[label][name] = cell
            if chosen.each:
                mine, theirs = (1e3 * seconds for seconds in cell)
                print(f"{version} {label:<7}{name:<22}{mine:9.2f}{theirs:9.2f}{ratio(cell):8.2f}", flush=True)
        show(version, {label: mine for label, mine in found.items() if mine}, chosen.markdown)
        kept.setdefault(str(chosen.rows), {})[version] = found
        if chosen.json:
            chosen.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
