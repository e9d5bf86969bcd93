"""Fixtures of the store tests."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.contracts.store")

from tests.helpers.s3 import s3_server  # noqa: E402

__all__ = ["s3_server"]
