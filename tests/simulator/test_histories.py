"""Histories of several writers are serial, whatever goes wrong."""

from __future__ import annotations

import os

import pytest

from tests.simulator.histories import check_history

# More with LANCECY_HISTORIES=20000; a violation is reproduced by its seed alone.
HISTORIES = int(os.environ.get("LANCECY_HISTORIES", "240"))
PARTS = 8


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
)
def test_every_history_is_what_replaying_its_changes_gives(part: int) -> None:
    found = {seed: wrong for seed in range(part, HISTORIES, PARTS) if (wrong := check_history(seed))}
    assert not found
