"""Whether directory namespaces of old releases of pylance and lancecy's share catalogs, in both directions.

    python -m tests.interop.old_namespaces FOLDER [--releases 1.0.0 2.0.0 4.0.2]

FOLDER keeps one installed release each, made by pip if it is not there. A catalog is made by one library, listed, opened,
changed and dropped by the other, and by the first again; once with several hundred tables, so that it has indices that
cover rows. The old release runs in a process of its own. The exit code is 1 if an answer is not the expected one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import lance_namespace as ln

import lancecy
from lancecy.namespace.catalog import Add
from lancecy.namespace.entries import Entry
from tests.helpers.namespaces import (
    create,
    describe,
    drop,
    exists,
    make,
    namespaces,
    ours,
    remove,
    rename,
    tables,
)
from tests.interop.old_releases import Release

__all__ = ["RELEASES", "main"]

RELEASES = ("1.0.0", "2.0.0", "4.0.2")
"""The first release whose namespaces need no other package, of December 2025, and later ones."""
_MANY = 700

_OLD = """
import json, sys
import lance, lance_namespace as ln, pyarrow as pa
root, properties = sys.argv[1], json.loads(sys.argv[2])
ns = ln.connect("dir", {"root": root, **properties})
sink = pa.BufferOutputStream()
rows = pa.table({"a": [1, 2, 3]})
with pa.ipc.new_stream(sink, rows.schema) as writer:
    writer.write_table(rows)
body = sink.getvalue().to_pybytes()

def place(ids):
    return ns.describe_table(ln.DescribeTableRequest(id=ids)).location

DO = {
    "make": lambda ids: ns.create_namespace(ln.CreateNamespaceRequest(id=ids)) and None,
    "create": lambda ids: ns.create_table(ln.CreateTableRequest(id=ids), body) and None,
    "drop": lambda ids: ns.drop_table(ln.DropTableRequest(id=ids)) and None,
    "remove": lambda ids: ns.drop_namespace(ln.DropNamespaceRequest(id=ids)) and None,
    "tables": lambda ids: sorted(ns.list_tables(ln.ListTablesRequest(id=ids)).tables),
    "namespaces": lambda ids: sorted(ns.list_namespaces(ln.ListNamespacesRequest(id=ids)).namespaces),
    "count": lambda ids: lance.dataset(place(ids)).count_rows(),
}
for kind, name in json.load(sys.stdin):
    try:
        found = DO[kind](name.split(".") if name else [])
    except BaseException as error:
        found = "error: " + type(error).__name__ + ": " + str(error).replace("\\n", " ")[:200]
    print("answer", json.dumps(found), flush=True)
"""


class Old:
    """The namespace of an old release over one root."""

    def __init__(self, release: Release, root: Path, **properties: str) -> None:
        self._release, self._root, self._properties = release, root, properties

    def do(self, *steps: tuple[str, str]) -> list[Any]:
        """The answers to some operations, in one process."""
        given = json.dumps(self._properties)
        done = self._release.run(_OLD, str(self._root), given, given=json.dumps(steps))
        lines = [
            line.removeprefix("answer ") for line in done.stdout.splitlines() if line.startswith("answer ")
        ]
        if len(lines) != len(steps):
            raise OSError(f"the process ended with {done.returncode}: {done.stderr[-500:]}")
        return [json.loads(line) for line in lines]


class Checks:
    """Compares answers, and prints those that differ."""

    def __init__(self, release: str) -> None:
        self._release, self.is_fine = release, True

    def same(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.is_fine = False
            print(f"  {self._release}, {what}: {found!r}, expected {expected!r}")


def rows_of(ns: Any, name: str) -> int:
    return int(lancecy.dataset(describe(ns, name).location).count_rows())


def made_by_old(old: Old, ns: Any, root: Path, checks: Checks) -> None:
    """The old release makes a catalog, lancecy uses and changes it, and the old one goes on."""
    steps = [("make", "a"), ("make", "a.b"), ("create", "a.t"), ("create", "a.b.u"), ("create", "root")]
    checks.same("made", old.do(*steps), [None] * len(steps))
    checks.same("listed", [tables(ns), tables(ns, "a"), namespaces(ns, "a")], [["root"], ["t"], ["b"]])
    checks.same("opened", [rows_of(ns, name) for name in ("root", "a.t", "a.b.u")], [3, 3, 3])
    make(ns, "c")
    create(ns, "c.v")
    create(ns, "second")
    rename(ns, "a.t", "renamed")
    drop(ns, "root")
    answers = old.do(
        ("namespaces", ""), ("tables", ""), ("tables", "a"), ("tables", "c"), ("count", "c.v"), ("count", "a.renamed"),
        ("count", "second"), ("create", "c.w"), ("drop", "a.renamed"), ("drop", "c.v"), ("drop", "second"),
        ("tables", "c"),
    )  # fmt: skip
    expected = [["a", "c"], ["second"], ["renamed"], ["v"], 3, 3, 3, None, None, None, None, ["w"]]
    checks.same("changed by lancecy", answers, expected)
    checks.same("changed again", [tables(ns), tables(ns, "a"), tables(ns, "c")], [[], [], ["w"]])
    remove(ns, "c", behavior="Cascade")
    drop(ns, "a.b.u")
    checks.same(
        "dropped by lancecy",
        old.do(("namespaces", ""), ("remove", "a.b"), ("remove", "a")),
        [["a"], None, None],
    )
    checks.same("empty", [namespaces(ns), tables(ns)], [[], []])
    ds = lancecy.dataset(root / "__manifest")
    checks.same("versions", [one["version"] for one in ds.versions()], list(range(1, ds.version + 1)))


def made_by_lancecy(old: Old, ns: Any, root: Path, checks: Checks) -> None:
    """lancecy makes a catalog with covered rows, the old release uses and changes it, and lancecy goes on."""
    make(ns, "big")
    names = [f"t{number:04d}" for number in range(_MANY)]
    ns._catalog.change(lambda view: Add([Entry(f"big${name}", "table", f"x_{name}") for name in names]))
    make(ns, "a")
    create(ns, "a.t")
    create(ns, "root")
    covered = {
        index["name"]
        for index in lancecy.dataset(root / "__manifest").list_indices()
        if index["fragment_ids"]
    }
    checks.same("indices", len(covered), 3)
    answers = old.do(
        ("namespaces", ""), ("tables", ""), ("tables", "a"), ("tables", "big"), ("count", "a.t"), ("count", "root"),
        ("create", "a.u"), ("create", "a.t"), ("make", "big.c"), ("drop", "a.t"), ("drop", "root"), ("tables", "a"),
    )  # fmt: skip
    taken = answers.pop(7)
    checks.same("taken", str(taken)[:6], "error:")
    expected = [["a", "big"], ["root"], ["t"], names, 3, 3, None, None, None, None, ["u"]]
    checks.same("used by the old release", answers, expected)
    found = [tables(ns), tables(ns, "a"), tables(ns, "big"), namespaces(ns, "big"), rows_of(ns, "a.u")]
    checks.same("read again", found, [[], ["u"], names, ["c"], 3])
    create(ns, "big.c.v")
    drop(ns, "a.u")
    checks.same(
        "look-ups", [exists(ns, f"big.{name}") for name in (names[0], names[-1], "none")], [True, True, False]
    )
    checks.same(
        "at last", old.do(("tables", "big"), ("tables", "big.c"), ("tables", "a")), [names, ["v"], []]
    )


def migrated(release: Release, root: Path, checks: Checks) -> None:
    """Directories that the old release wrote move to V2, and back."""
    v1 = Old(release, root, manifest_enabled="false")
    checks.same("V1", v1.do(("create", "x"), ("create", "y"), ("tables", "")), [None, None, ["x", "y"]])
    ns = ours(root)
    checks.same("migrated", ns.migrate().tables, ["x", "y"])
    only = Old(release, root, dir_listing_enabled="false")
    checks.same("V2", only.do(("tables", ""), ("count", "x"), ("drop", "y")), [["x", "y"], 3, None])
    checks.same("back", [ns.migrate_back().tables, tables(ns)], [["x"], ["x"]])


def check(folder: Path, number: str) -> bool:
    """Whether an old release and lancecy share catalogs."""
    release, checks = Release(folder, number), Checks(number)
    for scenario in (made_by_old, made_by_lancecy):
        for properties in ({}, {"dir_listing_enabled": "false"}):
            with tempfile.TemporaryDirectory() as place:
                root = Path(place)
                scenario(Old(release, root, **properties), ours(root, **properties), root, checks)
    with tempfile.TemporaryDirectory() as place:
        migrated(release, Path(place), checks)
    print(f"pylance {number} and lancecy: {'catalogs are shared' if checks.is_fine else 'differences'}")
    return checks.is_fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--releases", nargs="*", default=list(RELEASES))
    chosen = parser.parse_args()
    fine = []
    for number in chosen.releases:
        try:
            fine.append(check(chosen.folder, number))
        except ln.LanceNamespaceError as error:
            print(f"pylance {number}: lancecy raised {type(error).__name__}: {error}")
            fine.append(False)
    return int(not all(fine))


if __name__ == "__main__":
    sys.exit(main())
