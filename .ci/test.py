"""Runs the whole test suite in stages and closes with one line that counts them all.

Spark gets a process of its own: its gateway, its daemon of forked workers and their sockets are not to
meet the tests that count threads and file handles. Arguments are handed on to pytest in every stage.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGES = {
    "everything but Spark": ["-m", "not spark", "-n", "logical", "--maxprocesses=8", "--dist", "loadgroup"],
    "Spark": ["-m", "spark"],
}
NOTHING_COLLECTED = 5


def run_stage(marker: list[str], extra: list[str], report: Path) -> int:
    """Run pytest once; returns its exit code."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--durations=8",
        "--durations-min=5",
        f"--junitxml={report}",
    ]
    return subprocess.run(
        [*command, *marker, *extra], cwd=ROOT, stdin=subprocess.DEVNULL, check=False
    ).returncode


def count(report: Path) -> Counter[str]:
    """Outcomes of one stage by pytest's words; empty if it did not get as far as a report."""
    if not report.exists():
        return Counter()
    found: Counter[str] = Counter()
    for suite in ET.parse(report).getroot().iter("testsuite"):
        number = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
        found["failed"] += number["failures"]
        found["error"] += number["errors"]
        found["skipped"] += number["skipped"]
        found["passed"] += number["tests"] - number["failures"] - number["errors"] - number["skipped"]
    return found


def main() -> int:
    """Run every stage, whatever became of the one before; 0 only if all are green."""
    started, total, codes = time.monotonic(), Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, marker) in enumerate(STAGES.items(), 1):
            print(f"\n[{number}/{len(STAGES)}] {name}", flush=True)
            report = Path(folder) / f"{number}.xml"
            code = run_stage(marker, sys.argv[1:], report)
            codes.append(0 if code == NOTHING_COLLECTED and sys.argv[1:] else code)
            total += count(report)
    seconds = time.monotonic() - started
    said = ", ".join(
        f"{total[word]} {word}" for word in ("failed", "error", "passed", "skipped") if total[word]
    )
    minutes, rest = divmod(int(seconds), 60)
    line = f" {said or 'no tests ran'} in {seconds:.2f}s ({minutes // 60}:{minutes % 60:02}:{rest:02}) "
    print("\n" + line.center(100, "="), flush=True)
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
