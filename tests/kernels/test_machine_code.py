"""Machine code kept on disk: which owners are trusted, and folders that cannot be written to."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lancecy.kernels import machine_code
from lancecy.kernels.machine_code import Loop
from tests.helpers.folded import folded


def _weighted(values: Any, num_values: int, weight: Any) -> int:
    total = 0
    for i in range(num_values):
        total += int(values[i] * weight)
    return total


LOOP = Loop("weighted", _weighted, (), ("Q", "u"))
NUMBERS = np.array([1, 2, 3], np.uint64)


def run(code: bytes) -> int:
    return machine_code.load(LOOP, code)(NUMBERS.ctypes.data, NUMBERS.size, 7)


@pytest.fixture(scope="module")
def code() -> bytes:
    return machine_code.compile_loop(LOOP)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    return tmp_path / "chosen" / "lancecy"


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_code_is_kept_and_loaded_in_the_folder_that_is_named(code: bytes, folder: Path) -> None:
    assert machine_code.kept(LOOP) is None
    assert machine_code.can_keep()
    machine_code.keep(LOOP, code)
    machine_code.keep(LOOP, code)
    assert machine_code.kept(LOOP) == code
    assert run(code) == 42
    assert stat.S_IMODE(only_file(folder).stat().st_mode) & 0o022 == 0


def test_code_for_other_types_or_another_processor_is_another(
    code: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_code.keep(LOOP, code)
    assert machine_code.kept(Loop("weighted", _weighted, (), ("I", "u"))) is None
    monkeypatch.setattr(machine_code, "_processor", lambda: ("another", ""))
    assert machine_code.kept(LOOP) is None


@folded("damage", ["truncated", "changed", "emptied", "longer", "another format"])
def test_damaged_code_is_not_loaded(damage: str, code: bytes, folder: Path) -> None:
    machine_code.keep(LOOP, code)
    path = only_file(folder)
    data = path.read_bytes()
    path.write_bytes(
        {
            "truncated": data[:-1],
            "changed": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
            "emptied": b"",
            "longer": data + b"0",
            "another format": b"x" + data[1:],
        }[damage]
    )
    assert machine_code.kept(LOOP) is None
    machine_code.keep(LOOP, code)
    assert machine_code.kept(LOOP) == code


@folded("what", ["folder", "file", "group", "link"])
def test_code_that_others_can_write_is_not_loaded(what: str, code: bytes, folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    machine_code.keep(LOOP, code)
    path = only_file(folder)
    if what == "link":
        elsewhere = folder.parent / "elsewhere"
        path.replace(elsewhere)
        path.symlink_to(elsewhere)
    else:
        target, mode = {"folder": (folder, 0o777), "file": (path, 0o666), "group": (folder, 0o770)}[what]
        target.chmod(mode)
    assert machine_code.kept(LOOP) is None
    if what in {"folder", "group"}:
        assert not machine_code.can_keep()
        with pytest.raises(PermissionError, match="others can write"):
            machine_code.keep(LOOP, code)


CLOSED = """
import os, sys
from lancecy.kernels import machine_code
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
os.chdir("/")
print(machine_code.can_keep())
"""


def test_a_cache_folder_below_one_that_is_closed_is_passed_over(tmp_path: Path) -> None:
    """For instance a service that runs as one user with the home folder of another."""
    closed = tmp_path / "closed"
    (closed / "home").mkdir(parents=True)
    closed.chmod(0)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(closed / "home")}
    done = subprocess.run(
        [sys.executable, "-c", CLOSED],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    closed.chmod(0o700)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "False"


def test_code_of_another_loop_is_refused_before_it_is_called(code: bytes) -> None:
    symbol, _, image = code.partition(b"\n")
    with pytest.raises(RuntimeError, match="symbol"):
        run(symbol + b"2\n" + image)


@folded(
    ("owner", "mode", "expected"),
    [
        (os.geteuid(), 0o644, True),
        (os.geteuid(), 0o700, True),
        (0, 0o755, True),
        (os.geteuid(), 0o664, False),
        (os.geteuid(), 0o646, False),
        (12345, 0o600, False),
        (12345, 0o755, False),
    ],
)
def test_files_of_this_user_and_of_root_are_trusted(owner: int, mode: int, expected: bool) -> None:
    assert machine_code._is_trusted(os.stat_result((mode, 1, 1, 1, owner, 1, 9, 0, 0, 0))) is expected


def test_folders_are_beside_the_package_and_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = list(machine_code.folders())
    assert found[0] == Path(machine_code.__file__).parent / "__pycache__"
    if sys.platform == "linux":
        assert found[1:] == [tmp_path / "lancecy"]
        monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert list(machine_code.folders())[1] == tmp_path / "home" / ".cache" / "lancecy"


def test_code_that_needs_more_than_itself_is_refused() -> None:
    def allocates(values: Any, num_values: int) -> int:
        return np.empty(num_values).size

    with pytest.raises(RuntimeError, match="needs"):
        machine_code.compile_loop(Loop("allocates", allocates, (), ("Q",)))


# -- a folder that this process cannot write to -------------------------------

# Import everything before dropping privileges: the interpreter may be in a home folder.
READ_ONLY = """
import os, sys, warnings
import numpy as np
import lancecy.table.rows.id_index_build, llvmlite.binding
from lancecy.kernels import machine_code, rowindex_jit
from lancecy.table.rows.row_ids import ArraySegment, RowIdSequence
machine_code.kept(rowindex_jit._loop("find_keys", "Q"))
if os.environ["LOSE_RIGHTS"] == "1":
    if os.geteuid() == 0:
        os.setgid(65534), os.setuid(65534)
    try:
        open(os.path.join(os.environ["NUMBA_CACHE_DIR"], "lancecy", "probe"), "w")
        raise SystemExit("it can be written to")
    except OSError:
        pass
warnings.simplefilter("error")
ids = np.random.default_rng(0).permutation(1 << 20).astype(np.uint32)
index = lancecy.table.rows.id_index_build.build_index([(1, RowIdSequence((ArraySegment(0, ids),), np.array([0, ids.size])), None)])
addresses, found = index.find(ids[:5].astype(np.uint64))
assert addresses.tolist() == [(1 << 32) + n for n in range(5)]
print(sorted(rowindex_jit._State.native), "numba" in sys.modules)
"""


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that every user can read."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    subprocess.run(["chmod", "-R", "u+w", str(path)], check=True)
    subprocess.run(["rm", "-r", str(path)], check=True)


@pytest.mark.slow
def test_a_cache_that_is_read_only_is_used(read_only: Path) -> None:
    """Made by one user, such as the builder of an image, and read by another."""
    said = []
    for rights in ("0", "1"):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(read_only), "LOSE_RIGHTS": rights}
        command = [sys.executable, "-c", READ_ONLY]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        said.append(done.stdout.strip())
        (read_only / "lancecy").chmod(0o555)
        read_only.chmod(0o555)
    used = "['array_runsI', 'check_runsQ', 'fill_slotsI', 'find_slotsQ', 'slots_in_runsQ']"
    assert said == [f"{used} True", f"{used} False"]
