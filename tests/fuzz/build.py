"""Kernels for the sanitizers, as packages of their own: ``build/fuzz`` and ``build/asan``.

``fuzz`` has coverage and the address sanitizer: gcc instruments, ``cover.c`` hands its counters to libFuzzer, whose
runtime atheris brings along. ``asan`` has gcc's own sanitizers of addresses and undefined behaviour. Each package
consists of links to the sources, so that it is always what stands in the checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

__all__ = ["ROOT", "Kind", "build", "environment", "tree"]

Kind = Literal["fuzz", "asan"]

ROOT = Path(__file__).resolve().parents[2]

# What the sanitizer keeps of memory and of where it was asked for. A fuzzer calls small functions millions of times:
# it is two to three times as fast without traces; whoever looks into a finding runs it with asan's options.
_KEPT: dict[Kind, str] = {
    "fuzz": "malloc_context_size=0:quarantine_size_mb=4",
    "asan": "malloc_context_size=4:quarantine_size_mb=16",
}


def tree(kind: Kind) -> Path:
    """The folder to import from."""
    return ROOT / "build" / kind


def build(kind: Kind) -> Path:
    """Compile what has changed since the last time; returns the folder to import from."""
    to = tree(kind)
    (to / "lancecy" / "kernels").mkdir(parents=True, exist_ok=True)
    _link(ROOT / "lancecy", to / "lancecy", but="kernels")
    _link(ROOT / "lancecy" / "kernels", to / "lancecy" / "kernels", but="")
    (to / "_ext").mkdir(exist_ok=True)
    _link(ROOT / "_ext", to / "_ext", but="")
    flags = {"LANCECY_CYTHON_DEBUG": "1"}
    if kind == "fuzz":
        shim = to / "cover.o"
        source = ROOT / "tests/fuzz/cover.c"
        subprocess.run(["gcc", "-O1", "-fPIC", "-c", str(source), "-o", str(shim)], check=True)
        flags = {"LANCECY_CYTHON_DEBUG": "fuzz", "LANCECY_FUZZ_SHIM": str(shim)}
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "setup.py", "-q", "build_ext", "-b", str(to), "-t", temporary]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **flags}, check=True)
    return to


def _link(source: Path, target: Path, but: str) -> None:
    names = {e.name for e in source.iterdir() if e.name not in (but, "__pycache__") and e.suffix != ".so"}
    for place in target.iterdir():
        # Also what is no longer in the checkout.
        if place.is_symlink():
            place.unlink()
    for name in names:
        (target / name).symlink_to(source / name)


def environment(kind: Kind) -> dict[str, str]:
    """What a process needs so that the sanitizer is there before Python, and its kernels before all others."""
    return {
        **os.environ,
        "LD_PRELOAD": _fuzzing_runtime() if kind == "fuzz" else f"{_of_gcc('asan')} {_of_gcc('ubsan')}",
        # Small objects from malloc too: Python's own allocator would hide reads behind them. Fuzzed kernels are given
        # arrays of NumPy, which are from malloc anyway, and are called twice as often.
        "PYTHONMALLOC": "malloc" if kind == "asan" else "pymalloc",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:halt_on_error=1:" + _KEPT[kind],
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONPATH": os.pathsep.join([str(tree(kind)), str(ROOT)]),
        # Without this the folder that ``python -m`` is started in, and the usual kernels there, would come first.
        "PYTHONSAFEPATH": "1",
        "LANCECY_FUZZ_TWINS": "16",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }


def _fuzzing_runtime() -> str:
    import atheris

    runtime = Path(atheris.__file__).parent.parent / "asan_with_fuzzer.so"
    if not runtime.exists():
        raise FileNotFoundError(f"atheris brought no {runtime.name}")
    return str(runtime)


def _of_gcc(name: str) -> str:
    command = ["gcc", f"-print-file-name=lib{name}.so"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if shutil.which("gcc") is None:
    raise ImportError("the sanitizers need gcc")
