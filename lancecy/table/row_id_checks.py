"""Checks that new rows can get row ids: every fragment has ids, and the next free one is above all of them.

A flag marks a table with stable row ids. If a writer forgot the ids of its fragments, or to raise ``next_row_id``,
the next append would assign used ids. Such a table is refused before anything is written; ``Dataset.repair``
repairs it.

Source: table sheet, section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable

from lancecy.errors import FormatError, LimitError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.table.manifest import Manifest
from lancecy.table.wire.row_ids import largest_row_id

__all__ = ["RowIdFaults", "check_fragment_ids", "check_row_ids", "faults_of", "row_id_faults"]

_SHOWN = 10
_REPAIR = "Dataset.repair() (or `lancecy repair`) mends it"
_RESTORE = "no repair can tell which they were: restore a version where they are intact"

IdsOfFragment = tuple[int, int | None, object]
"""Id of a fragment, its physical rows, and its serialized row ids: bytes, None, or their external file."""


@dataclass(frozen=True, slots=True)
class RowIdFaults:
    """Faults in the row ids of a table with stable ones; true if there are any.

    Attributes
    ----------
    missing : tuple of int
        Fragments without row ids.
    damaged : tuple of (int, str)
        Fragments whose row ids cannot be read or have another count than their rows, and the reason.
    largest : int
        Largest used id, -1 without any. Ids that old releases keep in separate files are not read.
    next_row_id : int
        The manifest's value.
    """

    missing: tuple[int, ...]
    damaged: tuple[tuple[int, str], ...]
    largest: int
    next_row_id: int

    @property
    def is_next_too_low(self) -> bool:
        """Whether the next row would get a used id."""
        return self.largest >= self.next_row_id

    def __bool__(self) -> bool:
        return bool(self.missing or self.damaged or self.is_next_too_low)

    @property
    def remedy(self) -> str:
        """The remedy for a user."""
        return _RESTORE if self.damaged else _REPAIR

    def problems(self) -> list[str]:
        """One text per kind of fault, without the remedy."""
        found = []
        if self.missing:
            found.append(f"{_fragments(self.missing)} no row ids, although the table has stable ones")
        if self.damaged:
            number, why = self.damaged[0]
            found.append(f"the row ids of fragment {number} are damaged ({why})")
        if self.is_next_too_low:
            found.append(
                f"the next free row id is stated to be {self.next_row_id}, but row id {self.largest} is in use"
            )
        return found


def check_fragment_ids(ids: Iterable[int]) -> None:
    """Refuse a table in which two fragments have one id, as 0.16.0 could write: changes would confuse them.

    Parameters
    ----------
    ids : iterable of int
        Stored ids of the fragments.

    Raises
    ------
    FormatError

    Examples
    --------
    >>> check_fragment_ids([0, 1, 2])
    """
    seen: set[int] = set()
    for number in ids:
        if number in seen:
            raise FormatError(
                f"two fragments of the table have the id {number}, so it can only be read, or overwritten: nothing was "
                "changed; to change it, write its rows to a new table, or over it with mode='overwrite'"
            )
        seen.add(number)


def _fragments(ids: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ids[:_SHOWN])) + (", …" if len(ids) > _SHOWN else "")
    return f"fragment {shown} has" if len(ids) == 1 else f"{len(ids)} fragments ({shown}) have"


def row_id_faults(manifest: Manifest, limits: Limits = DEFAULT_LIMITS) -> RowIdFaults:
    """Faults in the row ids of a version; none if the table has no stable ones.

    Parameters
    ----------
    manifest : Manifest
    limits : Limits

    Raises
    ------
    LimitError
        A fragment has more row ids than rows are allowed.

    Examples
    --------
    >>> from lancecy.schema import Schema
    >>> from lancecy.table.manifest import Fragment
    >>> parts = (Fragment(3, physical_rows=5), Fragment(4, physical_rows=1))
    >>> row_id_faults(Manifest(1, Schema(()), parts, reader_flags=2)).missing
    (3, 4)
    """
    if not manifest.has_stable_row_ids:
        return RowIdFaults((), (), -1, manifest.next_row_id)
    parts = ((part.id, part.physical_rows, part.row_ids) for part in manifest.fragments)
    return faults_of(parts, manifest.next_row_id, limits)


def faults_of(
    parts: Iterable[IdsOfFragment], next_row_id: int, limits: Limits = DEFAULT_LIMITS
) -> RowIdFaults:
    """:func:`row_id_faults` for fragments given as tuples."""
    missing, damaged, largest = [], [], -1
    for number, rows, stored in parts:
        if stored is None:
            missing.append(number)
        elif isinstance(stored, bytes):
            try:
                largest = max(largest, largest_row_id(stored, rows, limits))
            except LimitError as error:
                raise error.within(f"row ids of fragment {number}") from error.__cause__
            except FormatError as error:
                damaged.append((number, str(error)))
    return RowIdFaults(tuple(missing), tuple(damaged), largest, next_row_id)


def check_row_ids(faults: RowIdFaults, version: int) -> None:
    """Refuse to write to a version with faults in its row ids.

    Raises
    ------
    FormatError
        The message names fragments and numbers, and the remedy.
    """
    if faults:
        raise FormatError(
            f"version {version} cannot be written to, since rows could get ids that others have: "
            f"{'; '.join(faults.problems())}. {faults.remedy}"
        )
