"""Installed in any way, lancecy is found by Spark itself: a module beside the package, which nobody imports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.meta.example import place_example
from tests.meta.tree import PACKAGE, ROOT

BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
LISTED = "import pkgutil; print([m.name for m in pkgutil.iter_modules() if m.name.startswith('pyspark_')])"
SESSION = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.memory", "512m").getOrCreate()
spark.sql(f'CREATE TEMPORARY VIEW few USING lancecy OPTIONS (path "{sys.argv[1]}", filter "id < 3", columns "id")')
print("rows", spark.table("few").count())
spark.stop()
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project without the sources of its kernels: what is compiled already goes along, nothing is compiled."""
    place = tmp_path_factory.mktemp("checkout")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, place)
    shutil.copytree(PACKAGE, place / "lancecy", ignore=shutil.ignore_patterns("__pycache__"))
    return place


def _run(python: Path | str, *arguments: str, cwd: Path, timeout_s: float = 120) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python))
    done = subprocess.run(
        [str(python), *arguments],
        cwd=cwd,
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip()


def _installed(checkout: Path, hook: str, folder: Path) -> Path:
    """The Python of a new environment with what the hook of the build backend makes."""
    built = _run(sys.executable, "-c", BUILD, hook, str(folder), cwd=checkout).splitlines()[-1]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True, timeout=120)
    python = folder / "venv" / "bin" / "python"
    site = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder))
    with zipfile.ZipFile(folder / built) as archive:
        archive.extractall(site)
    # The libraries lancecy needs are borrowed; a plain path entry brings no editable install along.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.slow
def test_wheel_has_the_module_beside_the_package(checkout: Path, tmp_path: Path) -> None:
    python = _installed(checkout, "build_wheel", tmp_path)
    assert _run(python, "-c", LISTED, cwd=tmp_path) == "['pyspark_lancecy']"
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        record = archive.read(next(n for n in archive.namelist() if n.endswith("/RECORD"))).decode()
        source = archive.read("pyspark_lancecy.py")
    assert "\npyspark_lancecy.py,sha256=" in "\n" + record
    assert source == (PACKAGE / "spark" / "autoload" / "pyspark_lancecy.py").read_bytes()


@pytest.mark.spark
def test_spark_finds_an_editable_install_without_being_told(checkout: Path, tmp_path: Path) -> None:
    python = _installed(checkout, "build_editable", tmp_path)
    assert _run(python, "-c", LISTED, cwd=tmp_path) == "['pyspark_lancecy']"
    table = place_example(tmp_path)
    assert _run(python, "-c", SESSION, str(table), cwd=tmp_path, timeout_s=250).endswith("rows 3")
