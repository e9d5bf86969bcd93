"""The conflict matrix of the table sheet, section 4.4, as measured, and operations for its rows and columns."""

from __future__ import annotations

import numpy as np

from lancecy.table.commit.conflicts import Verdict
from lancecy.table.manifest import BasePath, DataFile
from lancecy.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Foreign,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateBases,
    UpdateConfig,
)
from tests.helpers.builders import make_fragment, make_index, make_schema

__all__ = ["BASE", "LETTERS", "MINE", "measured", "theirs"]

# Columns in place are compared by fragment with rows that moved: which rows these were is not in their transaction.
# A rewrite finds rows that were deleted meanwhile, and leaves new indices covering less: pylance has R there.
# pylance lets a new index cover less if a column changed in place (Cols0), and adds an index of a column that is gone
# (PrDrop).
# Table sheet 4.4 as published: what lancecy makes against what was committed on fragment 0 and column b (id 1).
MEASURED = """
            App Del0 Whole0 Upd0 Cols0 Ovw Idx Rwr0 MrgP Mrg! Res Cfg Sch Fld Rpl0 PrDrop PrRen PrNon Bas
append      .   .    .      .    .     I   .   .    .    R    I   .   .   .   .    .      .     R     .
delete0     .   *    R      *    R     I   .   R    R    R    I   .   .   .   R    .      .     .     .
overwrite   .   .    .      .    .     R   .   .    .    .    .   .   .   .   .    .      .     .     .
restore     .   .    .      .    .     .   .   .    .    .    .   .   I   I   .    .      .     .     .
config      .   .    .      .    .     .   .   .    .    .    .   I   .   .   .    .      .     .     .
schemameta  .   .    .      .    .     I   .   .    R    R    I   .   I   .   .    .      .     .     .
fieldmeta   .   .    .      .    .     I   .   .    R    R    I   .   .   I   .    I      .     .     .
bases       .   .    .      .    .     .   .   .    .    .    .   .   .   .   .    .      .     .     I
reserve     .   .    .      .    .     I   .   .    .    .    I   .   .   .   .    .      .     .     .
update0     .   *    R      *    R     I   .   R    R    R    I   .   .   .   R    .      .     R     .
columns0    .   *    R      R    R     I   .   R    R    R    I   .   .   .   R    R      .     R     .
rewrite0    .   *    *      *    R     I   .   R    R    R    I   .   .   .   R    .      .     .     .
merge       R   R    R      R    R     I   .   R    R    R    I   .   R   R   R    I      I     I     .
project     .   .    .      .    .     I   .   .    R    R    I   .   .   .   .    R      R     R     .
nonnull     R   .    .      R    R     I   .   .    R    R    I   .   .   .   R    R      R     R     .
index01     .   .    .      .    R     I   R   R    .    .    I   .   .   .   R    I      .     .     .
replace0    .   .    I      R    R     I   R   R    R    R    I   .   .   .   R    I      .     R     .
"""
LETTERS = {".": Verdict.COMPATIBLE, "R": Verdict.RETRY, "I": Verdict.INCOMPATIBLE, "*": Verdict.MERGE}

BASE = BasePath(0, "/elsewhere", "b2")
MINE: dict[str, Operation] = {
    "append": Append(()),
    "delete0": Delete({0: np.array([3])}),
    "overwrite": Overwrite((), make_schema()),
    "restore": Restore(1),
    "config": UpdateConfig(config=MapUpdate({"k": "1"})),
    "schemameta": UpdateConfig(schema_metadata=MapUpdate({"mine": "1"})),
    "fieldmeta": UpdateConfig(field_metadata={1: MapUpdate({"k": "1"})}),
    "bases": UpdateBases((BASE,)),
    "reserve": ReserveFragments(2),
    "update0": Update({0: np.array([3])}),
    "columns0": Update(columns={0: DataFile("f", (1,))}, updated_rows={0: np.array([3])}, fields=(1,)),
    "rewrite0": Rewrite((RewriteGroup((make_fragment(0),), ()),)),
    "merge": Merge((), make_schema()),
    "project": Project(make_schema()),
    "nonnull": Project(make_schema(), preserves_nullability=False),
    "index01": CreateIndex((make_index(),)),
    "replace0": DataReplacement(((0, DataFile("f", (1,))),)),
}
BOTH = frozenset({0, 1})


def theirs(fragment: int) -> dict[str, Operation]:
    """What somebody else committed; of changes to single fragments, the given one."""
    one = frozenset({fragment})
    return {
        "App": Append(()),
        "Del0": Delete({fragment: np.array([4])}),
        "Whole0": Delete(removed=(fragment,)),
        "Upd0": Foreign("update_rows", changed=one),
        "Cols0": Foreign("update_columns", rewritten=one),
        "Ovw": Overwrite((), make_schema()),
        "Idx": CreateIndex((make_index(),)),
        "Rwr0": Foreign("rewrite", rewritten=one),
        "MrgP": Foreign("merge", fields=BOTH),
        "Mrg!": Foreign("merge_strict", fields=BOTH),
        "Res": Restore(1),
        "Cfg": UpdateConfig(config=MapUpdate({"k": "2"})),
        "Sch": UpdateConfig(schema_metadata=MapUpdate({"other": "1"})),
        "Fld": UpdateConfig(field_metadata={1: MapUpdate({"other": "1"})}),
        "Rpl0": Foreign("replacement", rewritten=one),
        "PrDrop": Foreign("project", fields=frozenset({0})),
        "PrRen": Foreign("project", fields=BOTH),
        "PrNon": Foreign("project_strict", fields=BOTH),
        "Bas": UpdateBases((BASE,)),
    }


def measured(mine: str) -> dict[str, Verdict]:
    """The row of an operation: what each column means for it."""
    head, *rows = [line.split() for line in MEASURED.strip().splitlines()]
    (row,) = [row for row in rows if row[0] == mine]
    return {column: LETTERS[letter] for column, letter in zip(head, row[1:], strict=True)}
