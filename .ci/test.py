"""Runs the whole test suite in two parallel parts and prints what failed, and one line with all counts.

Spark runs in a separate process: its gateway, worker daemon and sockets must not disturb tests that count
threads and file handles. It mostly waits, so it runs in parallel; its output is printed after that of the
other part. Arguments are passed to pytest in both parts.

A few tests that fail are run once more, one after the other, since a busy machine can be too slow for a server
or a cluster. Those that pass then are named in the output, and the run passes; a defect fails twice.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
SIDE_BY_SIDE = ["-n", "logical", "--maxprocesses=8", "--dist", "worksteal"]
NOTHING_COLLECTED = 5
TESTS_FAILED = 1
MOST_AGAIN = 3
"""With more failures than this none is run again."""


@dataclass(frozen=True)
class Part:
    """One process of pytest, and the folder for what it writes.

    Attributes
    ----------
    title : str
    marker : str
    options : list of str
    folder : Path
    """

    title: str
    marker: str
    options: list[str]
    folder: Path

    def start(
        self, extra: list[str], output: IO[bytes] | None, again: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start pytest; its output goes to ``output``, or to this process's standard output.

        ``again`` runs what failed before, one test after the other.
        """
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--durations=8",
            "--durations-min=5",
            # Temporary files are in memory: those of passed tests leave it at once.
            "--override-ini=tmp_path_retention_policy=failed",
            f"--override-ini=cache_dir={self.folder / 'cache'}",
            f"--junitxml={self.report(again)}",
            f"-m={self.marker}",
            *(["--last-failed", "--last-failed-no-failures=none"] if again else self.options),
        ]
        return subprocess.Popen(
            [*command, *extra],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
        )

    def report(self, again: bool = False) -> Path:
        """Where pytest writes what became of each test."""
        return self.folder / ("again.xml" if again else "first.xml")

    def count(self) -> Counter[str]:
        """Outcomes by pytest's names; empty without a report."""
        found: Counter[str] = Counter()
        if not self.report().exists():
            return found
        for suite in ET.parse(self.report()).getroot().iter("testsuite"):
            number = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
            found["failed"] += number["failures"]
            found["error"] += number["errors"]
            found["skipped"] += number["skipped"]
            found["passed"] += number["tests"] - number["failures"] - number["errors"] - number["skipped"]
        return found

    def failures(self, again: bool = False) -> list[str]:
        """One line for each test that failed: its name and the first line of the reason."""
        if not self.report(again).exists():
            return [f"no report of {self.title!r}"]
        found = []
        for case in ET.parse(self.report(again)).getroot().iter("testcase"):
            for kind in ("failure", "error"):
                for problem in case.iter(kind):
                    reason = (problem.get("message") or "").strip().splitlines() or [""]
                    found.append(f"{kind}: {case.get('classname')}::{case.get('name')}: {reason[0][:300]}")
        return found


def run_parts(parts: list[Part], extra: list[str]) -> list[int]:
    """Run both parts and return their exit codes.

    The first part prints while it runs, the other when it ends.
    """
    first, second = parts
    with (second.folder / "printed.txt").open("w+b") as printed:
        beside = second.start(extra, printed)
        print(f"\n[1/2] {first.title} (beside it, to be printed below: {second.title})", flush=True)
        codes = [first.start(extra, None).wait(), beside.wait()]
        printed.seek(0)
        print(f"\n[2/2] {second.title}\n{printed.read().decode(errors='replace')}", flush=True)
    return codes


def run_again(part: Part, code: int, extra: list[str]) -> tuple[int, list[str]]:
    """Run the tests of a part that failed once more if they are few; return its exit code, and what failed."""
    failures = part.failures()
    if code != TESTS_FAILED or len(failures) > MOST_AGAIN:
        return code, failures
    print(f"\nonce more, as few failed: {part.title}", flush=True)
    code = part.start(extra, None, again=True).wait()
    if code:
        return code, [*failures, *(f"again: {line}" for line in part.failures(again=True))]
    return 0, [f"passed when run again alone: {line}" for line in failures]


def main() -> int:
    """Run both parts even if one fails; return 0 only if both pass."""
    started, extra = time.monotonic(), sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        parts = [
            Part("everything but Spark", "not spark", SIDE_BY_SIDE, Path(folder, "others")),
            Part("Spark", "spark", [], Path(folder, "spark")),
        ]
        for part in parts:
            part.folder.mkdir()
        codes = run_parts(parts, extra)
        ended = [run_again(part, code, extra) for part, code in zip(parts, codes, strict=True)]
        total: Counter[str] = Counter()
        for part, before, (code, _) in zip(parts, codes, ended, strict=True):
            found = part.count()
            if before and not code:
                found["passed at the second try"] = found.pop("failed") + found.pop("error")
            total += found
    seconds = time.monotonic() - started
    said = ", ".join(
        f"{total[word]} {word}"
        for word in ("failed", "error", "passed", "passed at the second try", "skipped")
        if total[word]
    )
    minutes, rest = divmod(int(seconds), 60)
    line = f" {said or 'no tests ran'} in {seconds:.2f}s ({minutes // 60}:{minutes % 60:02}:{rest:02}) "
    # Last, where those who see only the end of the output find it.
    lines = [line for _, failures in ended for line in failures]
    print("\n" + "\n".join([*lines, line.center(100, "=")]), flush=True)
    return next((code for code, _ in ended if code and not (code == NOTHING_COLLECTED and extra)), 0)


if __name__ == "__main__":
    sys.exit(main())
