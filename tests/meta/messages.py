"""Prints the messages of all errors in the package, with their places: ``python -m tests.meta.messages [folder]``.

For reading them as a user: each says what happened to what, and what to do.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tests.meta.tree import PACKAGE, package_modules, parsed

__all__ = ["Message", "messages"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message as written, values in braces."""

    place: str
    error: str
    text: str


def messages(folder: str = "") -> Iterator[Message]:
    """Messages of errors that are raised, or made to be raised, below a folder of the package."""
    for module in package_modules():
        path = module.relative_to(PACKAGE).as_posix()
        if not path.startswith(folder):
            continue
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.Call) and node.args and _is_error(node.func):
                text = _text(node.args[0])
                if text:
                    yield Message(f"{path}:{node.lineno}", ast.unparse(node.func), text)


def _is_error(function: ast.expr) -> bool:
    name = ast.unparse(function).rpartition(".")[2]
    return name.endswith(("Error", "Warning", "Exception")) or name in ("fail", "refused", "UsageError")


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return "{" + ast.unparse(node) + "}"


if __name__ == "__main__":
    for message in messages(*sys.argv[1:2]):
        print(f"{message.place}  {message.error}\n    {message.text}")
