"""Writes ``lancecy/proto/*_pb2.py`` and ``*_pb2.pyi`` from the ``.proto`` files beside this script.

Run it as ``python protos/generate.py``. With ``--check`` it writes nothing and exits with 1 if the committed
files are out of date. The generator is pinned: code of protoc 29 (grpcio-tools 1.71) imports under every protobuf
runtime from 5.29 on; code of a newer generator needs a newer runtime.

Needs ``grpcio-tools>=1.71,<1.72`` and ``mypy-protobuf>=3.6,<3.7``, the last release that runs with protobuf 5.
"""

from __future__ import annotations

import argparse
import difflib
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "protos"
PACKAGE = "lancecy/proto"
PINNED = "1.71."


def check_tools() -> str | None:
    """The fault of the installed generator, or None."""
    try:
        found = version("grpcio-tools")
        version("mypy-protobuf")
    except PackageNotFoundError as error:
        return f"{error.name} is not installed"
    return None if found.startswith(PINNED) else f"grpcio-tools {found} is installed, {PINNED}* is needed"


def plugin() -> str:
    """Path of the program that writes the stubs: beside this interpreter, otherwise on PATH."""
    beside = Path(sys.executable).with_name("protoc-gen-mypy")
    found = str(beside) if beside.exists() else shutil.which("protoc-gen-mypy")
    if found is None:
        raise FileNotFoundError("protoc-gen-mypy (package mypy-protobuf) is not on PATH")
    return found


def generate(target: Path) -> None:
    """Run the generator; it writes to ``target / lancecy / proto``."""
    from grpc_tools import protoc  # type: ignore[import-untyped]  # not installed where mypy runs on all files

    arguments = [
        "protoc",
        # Maps the source folder to the package under which the files import each other.
        f"--proto_path={PACKAGE}={SOURCES}",
        f"--proto_path={Path(protoc.__file__).parent / '_proto'}",
        f"--plugin=protoc-gen-mypy={plugin()}",
        f"--python_out={target}",
        f"--mypy_out=quiet:{target}",
        *(f"{PACKAGE}/{path.name}" for path in sorted(SOURCES.glob("*.proto"))),
    ]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc failed")


def drift(fresh: Path) -> list[str]:
    """Unified diffs between the committed files and newly generated ones."""
    names = {path.name for folder in (fresh, ROOT / PACKAGE) for path in folder.glob("*_pb2.py*")}
    lines: list[str] = []
    for name in sorted(names):
        old, new = (
            (folder / name).read_text().splitlines() if (folder / name).exists() else []
            for folder in (ROOT / PACKAGE, fresh)
        )
        lines += difflib.unified_diff(old, new, f"committed/{name}", f"generated/{name}", lineterm="")
    return lines


def main() -> int:
    """Generate, then copy or compare; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only report differences")
    only_check = parser.parse_args().check
    problem = check_tools()
    if problem:
        print(problem, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = Path(folder) / PACKAGE
        if only_check:
            difference = drift(fresh)
            print("\n".join(difference) or "generated code is up to date")
            return 1 if difference else 0
        for path in (ROOT / PACKAGE).glob("*_pb2.py*"):
            path.unlink()
        for path in fresh.iterdir():
            shutil.copy(path, ROOT / PACKAGE / path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
