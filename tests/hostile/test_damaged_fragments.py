"""Damaged data files among whole ones: fragments that are read together give what each gives when read alone.

Small columns of several files are decoded by one kernel call, and filters are tested once for all of them. Damage in one
file must neither reach the rows of another, nor be overlooked, nor be told of another file.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import LanceError
from tests.helpers.batches import jailed_batches, narrow_threads
from tests.helpers.mutate import place
from tests.helpers.mutate2 import damaged_versions
from tests.helpers.random_tables import ORDERED, RandomTable

SEED = 2601
TABLES = 12
CASES = 30
MEMORY = 512 << 20

Files: TypeAlias = dict[Path, bytes]
Outcome: TypeAlias = "pa.Table | LanceError"


def tables() -> Iterator[RandomTable]:
    """Tables of several fragments."""
    index = 0
    while True:
        index += 1
        table = RandomTable(SEED, index)
        if table.table.num_rows > table.rows_per_file:
            yield table


def outcome(read: Callable[[], pa.Table]) -> Outcome:
    """The rows, or why there are none."""
    try:
        return read()
    except LanceError as error:
        return error


def condition(table: RandomTable, rng: random.Random) -> Any:
    """A filter on a column of the table."""
    key = rng.choice(table.keys)
    value = rng.randrange(200) if key == "id" else rng.choice(table.table.column(key).to_pylist())
    if value is None:
        return lancecy.col(key).is_null()
    return lancecy.col(key) < value if key in ORDERED else lancecy.col(key) == value


def run_case(files: Files, table: RandomTable, root: Path, case: int) -> None:
    """Damage one file, and read the table whole and by its fragments."""
    narrow_threads()
    rng = random.Random(f"fragments {table.index} {case}")
    target = rng.choice(list(files))
    damage = next(damaged_versions(files[target], rng, 1))
    for file, data in files.items():
        place(file, damage.data if file == target else data)
    names = rng.sample(table.names, rng.randint(1, len(table.names)))
    chosen = None if rng.random() < 0.5 else condition(table, rng)
    with contextlib.closing(lancecy.Session(threads=rng.choice([1, 2]))) as session:
        together = outcome(
            lambda: lancecy.dataset(root, session=session).to_table(columns=names, filter=chosen)
        )
    with contextlib.closing(lancecy.Session(threads=1)) as session:
        alone = [
            outcome(functools.partial(fragment.to_table, columns=names, filter=chosen))
            for fragment in lancecy.dataset(root, session=session).get_fragments()
        ]
    said = f"{damage.what}; columns {names}"
    if isinstance(together, LanceError):
        assert target.name in str(together), f"{said}: {together}"
        assert any(isinstance(each, LanceError) for each in alone), f"{said}: only together: {together}"
        raise together
    assert not any(isinstance(each, LanceError) for each in alone), f"{said}: overlooked: {alone}"
    rows = pa.concat_tables(alone).to_pylist()
    # NaN is no NaN, so texts are compared.
    assert repr(together.to_pylist()) == repr(rows), said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_damage_stays_in_its_fragment(tmp_path: Path) -> None:
    values = errors = 0
    for table, _ in zip(tables(), range(TABLES), strict=False):
        root = tmp_path / str(table.index)
        table.write(str(root)).to_table()
        # In the order of the fragments: names are random, and each run must damage the same bytes.
        parts = lancecy.dataset(root).context.snapshot.fragments
        paths = [root / "data" / file.path for part in parts for file in part.files]
        files = {path: path.read_bytes() for path in paths}
        found = jailed_batches(functools.partial(run_case, files, table, root), CASES, MEMORY)
        assert not found.troubles, f"table {table.index}: {found.troubles[:3]}"
        values, errors = values + found.values, errors + found.errors
    assert values + errors == TABLES * CASES
    assert min(values, errors) > TABLES * CASES // 20, (values, errors)
