"""Processes that create, rename and drop overlapping names: one winner each, and nothing is left over."""

from __future__ import annotations

import faulthandler
import os
import queue
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance_namespace as ln
import pytest

import lancecy
from lancecy.namespace import creation
from tests.helpers.namespaces import (
    MODES,
    create,
    declare,
    deregister,
    describe,
    drop,
    exists,
    make,
    namespaces,
    ours,
    remove,
    rename,
    tables,
    theirs,
)
from tests.helpers.processes import fresh_processes

Done = tuple[str, str, str]  # library, kind of change, name
NAMES = ("a", "b", "c")
STEPS = {"create": 1, "renamed": 1, "make": 1, "drop": -1, "remove": -1, "unknown": -1}
# Seconds of one change after which a process ends itself.
_LONGEST = 120.0
WANTED = [f"{kind}{number}" for kind in ("n", "t", "space.t", "space.declared") for number in range(4)]
EXPECTED = (
    ln.TableAlreadyExistsError,
    ln.TableNotFoundError,
    ln.NamespaceAlreadyExistsError,
    ln.NamespaceNotFoundError,
    ln.NamespaceNotEmptyError,
    ln.ConcurrentModificationError,
)


def one_winner(root: str, barrier: Any, results: Any) -> None:
    ns = ours(root)
    won = []
    for name in WANTED:
        barrier.wait()
        try:
            if name.startswith("n"):
                make(ns, name)
            elif "declared" in name:
                declare(ns, name)
            else:
                create(ns, name, {"a": [os.getpid()]})
            won.append(name)
        except (ln.TableAlreadyExistsError, ln.NamespaceAlreadyExistsError):
            pass
    results.put((os.getpid(), won))


def run(target: Any, root: Path, each: Sequence[tuple[Any, ...]], seconds: float = 250.0) -> list[Any]:
    """What several processes tell. If one of them fails or hangs, all are ended, and it says where it was."""
    context = fresh_processes()
    results, barrier = context.Queue(), context.Barrier(len(each))
    started = [context.Process(target=target, args=(str(root), barrier, results, *args)) for args in each]
    for process in started:
        process.start()
    found: list[Any] = []
    end = time.monotonic() + seconds
    try:
        while len(found) < len(started):
            with suppress(queue.Empty):
                found.append(results.get(timeout=1))
                continue
            codes = [process.exitcode for process in started]
            assert not any(codes), f"a process failed: {codes} of {each}"
            assert time.monotonic() < end, f"{len(found)} of {len(started)} processes told: {codes} of {each}"
        for process in started:
            process.join(max(0.0, end - time.monotonic()))
        assert [process.exitcode for process in started] == [0] * len(started)
    finally:
        for process in started:
            process.kill()
    return found


def limited() -> None:
    """End this process if the next call of this function comes late, and print where each thread of it is."""
    faulthandler.dump_traceback_later(_LONGEST, exit=True)


@pytest.mark.slow
def test_of_several_creators_one_wins(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "space")
    found = run(one_winner, tmp_path, [()] * 4)
    assert Counter(name for _, won in found for name in won) == dict.fromkeys(WANTED, 1)
    for process, won in found:
        for name in won:
            if name.endswith("t", 0, -1):
                place = ns.describe_table(ln.DescribeTableRequest(id=name.split("."))).location
                assert lancecy.dataset(place).to_table()["a"].to_pylist() == [process]
    assert ns.remove_unused(older_than=timedelta(0), dry_run=True) == []


def disturb(root: str, barrier: Any, results: Any, library: str, seconds: float, shares: bool) -> None:
    """Change overlapping names for some time; tell what was done, by the name it was done to and the library."""
    draw = random.Random(os.getpid())
    # Namespaces with tables stay: pylance does not look whether the parent of a new table is still there.
    ns = ours(root) if library == "lancecy" else theirs(root, **MODES[library])
    done: list[Done] = []
    barrier.wait()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        limited()
        space, other = (draw.choice(["", "s.", "r."]) for _ in range(2))
        name, parent = f"{space}{draw.choice(NAMES)}", draw.choice(["n0", "n1", "n0.m"])
        new = draw.choice(NAMES)
        kind = draw.choice(["create", "drop", "rename"] * 2 + ["make", "remove"])
        try:
            if kind == "create":
                create(ns, name, {"a": [os.getpid()]})
            elif kind == "drop":
                drop(ns, name)
            elif kind == "make":
                make(ns, parent)
            elif kind == "remove":
                remove(ns, parent)
            elif library == "lancecy":
                rename(ns, name, new, other.strip(".").split(".") if other else [])
            else:
                continue
        except EXPECTED:
            continue
        except ln.InvalidInputError:
            # pylance may register a table whose directory has another name meanwhile: its files are those of both.
            if not shares:
                raise
            continue
        except (ln.InternalError, OSError):
            # Of pylance alone; a table whose directory was gone already left the catalog.
            if library == "lancecy":
                raise
            if kind in ("drop", "remove"):
                done.append((library, "unknown", name if kind == "drop" else parent))
            continue
        if kind == "rename":
            done += [(library, "drop", name), (library, "renamed", f"{other}{new}")]
        else:
            done.append((library, kind, name if kind in ("create", "drop") else parent))
    limited()
    results.put(done)


# With LANCECY_NAMESPACE_SECONDS=600 (make names) for ten minutes.
KINDS = ["lancecy"] * 5 + ["default", "migrating", "manifest only"]
SECONDS = float(os.environ.get("LANCECY_NAMESPACE_SECONDS", "10"))


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize(("kinds", "share"), [(KINDS[:5], 0.25), (KINDS, 1.0)], ids=["lancecy", "both"])
def test_changes_of_overlapping_names_leave_a_sound_catalog(
    tmp_path: Path, kinds: list[str], share: float
) -> None:
    ns = ours(tmp_path)
    make(ns, "s")
    make(ns, "r")
    shares = len(set(kinds)) > 1
    told = run(disturb, tmp_path, [(kind, share * SECONDS, shares) for kind in kinds], SECONDS + 250)
    done = [one for some in told for one in some]
    print(dict(Counter((library, kind) for library, kind, _ in done)), flush=True)
    committed(tmp_path, done, shares)
    balanced(tmp_path, done, is_exact=not shares)
    sound(tmp_path, shares)


def committed(root: Path, done: list[Done], shares: bool) -> None:
    """Whatever lancecy was told that it did is a commit of its own, also beside pylance.

    But for new tables of the root beside pylance, which may add the row of a directory that lancecy makes. None of these
    commits leaves a row without its namespace.
    """
    told = Counter(
        (STEPS[kind], name)
        for library, kind, name in done
        if library == "lancecy" and not (shares and kind == "create" and "." not in name)
    )
    made: Counter[tuple[int, str]] = Counter()
    ds = lancecy.dataset(root / "__manifest")
    known: dict[int, set[str]] = {}
    for version in range(2, ds.version + 1):
        writer = ds.checkout_version(version).context.snapshot.manifest.writer
        if writer is not None and writer.library == "lancecy":
            before = known.get(version - 1) or ids(ds, version - 1)
            known = {version: ids(ds, version)}
            made.update((1, name) for name in known[version] - before)
            made.update((-1, name) for name in before - known[version])
            assert orphans(known[version]) <= orphans(before), version
    assert not told - made, told - made


def orphans(names: set[str]) -> set[str]:
    """Names whose namespace is not there: pylance adds to one that is dropped meanwhile."""
    return {name for name in names if "." in name and name.rpartition(".")[0] not in names}


def ids(ds: lancecy.Dataset, version: int) -> set[str]:
    found = ds.checkout_version(version).to_table(columns=["object_id"])["object_id"].to_pylist()
    return {one.replace("$", ".") for one in found}


def balanced(root: Path, done: list[Done], is_exact: bool) -> None:
    """Every name was made once more often than it went, if it is there, and as often if it is not.

    With pylance only for namespaces, which may go more often than they were made: of several processes that drop one, each
    is told that it did. Its creations of tables do not add up either: over a row whose files another process removed,
    pylance creates the table again.
    """
    ns = ours(root)
    count: Counter[str] = Counter()
    for _, kind, name in done:
        count[name] += STEPS[kind]
    there = {name: exists(ns, name) or name in spaces(ns) for name in count}
    if not is_exact:
        count = Counter({name: number for name, number in count.items() if name.startswith("n")})
    wrong = [
        name for name in count if (count[name] != there[name] if is_exact else count[name] > there[name])
    ]
    assert not wrong, [(name, count[name], there[name]) for name in wrong]


def spaces(ns: Any) -> list[str]:
    top = namespaces(ns)
    return [*top, *(f"{one}.{name}" for one in top for name in namespaces(ns, one))]


def sound(root: Path, shares: bool) -> None:
    """Every row has a table, every directory a row or a clean-up that finds it, and every id is there once.

    Beside pylance (``shares``) a row may lack its namespace, as far as lancecy did not cause that (see :func:`committed`),
    and its table if its directory is ``<name>.lance``, or was that of another name before: pylance removes the directory of
    a name that it drops, whoever uses the directory by then.
    """
    ns = ours(root)
    catalog = lancecy.dataset(root / "__manifest")
    rows = catalog.to_table().to_pylist()
    ids = [row["object_id"] for row in rows]
    assert len(ids) == len(set(ids))
    parents = {row["object_id"] for row in rows if row["object_type"] == "namespace"}
    for row in rows:
        assert shares or row["object_id"].rpartition("$")[0] in {"", *parents}
        if row["object_type"] == "table" and not is_whole(root / row["location"]):
            assert shares, row
            assert row["location"].endswith(".lance") or was_renamed(catalog, row["location"]), row
    used = {row["location"] for row in rows if row["location"]}
    unused = set(ns.remove_unused(older_than=timedelta(0)))
    left = set(os.listdir(root)) - used - {"__manifest"} - unused
    # What else is there are tables of V1, and what removals by pylance leave of them.
    assert left <= {f"{name}.lance" for name in (NAMES if shares else tables(ns))}
    for name in tables(ns):
        assert exists(ns, name)
    for space in namespaces(ns):
        for name in tables(ns, space):
            assert exists(ns, f"{space}.{name}")


def is_whole(place: Path) -> bool:
    try:
        return lancecy.dataset(place).count_rows() == 1
    except lancecy.errors.DatasetNotFoundError:
        return False


def was_renamed(catalog: lancecy.Dataset, location: str) -> bool:
    """Whether a directory had several names."""
    found: set[str] = set()
    for version in range(2, catalog.version + 1):
        rows = catalog.checkout_version(version).to_table(columns=["object_id", "location"])
        found.update(row["object_id"] for row in rows.to_pylist() if row["location"] == location)
    return len(found) > 1


def with_pylance(root: str, barrier: Any, results: Any, kind: str) -> None:
    ns = theirs(root) if kind == "pylance" else ours(root)
    barrier.wait()
    made = []
    for number in range(8):
        try:
            make(ns, f"n{number}")
            made.append(number)
        except (ln.NamespaceAlreadyExistsError, ln.ConcurrentModificationError):
            pass
        make(ns, f"{kind}{os.getpid()}-{number}")
    results.put(made)


@pytest.mark.slow
@pytest.mark.interop
def test_pylance_takes_part_in_races(tmp_path: Path) -> None:
    kinds = ["pylance", "pylance", "lancecy", "lancecy"]
    made = Counter(
        number for some in run(with_pylance, tmp_path, [(kind,) for kind in kinds]) for number in some
    )
    assert made == dict.fromkeys(range(8), 1)
    found = namespaces(ours(tmp_path))
    assert len(found) == 8 + 32
    assert namespaces(theirs(tmp_path)) == found


def test_deregistered_and_dropped_names_are_free_again(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "t")
    deregister(ns, "t")
    create(ns, "t")
    drop(ns, "t")
    assert tables(ns) == []


def create_until_killed(root: str, began: Any) -> None:
    """Create a table; end never, and tell when its rows are about to be written."""

    def write(*args: Any, **options: Any) -> None:
        began.set()
        time.sleep(_LONGEST)

    setattr(creation, "write_dataset", write)  # noqa: B010 - not a public name of the module
    create(ours(root), "t")


@pytest.mark.slow
def test_name_of_a_process_that_was_killed_is_free_at_once(tmp_path: Path) -> None:
    context = fresh_processes()
    began = context.Event()
    process = context.Process(target=create_until_killed, args=(str(tmp_path), began))
    process.start()
    try:
        assert began.wait(_LONGEST)
        ns = ours(tmp_path)
        for mode in ("Create", "Overwrite"):
            with pytest.raises(ln.TableAlreadyExistsError, match="another process creates"):
                create(ns, "t", mode=mode)
    finally:
        process.kill()
        process.join()
    assert tables(ns) == []
    create(ns, "t", {"a": [1]})
    assert (tables(ns), lancecy.dataset(describe(ns, "t").location).count_rows()) == (["t"], 1)
    assert ns.remove_unused(older_than=timedelta(0)) == ["t.lance"]
    assert exists(ns, "t")
