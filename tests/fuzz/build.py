"""Kernels with coverage and the address sanitizer, as a package of their own in ``build/fuzz``.

gcc instruments; ``cover.c`` hands its counters to libFuzzer, whose runtime atheris brings along. The package consists of
links to the sources, so that it is always what stands in the checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["ROOT", "TREE", "build", "environment"]

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "fuzz"


def build() -> Path:
    """Compile what has changed since the last time; returns the folder to import from."""
    (TREE / "lancecy" / "kernels").mkdir(parents=True, exist_ok=True)
    _link(ROOT / "lancecy", TREE / "lancecy", but="kernels")
    _link(ROOT / "lancecy" / "kernels", TREE / "lancecy" / "kernels", but="")
    shim = TREE / "cover.o"
    subprocess.run(
        ["gcc", "-O1", "-fPIC", "-c", str(ROOT / "tests/fuzz/cover.c"), "-o", str(shim)], check=True
    )
    flags = {"LANCECY_CYTHON_DEBUG": "fuzz", "LANCECY_FUZZ_SHIM": str(shim)}
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "setup.py", "-q", "build_ext", "-b", str(TREE), "-t", temporary]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **flags}, check=True)
    return TREE


def _link(source: Path, target: Path, but: str) -> None:
    for entry in source.iterdir():
        place = target / entry.name
        if entry.name not in (but, "__pycache__") and entry.suffix != ".so":
            if place.is_symlink():
                place.unlink()
            place.symlink_to(entry)


def environment() -> dict[str, str]:
    """What a process needs so that the sanitizer and libFuzzer are there before Python."""
    import atheris

    runtime = Path(atheris.__file__).parent.parent / "asan_with_fuzzer.so"
    if not runtime.exists():
        raise FileNotFoundError(f"atheris brought no {runtime.name}")
    return {
        **os.environ,
        "LD_PRELOAD": str(runtime),
        # Small objects from malloc too: Python's own allocator would hide reads behind them.
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONPATH": os.pathsep.join([str(TREE), str(ROOT)]),
        "LANCECY_FUZZ_TWINS": "16",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }


if shutil.which("gcc") is None:
    raise ImportError("fuzzing needs gcc")
