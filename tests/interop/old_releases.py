"""Whether old releases of pylance read what lancecy writes: 2.0 by 0.20.0, 2.1 by 0.39.0, 2.2 by 4.0.2.

    python -m tests.interop.old_releases FOLDER [--versions 2.0 2.1] [--shapes NAME ...]

FOLDER keeps one installed release each, made by pip if it is not there. Every shape of values that a version
holds is written, appended, deleted from and appended again, and read by the old release in a process of its
own. Where that fails, the same rows are written by pylance 14 and by the old release itself: if pylance 14 does
better, the fault is lancecy's, and the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.helpers.shapes import SHAPES, recorded, shape_table

__all__ = ["RELEASES", "main"]

RELEASES = {"2.0": "0.20.0", "2.1": "0.39.0", "2.2": "4.0.2"}
"""Version of files to the oldest release that has to read them."""
_NEEDS = {"4.0.2": ("lance-namespace<0.7",)}

_READ = """
import json, sys, lance, pyarrow as pa
for name, uri, out in json.load(sys.stdin):
    try:
        table = lance.dataset(uri).to_table()
        with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        print("read", name, flush=True)
    except BaseException as error:
        print("failed", name, str(error).replace("\\n", " ")[:300], flush=True)
"""
_WRITE = """
import sys, lance, pyarrow as pa
with pa.OSFile(sys.argv[2]) as file:
    table = pa.ipc.open_file(file).read_all()
lance.write_dataset(table, sys.argv[1], data_storage_version=sys.argv[3])
"""

Write = Callable[[pa.Table, str, Any], None]
Job = tuple[str, str, str]


class Release:
    """An old release, installed in a folder of its own and run in processes of its own."""

    def __init__(self, folder: Path, number: str) -> None:
        self.number, self.path = number, folder / number
        if not (self.path / "lance").exists():
            for what in _NEEDS.get(number, ()):
                self._install(what)
            self._install(f"pylance=={number}", "--no-deps", "--upgrade")

    def _install(self, what: str, *options: str) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--target", str(self.path), *options, what]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"pip could not install {what}: {done.stderr[-500:]}")

    def run(self, code: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            check=False,
            env={**os.environ, "PYTHONPATH": str(self.path)},
            input=given,
            capture_output=True,
            text=True,
        )

    def failures(self, jobs: Sequence[Job]) -> Iterator[tuple[str, str]]:
        """Names of the tables it does not read, and why; a table that ends the process is followed by a new one."""
        left = list(jobs)
        while left:
            done = self.run(_READ, given=json.dumps(left))
            lines = [line.split(" ", 2) for line in done.stdout.splitlines()]
            for line in lines:
                if line[0] == "failed":
                    yield line[1], line[2]
            left = left[len(lines) :]
            if left:
                yield left.pop(0)[0], f"process ended with {done.returncode}"

    def write(self, table: pa.Table, uri: str, version: str) -> None:
        with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
            with pa.ipc.new_file(file.name, table.schema) as writer:
                writer.write_table(table)
            done = self.run(_WRITE, uri, file.name, version)
        if done.returncode:
            raise OSError(done.stderr[-300:])


def _write_mine(table: pa.Table, uri: str, version: Any) -> None:
    """Twice the rows: what was appended first is deleted again."""
    lancecy.write_dataset(table, uri, data_storage_version=version, durability="none")
    ds = lancecy.write_dataset(table, uri, mode="append", durability="none")
    ds.delete(f"_rowaddr >= {1 << 32}")
    ds.append(table, durability="none")


def _write_pylance(table: pa.Table, uri: str, version: Any) -> None:
    import lance

    lance.write_dataset(table, uri, data_storage_version=version)


def _without_views(table: pa.Table) -> pa.Table:
    """The same table as files hold it."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    # Not all of the table at once: Arrow casts slices of lists to what they are already, and makes other ones of them.
    columns = [
        column.cast(plain[column.type]) if column.type in plain else column for column in table.columns
    ]
    fields = [field.with_type(column.type) for field, column in zip(table.schema, columns, strict=True)]
    return pa.table(columns, pa.schema(fields, table.schema.metadata))


def _difference(name: str, found: Path, times: int) -> str | None:
    with pa.OSFile(str(found)) as file:
        table = pa.ipc.open_file(file).read_all()
    try:
        assert_tables_equal(table, pa.concat_tables([_without_views(shape_table(name))] * times))
    except AssertionError as error:
        return f"differs: {error}"
    return None


def _unread(release: Release, names: Sequence[str], version: str, write: Write, times: int) -> dict[str, str]:
    """Shapes that do not come back as they were written by ``write``, and why."""
    with tempfile.TemporaryDirectory() as folder:
        jobs, why = [], {}
        for name in names:
            uri = f"{folder}/{name}"
            try:
                write(shape_table(name), uri, version)
            except (lancecy.LanceError, OSError, ValueError) as error:
                why[name] = f"not written: {error}"
            else:
                jobs.append((name, uri, uri + ".arrow"))
        why.update(release.failures(jobs))
        for name, _, out in jobs:
            found = None if name in why else _difference(name, Path(out), times)
            if found is not None:
                why[name] = found
    return why


def check(folder: Path, version: str, names: Sequence[str]) -> bool:
    """Whether an old release reads what lancecy writes, as far as it reads what pylance 14 writes."""
    release = Release(folder, RELEASES[version])
    wanted = [name for name in names if recorded()[name][version] is not None]
    mine = _unread(release, wanted, version, _write_mine, 2)
    others = {"pylance 14": _write_pylance, f"pylance {release.number}": release.write}
    unread = {who: _unread(release, list(mine), version, write, 1) for who, write in others.items()}
    print(f"{version} read by {release.number}: {len(wanted) - len(mine)} of {len(wanted)} shapes")
    is_fine = True
    for name, reason in mine.items():
        better = [who for who, others_ in unread.items() if name not in others_]
        is_fine &= reason.startswith("not written") or "pylance 14" not in better
        print(
            f"  {name}: {reason[:160]}; {'not so from ' + ' and '.join(better) if better else 'nor from others'}"
        )
    return is_fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--versions", nargs="*", default=list(RELEASES), choices=list(RELEASES))
    parser.add_argument("--shapes", nargs="*", default=[name for name in SHAPES if not SHAPES[name].slow])
    chosen = parser.parse_args()
    fine = [check(chosen.folder, version, chosen.shapes) for version in chosen.versions]
    return int(not all(fine))


if __name__ == "__main__":
    sys.exit(main())
