"""``make fuzz``: every target in turn under the sanitizer, and a table of what was run.

    python -m tests.fuzz.all [--runs 1000000] [--seconds 120] [--jobs 2] [TARGET …]

An input that makes trouble is kept in ``tests/fuzz/crashes``, where the tests find it; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lancecy import kernels
from tests.fuzz.build import ROOT, build, environment, tree
from tests.fuzz.seeds import CRASHES, crashes_of, seeds_of
from tests.fuzz.targets import KERNELS

__all__ = ["Outcome", "fuzz", "main"]


# Kernels that take a Python object's own memory.
_OF_BYTES = ("compare_bytes_bounds", "match_bytes", "search_bytes")


@dataclass(frozen=True)
class Outcome:
    """What became of one target."""

    target: str
    runs: int
    seconds: float
    coverage: int
    code: int
    tail: str


def _special(target: str) -> dict[str, str]:
    """Variables for one target: what it covers, and where its memory comes from."""
    found = {"PYTHONMALLOC": "malloc"} if target in _OF_BYTES else {}
    if target in KERNELS:
        found["LANCECY_COVERED"] = f"/{getattr(kernels, target).__module__.rpartition('.')[2]}."
    return found


def fuzz(target: str, runs: int, seconds: int) -> Outcome:
    """Run one target."""
    corpus = tree("fuzz") / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate([*seeds_of(target), *crashes_of(target)]):
        (corpus / f"seed-{number:03}").write_bytes(seed)
    CRASHES.mkdir(exist_ok=True)
    options = [
        f"-runs={runs}",
        f"-max_total_time={seconds}",
        "-timeout=120",
        "-rss_limit_mb=2048",
        "-max_len=16384",
        "-print_final_stats=1",
        f"-artifact_prefix={CRASHES}/{target}-",
        str(corpus),
    ]
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", target, *options],
        cwd=ROOT,
        env=environment("fuzz") | _special(target),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    said = done.stdout + done.stderr
    executed = re.findall(r"stat::number_of_executed_units:\s*(\d+)", said) or re.findall(
        r"^#(\d+)", said, re.MULTILINE
    )
    covered = re.findall(r"cov: (\d+)", said)
    return Outcome(
        target,
        int(executed[-1]) if executed else 0,
        time.monotonic() - started,
        int(covered[-1]) if covered else 0,
        done.returncode,
        said[-3000:],
    )


def main() -> None:
    """Fuzz the targets named, or all of them."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--runs", type=int, default=1_000_000, help="executions of each target (-1: no end)")
    options.add_argument("--seconds", type=int, default=300, help="at most this long for each target")
    options.add_argument("--jobs", type=int, default=2, help="targets side by side")
    options.add_argument("targets", nargs="*")
    chosen = options.parse_args()
    print("building kernels with coverage and the address sanitizer", flush=True)
    build("fuzz")
    names = chosen.targets or sorted(path.name for path in (ROOT / "tests" / "fuzz" / "seeds").iterdir())
    bad = 0
    print(f"{'target':<22}{'executions':>12}{'seconds':>9}{'per s':>9}{'edges':>8}", flush=True)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for found in pool.map(lambda name: fuzz(name, chosen.runs, chosen.seconds), names):
            rate = found.runs / max(found.seconds, 1e-9)
            state = "" if found.code == 0 else f"  TROUBLE (exit code {found.code})"
            line = (
                f"{found.target:<22}{found.runs:>12,}{found.seconds:>9.0f}{rate:>9,.0f}{found.coverage:>8,}"
            )
            print(line + state, flush=True)
            if found.code:
                bad += 1
                print(found.tail, flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
