"""How the kernels are built and reached; what their sources may contain is in ``tests/kernels/test_rules.py``."""

from __future__ import annotations

import ast
import re

from tests.meta.tree import PACKAGE, ROOT

OWNS_MEMORY = re.compile(r"\b(malloc|calloc|realloc|free|alloca)\s*\(")
COMPILED = re.compile(r"lancecy\.kernels\._(?!codes\b)\w+|from lancecy\.kernels import _")


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


def test_kernels_own_no_memory() -> None:
    assert [p.name for p in (ROOT / "_ext").iterdir() if OWNS_MEMORY.search(p.read_text())] == []


def test_nobody_but_the_door_imports_a_compiled_module() -> None:
    door = PACKAGE / "kernels" / "__init__.py"
    users = [p for p in PACKAGE.rglob("*.py") if p != door and COMPILED.search(p.read_text())]
    assert users == []
