"""The source distribution is complete, builds a wheel, and the wheel works where the sources are not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.meta.example import place_example
from tests.meta.tree import PACKAGE, ROOT, imports_of, module_name, package_modules, project_files

SMOKE = """
import pkgutil, sys, lancecy
from pathlib import Path
from lancecy import kernels

assert "pyspark_lancecy" in [module.name for module in pkgutil.iter_modules()]

assert not Path(lancecy.__file__).is_relative_to(sys.argv[1]), lancecy.__file__
assert Path(kernels.gather_fixed.__globals__["__file__"] if hasattr(kernels.gather_fixed, "__globals__")
            else sys.modules["lancecy.kernels._spans"].__file__).suffix != ".py"
table = lancecy.dataset(sys.argv[2]).to_table()
print(table.num_rows, table.num_columns)
"""


PAGE_FILES = [path for folder in ("templates", "static") for path in (PACKAGE / "ui" / folder).iterdir()]
"""What the web page is made of besides code."""


@pytest.fixture
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A source distribution of a copy of the tree, and the wheel built from it.

    setuptools puts a folder into the tree that it builds from, which other tests of the tree would find.
    The compiler need not optimise: what kernels answer and how fast is not the question here, and takes a minute.
    """
    out, tree = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("tree")
    for path in project_files():
        copy = tree / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)],
        env={**os.environ, "CFLAGS": "-O0"},
        check=False,
        capture_output=True,
        text=True,
        timeout=560,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@pytest.mark.slow
@pytest.mark.timeout(600)  # compiles every kernel
def test_what_is_built_is_whole_and_works_elsewhere(built: tuple[Path, Path], tmp_path: Path) -> None:
    # One test, not three: what it looks at takes a minute to build.
    sdist, wheel = built
    source_distribution_holds_all_sources(sdist)
    wheel_holds_kernels_stubs_and_licence_only(wheel)
    wheel_reads_a_table_in_an_environment_of_its_own(wheel, tmp_path)


def source_distribution_holds_all_sources(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    needed = [
        *(
            p
            for folder in ("_ext", "protos")
            for p in (ROOT / folder).iterdir()
            if p.suffix in {".pyx", ".pxd", ".proto"}
        ),
        *(p for p in PACKAGE.rglob("*") if p.suffix in {".py", ".pyi"} or p.name == "py.typed"),
        *PAGE_FILES,
        *(ROOT / name for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE")),
    ]
    assert {str(p.relative_to(ROOT)) for p in needed} - inside == set()
    assert [name for name in inside if name.endswith((".so", ".c", ".pyc"))] == []


def wheel_holds_kernels_stubs_and_licence_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for source in (ROOT / "_ext").glob("_*.pyx"):
        assert f"lancecy/kernels/{source.stem}{suffix}" in inside
        assert f"lancecy/kernels/{source.stem}.pyi" in inside
    assert "lancecy/py.typed" in inside
    assert {str(path.relative_to(ROOT)) for path in PAGE_FILES} - set(inside) == set()
    assert any(name.endswith("licenses/LICENSE") for name in inside)
    # Beside the package lies what Spark looks for.
    assert {name.split("/")[0].split("-")[0] for name in inside} == {"lancecy", "pyspark_lancecy.py"}
    assert [name for name in inside if name.endswith((".pyx", ".c", ".proto"))] == []


def wheel_reads_a_table_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=200)
    python = venv / "bin" / "python"
    site = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout.strip()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # The libraries lancecy needs are borrowed; a plain path entry does not bring this tree's editable install along.
    Path(site, "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")

    table = place_example(tmp_path)
    done = subprocess.run(
        [str(python), "-c", SMOKE, str(ROOT), str(table)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [int(n) > 0 for n in done.stdout.split()] == [True, True]


# Imported by functions only, once the extra is known to be there.
NEED_THEIR_EXTRA = (
    "lancecy.cli.",
    "lancecy.namespace.",
    "lancecy.spark.pushdown",
    "lancecy.spark.source",
    "lancecy.spark.source_writes",
    "lancecy.store.google",
    "lancecy.store.key_values.dynamodb_client",
    "lancecy.store.s3",
    "lancecy.torch.needed",
    "lancecy.ui.",
)


@pytest.mark.slow
def test_every_library_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    extras = project["optional-dependencies"]
    optional = {
        canonicalize_name(Requirement(line).name) for name in extras if name != "dev" for line in extras[name]
    }
    # py4j comes with pyspark; _typeshed exists for type checkers only.
    owners = {**packages_distributions(), "py4j": ["pyspark"]}
    undeclared = {}
    for path in package_modules():
        for found in imports_of(path):
            top = found.module.split(".")[0]
            if not top or top == "lancecy" or top in {*sys.stdlib_module_names, "_typeshed"}:
                continue
            names = {canonicalize_name(name) for name in owners.get(top, [top])}
            # What comes with an extra may be imported only when it is asked for, or where nothing works without it.
            late = not found.at_import or module_name(path).startswith(NEED_THEIR_EXTRA)
            if not names & declared and not (late and names & optional):
                undeclared[module_name(path)] = top
    assert undeclared == {}


def test_build_requirements_are_among_the_development_tools() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    development = {
        Requirement(line).name.lower() for line in project["project"]["optional-dependencies"]["dev"]
    }
    development |= {Requirement(line).name.lower() for line in project["project"]["dependencies"]}
    assert {Requirement(line).name.lower() for line in project["build-system"]["requires"]} <= development
