"""A branch is brought to its parent, with every fault at every request: alone, and against a writer that was faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lancecy.table.operations import Append, FastForward, Operation
from lancecy.table.operations.apply import apply
from lancecy.table.operations.base import VersionStamp
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire.manifest_file import decode_manifest_file
from tests.simulator.actors import MAKERS, History, files
from tests.simulator.model import AFTER, Table
from tests.simulator.single_faults import STORES, begun, check_single_faults, finish
from tests.simulator.world import World

pytestmark = pytest.mark.slow


def _fast_forward(world: World, history: History, version: int) -> Operation:
    """A branch of this version, whose version 5 has two fragments more; their files are copied already."""
    path = world.manifests()[version]
    base = decode_manifest_file(np.frombuffer(world.objects[path], np.uint8), path, version)
    added = files(world, 2)
    made = apply(base, Append(added), VersionStamp(5, 0, "1-a.txn"))
    made.message.branch = "exp"
    data = np.frombuffer(manifest_wire.encode(made.message, None, None, b""), np.uint8)
    source = decode_manifest_file(data, "5.manifest", 5)
    return FastForward(source, {None: None}, ((version, version), (5, version + 1)), copied=added)


def _brought(table: Table, operation: FastForward, version: int, history: History) -> Table:
    return table.added(operation.copied, version)


@pytest.fixture(autouse=True)
def known_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAKERS, "fast forward", _fast_forward)
    after: dict[Any, Any] = AFTER
    monkeypatch.setitem(after, FastForward, _brought)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("rival", [False, True], ids=["alone", "raced"])
def test_history_is_right_whatever_goes_wrong_once(rival: bool, store: str) -> None:
    check_single_faults("fast forward", rival, store)


@pytest.mark.parametrize("store", STORES)
def test_faster_writer_is_never_lost(store: str) -> None:
    simulation, mine = begun("fast forward", store)
    _, outcome = finish(simulation, mine, (), rival=True)
    assert isinstance(outcome, Exception)
    assert sorted(simulation.world.archive) == [1, 2, 3]
    assert mine.uuid.encode() not in simulation.world.archive[3]
    assert not simulation.violations()
