"""``make demo`` on a small table: every chapter appears, the routes agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.tree import run_tool


@pytest.mark.spark
@pytest.mark.slow
def test_demo_tells_the_whole_story(tmp_path: Path) -> None:
    done = run_tool("python", "bench/demo.py", "--rows", "24000", "--keep", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for chapter in (
        "1. Write",
        "2. Open",
        "3. Explain",
        "4. Scan",
        "5. Change",
        "6. As a Dask",
        "7. In Spark",
    ):
        assert chapter in done.stdout
    assert re.search(r"^ *4 +3\d,\d{3} +13 .*deleted", done.stdout, re.MULTILINE)
    rows = re.findall(r"^(?:Dask|Spark) wrote ([\d,]+) rows .* version (\d)", done.stdout, re.MULTILINE)
    assert [version for _, version in rows] == ["1", "2"]
    assert re.search(r"[1-9][\d,]* pruned", done.stdout)
    answers = re.findall(
        r"^(?:createDataFrame|lancecy\.spark\.\w+) +([\d,]+) +([\d.]+) ", done.stdout, re.MULTILINE
    )
    assert len(answers) == 3
    assert len(set(answers)) == 1
    assert "Traceback" not in done.stderr
