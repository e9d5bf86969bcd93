"""Compares branches, clones, tags and histories by lancecy and pylance: milliseconds for the same work on the same table.

usage: python bench/compare_refs.py [--fragments 1,10000] [--repeat 7] [--works branch,clone] [--fsync] [--markdown]

The tables have one row in each fragment and are written by pylance. Every turn works on a fresh copy, which is open before
the clock starts, and what both libraries make is compared: a row whose results differ is marked. None waits for the disk:
pylance never does, so ``fsync`` does nothing here unless ``--fsync`` is given. Engines take turns; the first turn warms
up and is not counted; medians of the others are printed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compare import machine, show
from compare_changes import ENGINES, MODULES, scalars

TAGS = 100
VERSIONS = 100
SMALL = 1000
"""A deep clone copies at most so many fragments."""


@dataclass(frozen=True)
class Place:
    """An open table, and where it is.

    Attributes
    ----------
    library : module
    dataset : Dataset
    folder : Path
        Has the table and what is made of it.
    """

    library: Any
    dataset: Any
    folder: Path

    @property
    def uri(self) -> str:
        return str(self.folder / "t.lance")


def _make_versions(place: Place) -> object:
    for number in range(VERSIONS):
        place.dataset.update_config({"number": str(number)})
    return VERSIONS


def _make_tags(place: Place) -> object:
    tags = place.dataset.tags
    for number in range(TAGS):
        tags.create(f"v{number}", 1)
    return TAGS


def _read_tags(place: Place) -> object:
    tags = place.dataset.tags
    return sum(tags.get_version(f"v{number}") for number in range(TAGS))


def _make_branch(place: Place) -> object:
    place.dataset.create_branch("made")
    return None


@dataclass(frozen=True)
class Work:
    """One measured work.

    Attributes
    ----------
    run : function of a Place
        The result is compared: a dataset by its rows, other things as they are.
    prepare : function of a Place
        Not measured.
    most : int
        Tables with more fragments are left out.
    """

    run: Callable[[Place], Any]
    prepare: Callable[[Place], object] = lambda place: None
    most: int = 1 << 31


WORKS: dict[str, Work] = {
    "branch": Work(lambda place: place.dataset.create_branch("made")),
    "clone, shallow": Work(lambda place: place.dataset.shallow_clone(str(place.folder / "c.lance"), 1)),
    "clone, deep": Work(lambda place: place.dataset.deep_clone(str(place.folder / "c.lance"), 1), most=SMALL),
    "config": Work(lambda place: place.dataset.update_config({"a": "b"})),
    f"create {TAGS} tags": Work(_make_tags),
    f"read {TAGS} tags": Work(_read_tags, _make_tags),
    f"list {TAGS} tags": Work(lambda place: sorted(place.dataset.tags.list()), _make_tags),
    f"list {VERSIONS} versions": Work(lambda place: len(place.dataset.versions()), _make_versions),
    f"{VERSIONS} transactions": Work(
        lambda place: len(place.dataset.get_transactions(VERSIONS)), _make_versions
    ),
    "open by number": Work(lambda place: place.library.dataset(place.uri, version=1)),
    "open by tag": Work(lambda place: place.library.dataset(place.uri, version="v7"), _make_tags),
    "open by branch": Work(
        lambda place: place.library.dataset(place.uri).checkout_version(("made", None)), _make_branch
    ),
}


def write(uri: str, fragments: int, version: Any) -> None:
    """A table of one row in each fragment."""
    import lance

    lance.write_dataset(scalars(0, fragments), uri, max_rows_per_file=1, data_storage_version=version)


def measure(
    work: Work, source: Path, repeat: int, clock: Callable[[], float]
) -> tuple[dict[str, float], bool]:
    """Median milliseconds of each engine, and whether their results are the same."""
    seconds: dict[str, list[float]] = {name: [] for name in ENGINES}
    results: dict[str, object] = {}
    for turn in range(repeat + 1):
        for name in ENGINES:
            with tempfile.TemporaryDirectory(dir=source.parent) as folder:
                library = importlib.import_module(MODULES[name])
                # Files of a table never change, so copies share them: the data by a link to its folder.
                copy = Path(folder) / "t.lance"
                shutil.copytree(source / "_versions", copy / "_versions")
                (copy / "data").symlink_to(source / "data")
                place = Place(library, library.dataset(str(copy)), Path(folder))
                work.prepare(place)
                gc.collect()
                started = clock()
                found = work.run(place)
                seconds[name].append(clock() - started)
                if not turn:
                    results[name] = result(found)
            # What one engine left to the system is written before the next one is timed.
            os.sync()
    medians = {name: 1e3 * statistics.median(taken[1:]) for name, taken in seconds.items()}
    return medians, results["lancecy"] == results["pylance"]


def result(found: Any) -> object:
    """What a work made, comparable between the libraries."""
    if not hasattr(found, "count_rows"):
        return None if isinstance(found, dict) else found
    return found.version, found.schema.names, found.count_rows()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fragments", default="1,10000", help="fragments of the tables, separated by commas")
    parser.add_argument("--repeat", type=int, default=7, help="number of counted turns")
    parser.add_argument("--version", default="2.1", help="version of the data files: legacy, 2.0, 2.1, 2.2")
    parser.add_argument(
        "--works", default=";".join(WORKS), help="names, or their beginnings, separated by semicolons"
    )
    parser.add_argument("--data", type=Path, help="where to write; by default a temporary folder")
    parser.add_argument(
        "--fsync", action="store_true", help="let lancecy wait for the disk, as it does by default"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="processor time of all threads, for a machine with other work"
    )
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    if not chosen.fsync:
        os.fsync = lambda fd: None
    clock = time.process_time if chosen.cpu else time.perf_counter
    folder = Path(tempfile.mkdtemp(dir=chosen.data))
    what = "processor time" if chosen.cpu else "time"
    print(f"files of version {chosen.version}; medians of {chosen.repeat} turns, {what} in ms; {machine()}\n")
    show(["fragments", "work", *ENGINES, "x pylance"], chosen.markdown)
    if chosen.markdown:
        show(["---:", "---", *["---:"] * (len(ENGINES) + 1)], True)
    try:
        for fragments in map(int, chosen.fragments.split(",")):
            source = folder / f"{fragments}.lance"
            write(str(source), fragments, chosen.version)
            for name, work in WORKS.items():
                if fragments > work.most or not name.startswith(tuple(chosen.works.split(";"))):
                    continue
                medians, same = measure(work, source, chosen.repeat, clock)
                ratio = f"{medians['pylance'] / medians['lancecy']:.2f}" + ("" if same else " differ!")
                row = [f"{fragments:,}", name, *(f"{medians[engine]:.2f}" for engine in ENGINES), ratio]
                show(row, chosen.markdown)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
