"""Writes the golden tables anew with old releases of pylance; run by hand, never by a test.

    python tests/golden/make_golden.py RELEASE=PLACE ... [--only NAME]

from the root of the repository. PLACE is either a directory made by

    pip install --no-deps --target PLACE pylance==RELEASE

(which then runs under the Python that runs this script, on its pyarrow) or, for a release that needs an older
Python or pyarrow, the Python of an environment of its own. 0.2.9 is the only such one here:

    python3.10 -m venv ENV && ENV/bin/pip install pylance==0.2.9 'pyarrow==10.0.1' 'pandas<2' 'numpy<2'

Every release runs in a process per table and leaves ``<release>_<what>.lance`` (the table as written, nothing removed),
``<release>_<what>.v<N>.arrow`` (what version N must read as; the latest is ``<release>_<what>.arrow``) and
``<release>_<what>.json`` (the note). The answers come from the input by the rules of the format, and the writer must agree with them
when it reads its own table (where it can): if not, nothing is kept. Review the difference before committing: files get new names and times on every run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.golden.recipe import Made

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CPP_RELEASE = "0.2.9"
SHARED_SIZE = 16 << 10


def main() -> int:
    """Run the recipes of all releases given; the number of failures is the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("releases", nargs="+", metavar="RELEASE=PLACE")
    parser.add_argument("--only", help="name of one recipe")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    places = dict(text.split("=", 1) for text in options.releases)
    if options.run:
        return run_here(options.run, *places.popitem())
    failures = 0
    for release, place in places.items():
        for what, releases in _plan().items():
            if release in releases and options.only in (None, what):
                failures += not _run_there(release, Path(place), what)
    _prune()
    return failures


def _plan() -> dict[str, list[str]]:
    """Recipes and their releases, asked of a process that has some pylance to import."""
    code = "import json, tests.golden.recipes as r; print(json.dumps({k: v.releases for k, v in r.RECIPES.items()}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    plan: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return plan


def _run_there(release: str, place: Path, what: str) -> bool:
    paths = [str(ROOT)] if place.is_file() else [str(ROOT), str(place)]
    python = str(place) if place.is_file() else sys.executable
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONWARNINGS": "ignore",
        "RUST_BACKTRACE": "0",
    }
    command = [python, str(Path(__file__).resolve()), f"{release}=here", "--run", what]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    last = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    print(
        f"{release:8} {what:10} {'ok' if done.returncode == 0 else 'FAILED'}  {last[-1] if last else ''}",
        flush=True,
    )
    return done.returncode == 0


def run_here(what: str, release: str, _: str) -> int:
    """Make one table with the release that this process imports; 0 when it was kept."""
    import lance

    from tests.golden.recipes import RECIPES

    if getattr(lance, "__version__", CPP_RELEASE) != release:
        print(f"this is pylance {lance.__version__}, not {release}", file=sys.stderr)
        return 1
    name = f"{release}_{what}"
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/{name}.lance"
        made = RECIPES[what].make(path)
        answers = {version: _agreed(path, version, table, made) for version, table in made.versions.items()}
        _forget(name)
        shutil.copytree(path, HERE / f"{name}.lance")
    files = _write_answers(name, answers)
    note = _note(release, what, made, answers, files)
    (HERE / f"{name}.json").write_text(json.dumps(note, indent=2, ensure_ascii=False) + "\n")
    print({version: table.num_rows for version, table in answers.items()})
    return 0


def _agreed(path: str, version: int, expected: pa.Table, made: Made) -> pa.Table:
    """The expected table in the order of the file, once the writer's own reading has been found equal to it."""
    from tests.golden.recipe import is_cpp
    from tests.helpers.compare import assert_tables_equal, sorted_rows

    if version in made.unread:
        return expected
    own = _own_reading(path, version, made)
    if own is None:
        return expected
    if made.ordered_by is not None and made.ordered_by in own.column_names:
        own_sorted, expected_sorted = (
            sorted_rows(own, made.ordered_by),
            sorted_rows(expected, made.ordered_by),
        )
        if is_cpp():
            # That reader returns groups in any order and equal list offsets as null; the answer here is an empty list.
            _assert_same_values(own_sorted, expected_sorted)
            return expected
        assert_tables_equal(own_sorted, expected_sorted, hint=f"version {version}")
        order = own_sorted[made.ordered_by].to_pylist()
        places = {key: row for row, key in enumerate(order)}
        return expected_sorted.take([places[key] for key in own[made.ordered_by].to_pylist()])
    assert_tables_equal(own, expected, hint=f"version {version}")
    return expected


def _own_reading(path: str, version: int, made: Made) -> pa.Table | None:
    import lance

    # Not every failure of a release is an Exception: a panic of the Rust core is a BaseException.
    try:
        return lance.dataset(path, version=version).to_table()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        if not made.fragile:
            raise
        made.unread |= {version}
        return None


def _assert_same_values(own: pa.Table, expected: pa.Table) -> None:
    for name in expected.column_names:
        left, right = (
            _without_null_lists(own[name].to_pylist()),
            _without_null_lists(expected[name].to_pylist()),
        )
        if repr(left) != repr(right) or own[name].type != expected[name].type:
            raise AssertionError(f"the writer reads {name} as {left}, expected {right}")


def _without_null_lists(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_null_lists(v) for v in value]
    if isinstance(value, dict):
        return {k: _without_null_lists(v) for k, v in value.items()}
    return [] if value is None else value


def _forget(name: str) -> None:
    for old in HERE.glob(f"{name}.*"):
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()


def _write_answers(name: str, answers: dict[int, pa.Table]) -> dict[int, str]:
    """One file per answer, the latest under the plain name; versions with the same rows share one."""
    from tests.helpers.compare import assert_tables_equal

    latest = max(answers)
    files: dict[int, str] = {}
    for version in sorted(answers, reverse=True):
        for other, file in files.items():
            try:
                assert_tables_equal(answers[version], answers[other])
            except AssertionError:
                continue
            files[version] = file
            break
        else:
            own = f"{name}.arrow" if version == latest else f"{name}.v{version}.arrow"
            files[version] = _write_answer(own, answers[version])
    return files


def _write_answer(name: str, table: pa.Table) -> str:
    """Its file, unless a large one of the same bytes is there, which tables of several releases then share."""
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression="zstd")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    content = sink.getvalue().to_pybytes()
    if len(content) > SHARED_SIZE:
        name = f"shared_{hashlib.sha256(content).hexdigest()[:12]}.arrow"
    (HERE / name).write_bytes(content)
    return name


def _prune() -> None:
    """Remove shared answers that no note names any more."""
    notes = [json.loads(path.read_text()) for path in HERE.glob("*_*.json")]
    named = {entry["expected"] for note in notes for entry in note["versions"].values()}
    for path in HERE.glob("shared_*.arrow"):
        if path.name not in named:
            path.unlink()


def _note(
    release: str, what: str, made: Made, answers: dict[int, pa.Table], files: dict[int, str]
) -> dict[str, Any]:
    import pyarrow as pa

    from tests.golden.recipe import is_cpp

    return {
        "writer": f"pylance {release}",
        "made_by": f"tests/golden/make_golden.py, recipe {what}",
        "environment": f"Python {sys.version_info.major}.{sys.version_info.minor}, pyarrow {pa.__version__}",
        "story": made.story,
        "nullability_stored": not is_cpp(),
        "not_read_by_its_writer": sorted(made.unread),
        "versions": {
            str(version): {"rows": table.num_rows, "expected": files[version]}
            for version, table in answers.items()
        },
        "schema": {field.name: _field_text(field) for field in answers[max(answers)].schema},
        "left_out": made.left_out,
        **({"refused": made.refused} if made.refused else {}),
        **({"references": made.references} if made.references else {}),
    }


def _field_text(field: pa.Field) -> str:
    return str(field.type) if field.nullable else f"{field.type} not null"


if __name__ == "__main__":
    sys.exit(main())
