"""Rules for every line of the package that no linter knows."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.meta.tree import PACKAGE, ROOT, package_modules, parsed, project_files

# Functions that turn bytes of a file into code or into objects of any class.
DANGEROUS = {"eval", "exec", "compile", "__import__"}
DANGEROUS_MODULES = {"pickle", "cloudpickle", "marshal", "shelve", "yaml", "dill", "joblib"}
LATER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


@cache
def _by_kind() -> Mapping[type[ast.AST], list[tuple[Path, ast.AST]]]:
    """Every node of the package by its class: one walk serves all rules."""
    found: defaultdict[type[ast.AST], list[tuple[Path, ast.AST]]] = defaultdict(list)
    for path in package_modules():
        for node in ast.walk(parsed(path)):
            found[type(node)].append((path, node))
    return found


def _nodes(kind: type[ast.AST]) -> list[tuple[Path, ast.AST]]:
    return _by_kind().get(kind, [])


def _place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def test_no_guard_is_an_assert() -> None:
    # python -O drops them.
    assert [_place(path, node) for path, node in _nodes(ast.Assert)] == []


def test_no_handler_is_bare() -> None:
    handlers = [
        _place(p, n)
        for p, n in _nodes(ast.ExceptHandler)
        if isinstance(n, ast.ExceptHandler) and n.type is None
    ]
    assert handlers == []


def test_no_error_is_its_own_cause() -> None:
    # `within` returns the error itself, and workers of Dask follow causes to their end.
    raised = [
        _place(path, node)
        for path, node in _nodes(ast.Raise)
        if isinstance(node, ast.Raise)
        and isinstance(node.cause, ast.Name)
        and node.exc is not None
        and ast.unparse(node.exc).startswith((f"{node.cause.id}.", node.cause.id + " "))
    ]
    assert raised == []


def test_nothing_is_left_unimplemented() -> None:
    raised = [_place(p, n) for p, n in _nodes(ast.Raise) if "NotImplementedError" in ast.dump(n)]
    assert raised == []


def test_no_data_becomes_code() -> None:
    calls = [
        _place(path, node)
        for path, node in _nodes(ast.Call)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in DANGEROUS
        # Initializers are made of the names that classes of the package have for their fields.
        and path != PACKAGE / "records.py"
    ]
    imports = [
        _place(path, node)
        for path, node in _nodes(ast.Import)
        if isinstance(node, ast.Import) and {a.name.split(".")[0] for a in node.names} & DANGEROUS_MODULES
    ]
    froms = [
        _place(path, node)
        for path, node in _nodes(ast.ImportFrom)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in DANGEROUS_MODULES
    ]
    assert calls + imports + froms == []


def test_frozen_classes_are_made_by_records() -> None:
    # The standard library takes several times as long, at each first use in a process.
    makers = [
        _place(path, node)
        for path, node in _nodes(ast.ImportFrom)
        if isinstance(node, ast.ImportFrom)
        and node.module == "dataclasses"
        and any(alias.name == "dataclass" for alias in node.names)
        and path != PACKAGE / "records.py"
    ]
    assert makers == []


def test_nothing_is_put_off() -> None:
    sources = [
        p
        for p in project_files()
        if p.suffix in {".py", ".pyx", ".pxd", ".pyi", ".proto"} and p.is_relative_to(PACKAGE)
    ]
    sources += sorted((ROOT / "_ext").iterdir())
    left = [
        f"{p.relative_to(ROOT)}: {m.group()}"
        for p in sources
        if p.is_file()
        for m in LATER.finditer(p.read_text())
    ]
    assert left == []


@pytest.mark.parametrize("suffix", [".md", ".py", ".pyx", ".toml", ".proto"])
def test_text_files_end_with_one_newline(suffix: str) -> None:
    texts = [p for p in project_files() if p.suffix == suffix and p.stat().st_size]
    assert [str(p.relative_to(ROOT)) for p in texts if not re.search(rb"[^\n]\n\Z", p.read_bytes())] == []
