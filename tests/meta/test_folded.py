"""Tests folded into one are as strict as tests apart: every case runs, a failed one fails, the report says which."""

from __future__ import annotations

import inspect

import pytest

from tests.helpers.folded import folded


def test_every_case_is_run_with_its_values() -> None:
    seen = []

    @folded("a, b", [(1, 2), pytest.param(3, 4, id="named")])
    @folded("c", "xy")
    def check(a: int, b: int, c: str) -> None:
        seen.append((a, b, c))

    check()  # type: ignore[call-arg]
    assert seen == [(1, 2, "x"), (1, 2, "y"), (3, 4, "x"), (3, 4, "y")]


def test_cases_behind_a_failed_one_are_run_and_the_failed_ones_named() -> None:
    seen = []

    @folded("number", range(5), ids=lambda n: f"<{n}>")
    def check(number: int) -> None:
        seen.append(number)
        assert number % 3, "divisible"

    with pytest.raises(AssertionError, match="divisible") as caught:
        check()  # type: ignore[call-arg]
    assert seen == [0, 1, 2, 3, 4]
    assert caught.value.__notes__ == ["in case: number=<0>", "2 of 5 cases failed\n  number=<3>"]


def test_cases_have_the_names_they_are_given() -> None:
    @folded("number", [0, pytest.param(0, id="named"), 1], ids=["first", "second", "third"])
    def check(number: int) -> None:
        assert number

    with pytest.raises(AssertionError) as caught:
        check()  # type: ignore[call-arg]
    assert caught.value.__notes__ == ["in case: first", "2 of 3 cases failed\n  named"]


def test_failing_by_a_call_of_pytest_counts() -> None:
    @folded("number", [1])
    def check(number: int) -> None:
        with pytest.raises(ValueError, match="never"):
            str(number)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check()  # type: ignore[call-arg]


def test_fixtures_are_asked_for_and_values_are_not() -> None:
    @folded("value", [1])
    def check(tmp_path: str, value: int) -> None:
        del tmp_path, value

    assert list(inspect.signature(check).parameters) == ["tmp_path"]


@folded("word", ["apple", "avocado", "banana"], by=lambda word: word[0])
def test_cases_are_spread_over_tests(word: str, request: pytest.FixtureRequest) -> None:
    name: str = request.node.name
    assert name == f"test_cases_are_spread_over_tests[{word[0]}]"


def test_what_would_test_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no cases"):
        folded("value", [])
    with pytest.raises(ValueError, match="does not take"):
        folded("wrong", [1])(lambda value: None)
    with pytest.raises(ValueError, match="marks"):
        folded("value", [pytest.param(1, marks=pytest.mark.slow)])
    with pytest.raises(ValueError, match=r"zip\(\)"):
        folded("a, b", [(1, 2, 3)])
