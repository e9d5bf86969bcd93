"""Tables of all releases, from metadata alone."""

from __future__ import annotations

from lancecy.session import Session
from lancecy.table.versions.locate import list_versions
from tests.helpers.folded import folded
from tests.helpers.golden import Golden, GoldenVersion, all_goldens, all_versions
from tests.helpers.snapshots import snapshot_of

SESSION = Session()


@folded("table", all_goldens(), ids=lambda table: table.name)
def test_versions_are_found(table: Golden) -> None:
    snapshot = snapshot_of(str(table.path), session=SESSION)
    assert snapshot.version == max(table.versions)
    listed = list_versions(snapshot.store, SESSION)
    assert {v.version for v in listed} >= set(table.versions)
    times = [v.timestamp for v in listed if v.timestamp is not None]
    assert times == sorted(times)
    assert times or table.release.startswith("0.2.")


@folded("table", all_versions(), ids=str)
def test_rows_and_columns_are_those_expected(table: GoldenVersion) -> None:
    path = str(table.golden.path)
    for untrusted in (False, True):
        snapshot = snapshot_of(path, version=table.version, session=SESSION, untrusted=untrusted)
        expected = table.expected
        assert snapshot.schema.arrow.names == expected.schema.names
        assert snapshot.row_counts.num_rows in (None, expected.num_rows)
        for fragment in snapshot.fragments:
            vector = snapshot.deletions(fragment)
            if fragment.deletion_file is not None:
                assert vector is not None
                assert len(vector) == fragment.deletion_file.num_deleted_rows or len(vector) > 0
            for file in fragment.files:
                assert file.is_legacy == (not file.column_indices)
                assert snapshot.source(file).size > 16
            if snapshot.manifest.has_stable_row_ids:
                ids = snapshot.row_ids(fragment)
                assert ids is not None
                assert len(ids) == fragment.physical_rows
        snapshot.indices()
