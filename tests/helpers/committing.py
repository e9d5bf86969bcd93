"""Tables changed by operations: fragments whose data files pylance wrote, and commits from a snapshot."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.schema import Schema
from lancecy.session import Session
from lancecy.store.local import LocalStore
from lancecy.table.commit.driver import commit_to
from lancecy.table.commit.options import Committed, Origin, Policy
from lancecy.table.location import TableLocation
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.operations import Append, Delete, Operation, Overwrite, new_transaction
from lancecy.table.snapshot import Snapshot
from tests.helpers.snapshots import snapshot_of

__all__ = ["append", "change", "create", "delete_where", "fragments_of", "numbers", "origin_of"]

SESSION = Session()


def numbers(start: int, count: int) -> pa.Table:
    """Rows whose columns all follow from one number: what is read can be told from it alone."""
    n = np.arange(start, start + count)
    words = ["zebra" if i % 3 == 0 else "quail" for i in n]
    columns = {"n": pa.array(n, pa.int64()), "rest": pa.array(n % 5, pa.int32())}
    return pa.table({**columns, "word": pa.array([f"w{i} {w}" for i, w in zip(n, words)])})


def fragments_of(written: Sequence[Any]) -> tuple[Fragment, ...]:
    """Our values of pylance's fragment metadata."""
    found = []
    for part in written:
        files = tuple(
            DataFile(
                file.path,
                tuple(file.fields),
                tuple(file.column_indices),
                file.file_major_version,
                file.file_minor_version,
                file.file_size_bytes,
                file.base_id,
            )
            for file in part.files
        )
        found.append(Fragment(0, files, physical_rows=part.physical_rows))
    return tuple(found)


def written_by_pylance(uri: str, table: pa.Table, **options: Any) -> tuple[Fragment, ...]:
    """Data files below ``uri`` that no version names yet."""
    import lance

    return fragments_of(lance.fragment.write_fragments(table, uri, **options))


def schema_of(table: pa.Table) -> Schema:
    """The schema pylance gives a table of plain columns."""
    import lance

    with tempfile.TemporaryDirectory() as folder:
        lance.write_dataset(table, f"{folder}/t")
        return snapshot_of(f"{folder}/t").schema


def origin_of(snapshot: Snapshot) -> Origin:
    """What a commit has to know of the version it is made from."""
    return Origin(snapshot.version, snapshot.manifest_file.naming, snapshot.identity)


def create(uri: str, table: pa.Table, *, policy: Policy | None = None, **options: Any) -> Committed:
    """A new table of our own manifest over data files of pylance's."""
    version = options.pop("data_version", "2.2")
    fragments = written_by_pylance(uri, table, mode="overwrite", data_storage_version=version)
    operation = Overwrite(fragments, schema_of(table), data_version=version, **options)
    store = LocalStore(uri)
    return commit_to(store, new_transaction(operation), None, SESSION, TableLocation(store.uri), policy)


def change(
    uri: str,
    operation: Operation,
    *,
    snapshot: Snapshot | None = None,
    policy: Policy | None = None,
    **given: Any,
) -> Committed:
    """Commit an operation, made from the newest version or from an older snapshot."""
    read = snapshot or snapshot_of(uri)
    transaction = new_transaction(operation, read.version, **given)
    return commit_to(read.store, transaction, origin_of(read), SESSION, read.location, policy)


def append(uri: str, table: pa.Table, **options: Any) -> Committed:
    """Append rows whose data files pylance wrote."""
    return change(uri, Append(written_by_pylance(uri, table)), **options)


def delete_where(snapshot: Snapshot, gone: Any) -> Delete:
    """The operation that deletes the living rows whose column ``n`` satisfies ``gone``."""
    import lance

    dataset = lance.dataset(snapshot.uri, version=snapshot.version)
    rows: dict[int, Any] = {}
    for fragment in dataset.get_fragments():
        found = fragment.to_table(columns=["n"], with_row_address=True)
        offsets = found["_rowaddr"].to_numpy() & 0xFFFFFFFF
        chosen = np.sort(offsets[gone(found["n"].to_numpy())]).astype(np.int64)
        if chosen.size:
            rows[fragment.fragment_id] = chosen
    return Delete(rows, predicate="of a test")
