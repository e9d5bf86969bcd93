"""A damaged newest manifest: reported, and stepped over on request only."""

from __future__ import annotations

import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lancecy.errors import FormatError, LimitError, TruncatedError, UnsupportedError
from lancecy.limits import Limits
from lancecy.session import Session
from lancecy.store.local import LocalStore
from lancecy.table.manifest import Manifest
from lancecy.table.snapshot import Snapshot
from tests.helpers.builders import MADE_AT, encode_manifest, make_fragment, make_manifest, write_manifest
from tests.helpers.snapshots import snapshot_of


def table(folder: Path, *manifests: Manifest) -> LocalStore:
    """A dataset of manifests only."""
    store = LocalStore(str(folder))
    for manifest in manifests:
        write_manifest(store, manifest)
    return store


def versions(*numbers: int) -> list[Manifest]:
    return [make_manifest(version=n, timestamp=MADE_AT + timedelta(days=n)) for n in numbers]


def opened(store: LocalStore, **options: Any) -> Snapshot:
    return snapshot_of(store.uri, session=Session(), **options)


@pytest.mark.parametrize("damage", ["torn", "zeros", "empty", "flipped"])
def test_damaged_newest_manifest_is_reported_and_can_be_stepped_over(tmp_path: Path, damage: str) -> None:
    store = table(tmp_path, *versions(3, 4, 6))
    newest = tmp_path / "_versions" / "18446744073709551609.manifest"
    data = newest.read_bytes()
    newest.write_bytes(
        {"torn": data[:100], "zeros": bytes(len(data)), "empty": b"", "flipped": b"\xff" * 40 + data[40:]}[
            damage
        ]
    )
    with pytest.raises(FormatError, match="recover=True") as caught:
        opened(store)
    assert str(tmp_path) in str(caught.value)
    with pytest.warns(RuntimeWarning, match=r"version 6 of .* is damaged .* version 4 is opened instead"):
        assert opened(store, recover=True).version == 4
    with pytest.raises(FormatError) as exact:
        opened(store, version=6, recover=True)
    assert "recover=True" not in str(exact.value)


def test_truncation_keeps_its_class(tmp_path: Path) -> None:
    store = table(tmp_path, *versions(2, 3))
    path = tmp_path / f"_versions/{2**64 - 4}.manifest"
    path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(TruncatedError, match="recover=True"):
        opened(store)


def test_recovery_steps_over_several(tmp_path: Path) -> None:
    store = table(tmp_path, *versions(3, 4, 6))
    for number in (4, 6):
        store.put(f"_versions/{2**64 - 1 - number}.manifest", b"x")
    with pytest.warns(RuntimeWarning, match="version 3 is opened instead"):
        assert opened(store, recover=True).version == 3
    store.put(f"_versions/{2**64 - 4}.manifest", b"x")
    with pytest.raises(FormatError):
        opened(store, recover=True)


def test_recovery_changes_nothing_for_a_sound_table(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opened(table(tmp_path, *versions(1, 2)), recover=True).version == 2


def test_recovery_is_no_way_around_limits_or_features(tmp_path: Path) -> None:
    store = table(tmp_path, *versions(1), make_manifest(version=2, reader_flags=4096))
    with pytest.raises(UnsupportedError):
        opened(store, recover=True)
    with pytest.raises(LimitError) as caught:
        opened(store, recover=True, limits=Limits(fragments=1))
    assert "recover=True" not in str(caught.value)


def test_every_truncation_of_the_only_manifest_is_an_error(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    data = encode_manifest(make_manifest(fragments=(make_fragment(),)))
    session = Session()
    for length in range(0, len(data), 3):
        store.put("_versions/9.manifest", data[:length])
        with pytest.raises(FormatError, match="the table cannot be repaired"):
            snapshot_of(store.uri, session=session)
