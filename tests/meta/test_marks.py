"""Modules that a marker expression leaves out as a whole are not imported, and no other test is lost by that."""

from __future__ import annotations

import pytest

from tests.helpers.marks import is_left_out

PLAIN = "def test() -> None: ...\n"
SLOW = f"@pytest.mark.slow\n{PLAIN}"
INTEROP = f"pytestmark = pytest.mark.interop\n{PLAIN}"
BOTH = f"pytestmark = [pytest.mark.s3, pytest.mark.interop]\n{SLOW}"


@pytest.mark.parametrize(
    ("expression", "left_out"),
    [
        ("", set()),
        ("not interop", {INTEROP, BOTH}),
        ("not spark and not s3", {BOTH}),
        ("not slow", set()),
        ("slow", {PLAIN, INTEROP}),
        ("slow and not s3", {PLAIN, INTEROP, BOTH}),
        ("not (interop or s3)", set()),
        ("not interop or slow", set()),
        ("not interop and (slow or s3)", set()),
    ],
)
def test_a_module_is_left_out_if_none_of_its_tests_matches(expression: str, left_out: set[str]) -> None:
    assert {source for source in (PLAIN, SLOW, INTEROP, BOTH) if is_left_out(expression, source)} == left_out
