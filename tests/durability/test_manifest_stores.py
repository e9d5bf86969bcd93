"""Writers in processes of their own that commit through SQLite and PostgreSQL and are killed at each of the four steps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import lance
import pytest

import lancecy
from tests.durability.committing import COMMITS, STEPS
from tests.helpers.postgres import PostgresServer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
WRITERS = 8


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/manifests.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.url()


@pytest.mark.timeout(900)
def test_no_version_is_lost_or_made_twice_wherever_writers_die(url: str, tmp_path: Path) -> None:
    root = str(tmp_path / "t.lance")
    command = [sys.executable, "-m", "tests.durability.committing", str(WRITERS), str(COMMITS), url, root]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert set(result["died"]) == set(STEPS)
    assert result["read"][0]["wrong"] == []

    ds = lancecy.dataset(root, storage_options={"manifest_store": url})
    rows = ds.to_table().to_pylist()
    made = Counter((row["writer"], row["life"], row["n"]) for row in rows)
    acked = result["acked"]
    assert len(acked) == WRITERS * COMMITS
    assert set(made.values()) == {1}
    # What a writer did before it died may be there, acknowledged or not.
    assert len(acked) <= ds.version - 1 <= len(acked) + sum(result["died"].values())

    numbers = list(range(1, ds.version + 1))
    assert [entry["version"] for entry in ds.versions()] == numbers
    # Everybody who has read the table through its manifest store has finished it, so that it opens without.
    assert [entry["version"] for entry in lancecy.dataset(root).versions()] == numbers
    assert [entry["version"] for entry in lance.dataset(root).versions()] == numbers
    for writer, life, n, version in acked[:: max(1, len(acked) // 40)]:
        for library in (lancecy, lance):
            there: Any = library.dataset(root, version=version)
            assert there.count_rows() == version
            assert there.count_rows(f"writer = {writer} and life = {life} and n = {n}") == 1
            assert library.dataset(root, version=version - 1).count_rows() == version - 1
