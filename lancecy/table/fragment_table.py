"""The fragments of a version as columns: what plans need of all of them, without making each.

``wire.fragments_bulk`` fills the columns from the bytes of a manifest; ``Manifest.fragment_table`` makes those of others
from their fragments.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lancecy.records import dataclass

__all__ = ["FileForm", "FragmentTable"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FileForm:
    """What many data files have in common.

    Attributes
    ----------
    fields : tuple of int
        Field ids as stored.
    is_legacy : bool
        Whether the file is of version 0.1.
    """

    fields: tuple[int, ...]
    is_legacy: bool


@dataclass(frozen=True, eq=False)
class FragmentTable:
    """Columns of facts about fragments and their data files; the arrays are never written to.

    Attributes
    ----------
    ids : (num_fragments,) int64
        Ascending, but in tables of release 0.16.0, which gave ids twice.
    rows : (num_fragments,) int64
        Physical rows, 0 if the manifest does not state them.
    live : (num_fragments,) int64
        Rows that are not deleted, -1 if the manifest does not tell.
    has_deletions : (num_fragments,) bool
    first_file : (num_fragments + 1,) int64
        Files of a fragment follow each other.
    forms : tuple of FileForm
    form_of : (num_files,) int64
        Index of the form of each file.
    sizes : (num_files,) float64, bytes
        As stated, 0 if absent; some releases stated wrong ones.
    bases : (num_files,) int64
        Base id, -1 without one.
    """

    ids: Int64
    rows: Int64
    live: Int64
    has_deletions: NDArray[np.bool_]
    first_file: Int64
    forms: tuple[FileForm, ...]
    form_of: Int64
    sizes: NDArray[np.float64]
    bases: Int64

    @cached_property
    def num_rows(self) -> int | None:
        """Rows of all fragments that are not deleted; None if the manifest does not tell."""
        return int(self.live.sum()) if (self.live >= 0).all() else None

    def find(self, fragment_id: int) -> int | None:
        """Index of the fragment with this id, None if there is none."""
        if self._order is None:
            index = int(self.ids.searchsorted(fragment_id))
        else:
            index = int(self.indices(np.array([fragment_id], np.int64))[0])
        return index if index < self.ids.size and self.ids[index] == fragment_id else None

    def indices(self, fragment_ids: Int64) -> Int64:
        """(n,) int64: index of each of these fragments, which exist; there is at least one in the table."""
        order = self._order
        if order is None:
            return np.searchsorted(self.ids, fragment_ids)
        places = np.searchsorted(self.ids, fragment_ids, sorter=order)
        found: Int64 = order[np.minimum(places, order.size - 1)]
        return found

    @cached_property
    def _order(self) -> Int64 | None:
        """The indices of the fragments by ascending id; None if they are in this order."""
        return None if bool((self.ids[1:] > self.ids[:-1]).all()) else np.argsort(self.ids)

    def first_bases(self, numbers: Int64) -> Int64:
        """(n,) int64: the base of the first file of some fragments; -1 without a base or a file."""
        first = self.first_file[numbers]
        found = np.full(numbers.size, -1, np.int64)
        has_files = self.first_file[numbers + 1] > first
        found[has_files] = self.bases[first[has_files]]
        return found

    def has_legacy(self, numbers: Int64) -> NDArray[np.bool_]:
        """(n,) bool: whether some fragments have files of version 0.1."""
        legacy = np.array([form.is_legacy for form in self.forms], np.bool_)[self.form_of]
        found = np.concatenate(([0], np.cumsum(legacy)))
        return found[self.first_file[numbers + 1]] > found[self.first_file[numbers]]
