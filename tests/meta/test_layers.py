"""Who may import whom: the rows of the package, and which module may see which library."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.meta.tree import ROOT, imports_of, is_within, module_name, package_modules, run_tool

ROWS = [
    "__main__",
    "spark | dask | torch | cli",
    "ui",
    "sampler | namespace | blob | commit | dataset | fragment | indices",
    "api | optimize | udf",
    "changes",
    "write",
    "inspection | blobs | interop",
    "scanning",
    "index",
    "file | table | expr",
    "encodings",
    "session | schema_wire | schema_json",
    "rows",
    "store | kernels | schema | stats | proto",
    "limits | progress | keyword_options | arrow",
    "errors | lazy_attributes | records",
]

# Everything above data files and tables speaks Arrow.
UPPER = tuple(
    f"lancecy.{name}" for row in ROWS[: ROWS.index("file | table | expr")] for name in row.split(" | ")
)

# Library -> modules that may import it. What is not named here is free for all: numpy and the standard library.
HOMES: dict[str, tuple[str, ...]] = {
    "pyarrow": (
        "lancecy.arrow",
        "lancecy.schema",
        "lancecy.schema_json",
        "lancecy.encodings.arrow",
        "lancecy.encodings.blocks.memory",
        "lancecy.encodings.codecs.blobs",
        "lancecy.encodings.codecs.outside_blobs",
        "lancecy.encodings.codecs.fsst",
        "lancecy.encodings.codecs.general",
        "lancecy.encodings.v21.write.blob",
        "lancecy.encodings.v21.write.few_values",
        "lancecy.expr",
        "lancecy.file.base",
        "lancecy.file.dictionaries",
        "lancecy.file.v0.writer",
        "lancecy.file.dictionaries",
        "lancecy.file.v2.writer",
        "lancecy.file.writable",
        "lancecy.table.rows.deletion",
        *UPPER,
    ),
    "google": ("lancecy.proto",),
    "numba": ("lancecy.kernels.machine_code",),
    "llvmlite": ("lancecy.kernels.machine_code",),
    "dask": (
        "lancecy.dask",
        "lancecy.interop.delayed",
        "lancecy.api.datasets",
        "lancecy.changes.dask_parts",
        "lancecy.changes.merging.in_dask",
    ),
    "distributed": ("lancecy.dask",),
    "pandas": (
        "lancecy.dask",
        "lancecy.api.datasets",
        "lancecy.api.diff",
        "lancecy.api.row_changes",
        "lancecy.api.scanners",
        "lancecy.changes.dask_parts",
        "lancecy.changes.merging.in_dask",
        "lancecy.scanning.pandas_metadata",
    ),
    "polars": ("lancecy.interop", "lancecy.api.datasets", "lancecy.api.scanners"),
    "duckdb": ("lancecy.interop.sql",),
    "ml_dtypes": ("lancecy.arrow.bfloat16",),
    "PIL": ("lancecy.arrow.images",),
    "pyspark": ("lancecy.spark", "lancecy.interop.spark_frames"),
    "torch": ("lancecy.torch.needed", "lancecy.sampler.base"),
    "fsspec": ("lancecy.store.fsspec", "lancecy.store.s3"),
    "s3fs": ("lancecy.store.s3",),
    "botocore": ("lancecy.store.key_values.dynamodb_client", "lancecy.store.s3"),
    "sqlalchemy": ("lancecy.store.key_values.sql",),
    "psycopg": (),
    "obstore": ("lancecy.store.direct",),
    "sqlglot": ("lancecy.expr.parsing.sql", "lancecy.expr.parsing.sql_dialect"),
    "pyroaring": ("lancecy.index.write.row_sets", "lancecy.table.rows.roaring"),
    "lance_namespace": (
        "lancecy.namespace",
        "lancecy.api.named_tables",
        "lancecy.cli",
        "lancecy.spark.options",
        "lancecy.spark.views",
        "lancecy.ui",
    ),
    "flask": ("lancecy.ui.pages",),
    "jinja2": (),
    "werkzeug": ("lancecy.ui.guard", "lancecy.ui.pages", "lancecy.ui.server"),
    "click": ("lancecy.cli",),
    "rich": ("lancecy.cli",),
}

# Imported inside functions, so that nobody pays for what a call does not use.
HEAVY = (
    "dask",
    "distributed",
    "llvmlite",
    "numba",
    "duckdb",
    "ml_dtypes",
    "pandas",
    "PIL",
    "polars",
    "pyspark",
    "torch",
    "flask",
    "fsspec",
    "s3fs",
    "botocore",
    "sqlalchemy",
    "obstore",
    "sqlglot",
    "pyarrow.dataset",
    "rich",
    "werkzeug",
)

# Modules that exist to define classes on top of a heavy library, imported only by functions.
BUILT_ON = {
    ("lancecy.dask.dtypes", "pandas"),
    ("lancecy.dask.optimizer", "dask"),
    ("lancecy.dask.steps", "dask"),
    ("lancecy.interop.pyarrow_dataset", "pyarrow.dataset"),
    ("lancecy.spark.pushdown", "py4j"),
    ("lancecy.spark.pushdown", "pyspark"),
    ("lancecy.spark.source", "pyspark"),
    ("lancecy.spark.source_writes", "pyspark"),
    ("lancecy.store.key_values.dynamodb_client", "botocore"),
    ("lancecy.store.s3", "botocore"),
    ("lancecy.store.s3", "fsspec"),
    ("lancecy.store.s3", "s3fs"),
    ("lancecy.torch.needed", "torch"),
    ("lancecy.cli.output", "rich"),
    ("lancecy.ui.guard", "werkzeug"),
    ("lancecy.ui.pages", "flask"),
    ("lancecy.ui.pages", "werkzeug"),
    ("lancecy.ui.server", "werkzeug"),
}


# Beside modules named ``*_wire``: these work on protobuf messages.
MESSAGE_FOLDERS = ("lancecy.table.operations",)


def _sees_messages(module: str) -> bool:
    """Whether a module may see messages: by its name, by a folder named ``wire``, or by one of those above."""
    return (
        module.endswith("_wire")
        or "wire" in module.split(".")
        or any(is_within(module, folder) for folder in MESSAGE_FOLDERS)
    )


def _importers(library: str, at_import_only: bool = False) -> Iterator[tuple[str, str]]:
    for path in package_modules():
        for found in imports_of(path):
            if is_within(found.module, library) and (found.at_import or not at_import_only):
                yield module_name(path), f"{path.relative_to(ROOT)}:{found.line} imports {found.module}"


def _contracts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
        "importlinter"
    ]["contracts"]
    return found


def test_rows_hold_for_every_import() -> None:
    result = run_tool("lint-imports", "--no-cache", "--no-logo")
    assert result.returncode == 0, result.stdout + result.stderr


def test_rows_are_those_of_the_architecture() -> None:
    package = _contracts()[0]
    layers = [line.replace("(", "").replace(")", "") for line in package["layers"]]
    assert layers == ROWS
    assert package["ignore_imports"] == ["lancecy.spark.workers -> lancecy"]


def test_rows_are_those_of_contributing() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text[text.index("| modules | what they know |") :].split("\n\n")[0].splitlines()[2:]
    assert [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table] == [
        row.split(" | ") for row in ROWS
    ]


def test_import_linter_refuses_an_import_that_points_up(tmp_path: Path) -> None:
    package = tmp_path / "lancecy"
    for contract in _contracts():
        folder = tmp_path / contract["containers"][0].replace(".", "/")
        for name in re.findall(r"\w+", " ".join(contract["layers"])):
            (folder / name).mkdir(parents=True)
            (folder / name / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "spark" / "workers.py").write_text("import lancecy\n")
    (package / "file" / "v2" / "columns.py").touch()
    (package / "file" / "base" / "__init__.py").write_text("import lancecy.file.v2.columns\n")
    (package / "store" / "__init__.py").write_text(
        "def late():\n    from lancecy import table\n    return table\n"
    )
    config = tmp_path / "pyproject.toml"
    config.write_text((ROOT / "pyproject.toml").read_text())

    result = run_tool("lint-imports", "--no-cache", "--no-logo", cwd=tmp_path)
    assert result.returncode == 1
    assert "lancecy.store -> lancecy.table" in result.stdout


def test_generated_messages_are_seen_by_wire_modules_only() -> None:
    importers = {
        (name, place) for name, place in _importers("lancecy.proto") if not is_within(name, "lancecy.proto")
    }
    assert importers
    assert [place for name, place in sorted(importers) if not _sees_messages(name)] == []


def test_wire_modules_alone_know_protobuf() -> None:
    wire = [name for name in map(module_name, package_modules()) if _sees_messages(name)]
    allowed = (*HOMES["google"], *wire)
    strangers = [
        place for name, place in _importers("google") if not any(is_within(name, home) for home in allowed)
    ]
    assert strangers == []


@pytest.mark.parametrize("library", sorted(set(HOMES) - {"google"}))
def test_library_is_imported_by_its_own_modules_only(library: str) -> None:
    homes = HOMES[library]
    strangers = [
        place for name, place in _importers(library) if not any(is_within(name, home) for home in homes)
    ]
    assert strangers == []


@pytest.mark.parametrize("library", HEAVY)
def test_heavy_library_is_imported_inside_functions(library: str) -> None:
    eager = [
        place for name, place in _importers(library, at_import_only=True) if (name, library) not in BUILT_ON
    ]
    assert eager == []


# The one import of the root: it asks an executor which release it has, by the name every user imports.
ROOT_ASKED_BY = "lancecy.spark.workers"


def _graph() -> dict[str, set[str]]:
    """Module -> modules of the package it imports, inside functions and for types too."""
    modules = {module_name(path): path for path in package_modules()}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        named: dict[int, set[str]] = {}
        for found in imports_of(path):
            if found.module in modules:
                named.setdefault(found.line, set()).add(found.module)
        # ``from package import module`` names both; the module is what is meant.
        meant = {
            one
            for names in named.values()
            for one in names
            if not any(other != one and is_within(other, one) for other in names)
        }
        graph[name] = meant - {name}
    return graph


def _circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, the first one at both ends; empty if there is none."""
    done: set[str] = set()
    for start in sorted(graph):
        trail, todo = [start], [iter(sorted(graph[start]))]
        while trail:
            following = next((name for name in todo[-1] if name not in done), None)
            if following is None:
                done.add(trail.pop())
                todo.pop()
            elif following in trail:
                return [*trail[trail.index(following) :], following]
            else:
                trail.append(following)
                todo.append(iter(sorted(graph[following])))
    return []


def test_no_modules_import_each_other() -> None:
    graph = _graph()
    graph[ROOT_ASKED_BY].discard("lancecy")
    assert _circle(graph) == []


def test_a_circle_of_imports_is_found() -> None:
    graph = {"a": {"b", "d"}, "b": {"c"}, "c": {"d", "b"}, "d": set[str]()}
    assert _circle(graph) == ["b", "c", "b"]
    assert _circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
