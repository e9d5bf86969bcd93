"""Checks the files of tags and branches: that they can be read, and that what they name is there.

A damaged one does not hinder reading the table. But a cleanup stops at it, and pylance then lists no tag or branch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lancecy.errors import DatasetNotFoundError, LanceError, StoreError, UnsupportedError, printable
from lancecy.records import dataclass
from lancecy.store.base import Store
from lancecy.table.answers import run_on
from lancecy.table.branches.files import leftover_advice, table_folders
from lancecy.table.refs import TREE, Pin, branch_folder, decode_pin
from lancecy.table.refs.names import REFS, branch_of, branch_path, tag_of
from lancecy.table.refs.places import main_location
from lancecy.table.snapshot import Snapshot
from lancecy.table.versions import version_store

__all__ = ["Problem", "reference_problems"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault of a tag or branch.

    Attributes
    ----------
    place : str
        The tag or branch.
    text : str
        What is wrong, and the remedy.
    is_damage : bool
        False if only space is wasted.
    """

    place: str
    text: str
    is_damage: bool = True


def reference_problems(snapshot: Snapshot) -> list[Problem]:
    """The faults of all tags and branches of a table; of a branch only its own.

    Parameters
    ----------
    snapshot : Snapshot

    Raises
    ------
    StoreError
        The storage failed, or cannot list files.
    """
    branch = snapshot.manifest.branch
    try:
        location = main_location(snapshot.location, branch)
    except UnsupportedError as error:
        return [Problem(f"branch {printable(branch)!r}", str(error), is_damage=False)]
    store = location.open(snapshot.session)
    if branch is not None:
        return list(_unrecorded([branch], [meta.path for meta in store.list(REFS)]))
    return _of_table(store, snapshot)


def _of_table(store: Store, snapshot: Snapshot) -> list[Problem]:
    paths = [meta.path for meta in store.list(REFS)]
    # Versions are listed after the files that name them, so that new ones are among them.
    versions = _versions(store)
    found = []
    for path in paths:
        tag, branch = tag_of(path), branch_of(path)
        if tag is None and branch is None:
            continue
        place = f"branch {printable(branch)!r}" if tag is None else f"tag {printable(tag)!r}"
        try:
            pin = decode_pin(store.get(path), path, snapshot.limits)
        except DatasetNotFoundError:
            continue  # removed meanwhile
        except StoreError:
            raise
        except LanceError as error:
            found.append(
                Problem(place, f"{error}; remove this file, and make the {place} anew if it is needed")
            )
            continue
        text = _of_tag(pin, versions) if branch is None else _of_branch(branch, versions)
        if text is not None:
            found.append(Problem(place, text))
    folders = table_folders(meta.path.removeprefix(f"{TREE}/") for meta in store.list(TREE))
    return [*found, *_unrecorded(folders, paths)]


def _versions(store: Store) -> dict[str, set[int]]:
    """The versions of every branch; "" is the main table."""
    found: dict[str, set[int]] = {"": set()}
    for entry in run_on(version_store(store).manifests(), store):
        folder = entry.meta.path.rpartition("/")[0].rpartition("/")[0]
        if not entry.name.staged and folder != TREE:
            found.setdefault(folder.removeprefix(f"{TREE}/"), set()).add(entry.name.version)
    return found


def _of_tag(pin: Pin, versions: dict[str, set[int]]) -> str | None:
    if pin.version in versions.get(pin.branch or "", ()):
        return None
    place = "the main table" if pin.branch is None else f"the branch {printable(pin.branch)!r}"
    return f"it names version {pin.version} of {place}, which is not there; tags.update moves it, tags.delete removes it"


def _of_branch(branch: str, versions: dict[str, set[int]]) -> str | None:
    if versions.get(branch):
        return None
    return (
        f"{branch_folder(branch)}/ has no version of it; remove {branch_path(branch)}, or put the folder back"
    )


def _unrecorded(branches: Collection[str], paths: Collection[str]) -> Iterator[Problem]:
    """Branches without a file, which a creation or a removal that was cut short leaves."""
    recorded = {branch_of(path) for path in paths}
    for branch in sorted(branches):
        if branch not in recorded:
            folder = branch_folder(branch)
            text = (
                f"{folder}/ has files, but {branch_path(branch)} is not there: the branch is being made or removed, or that was "
                f"interrupted, or another table was put there; {leftover_advice(branch)}"
            )
            yield Problem(f"branch {printable(branch)!r}", text, is_damage=False)
