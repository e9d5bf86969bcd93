"""Fixtures of the store tests."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.contracts.store")
