"""Fixtures that more than one part of the suite needs."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.datasets import VERSIONS
from tests.helpers.marks import is_left_out
from tests.helpers.object_stores import azure_server, gcs_server, plain_s3, second_s3
from tests.helpers.postgres import postgres_server
from tests.helpers.proxy import running_proxy, s3_proxy
from tests.helpers.s3 import s3_server

__all__ = [
    "azure_server",
    "data_version",
    "gcs_server",
    "kernels",
    "plain_s3",
    "postgres_server",
    "running_proxy",
    "s3_proxy",
    "s3_server",
    "second_s3",
]

pytest.register_assert_rewrite("tests.contracts.store")
settings.register_profile("check", max_examples=10, deadline=None)
settings.register_profile("quick", max_examples=60, deadline=None)
settings.register_profile(
    "thorough", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


# Spark runs for minutes: what its thorough compiler and collector gain would come too late.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A shell starts what runs in its background with interrupts ignored, and so do all processes below.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Developers need the frames that users are spared.
os.environ.setdefault("LANCECY_TRACEBACKS", "full")

# These start a process for each of thousands of cases, which takes the longer the more memory the tests before have used.
_FORKING = frozenset({"hostile", "durability"})


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules without a test that the marker expression asks for are not imported, which takes seconds for all."""
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    expression: str = config.getoption("markexpr")
    return True if is_left_out(expression, collection_path.read_text(encoding="utf-8")) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The types come first, what forks next, then modules with a slow test: none is left to one process at the end.

    PyTorch comes last, the examples of its modules too: pytest attaches itself to each of its forty loggers, thrice
    per test from its import on.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(
        key=lambda item: (
            item.name != "test_types_are_strict",
            "torch" in item.path.parts or "lancecy.torch" in item.nodeid,
            _FORKING.isdisjoint(item.path.parts),
            item.path not in slow,
        )
    )


def pytest_collection_finish() -> None:
    """Half a million objects stay to the end: no collection of garbage need look at them, nor a fork copy them.

    Later ones are looked at more seldom, which saves a twentieth of all tests' time.
    """
    gc.freeze()
    gc.set_threshold(5000, 10, 10)


@pytest.fixture(scope="session", params=["cython", "reference"])
def kernels(request: pytest.FixtureRequest) -> SimpleNamespace:
    """Every kernel function, once compiled and once in NumPy: one suite proves both."""
    from tests.kernels.both import IMPLEMENTATIONS

    return IMPLEMENTATIONS[request.param]


@pytest.fixture(scope="session", params=[*VERSIONS, "mixed"])
def data_version(request: pytest.FixtureRequest) -> str:
    """Each version of data files, and a table of several: what a table holds must not show above ``file``."""
    version: str = request.param
    return version
