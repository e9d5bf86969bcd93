"""``make demo`` on a small table: every chapter appears, the routes agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.tree import run_tool


@pytest.mark.spark
@pytest.mark.interop
@pytest.mark.slow
def test_demo_tells_the_whole_story(tmp_path: Path) -> None:
    done = run_tool("python", "bench/demo.py", "--rows", "24000", "--keep", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for chapter in ("1. Open it", "2. Ask what", "3. Scan", "4. As a Dask", "5. In Spark"):
        assert chapter in done.stdout
    assert re.search(r"[1-9][\d,]* pruned", done.stdout)
    answers = re.findall(
        r"^(?:createDataFrame|lancecy\.spark\.\w+) +([\d,]+) +([\d.]+) ", done.stdout, re.MULTILINE
    )
    assert len(answers) == 3
    assert len(set(answers)) == 1
    assert "Traceback" not in done.stderr
