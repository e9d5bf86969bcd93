"""Rules for the Cython sources: they read strangers' bytes, so what keeps them safe is checked by text."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.meta.tree import PACKAGE, ROOT

SOURCES = sorted((ROOT / "_ext").glob("*.pyx"))
ALL = [*SOURCES, *sorted((ROOT / "_ext").glob("*.pxd"))]
UNCHECKED = re.compile(
    r"boundscheck\s*[(=]\s*False|wraparound\s*[(=]\s*True|cdivision\s*[(=]\s*True|overflowcheck\s*[(=]\s*False|"
    r"nonecheck\s*[(=]\s*False"
)
# A C integer narrower than a size, as a variable or a parameter (but not inside <int> casts or the word `int64_t`).
NARROW = re.compile(
    r"(?<![\w<.])(?:unsigned\s+|signed\s+)?(?:int|short|long)\s+\*?(?P<name>[A-Za-z_]\w*)\s*(?=[=,):]|$)"
)
SIZES = re.compile(
    r"(?:^|_)(?:n|num|size|count|length|offset|position|row|page|start|stop|total|nbytes|index|i|j|k)s?(?:_|$)"
)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Source lines with comments and text in quotes cut out."""
    text = re.sub(r'"""(?:.|\n)*?"""', lambda m: "\n" * m.group().count("\n"), path.read_text())
    for number, line in enumerate(text.splitlines(), 1):
        yield number, re.sub(r'"[^"]*"', '""', line).split("#")[0].rstrip()


def test_directives_are_set_once_and_safe() -> None:
    tree = ast.parse((ROOT / "setup.py").read_text())
    directives = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "DIRECTIVES"
    )
    assert directives["boundscheck"] is True
    assert directives["wraparound"] is False
    assert directives["cdivision"] is False
    assert directives["embedsignature"] is True


@pytest.mark.parametrize("source", ALL, ids=lambda p: p.name)
def test_checks_are_turned_off_only_with_a_reason(source: Path) -> None:
    lines = source.read_text().splitlines()
    bare = [
        number
        for number, line in enumerate(lines, 1)
        if UNCHECKED.search(line) and "# bounds:" not in line and "# bounds:" not in lines[max(number - 2, 0)]
    ]
    assert bare == []


@pytest.mark.parametrize("source", ALL, ids=lambda p: p.name)
def test_no_guard_is_an_assert(source: Path) -> None:
    assert [number for number, line in _lines(source) if re.match(r"\s*assert\b", line)] == []


@pytest.mark.parametrize("source", ALL, ids=lambda p: p.name)
def test_sizes_are_never_narrow_integers(source: Path) -> None:
    narrow = [
        f"{number}: {line.strip()}"
        for number, line in _lines(source)
        for match in NARROW.finditer(line)
        if SIZES.search(match.group("name"))
    ]
    assert narrow == []


@pytest.mark.parametrize("source", ALL, ids=lambda p: p.name)
def test_kernels_own_no_memory(source: Path) -> None:
    owned = [
        number
        for number, line in _lines(source)
        if re.search(r"\b(malloc|calloc|realloc|free|alloca)\s*\(", line)
    ]
    assert owned == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.name)
def test_kernels_share_one_header_and_include_nothing(source: Path) -> None:
    imported = [
        line for _, line in _lines(source) if re.match(r"\s*(from\s+\S+\s+)?cimport\b|\s*include\b", line)
    ]
    foreign = [
        line
        for line in imported
        if not re.match(
            r"\s*(from\s+(libc\.\w+|cursor|cython|cpython\.\w+)\s+cimport|cimport\s+cython)", line
        )
    ]
    assert foreign == []


def _public(module: object) -> dict[str, Callable[..., object]]:
    names = [n for n in vars(module) if not n.startswith("_")]
    found = {n: getattr(module, n) for n in names}
    return {n: f for n, f in found.items() if callable(f) and not isinstance(f, type) and _is_own(f, module)}


def _is_own(function: Callable[..., object], module: object) -> bool:
    return getattr(function, "__module__", None) == getattr(module, "__name__", None)


def _parameters(function: Callable[..., object]) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.stem)
def test_every_kernel_has_a_numpy_twin(source: Path) -> None:
    compiled = _public(import_module(f"lancecy.kernels.{source.stem}"))
    twin = _public(import_module(f"lancecy.kernels.reference.{source.stem.lstrip('_')}"))
    assert compiled
    assert {n: _parameters(f) for n, f in compiled.items()} == {
        n: _parameters(twin[n]) for n in compiled if n in twin
    }


def test_every_kernel_is_reached_through_the_one_door() -> None:
    door = import_module("lancecy.kernels")
    missing = [
        f"{source.stem}.{name}"
        for source in SOURCES
        for name in _public(import_module(f"lancecy.kernels.{source.stem}"))
        if not hasattr(door, name)
    ]
    assert missing == []


def test_nobody_but_the_door_imports_a_compiled_module() -> None:
    pattern = re.compile(r"lancecy\.kernels\._(?!codes)\w+|from lancecy\.kernels import _")
    users = [
        p
        for p in PACKAGE.rglob("*.py")
        if p != PACKAGE / "kernels" / "__init__.py" and pattern.search(p.read_text())
    ]
    assert users == []
