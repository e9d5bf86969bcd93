"""Random nested tables written by lancecy and read by pylance, and the other way round.

Everything about a table follows from its seed and number, so that one is made again by

    python -m tests.interop.exchange --seed SEED --first NUMBER --tables 1

``make hunt-nested`` runs many of them, in processes of their own, as pylance may end the process it runs in.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lancecy
from lancecy.errors import LanceError
from lancecy.write.fragments import FileLimits
from tests.helpers.compare import assert_tables_equal
from tests.helpers.nested import random_columns
from tests.helpers.nested_types import Allowed, plain, random_field

__all__ = ["Case", "exchange", "random_case"]

WRITTEN = ("0.1", "2.0", "2.1", "2.1", "2.2", "2.2")
"""Versions of data files by how often lancecy writes them."""
CHUNK = 250
"""Tables made in one process."""
MEMORY = Path("/dev/shm")
"""Where nothing waits for a disk, if there is such a place."""
READ = ("0.1", "2.0", "2.1", "2.2", "2.2", "2.3")


class Unable(Exception):
    """pylance cannot do what is asked of it with what it wrote itself, or refuses to write."""


@dataclass(frozen=True)
class Case:
    """A table to be written.

    Attributes
    ----------
    name : str
        Seed and number.
    version : str
    batches : tuple of pa.RecordBatch
        As they are written.
    expected : pa.Table
        What is to be read: views are text and bytes.
    rng : np.random.Generator
        For whatever else is chosen.
    """

    name: str
    version: str
    batches: tuple[pa.RecordBatch, ...]
    expected: pa.Table
    rng: np.random.Generator

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches)


def random_case(seed: int, number: int) -> tuple[bool, Case]:
    """Whether lancecy writes a table, and the table."""
    rng = np.random.default_rng([seed, number])
    is_mine = bool(rng.random() < 0.5)
    version = str(rng.choice(WRITTEN if is_mine else READ))
    # pylance refuses nulls in fields that allow none, also where they lie under a null.
    allowed = replace(
        Allowed.by(version),
        varied=version != "0.1",
        masked=is_mine,
        required=float(rng.choice([0.0, 0.3, 0.8])) if version != "0.1" else 0.0,
    )
    if version >= "2.2" and rng.random() < 0.15:
        allowed = replace(allowed, fixed_structs=True)
    columns = 1 if allowed.fixed_structs else int(rng.integers(1, 4))
    depth = int(rng.integers(0, 6))
    fields = [random_field(rng, f"c{i}", depth, allowed) for i in range(columns)]
    if allowed.fixed_structs and is_mine:
        # pylance (14.0.2) reads them only where nothing is beside them or around them.
        item = random_field(rng, "item", max(1, depth), replace(allowed, lists=False, fixed_structs=False))
        made = pa.struct([item.with_name("c0"), pa.field("c1", pa.int32())])
        fields = [pa.field("c0", pa.list_(made, int(rng.integers(1, 4))))]
    rows = [int(rng.choice([1, 2, 7, 40, 300, 1500], p=[0.1, 0.1, 0.25, 0.35, 0.17, 0.03]))]
    if is_mine or version != "0.1":
        # Where dictionaries of batches differ, pylance writes other values to 0.1 files.
        rows += [int(rng.integers(1, rows[0] + 2)) for _ in range(int(rng.choice([0, 1, 3])))]
    batches: list[pa.RecordBatch] = []
    expected: list[pa.RecordBatch] = []
    start = 0
    for part, count in enumerate(rows):
        front = int(rng.integers(0, 4)) if is_mine else 0
        ids = pa.array(np.arange(start, start + count))
        for made, kinds in ((batches, fields), (expected, [f.with_type(plain(f.type)) for f in fields])):
            values = random_columns(
                kinds, front + count, np.random.default_rng([seed, number, part]), allowed
            )
            whole = values.slice(front)
            if not allowed.fixed_structs:
                whole = pa.RecordBatch.from_arrays(
                    [ids, *whole.columns], schema=pa.schema([pa.field("id", pa.int64()), *kinds])
                )
            made.append(whole)
        start += count
    return is_mine, Case(f"{seed}/{number}", version, tuple(batches), joined(expected), rng)


def joined(batches: list[pa.RecordBatch]) -> pa.Table:
    """In one chunk that is no slice: Arrow (26.0) takes the wrong rows of some."""
    schema = batches[0].schema
    columns = [
        pa.concat_arrays([*(batch.column(i) for batch in batches), batches[0].column(i).slice(0, 0)])
        for i in range(len(schema))
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def exchange(seed: int, number: int, folder: Path) -> str:
    """Write one table in a folder that is not there yet, and compare what both read; says what became of it.

    Raises
    ------
    AssertionError
        A library reads something else than was written, or pylance does not read what lancecy wrote.
    """
    is_mine, case = random_case(seed, number)
    try:
        return (mine_to_theirs if is_mine else theirs_to_mine)(case, folder)
    except Unable as reason:
        return str(reason)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        what = f"table {case.name}, version {case.version}, written by {'lancecy' if is_mine else 'pylance'}"
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


# -- lancecy writes -----------------------------------------------------------------------


def mine_to_theirs(case: Case, path: Path) -> str:
    rng, batches = case.rng, case.batches
    options: dict[str, Any] = {
        "data_storage_version": case.version,
        "enable_stable_row_ids": bool(rng.random() < 0.2),
        "durability": "none",
        "max_rows_per_file": int(rng.choice([1 << 20, -(-len(batches[0]) // 3)])),
    }
    page_bytes = int(rng.choice([8 << 20, few_bytes(case), 10_000]))
    appended = int(rng.integers(1, len(batches) + 1))
    try:
        with pages_of(page_bytes):
            lancecy.write_dataset(pa.Table.from_batches(batches[:appended]), path, **options)
            for batch in batches[appended:]:
                lancecy.write_dataset(batch, path, mode="append", durability="none")
    except LanceError as error:
        if not any(name in str(error) for name in case.expected.column_names):
            raise AssertionError(f"a refusal names no column: {error}") from error
        return f"lancecy refuses: {type(error).__name__} {_feature(error)}"
    expected = case.expected
    check_both(path, expected, rng)
    if rng.random() < 0.5 and "id" in expected.column_names:
        expected = deleted(path, expected, rng)
        check_both(path, expected, rng)
    theirs_of(path).optimize.compact_files()
    assert_tables_equal(lancecy.dataset(path).to_table(), expected, hint="lancecy, compacted")
    with told("pylance does not read what it compacted"):
        whole = theirs_of(path).to_table()
    assert_tables_equal(whole, expected, hint="pylance, compacted")
    return f"lancecy to pylance, {case.version}"


def few_bytes(case: Case) -> int:
    """Of a page, so that there are about as many of them as rows, or a few dozen."""
    return 1 if len(case.expected) < 30 else 2000


@contextmanager
def pages_of(nbytes: int) -> Iterator[None]:
    """Data files get a page for about so many bytes of a column."""
    usual: Callable[..., Any] = FileLimits.options
    with mock.patch.object(
        FileLimits, "options", lambda *args, **more: replace(usual(*args, **more), page_bytes=nbytes)
    ):
        yield


def check_both(path: Path, expected: pa.Table, rng: np.random.Generator) -> None:
    """Both read a table in full, by rows, by one leaf, and filtered by its nulls."""
    mine, theirs, rows = lancecy.dataset(path), theirs_of(path), expected.num_rows
    assert_tables_equal(mine.to_table(), expected, metadata=True, hint="lancecy")
    assert_tables_equal(theirs.to_table(), expected, metadata=True, hint="pylance")
    picked = rng.integers(0, rows, min(rows, 9))
    wanted = expected.take(pa.array(np.sort(picked)))
    assert_tables_equal(mine.take(np.sort(picked)), wanted, hint="lancecy, take")
    if not (theirs.data_storage_version == "0.1" and any(map(has_bits, expected.schema.types))):
        assert_tables_equal(theirs.take(np.sort(picked).tolist()), wanted, hint="pylance, take")
    name, leaf = random_leaf(expected, rng)
    wanted = pa.table({name: leaf})
    for who, dataset in (("lancecy", mine), ("pylance", theirs)):
        found = dataset.to_table(columns=[name])
        assert_tables_equal(found, wanted, nullability=False, hint=f"{who}, {name}")
        if who == "pylance" and any(map(is_unfiltered, expected.schema.types)):
            continue
        null = dataset.to_table(filter=f"{name} IS NULL")
        assert_tables_equal(null, expected.filter(is_null(leaf)), hint=f"{who}, {name} IS NULL")


def deleted(path: Path, expected: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Delete some rows by one library; returns the others."""
    step = int(rng.integers(2, 7))
    dataset = lancecy.dataset(path) if rng.random() < 0.5 else theirs_of(path)
    dataset.delete(f"id % {step} = 1")
    return expected.filter(pa.array(expected["id"].to_numpy() % step != 1))


def random_leaf(table: pa.Table, rng: np.random.Generator) -> tuple[str, pa.ChunkedArray]:
    """A column, or what is in a struct in it; by a path of names."""
    name = str(rng.choice(table.column_names))
    column = table[name]
    while pa.types.is_struct(column.type) and column.type.num_fields and rng.random() < 0.8:
        number = int(rng.integers(column.type.num_fields))
        name = f"{name}.{column.type.field(number).name}"
        column = pa.chunked_array(
            [chunk.flatten()[number] for chunk in column.chunks], column.type.field(number).type
        )
    return name, column


def has_bits(kind: pa.DataType) -> bool:
    """Whether there are vectors of booleans, of 0.1 files of which pylance (14.0.2) takes no rows."""
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    return any(map(has_bits, inner)) or (pa.types.is_fixed_size_list(kind) and pa.types.is_boolean(inner[0]))


def is_unfiltered(kind: pa.DataType) -> bool:
    """Whether pylance (14.0.2) has no right answer to filters of tables with such a column.

    It gives back one member of structs in fixed-size lists, and takes the metadata of extension types within lists for another
    type.
    """
    if pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type):
        return True
    return not isinstance(kind, pa.BaseExtensionType) and holds_extension(kind)


def holds_extension(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return True
    return any(holds_extension(kind.field(i).type) for i in range(kind.num_fields))


def is_null(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.is_null(column)


# -- pylance writes -----------------------------------------------------------------------


def theirs_to_mine(case: Case, path: Path) -> str:
    from tests.interop.test_pylance_nested import paged

    rng, expected = case.rng, case.expected
    table = case.table
    version: Any = "legacy" if case.version == "0.1" else case.version
    with told("pylance does not write"):
        import lance

        if rng.random() < 0.5 or version == "legacy":
            lance.write_dataset(
                table,
                str(path),
                data_storage_version=version,
                max_rows_per_file=int(rng.choice([1 << 20, -(-expected.num_rows // 3)])),
                max_rows_per_group=int(rng.choice([1024, -(-expected.num_rows // 5)])),
            )
        else:
            paged(table, path, version, cached=int(rng.choice([few_bytes(case), 5000])))
    mine, rows = lancecy.dataset(path), expected.num_rows
    assert_tables_equal(mine.to_table(), expected, metadata=True, hint="full scan")
    picked = rng.integers(0, rows, min(rows, 9))
    assert_tables_equal(mine.take(picked), expected.take(pa.array(picked)), hint=f"take {picked.tolist()}")
    offset, limit = int(rng.integers(0, rows)), int(rng.integers(1, rows + 1))
    got = mine.to_table(offset=offset, limit=limit)
    assert_tables_equal(got, expected.slice(offset, limit), hint=f"offset {offset} limit {limit}")
    name, leaf = random_leaf(expected, rng)
    assert_tables_equal(mine.to_table(columns=[name]), pa.table({name: leaf}), nullability=False, hint=name)
    for text, chosen in (
        (f"{name} IS NULL", is_null(leaf)),
        (f"{name} IS NOT NULL", pc.invert(is_null(leaf))),
    ):
        assert_tables_equal(mine.to_table(filter=text), expected.filter(chosen), hint=text)
        assert mine.count_rows(filter=text) == pc.sum(chosen).as_py(), text
    with told("pylance does not read its own"):
        whole = theirs_of(path).to_table()
    assert_tables_equal(mine.to_table(), whole, metadata=True, hint="against pylance")
    return f"pylance to lancecy, {case.version}"


@contextmanager
def told(what: str) -> Iterator[None]:
    """What pylance raises becomes ``Unable``; its panics are no ``Exception``."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        text = " ".join(word for word in str(error).split(", /")[0].split() if not word.isdigit())
        raise Unable(f"{what}: {type(error).__name__} {text[:90]}") from error


def theirs_of(path: Path) -> Any:
    import lance

    return lance.dataset(str(path))


def _feature(error: LanceError) -> str:
    return str(getattr(error, "feature", "") or getattr(error, "difference", ""))


# -- many of them -------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of a table."""

    number: int
    text: str
    is_finding: bool


def run_some(seed: int, numbers: range, results: Any) -> None:
    """In a process of its own: puts number and outcome of each, and whether it is a finding."""
    for number in numbers:
        results.put((number, None, False))
        folder = Path(tempfile.mkdtemp(prefix="lancecy-nested-", dir=MEMORY if MEMORY.is_dir() else None))
        try:
            results.put((number, exchange(seed, number, folder / "t"), False))
        except AssertionError as error:
            results.put((number, str(error), True))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Run tables and print what became of them; the exit code says whether there was a finding."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first table")
    parser.add_argument("--tables", type=int, default=10_000)
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    findings, first, end = 0, options.first, options.first + options.tables
    began = time.monotonic()
    while first < end:
        found = list(run_apart(options.seed, range(first, min(end, first + CHUNK))))
        for outcome in found:
            if outcome.is_finding:
                findings += 1
                print(outcome.text, flush=True)
            else:
                outcomes[outcome.text] += 1
        first = found[-1].number + 1
        spent = time.monotonic() - began
        print(f"{first - options.first} tables, {findings} findings, {spent:.0f} s", flush=True)
    for text, count in sorted(outcomes.items()):
        print(f"{count:7} {text}")
    return int(findings > 0)


def run_apart(seed: int, numbers: range) -> Iterator[Outcome]:
    """Outcomes of tables made in a process; if one ends the process, that is a finding and the last of them."""
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=run_some, args=(seed, numbers, results))
    process.start()
    begun, num_done = numbers[0], 0
    while process.is_alive() or not results.empty():
        if results.empty():
            process.join(0.05)
            continue
        begun, text, is_finding = results.get()
        if text is not None:
            num_done += 1
            yield Outcome(begun, text, is_finding)
    process.join()
    if num_done < len(numbers):
        what = f"table {seed}/{begun}: the process ended with code {process.exitcode}"
        yield Outcome(begun, what, is_finding=True)


if __name__ == "__main__":
    raise SystemExit(main())
