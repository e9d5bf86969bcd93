"""Runs the whole test suite in two parallel parts and prints what failed, and one line with all counts.

Spark runs in a separate process: its gateway, worker daemon and sockets must not disturb tests that count
threads and file handles. It mostly waits, so it runs in parallel; its output is printed after that of the
other part. Arguments are passed to pytest in both parts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
PARTS = {
    "everything but Spark": ["-m", "not spark", "-n", "logical", "--maxprocesses=8", "--dist", "worksteal"],
    "Spark": ["-m", "spark"],
}
NOTHING_COLLECTED = 5


def start(
    marker: list[str], extra: list[str], report: Path, output: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    """Start pytest; its output goes to ``output``, or to this process's standard output."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--durations=8",
        "--durations-min=5",
        # Temporary files are in memory: those of passed tests leave it at once.
        "--override-ini=tmp_path_retention_policy=failed",
        f"--junitxml={report}",
    ]
    return subprocess.Popen(
        [*command, *marker, *extra],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
    )


def count(report: Path) -> Counter[str]:
    """Outcomes of one part by pytest's names; empty if it wrote no report."""
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


def name_failures(report: Path) -> list[str]:
    """One line for each test of a part that failed: its name and the first line of the reason."""
    if not report.exists():
        return [f"no report of a part: {report.stem}"]
    found = []
    for case in ET.parse(report).getroot().iter("testcase"):
        for kind in ("failure", "error"):
            for problem in case.iter(kind):
                reason = (problem.get("message") or "").strip().splitlines() or [""]
                found.append(f"{kind}: {case.get('classname')}::{case.get('name')}: {reason[0][:300]}")
    return found


def run_parts(extra: list[str], folder: Path) -> tuple[list[int], Counter[str], list[str]]:
    """Run both parts; return exit codes, outcomes and failures.

    The first part prints while it runs, the other when it ends.
    """
    (first, *marker), (second, *other) = ([name, *marker] for name, marker in PARTS.items())
    reports = [folder / "first.xml", folder / "second.xml"]
    with (folder / "second.txt").open("w+b") as printed:
        beside = start(other, extra, reports[1], printed)
        print(f"\n[1/2] {first} (beside it, to be printed below: {second})", flush=True)
        codes = [start(marker, extra, reports[0], None).wait(), beside.wait()]
        printed.seek(0)
        print(f"\n[2/2] {second}\n{printed.read().decode(errors='replace')}", flush=True)
    return codes, count(reports[0]) + count(reports[1]), [line for r in reports for line in name_failures(r)]


def main() -> int:
    """Run both parts even if one fails; return 0 only if both pass."""
    started, extra = time.monotonic(), sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        codes, total, failures = run_parts(extra, Path(folder))
    seconds = time.monotonic() - started
    said = ", ".join(
        f"{total[word]} {word}" for word in ("failed", "error", "passed", "skipped") if total[word]
    )
    minutes, rest = divmod(int(seconds), 60)
    line = f" {said or 'no tests ran'} in {seconds:.2f}s ({minutes // 60}:{minutes % 60:02}:{rest:02}) "
    # Last, where those who see only the end of the output find it.
    print("\n" + "\n".join([*failures, line.center(100, "=")]), flush=True)
    return next((code for code in codes if code and not (code == NOTHING_COLLECTED and extra)), 0)


if __name__ == "__main__":
    sys.exit(main())
