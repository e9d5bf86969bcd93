"""What the house rules look at: the project's files, parsed modules and their imports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "PACKAGE",
    "ROOT",
    "Import",
    "imports_of",
    "is_within",
    "module_name",
    "package_modules",
    "parsed",
    "project_files",
    "run_tool",
]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "lancecy"
# Folders that tools fill; looked at only where the tree is not a git checkout.
_BUILT = {"build", "dist", "__pycache__", ".git", ".venv", ".asv", ".data", ".hypothesis", "lancecy.egg-info"}


def run_tool(*command: str, cwd: Path = ROOT, timeout_s: float = 280) -> subprocess.CompletedProcess[str]:
    """Run a command line tool of this environment; ``command[0]`` is a script beside the interpreter or ``python``."""
    tool = sys.executable if command[0] == "python" else str(Path(sys.executable).with_name(command[0]))
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    )  # cython-lint calls others
    sources = os.pathsep.join([str(cwd), *filter(None, [os.environ.get("PYTHONPATH")])])
    special = {"PATH": path, "PYTHONPATH": sources, "NO_COLOR": "1", "COLUMNS": "150", "PYTHONWARNINGS": ""}
    environment = {**os.environ, **special}
    return subprocess.run(
        [tool, *command[1:]],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is, or would be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0 and (ROOT / ".git").exists():
        names = listed.stdout.decode().split("\0")
        found = (ROOT / name for name in names if name)
    else:
        inside = ((p, p.relative_to(ROOT).parts) for p in ROOT.rglob("*") if p.suffix != ".so")
        found = (
            p for p, parts in inside if not _BUILT.intersection(parts) and not parts[0].endswith("_cache")
        )
    return tuple(sorted(p for p in found if p.is_file()))


def package_modules() -> tuple[Path, ...]:
    """The package's own Python files, generated protobuf code left out."""
    return tuple(sorted(p for p in PACKAGE.rglob("*.py") if not p.stem.endswith("_pb2")))


def module_name(path: Path) -> str:
    """Dotted name of a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(path: Path) -> ast.Module:
    """Syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement: the module it names, its line, and whether it runs when the module is imported."""

    module: str
    line: int
    at_import: bool


def _names(node: ast.Import | ast.ImportFrom, importer: str, is_package: bool) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        parent = importer.split(".")[: None if is_package and node.level == 1 else -(node.level - is_package)]
        base = ".".join([*parent, *([base] if base else [])])
    # ``from a import b`` may name a module b or something inside a; both are reported.
    yield base
    yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_typing_block(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


@cache
def imports_of(path: Path) -> list[Import]:
    """Every import in a file, those inside functions and under TYPE_CHECKING included."""
    found: list[Import] = []
    name, is_package = module_name(path), path.stem == "__init__"

    def walk(node: ast.AST, at_import: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.extend(Import(target, node.lineno, at_import) for target in _names(node, name, is_package))
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_typing_block(node)
        for child in ast.iter_child_nodes(node):
            walk(child, at_import and not lazy)

    walk(parsed(path), True)
    return found


def is_within(module: str, package: str) -> bool:
    """Whether ``module`` is ``package`` or lies in it."""
    return module == package or module.startswith(package + ".")
