"""Annotations: strict for package, tests and benchmarks; the kernels' stubs agree with what was compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meta.tree import PACKAGE, run_tool

# What Cython adds to every module and no stub mentions.
CYTHON_EXTRAS = ("__test__", "__reduce_cython__", "__setstate_cython__", "__pyx_capi__")
# Stubs import NumPy alone; what the package imports takes mypy two minutes.
STUBS_ONLY = """
[mypy]
strict = true
follow_imports = skip
[mypy-numpy.*]
follow_imports = normal
"""


def test_types_are_strict() -> None:
    result = run_tool("python", "-m", "mypy")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_stubs_agree_with_the_compiled_kernels(tmp_path: Path) -> None:
    modules = sorted(f"lancecy.kernels.{stub.stem}" for stub in (PACKAGE / "kernels").glob("_*.pyi"))
    assert modules, "no stub of a compiled module found"
    allowed, settings = tmp_path / "allowed", tmp_path / "mypy.ini"
    settings.write_text(STUBS_ONLY)
    allowed.write_text(
        "".join(rf"{module}\.(.*\.)?{name}" + "\n" for module in modules for name in CYTHON_EXTRAS)
    )

    result = run_tool(
        "python",
        "-m",
        "mypy.stubtest",
        *modules,
        "--allowlist",
        str(allowed),
        "--ignore-unused-allowlist",
        "--concise",
        "--mypy-config-file",
        str(settings),
    )
    assert result.returncode == 0, result.stdout + result.stderr
