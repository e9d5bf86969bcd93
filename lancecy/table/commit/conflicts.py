"""The grid of conflicts between changes, and the meaning of its letters.

``GRID`` is the measured matrix of the table sheet, section 4.4: a row is the change to be made, a
column a change committed since. Letters::

    .  no conflict             R  retry it                I  incompatible
    f  R if both touch a fragment
    d  as f, but merge the vectors if the other only deleted rows of a fragment and mine knows its rows
    w  as f, but merge if the other only deleted rows of a fragment that mine replaces
    r  merge if both touch a fragment: the other deleted some of its rows, or all
    e  I if the other removed a fragment of mine
    k  I if one sets a key that the other sets or removes (or replaces the whole map)
    m  I if both set metadata of one field                b  I if both name one base by id, name or path
    g  I if a field of mine is gone                       x  R if a field of mine is gone
    i  R if the other indexed a field of mine
    c  R if the other changed, or may have changed, a field of mine in a fragment that mine covers
    n  R if both add an index of one name, or one adds what the other removes
    a  R if mine added rows because the table lacked their keys
    u  as d, but R if both may have added one key, or the other names no keys; v as f and a

Rows that an append or another update added can be read, which tells whether they have keys that mine added
(``Operation.adds_same_keys``): ``a`` and ``u`` are checked again then.

A rewrite finds rows that were deleted meanwhile, so more of its cells merge than pylance's, and new indices do
not disturb it: they cover the new fragments no more than others. A new index is retried where pylance would cover
less, if a column changed in place; and an index of a column that is gone is refused, which pylance adds.

A ``fast_forward`` replaces the newest version by that of a branch, so it excludes every other change.
A ``relocate``d base was copied before: files that others added to it since are not in the copy.
An ``unknown`` operation excludes everything. An ``UpdateConfig`` has one row or column for each map
it changes; the severest letter counts.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from lancecy.table.manifest import BasePath
from lancecy.table.operations.base import Footprint, Operation

__all__ = ["COLUMNS", "GRID", "Verdict", "check"]

COLUMNS = (
    "append delete update_rows update_columns overwrite index rewrite merge merge_strict restore "
    "config table_metadata schema_metadata field_metadata replacement project project_strict bases "
    "reserve mem_wal overlay clone unknown"
).split()

# strict: the operation may have made a column non-nullable.
_TEXT = """
                 app del upr upc ovw idx rwr mrg mrs res cfg tbl sch fld rpl prj prs bas rsv mwl ovl cln unk
append            .   .   .   .   I   .   .   .   R   I   .   .   .   .   .   .   R   .   .   I   .   I   I
delete            .   d   d   f   I   .   f   R   R   I   .   .   .   .   f   .   .   .   .   I   .   I   I
overwrite         .   .   .   .   R   .   .   .   .   .   .   .   .   .   .   .   .   .   .   I   .   I   I
restore           .   .   .   .   .   .   .   .   .   .   .   .   I   I   .   .   .   .   .   I   .   I   I
config            .   .   .   .   .   .   .   .   .   .   k   .   .   .   .   .   .   .   .   .   .   I   I
table_metadata    .   .   .   .   .   .   .   .   .   .   .   k   .   .   .   .   .   .   .   .   .   I   I
schema_metadata   .   .   .   .   I   .   .   R   R   I   .   .   I   .   .   .   .   .   .   .   .   I   I
field_metadata    .   .   .   .   I   .   .   R   R   I   .   .   .   m   .   g   g   .   .   .   .   I   I
bases             .   .   .   .   .   .   .   .   .   .   .   .   .   .   .   .   .   b   .   .   .   I   I
relocate          R   .   R   R   R   R   R   R   R   R   .   .   .   .   R   .   .   b   .   R   R   I   I
reserve           .   .   .   .   I   .   .   .   .   I   .   .   .   .   .   .   .   .   .   .   .   I   I
update_rows       a   d   u   v   I   .   f   R   R   I   .   .   .   .   v   .   R   .   .   I   f   I   I
update_columns    .   w   f   f   I   .   f   R   R   I   .   .   .   .   f   x   R   .   .   I   f   I   I
rewrite           .   r   r   f   I   .   f   R   R   I   .   .   .   .   f   .   .   .   .   .   f   I   I
merge             R   R   R   R   I   .   R   R   R   I   .   .   R   R   R   I   I   .   .   I   R   I   I
merge_strict      R   R   R   R   I   .   R   R   R   I   .   .   R   R   R   I   I   .   .   I   R   I   I
project           .   .   .   .   I   .   .   R   R   I   .   .   .   .   .   R   R   .   .   I   .   I   I
project_strict    R   .   R   R   I   .   .   R   R   I   .   .   .   .   R   R   R   .   .   I   R   I   I
index             .   .   .   c   I   n   f   g   g   I   .   .   .   .   c   g   g   .   .   I   .   I   I
replacement       .   e   f   f   I   i   f   R   R   I   .   .   .   .   f   g   R   .   .   I   .   I   I
fast_forward      I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I
"""


def _grid(text: str) -> dict[str, dict[str, str]]:
    rows = [line.split() for line in text.strip().splitlines()[1:]]
    return {row[0]: dict(zip(COLUMNS, row[1:], strict=True)) for row in rows}


GRID: dict[str, dict[str, str]] = _grid(_TEXT)


class Verdict(enum.IntEnum):
    """The effect of a committed change on one to be made, mildest first."""

    COMPATIBLE = 0
    MERGE = 1
    RETRY = 2
    INCOMPATIBLE = 3


def check(mine: Operation, theirs: Operation, *, other_keys: bool = False) -> Verdict:
    """The verdict on committing ``mine`` after ``theirs``.

    Parameters
    ----------
    mine, theirs : Operation
    other_keys : bool
        Whether it is known that no row which theirs added has a key of the rows that mine adds.

    Raises
    ------
    ValueError
        ``mine`` is an operation that lancecy does not make.

    Examples
    --------
    >>> from lancecy.table.operations import Append, Restore
    >>> check(Append(()), Restore(3))
    <Verdict.INCOMPATIBLE: 3>
    """
    pairs = [(one, other) for one in mine.footprints() for other in theirs.footprints()]
    for one, _ in pairs:
        if one.kind not in GRID:
            raise ValueError(f"an operation of kind {one.kind!r} is not one that lancecy makes")
    return max((_verdict(one, other, other_keys) for one, other in pairs), default=Verdict.COMPATIBLE)


def _verdict(mine: Footprint, theirs: Footprint, other_keys: bool) -> Verdict:
    row = GRID[mine.kind]
    letter = row.get(theirs.kind, row["unknown"])
    match letter:
        case ".":
            return Verdict.COMPATIBLE
        case "R":
            return Verdict.RETRY
        case "f" | "d" | "w":
            return _of_fragments(mine, theirs, letter)
        case "r":
            touched = mine.rewritten & (theirs.changed | theirs.rewritten)
            return _if(bool(touched), Verdict.MERGE)
        case "e":
            return _if(bool(mine.rewritten & theirs.rewritten), Verdict.INCOMPATIBLE)
        case "a" | "u" | "v":
            # Values that theirs replaced in place (v) are no added rows.
            keys = None if other_keys and letter != "v" else mine.keys
            if keys and keys.has_keys and (theirs.keys is None or theirs.keys.may_share(keys)):
                return Verdict.RETRY
            return _of_fragments(mine, theirs, "d" if letter == "u" else "f")
        case "k":
            return _if(_shares_key(mine, theirs), Verdict.INCOMPATIBLE)
        case "m":
            return _if(bool((mine.fields or set()) & (theirs.fields or set())), Verdict.INCOMPATIBLE)
        case "b":
            return _if(_shares_base(mine.bases, theirs.bases), Verdict.INCOMPATIBLE)
        case "g" | "x":
            gone = (mine.fields or frozenset()) - (theirs.fields or frozenset())
            return _if(bool(gone), Verdict.INCOMPATIBLE if letter == "g" else Verdict.RETRY)
        case "c":
            is_same = not theirs.fields or bool((mine.fields or set()) & theirs.fields)
            return _if(is_same and bool(mine.rewritten & theirs.rewritten), Verdict.RETRY)
        case "n":
            return _if(_shares_key(mine, theirs), Verdict.RETRY)
        case "i":
            return _if(bool((mine.fields or set()) & (theirs.fields or set())), Verdict.RETRY)
        case _:
            return Verdict.INCOMPATIBLE


def _if(condition: bool, verdict: Verdict) -> Verdict:
    return verdict if condition else Verdict.COMPATIBLE


def _of_fragments(mine: Footprint, theirs: Footprint, letter: str) -> Verdict:
    if not (mine.changed | mine.rewritten) & (theirs.changed | theirs.rewritten):
        return Verdict.COMPATIBLE
    removed = (mine.changed | mine.rewritten) & theirs.rewritten
    if letter == "f" or not mine.knows_rows or removed:
        return Verdict.RETRY
    return Verdict.RETRY if letter == "d" and mine.rewritten & theirs.changed else Verdict.MERGE


def _shares_key(mine: Footprint, theirs: Footprint) -> bool:
    # Removing the same key twice is no conflict. A replaced map has every key.
    if mine.replaces or theirs.replaces:
        return True
    touched = theirs.upserts | theirs.deletes
    return bool(mine.upserts & touched or mine.deletes & theirs.upserts)


def _shares_base(mine: Iterable[BasePath], theirs: Iterable[BasePath]) -> bool:
    others = tuple(theirs)
    return any(
        one.path == other.path
        or (one.id != 0 and one.id == other.id)
        or (one.name is not None and one.name == other.name)
        for one in mine
        for other in others
    )
