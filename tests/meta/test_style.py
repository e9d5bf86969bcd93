"""Formatting and linting, of Python and of Cython."""

from __future__ import annotations

import pytest

from tests.meta.tree import run_tool


def test_every_python_file_is_formatted() -> None:
    result = run_tool("ruff", "format", "--check", ".")
    assert result.returncode == 0, result.stdout + result.stderr


def test_ruff_finds_nothing() -> None:
    result = run_tool("ruff", "check", "--output-format", "concise", ".")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_cython_lint_finds_nothing() -> None:
    result = run_tool("cython-lint", "_ext")
    assert result.returncode == 0, result.stdout + result.stderr
