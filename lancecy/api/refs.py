"""Tags of a table: ``ds.tags``."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict, TypeVar

from lancecy.errors import (
    FormatError,
    LanceError,
    VersionNotFoundError,
    with_short_tracebacks,
)
from lancecy.inspection.reference_tables import ReferenceTable, tag_table, unlisted
from lancecy.keyword_options import checked_arguments
from lancecy.table.commit.driver import check_create, drive
from lancecy.table.location import TableLocation
from lancecy.table.refs.contents import Tag
from lancecy.table.refs.files import create_tag, read_tag, remove_tag, replace_tag, tags
from lancecy.table.refs.names import TAGS
from lancecy.table.refs.opening import unknown_tag
from lancecy.table.refs.places import main_location
from lancecy.table.refs.readable import refs_that_can_be_read
from lancecy.table.refs.reference import Reference, parse_reference, resolve
from lancecy.table.requests import Steps
from lancecy.table.snapshot import Snapshot, load_reference

__all__ = ["TagDescription", "Tags"]

T = TypeVar("T")


class TagDescription(TypedDict):
    """A tag, with the keys of pylance.

    ``branch`` is None for the main table; the times have a time zone, and are None in files of old releases;
    ``manifest_size`` is in bytes.
    """

    branch: str | None
    version: int
    created_at: datetime | None
    updated_at: datetime | None
    manifest_size: int
    metadata: dict[str, str]


@with_short_tracebacks
class Tags:
    """The tags of a table and its branches: names for versions, which cleanups keep.

    Made by :attr:`Dataset.tags`. Every branch has the same tags, so a name is unique in the whole table. A reference
    is a version of this dataset's branch, the name of a tag, or (branch, version): None or "main" is the main table,
    and no version is the newest one.

    Examples
    --------
    >>> import lancecy
    >>> ds = lancecy.write_dataset({"n": [1]}, "memory://tagged")
    >>> ds.append({"n": [2]})
    >>> ds.tags.create("v1.0", 1, {"reviewed": "yes"})
    >>> ds.tags.get_version("v1.0"), ds.tags.list()["v1.0"]["metadata"]
    (1, {'reviewed': 'yes'})
    >>> ds.checkout_version("v1.0").count_rows()
    1
    >>> print(ds.tags)
    1 tag of memory://tagged
      tag   version  branch  updated (UTC)  metadata
      v1.0  1        main    ...            reviewed=yes
    >>> ds.tags.update("v1.0", 2)
    >>> ds.tags.delete("v1.0")
    >>> ds.tags.list()
    {}
    """

    def __init__(self, current: Callable[[], Snapshot]) -> None:
        self._current = current

    def list(self) -> dict[str, TagDescription]:
        """All tags by name, in ascending order.

        Raises
        ------
        FormatError, LimitError
            The file of a tag is damaged; the message names it. Other tags can be used by name, and :meth:`delete`
            removes the damaged one.
        StoreError
            The storage failed.
        """
        try:
            found = self._run(tags(self._main.limits))
        except FormatError as error:
            raise error.within(self._main.uri)
        return {name: _description(tag) for name, tag in found.items()}

    def list_ordered(
        self, order: Literal["asc", "desc"] | None = None
    ) -> builtins.list[tuple[str, TagDescription]]:
        """All tags in the order of their versions, those of one version by name.

        Parameters
        ----------
        order : "asc", "desc" or None
            By ascending or descending version; None is descending, as in pylance.

        Raises
        ------
        ValueError
            There is no such order.
        LanceError
            As :meth:`list`.
        """
        if order not in (None, "asc", "desc"):
            raise ValueError(f"order is 'asc' or 'desc', not {order!r}")
        sign = 1 if order == "asc" else -1
        return sorted(self.list().items(), key=lambda item: (sign * item[1]["version"], item[0]))

    @checked_arguments()
    def get_version(self, tag: str) -> int:
        """The version that a tag names, of its branch; one request.

        Raises
        ------
        RefNotFoundError
            There is no such tag.
        FormatError, LimitError
            Its file is damaged.
        """
        return self._read(tag).version

    @checked_arguments()
    def create(
        self, tag: str, reference: Reference = None, metadata: Mapping[str, str] | None = None
    ) -> None:
        """Create a tag. Of several writers that create one name, exactly one succeeds.

        Parameters
        ----------
        tag : str
            ASCII letters, digits, ".", "-" and "_".
        reference : int, str, (str or None, int or None), optional
            The version; by default that of this dataset.
        metadata : mapping of str to str, optional

        Raises
        ------
        ValueError
            A new tag cannot have this name.
        RefExistsError
            There is a tag of this name already.
        NotFoundError
            There is no such version, tag or branch.
        ConflictError
            A cleanup is removing the version.
        StoreError
            The storage failed, and there is probably no new tag.
        UnsupportedError
            The storage cannot create an object only if it is absent.
        """
        branch, version = self._resolved(reference)
        content = Tag(version, branch, metadata=_checked(metadata or {}))
        check_create(self._main.open(self._snapshot.session), commits=False)
        self._run_for(content, create_tag(tag, content, self._main.limits))

    @checked_arguments()
    def update(self, tag: str, reference: Reference = None) -> None:
        """Let a tag name another version. Its metadata and the time of its creation stay.

        Parameters
        ----------
        tag : str
        reference : int, str, (str or None, int or None), optional
            The version; by default that of this dataset.

        Raises
        ------
        RefNotFoundError
            There is no such tag.
        NotFoundError
            There is no such version or branch; the tag is as it was.
        ConflictError
            A cleanup is removing the version; the tag is as it was.
        FormatError, LimitError
            The file of the tag is damaged.
        StoreError
            The storage failed; the tag names the old version or the new one.
        """
        old = self._read(tag)
        branch, version = self._resolved(reference)
        new = replace(old, branch=branch, version=version, updated_ns=time.time_ns())
        self._run_for(new, replace_tag(tag, new, self._main.limits))

    @checked_arguments()
    def replace_metadata(self, tag: str, metadata: Mapping[str, str]) -> None:
        """Replace all metadata of a tag. Its version and its times stay.

        Parameters
        ----------
        tag : str
        metadata : mapping of str to str

        Raises
        ------
        LanceError
            As :meth:`update`.
        """
        checked = _checked(metadata)
        new = replace(self._read(tag), metadata=checked)
        self._run_for(new, replace_tag(tag, new, self._main.limits))

    @checked_arguments()
    def delete(self, tag: str) -> None:
        """Delete a tag. Cleanups may remove its version afterwards.

        Raises
        ------
        RefNotFoundError
            There is no such tag.
        StoreError
            The storage failed, and the tag may be gone.
        """
        if not self._run(remove_tag(tag)):
            raise unknown_tag(self._main, tag, self._snapshot.session)

    def __repr__(self) -> str:
        return self._table().to_text()

    def _repr_html_(self) -> str:
        return self._table().to_html()

    def _table(self) -> ReferenceTable:
        """The tags for people; what cannot be listed is named."""
        try:
            return tag_table(self._main.uri, self._run(refs_that_can_be_read(self._main.limits, TAGS)))
        except LanceError as error:
            return unlisted("tags", self._snapshot.uri, error)

    # -- parts ------------------------------------------------------------------------------------

    @property
    def _snapshot(self) -> Snapshot:
        return self._current()

    @property
    def _main(self) -> TableLocation:
        """Location of the main table, which has the tags."""
        return main_location(self._snapshot.location, self._snapshot.manifest.branch)

    def _read(self, name: str) -> Tag:
        found = self._run(read_tag(name, self._main.limits))
        if found is None:
            raise unknown_tag(self._main, name, self._snapshot.session)
        return found

    def _resolved(self, reference: Reference) -> tuple[str | None, int]:
        """The branch and the version that a reference names."""
        snapshot, session = self._snapshot, self._snapshot.session
        branch = snapshot.manifest.branch
        if parse_reference(reference) is None:
            return branch, snapshot.version
        _, target, version = resolve(snapshot.location, branch, reference, session)
        if version is None:
            version = load_reference(snapshot.location, branch, reference, session).version
        return target, version

    def _run(self, steps: Steps[T]) -> T:
        main, session = self._main, self._snapshot.session
        return drive(steps, main.open(session), session, main)

    def _run_for(self, tag: Tag, steps: Steps[Any]) -> None:
        """Run steps that write a tag; a missing version names those that exist."""
        try:
            self._run(steps)
        except VersionNotFoundError:
            # The error of opening it names what is there.
            load_reference(self._main, None, (tag.branch, tag.version), self._snapshot.session)
            raise


def _checked(metadata: Any) -> dict[str, str]:
    is_text = isinstance(metadata, Mapping) and all(
        isinstance(text, str) for pair in metadata.items() for text in pair
    )
    if not is_text:
        raise TypeError(f"metadata is a mapping of text to text, not {metadata!r}")
    return dict(metadata)


def _description(tag: Tag) -> TagDescription:
    return {
        "branch": tag.branch,
        "version": tag.version,
        "created_at": _time(tag.created_ns),
        "updated_at": _time(tag.updated_ns),
        "manifest_size": tag.manifest_size,
        "metadata": dict(tag.metadata),
    }


def _time(time_ns: int | None) -> datetime | None:
    if time_ns is None:
        return None
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
