"""Changes between two versions of random histories: applied to the rows of one, they give those of the other."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from lancecy.errors import UnsupportedError
from tests.changes.history_model import RandomHistory

pytestmark = pytest.mark.interop

STEPS, PAIRS = 14, 12


@pytest.mark.parametrize("stable", [True, False], ids=["ids", "addresses"])
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_changes_applied_to_a_version_give_the_later_one(tmp_path: Path, version: str, stable: bool) -> None:
    for seed in range(2):
        history = RandomHistory(str(tmp_path / f"t{seed}"), version, stable, seed)
        for _ in range(STEPS):
            history.step(moves=stable)
        versions = sorted(history.rows)
        pairs = [tuple(sorted(history.random.choices(versions, k=2))) for _ in range(PAIRS)]
        for old, new in [*pairwise(versions), *pairs]:
            try:
                history.check(old, new)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, {old} to {new}, {history.steps}") from error


def test_a_compaction_without_row_ids_is_refused_and_the_remedy_works(tmp_path: Path) -> None:
    refused = []
    for seed in range(4):
        history = RandomHistory(str(tmp_path / f"t{seed}"), "2.1", False, seed)
        for _ in range(10):
            history.step()
        versions = sorted(history.rows)
        for old in versions[:-1]:
            try:
                history.check(old, versions[-1])
            except UnsupportedError as error:
                refused.append(str(error))
    assert refused
    assert all("is a compaction" in text for text in refused)
