"""What is public is documented, what is documented is true: sections, names of errors, examples."""

from __future__ import annotations

import builtins
import doctest
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import lancecy
from lancecy import errors
from tests.helpers.folded import folded
from tests.meta.docstrings import entries, sections, signature_names, summary
from tests.meta.example import place_example
from tests.meta.tree import ROOT

MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(lancecy.__path__, "lancecy.")
    if not m.name.endswith("_pb2") and "._" not in m.name.replace("lancecy.kernels._", "lancecy.kernels.")
)


def _source(name: str) -> Path:
    """Where a module is written; known without importing it."""
    place = ROOT.joinpath(*name.split("."))
    python = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return python if python.exists() else ROOT / "_ext" / f"{place.name}.pyx"


def _public(module: ModuleType) -> Iterator[tuple[str, object]]:
    """What a module offers: the names in its ``__all__`` that it defines itself."""
    for name in getattr(module, "__all__", ()):
        item = getattr(module, name)
        if getattr(item, "__module__", module.__name__) == module.__name__ and (
            inspect.isclass(item) or callable(item)
        ):
            yield f"{module.__name__}.{name}", item


def _members(kind: type) -> Iterator[tuple[str, object]]:
    """Public methods and properties a class defines itself."""
    for name, item in vars(kind).items():
        if not name.startswith("_"):
            plain = item.__func__ if isinstance(item, classmethod | staticmethod) else item
            if inspect.isfunction(plain) or isinstance(plain, property):
                yield name, plain


def _offered() -> dict[str, object]:
    """Public names of the package for its users, with the members of their classes."""
    found: dict[str, object] = {}
    for name in lancecy.__all__:
        item = getattr(lancecy, name)
        if inspect.ismodule(item) or not callable(item):
            continue
        found[f"lancecy.{name}"] = item
        if inspect.isclass(item):
            found.update((f"lancecy.{name}.{member}", plain) for member, plain in _members(item))
    return found


OFFERED = _offered()


@folded("name", MODULES)
def test_module_says_what_it_is_for(name: str) -> None:
    assert summary(import_module(name)).rstrip().endswith((".", ":", "::")), f"{name} needs a docstring"


@folded("name", MODULES)
def test_public_names_of_module_are_documented(name: str) -> None:
    module = import_module(name)
    assert [label for label, item in _public(module) if not summary(item)] == []


@folded("name", MODULES)
def test_documented_parameters_exist(name: str) -> None:
    wrong: list[str] = []
    for label, item in _public(import_module(name)):
        members = [(f"{label}.{n}", m) for n, m in _members(item)] if inspect.isclass(item) else []
        for place, documented in [(label, item), *members]:
            known = signature_names(documented)
            described = entries(sections(documented).get("Parameters", ""))
            if known and not inspect.isclass(documented):
                wrong += [f"{place}({parameter})" for parameter in described if parameter not in known]
    assert wrong == []


@folded("name", MODULES)
def test_documented_errors_are_classes(name: str) -> None:
    module = import_module(name)
    wrong: list[str] = []
    for label, item in _public(module):
        members = [(f"{label}.{n}", m) for n, m in _members(item)] if inspect.isclass(item) else []
        for place, documented in [(label, item), *members]:
            for raised in entries(sections(documented).get("Raises", "")):
                kind = (
                    getattr(errors, raised, None)
                    or getattr(builtins, raised, None)
                    or getattr(module, raised, None)
                )
                if not (inspect.isclass(kind) and issubclass(kind, BaseException)):
                    wrong.append(f"{place}: {raised}")
    assert wrong == []


@folded("name", sorted(OFFERED))
def test_offered_name_says_what_each_parameter_means(name: str) -> None:
    item = OFFERED[name]
    text = inspect.getdoc(item) or ""
    assert summary(item).endswith((".", ":")), f"{name}: no summary"
    if isinstance(item, property) or (inspect.isclass(item) and issubclass(item, BaseException)):
        return
    # Others may be described elsewhere ("as for :meth:`scanner`"), or the class made by a function ("Made by …").
    if re.search(r"\bas (for|in) :|[Mm]ade by :", text):
        return
    assert [p for p in signature_names(item) if not re.search(rf"\b{p}\b", text)] == [], name


@pytest.mark.parametrize(
    "name", sorted(n for n, item in OFFERED.items() if n.count(".") == 1 and inspect.isfunction(item))
)
def test_offered_function_shows_an_example(name: str) -> None:
    assert ">>>" in sections(OFFERED[name]).get("Examples", ""), f"{name}: no example"


@pytest.mark.parametrize("name", [name for name in MODULES if ">>>" in _source(name).read_text()])
def test_examples_of_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module(name)
    examples = [
        test for test in doctest.DocTestFinder(exclude_empty=True).find(module, name) if test.examples
    ]
    assert examples
    place_example(tmp_path)
    monkeypatch.chdir(tmp_path)
    failed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in examples:
        runner.run(test, out=failed.append)
    assert runner.failures == 0, "".join(failed)


def test_no_example_is_skipped() -> None:
    sources = [*(ROOT / "lancecy").rglob("*.py"), *(ROOT / "_ext").glob("*.pyx")]
    assert [str(p.relative_to(ROOT)) for p in sources if "+SKIP" in p.read_text()] == []


def _blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


def test_readme_links_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "bench").glob("*.md")]
    link = re.compile(r"\]\((?!https?://|mailto:|#)([^)#]+)(?:#[^)]*)?\)")
    broken = [
        f"{page.name}: {target}"
        for page in sorted(pages)
        for target in link.findall(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.spark
def test_readme_examples_run(tmp_path: Path) -> None:
    """In a process of their own: they start a Spark session, which a process has once, and stop it."""
    place_example(tmp_path)
    blocks = _blocks(ROOT / "README.md")
    assert len(blocks) >= 2
    (tmp_path / "readme.py").write_text("\n".join(blocks))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),  # for Spark's workers, where lancecy is not installed
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "readme.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
