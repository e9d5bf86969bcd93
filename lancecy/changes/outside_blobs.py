"""The bases whose objects the blobs of a version name: objects that are no files of the table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.scanning.context import ScanContext
from lancecy.scanning.plan import plan
from lancecy.scanning.request import make_request
from lancecy.scanning.task import ScanSpec
from lancecy.scanning.threads import collect
from lancecy.table.manifest import Fragment
from lancecy.table.snapshot import Snapshot

__all__ = ["bases_of_blobs"]

_OUTSIDE = 3


def bases_of_blobs(snapshot: Snapshot) -> frozenset[int]:
    """Ids of the bases that descriptors of blobs name; empty if only absolute paths are named.

    Reads the descriptors of all blobs, if the table has bases and columns of blobs.

    Parameters
    ----------
    snapshot : Snapshot

    Raises
    ------
    LanceError
        The descriptors cannot be read.

    Source: table sheet, section 7.
    """
    columns = [top.name for top in snapshot.schema.fields if any(node.is_blob_v2 for node in top.walk())]
    if not columns or not snapshot.manifest.base_paths:
        return frozenset()
    context = ScanContext(snapshot, snapshot.session)
    found = snapshot.session.map(
        lambda fragment: _bases(context, fragment, columns),
        snapshot.fragments,
        blocking=not snapshot.is_mapped,
    )
    return frozenset().union(*found) & frozenset(snapshot.manifest.base_paths)


def _bases(context: ScanContext, fragment: Fragment, columns: list[str]) -> frozenset[int]:
    snapshot = context.snapshot
    request = make_request(snapshot.schema.scanned.arrow, columns, fragments=[fragment.id])
    planned = plan(context, request, ScanSpec(snapshot.location, snapshot.version, request))
    table = collect(context, planned, request)
    return frozenset().union(*(_named(chunk) for column in table.columns for chunk in column.chunks))


def _named(values: pa.Array) -> frozenset[int]:
    """Bases named by the descriptors in a column, which may be inside structs and lists."""
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return _named(values.flatten())
    if not pa.types.is_struct(values.type):
        return frozenset()
    names = {field.name for field in values.type}
    if not {"kind", "blob_id", "blob_uri"} <= names:
        return frozenset().union(*map(_named, values.flatten()))
    rows = values.filter(pc.equal(values.field("kind"), _OUTSIDE))
    return frozenset(pc.unique(rows.field("blob_id")).to_pylist()) - {0, None}
