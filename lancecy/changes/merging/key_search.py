"""Finds keys that a merge inserts among rows that others added while it ran.

Their transactions name no keys, or only hashes of them, so the key columns of the new fragments are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from lancecy.changes.merging.keys import UInt64, key_hashes
from lancecy.changes.merging.matching import UNIT_BYTES, read_columns
from lancecy.encodings.arrow.columns import ArrowArray
from lancecy.errors import DatasetNotFoundError
from lancecy.scanning.context import ScanContext
from lancecy.scanning.filtering import candidates
from lancecy.scanning.plan import plan
from lancecy.scanning.request import make_request
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.table.bases import Bases
from lancecy.table.operations.base import Added
from lancecy.table.snapshot import Snapshot

__all__ = ["KeySearch"]


class KeySearch:
    """Tells whether rows that others added have keys that a merge inserts.

    Parameters
    ----------
    snapshot : Snapshot
        A version of the table.
    fields : tuple of int
        Ids of the key columns, in the order of the key.
    hashes : (n,) uint64
        The hash of each key, in any order.
    """

    def __init__(self, snapshot: Snapshot, fields: tuple[int, ...], hashes: UInt64) -> None:
        self._snapshot, self._fields, self._hashes = snapshot, fields, hashes

    def __call__(self, added: Added) -> bool:
        """Whether a row has one of the keys; False is certain.

        Parameters
        ----------
        added : Added

        Raises
        ------
        FormatError, StoreError
            The rows cannot be read.
        """
        schema = added.stored.manifest.schema
        if any(number not in schema.by_id for number in self._fields):
            return True
        context = self._context(added)
        names = [schema.by_id[number].name for number in self._fields]
        request = make_request(schema.arrow, columns=names)
        spec = ScanSpec(context.snapshot.location, added.stored.version, request)
        planned = plan(context, request, spec, UNIT_BYTES)

        def has_any(unit: ScanUnit) -> bool:
            chosen = candidates(context, unit, planned.projection, ())
            return bool(len(chosen.rows)) and self._has(*read_columns(context, [chosen], planned.projection))

        try:
            return any(context.spread(has_any, planned.units, lambda unit: unit.fragment))
        except DatasetNotFoundError:
            return True  # a cleanup removed a file of a fragment that is gone again

    def _context(self, added: Added) -> ScanContext:
        """The newest version, with the added fragments only."""
        mine, stored = self._snapshot, added.stored
        manifest = replace(stored.manifest, fragments=added.fragments)
        file = replace(mine.manifest_file, version=stored.version, path=added.path, size=len(stored.raw))
        newest = replace(
            mine,
            manifest=manifest,
            bases=Bases(mine.store, mine.location, manifest.bases, mine.session),
            manifest_file=file,
            identity=stored.identity,
        )
        return ScanContext(newest, mine.session)

    @cached_property
    def _sorted(self) -> UInt64:
        # Most merges meet no other writer, and need no order.
        return np.sort(self._hashes)

    def _has(self, columns: Sequence[ArrowArray]) -> bool:
        hashes, known = key_hashes(columns), self._sorted
        places = np.searchsorted(known, hashes)
        places[places == known.size] = 0
        return bool(np.any(known[places] == hashes))
