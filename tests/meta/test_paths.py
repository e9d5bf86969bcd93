"""Nothing in the repository depends on, or tells about, the machine it was written on."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.meta.tree import ROOT, project_files

# Spelt in pieces, so that this file does not find itself.
_FOLDERS = ("work", "farm", "root", "home/[a-z]+", "Users/[A-Za-z]+", "tmp/w")
MACHINE_PATH = re.compile((r"(?:^|[^A-Za-z0-9_.])/(?:" + "|".join(_FOLDERS) + ")/").encode())


def test_no_file_names_a_path_of_a_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()!r}"
        for path in project_files()
        for match in MACHINE_PATH.finditer(path.read_bytes())
    ]
    assert found == []


def test_the_pattern_finds_what_it_should() -> None:
    path = b"open('/" + b"work/" + b"data')"
    assert MACHINE_PATH.search(path)
    assert not MACHINE_PATH.search(b"spark/work/data and ../root/x")


def test_no_file_is_large() -> None:
    # Golden tables are kept small; data is made, not stored.
    large = {
        str(p.relative_to(ROOT)): p.stat().st_size for p in project_files() if p.stat().st_size > 1_000_000
    }
    assert large == {}


def test_the_top_level_holds_what_it_should() -> None:
    folders = {p.relative_to(ROOT).parts[0] for p in project_files() if len(p.relative_to(ROOT).parts) > 1}
    assert {f for f in folders if not f.startswith(".")} == {"lancecy", "_ext", "protos", "bench", "tests"}


def test_scripts_can_be_executed() -> None:
    scripts = [ROOT / ".ci" / name for name in ("run", "setup", "with-java", "in-memory")]
    assert [p.name for p in scripts if not p.stat().st_mode & 0o100] == []
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)  # its syntax


def test_running_python_is_supported() -> None:
    assert sys.version_info >= (3, 11)
