"""What pylance writes in these tests: each version of data files in turn."""

from __future__ import annotations

import pytest

from tests.interop import live


@pytest.fixture(params=["legacy", "2.0", "2.1", "2.2"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The version of data files that ``live.write`` makes unless it is told another one."""
    version: str = request.param
    monkeypatch.setattr(live, "STORAGE", version)
    return version
