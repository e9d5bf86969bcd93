"""Fixtures that more than one part of the suite needs."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.s3 import s3_server

__all__ = ["kernels", "s3_server"]

settings.register_profile("quick", max_examples=60, deadline=None)
settings.register_profile(
    "thorough", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session", params=["cython", "reference"])
def kernels(request: pytest.FixtureRequest) -> SimpleNamespace:
    """Every kernel function, once compiled and once in NumPy: one suite proves both."""
    from tests.kernels.both import IMPLEMENTATIONS

    return IMPLEMENTATIONS[request.param]
