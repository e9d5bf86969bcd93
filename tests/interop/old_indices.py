"""Whether lancecy answers filters by the indices of old releases of pylance as it answers them without.

    python -m tests.interop.old_indices FOLDER [--releases 0.20.0 0.39.0 4.0.2]

FOLDER keeps one installed release each, made by pip if it is not there. The old release writes a table, without and with
stable row ids, makes every index that it knows, deletes, appends, updates, optimizes its indices and compacts, in a process
of its own. After each of these lancecy's answers with indices are compared with those of plain scans. The exit code is 1 if
one differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import lancecy
from tests.interop.old_releases import Release

__all__ = ["RELEASES", "main"]

RELEASES = {"0.20.0": "2.0", "0.39.0": "2.0", "4.0.2": "2.2"}
"""Release to the version of its files."""
_FILTERS = (
    "id = 7",
    "id IN (1, 2, 3, 399)",
    "id < 5",
    "id IS NULL",
    "NOT id = 7",
    "id BETWEEN 10 AND 20 AND g = 'a'",
    "g = 'a'",
    "g IN ('b', 'z')",
    "g IS NULL",
    "NOT g = 'a'",
    "f = 0.0",
    "f > 1",
    "f IS NULL",
    "NOT f > 1",
    "array_has(tags, 'a')",
    "array_has_any(tags, ['a', 'c'])",
    "array_has_all(tags, ['a', 'b'])",
    "NOT array_has(tags, 'a')",
    "n = 77",
    "n BETWEEN 100 AND 120",
    "contains(s, 'abc')",
    "s LIKE '%word1%'",
)
_OLD = """
import json, math, random, sys
import lance, pyarrow as pa

uri, is_stable, version = sys.argv[1], sys.argv[2] == "True", sys.argv[3]
chance, rows = random.Random(3), 700

def some(values, nulls):
    return [None if chance.random() < nulls else chance.choice(values) for _ in range(rows)]

table = pa.table({
    "id": pa.array(some(range(400), 0.05), pa.int64()),
    "g": pa.array(some("abcdef", 0.05)),
    "f": pa.array(some([0.0, -0.0, 1.5, -2.0, math.nan, math.inf], 0.1)),
    "tags": pa.array(some([[], ["a"], ["a", "b"], ["c", None], ["b", "b"]], 0.2), pa.list_(pa.string())),
    "s": [f"{chance.choice(['word', 'abc', 'xabcy', ''])}{n % 50}" for n in range(rows)],
    "n": list(range(rows)),
})
KINDS = {"id": "BTREE", "g": "BITMAP", "f": "BTREE", "tags": "LABEL_LIST", "n": "ZONEMAP", "s": "NGRAM"}

def make():
    import inspect
    known = inspect.signature(lance.write_dataset).parameters
    name = next((n for n in ("enable_stable_row_ids", "enable_move_stable_row_ids") if n in known), None)
    stable = {name: True} if is_stable else {}
    lance.write_dataset(table, uri, max_rows_per_file=200, data_storage_version=version, **stable)
    made = []
    for column, kind in [*KINDS.items(), ("n", "BLOOMFILTER")]:
        try:
            lance.dataset(uri).create_scalar_index(column, kind, name=f"{column}_{kind.lower()}")
            made.append(kind)
        except Exception:
            pass
    return made

DO = {
    "make": make,
    "delete": lambda: lance.dataset(uri).delete("n % 13 = 5"),
    "append": lambda: lance.write_dataset(table.slice(0, 60), uri, mode="append"),
    "update": lambda: lance.dataset(uri).update({"g": "'z'"}, where="n % 17 = 2"),
    "update more": lambda: lance.dataset(uri).update({"id": "5", "f": "2.5"}, where="n % 19 = 4"),
    "optimize": lambda: lance.dataset(uri).optimize.optimize_indices(),
    "compact": lambda: lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=500),
}
found = None
try:
    found = DO[sys.argv[4]]()
except Exception as error:
    print("failed", str(error).splitlines()[0][:200])
else:
    print("done", json.dumps(found) if isinstance(found, list) else "")
"""
_STEPS = ("make", "delete", "append", "update", "optimize", "update more", "compact", "optimize")


def check(release: Release, version: str, is_stable: bool, folder: Path) -> Iterator[str]:
    """Yield what went wrong, with the step after which it did."""
    uri, used = str(folder / f"{release.number}-{is_stable}"), set[str]()
    for number, step in enumerate(_STEPS):
        done = release.run(_OLD, uri, str(is_stable), version, step)
        if not done.stdout.startswith("done"):
            print(f"  {release.number} cannot {step}: {(done.stdout + done.stderr)[-200:].strip()}")
            if step == "make":
                return
            continue
        if step == "make":
            print(
                f"  {release.number}, stable row ids: {is_stable}; makes {', '.join(json.loads(done.stdout[5:]))}"
            )
        for text in _FILTERS:
            ds = lancecy.dataset(uri)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                plain = ds.to_table(filter=text, use_scalar_index=False)
                found = ds.to_table(filter=text)
                count = ds.count_rows(text)
            used |= {
                name
                for part in ds.scanner(filter=text).explain().fragments
                for s in part.sources
                for name in s.indices
            }
            # As text, in which NaN is equal to NaN.
            if str(found.to_pydict()) != str(plain.to_pydict()) or count != plain.num_rows:
                yield f"{text} after step {number}, {step}: {found.num_rows} rows, counted {count}, not {plain.num_rows}"
            for message in {str(warning.message) for warning in told}:
                print(f"  warning: {message[:160]}")
    print(f"  used: {', '.join(sorted(used))}")


def main() -> int:
    """Check every release; 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--releases", nargs="*", default=list(RELEASES))
    chosen = parser.parse_args()
    wrong: list[str] = []
    for number in chosen.releases:
        print(f"indices of pylance {number}")
        release = Release(chosen.folder, number)
        with tempfile.TemporaryDirectory() as folder:
            for is_stable in (False, True):
                wrong += check(release, RELEASES.get(number, "2.0"), is_stable, Path(folder))
    for text in wrong:
        print(f"WRONG: {text}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
