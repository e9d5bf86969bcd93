"""The generated protobuf code is what the pinned generator makes of ``protos/``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.meta.tree import PACKAGE, ROOT


def test_generated_code_is_up_to_date() -> None:
    # ``make`` has made this environment already; elsewhere it is made here, once.
    generator = Path(sys.prefix) / "protoc"
    subprocess.run([str(ROOT / ".ci" / "setup"), "protoc", str(generator)], check=True, timeout=280)
    done = subprocess.run(
        [str(generator / "bin" / "python"), "protos/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_proto_has_code_and_stub() -> None:
    sources = {p.stem for p in (ROOT / "protos").glob("*.proto")}
    assert sources
    for suffix in (".py", ".pyi"):
        assert {p.stem.removesuffix("_pb2") for p in (PACKAGE / "proto").glob(f"*_pb2{suffix}")} == sources
