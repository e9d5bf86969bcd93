"""Items in memory keep the contract of key-value stores of manifests."""

from __future__ import annotations

import pytest

from lancecy.store.key_values import MemoryKeyValue
from tests.contracts.key_values import KeyValueContract


class TestMemoryKeyValue(KeyValueContract):
    @pytest.fixture
    def items(self) -> MemoryKeyValue:
        return MemoryKeyValue()
