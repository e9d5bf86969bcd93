"""``make asan``: the suite over kernels with the address and undefined-behaviour sanitizers.

    python -m tests.fuzz.asan [pytest's arguments]

Without arguments it runs what gives bytes to kernels: kernels, encodings, files, tables, golden tables, hostile bytes. The
first finding ends the process that made it, and with it the test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.fuzz.build import ROOT, build, environment, tree

__all__ = ["main"]

_PARTS = ("kernels", "encodings", "file", "table", "store", "verification", "golden", "hostile")
_OPTIONS = ("-q", "-n", "2", "-m", "not spark and not interop and not s3", "--timeout", "1200")


def main() -> None:
    """Build, see that the right kernels would be tested, and test them."""
    build("asan")
    surroundings = environment("asan")
    # Many times slower than usual, and depth is the fuzzer's: a sample of the damaged tables is enough.
    surroundings.setdefault("LANCECY_MUTATIONS", "1000")
    code = "from lancecy.kernels import _bits; print(_bits.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code], env=surroundings, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_relative_to(tree("asan")):
        sys.exit(f"{found} is not instrumented")
    chosen = sys.argv[1:] or [*_OPTIONS, *(str(Path("tests") / part) for part in _PARTS)]
    # pytest's own ``pythonpath`` would put the usual kernels first.
    command = [sys.executable, "-m", "pytest", "-o", "pythonpath=", "-p", "no:cacheprovider", *chosen]
    sys.exit(subprocess.run(command, cwd=ROOT, env=surroundings, check=False).returncode)


if __name__ == "__main__":
    os.nice(5)
    main()
