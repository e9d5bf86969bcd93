"""The pages of the documentation: what they show runs, and what they link to is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.example import place_example
from tests.meta.tree import ROOT

SITE = ROOT / ".docs"
PAGES = sorted(SITE.glob("*.md"))
WITHOUT_CODE = {"dynamodb", "index"}


def _code(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(p.stem, marks=[pytest.mark.spark] if p.stem == "spark" else [pytest.mark.interop])
        for p in PAGES
        if p.stem not in WITHOUT_CODE
    ],
)
def test_examples_of_page_run(name: str, tmp_path: Path) -> None:
    """Each page in a process of its own: what it imports and starts is its own."""
    blocks = _code(SITE / f"{name}.md")
    assert blocks
    place_example(tmp_path)
    # Worker processes of Dask import the script: what it starts stands behind the usual guard.
    lines = ["def page() -> None:", *("    " + line for block in blocks for line in block.splitlines())]
    (tmp_path / "page.py").write_text("\n".join([*lines, "", 'if __name__ == "__main__":', "    page()", ""]))
    # What an editable install puts on the path.
    folders = os.pathsep.join([str(ROOT), str(ROOT / "lancecy" / "spark" / "autoload")])
    special = {"PYTHONPATH": folders, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env={**os.environ, **special},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_pages_link_to_pages_that_are_there() -> None:
    names = {page.stem for page in PAGES} | {"api"}
    for page in PAGES:
        text = page.read_text()
        assert set(re.findall(r"\{doc\}`([a-z]+)`", text)) <= names, page.name
    listed = re.findall(r"^([a-z]+)$", (SITE / "index.md").read_text(), re.MULTILINE)
    assert set(listed) == names - {"index"}


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(SITE),
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Dataset.take_rows" in (tmp_path / "api.html").read_text()
