"""The recovery drill: the text of the error is enough to make a table with a damaged newest manifest writable.

The table has five versions and two bases, on a disk and on S3. Nothing of a sound version may be lost, and
pylance must open, read, write and clean up the result.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lancecy
from lancecy.cli.main import main
from lancecy.errors import ConflictError, FormatError, LanceError
from lancecy.store.base import Store
from lancecy.store.uri import open_store
from lancecy.table.paths import manifest_name
from lancecy.write.targets import DatasetBasePath
from tests.helpers.s3 import SECRET, S3Server

pytestmark = pytest.mark.interop

NEWEST = 5


@dataclass(frozen=True)
class Site:
    """Where tables of a test are, and what reaches them."""

    folder: str
    storage_options: dict[str, Any]
    pylance_options: dict[str, str]

    def uri(self, name: str) -> str:
        return f"{self.folder}/{name}/t.lance"

    def store(self, name: str) -> Store:
        return open_store(f"{self.folder}/{name}", self.storage_options)

    def open(self, name: str, **how: Any) -> lancecy.Dataset:
        return lancecy.dataset(self.uri(name), storage_options=self.storage_options, **how)


@pytest.fixture(params=["disk", pytest.param("S3", marks=[pytest.mark.s3, pytest.mark.slow])])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    if request.param == "disk":
        return Site(str(tmp_path), {}, {})
    server: S3Server = request.getfixturevalue("s3_server")
    folder = f"{server.make_bucket('recovery')}/{tmp_path.parent.name}-{tmp_path.name}"
    login = {
        "access_key_id": "test",
        "secret_access_key": SECRET,
        "region": "us-east-1",
        "allow_http": "true",
    }
    return Site(folder, server.storage_options, {**login, "endpoint": server.endpoint})


def make(site: Site, name: str, first: int = 0) -> None:
    """Five versions over the root and two bases: created, appended to twice, some deleted, appended to."""

    def rows(start: int) -> pa.Table:
        numbers = range(first + start, first + start + 6)
        return pa.table({"n": [*numbers], "word": [f"word {n}" for n in numbers]})

    how: dict[str, Any] = {"storage_options": site.storage_options, "max_rows_per_file": 2}
    bases = [
        DatasetBasePath(f"{site.folder}/{name}/{base}", name=base, is_dataset_root=base == "one")
        for base in ("one", "two")
    ]
    ds = lancecy.write_dataset(rows(0), site.uri(name), initial_bases=bases, target_all_bases=True, **how)
    for number in (1, 2):
        ds = lancecy.write_dataset(rows(6 * number), ds.uri, mode="append", target_all_bases=True, **how)
    ds.delete(f"n = {first + 4} or n = {first + 15}")
    lancecy.write_dataset(rows(18), ds.uri, mode="append", target_all_bases=True, **how)


def newest_manifest(version: int = NEWEST) -> str:
    return f"t.lance/_versions/{manifest_name(version)}"


def files(site: Site, name: str) -> dict[str, bytes]:
    store = site.store(name)
    return {meta.path: store.get(meta.path).tobytes() for meta in store.list("")}


def truncated(data: bytes, site: Site) -> bytes:
    return data[: len(data) // 2]


def zeroed(data: bytes, site: Site) -> bytes:
    return bytes(len(data))


def flipped(data: bytes, site: Site) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 0xFF for byte in data[middle : middle + 8]) + data[middle + 8 :]


def of_another_table(data: bytes, site: Site) -> bytes:
    make(site, "other", first=1000)
    return site.store("other").get(newest_manifest()).tobytes()


def of_another_table_and_version(data: bytes, site: Site) -> bytes:
    make(site, "other", first=1000)
    return site.store("other").get(newest_manifest(3)).tobytes()


DAMAGES: list[Callable[[bytes, Site], bytes] | None] = [
    truncated, zeroed, flipped, of_another_table, of_another_table_and_version, None,
]  # fmt: skip


# -- the stranger: knows the message and nothing else -------------------------------------------------


def follow_in_python(message: str, site: Site) -> None:
    """Make the call that the message names."""
    found = re.search(r"lancecy\.repair\(('[^']+')\)( with its storage options)?", message)
    assert found, message
    options: dict[str, Any] = {"storage_options": site.storage_options} if found[2] else {}
    if not options:
        assert "://" not in found[1]
    assert lancecy.repair(ast.literal_eval(found[1]), **options)


def follow_in_a_shell(message: str, site: Site) -> None:
    """Run the command that the message names, or the same call as `verify --repair`."""
    found = re.search(r"`lancecy (repair) (\S+)`", message) or re.search(
        r"lancecy\.(repair)\('([^']+)'", message
    )
    assert found, message
    options = [
        text
        for key, value in site.pylance_options.items()
        if key in ("endpoint", "access_key_id", "secret_access_key", "region")
        for text in ("-o", f"{key}={value}")
    ]
    done = CliRunner().invoke(main, [found[1], found[2], *options])
    assert done.exit_code == 0, done.output
    assert re.match(
        r"version 5 was damaged \(.+\) and has the rows of version 4; its bytes are in _dam", done.output
    )


def follow_to_the_older_version(message: str, site: Site) -> None:
    """Open the version that the message offers, and restore it, as the message or the warning says."""
    found = "an older version whose files are there, lancecy.dataset(" in message
    how: dict[str, Any] = {"version": NEWEST - 1} if found else {"recover": True}
    assert found or "recover=True" in message
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        ds = site.open("t", **how)
    assert found or "restore()" in str(heard[0].message)
    ds.restore()
    assert ds.version == NEWEST + 1


@pytest.mark.parametrize("follow", [follow_in_python, follow_in_a_shell, follow_to_the_older_version])
@pytest.mark.parametrize("damage", DAMAGES[:-1], ids=lambda function: function.__name__)
def test_table_is_brought_back_by_what_the_error_says(
    site: Site, damage: Callable[[bytes, Site], bytes], follow: Callable[[str, Site], None]
) -> None:
    make(site, "t")
    sound = {version: site.open("t", version=version).to_table() for version in range(1, NEWEST)}
    store = site.store("t")
    bad = damage(store.get(newest_manifest()).tobytes(), site)
    store.put(newest_manifest(), bad)
    before = files(site, "t")

    with pytest.raises(LanceError) as caught:
        site.open("t").to_table()
    assert SECRET not in str(caught.value)
    follow(str(caught.value), site)

    after = files(site, "t")
    may_change = {newest_manifest()}
    assert all(after[path] == before[path] for path in before.keys() - may_change)
    if follow is not follow_to_the_older_version or damage is not of_another_table:
        assert bad in [data for path, data in after.items() if path.startswith("t.lance/_damaged/5-")]
    for version, table in sound.items():
        assert site.open("t", version=version).to_table() == table
    assert site.open("t").to_table() == sound[4]
    check_writable(site)


def test_missing_newest_manifest_is_no_damage(site: Site) -> None:
    make(site, "t")
    sound = {version: site.open("t", version=version).to_table() for version in range(1, NEWEST)}
    store = site.store("t")
    store.delete([newest_manifest()])
    before = files(site, "t")
    ds = site.open("t")
    assert ds.version == 4 and ds.to_table() == sound[4]
    assert not ds.repair()
    assert files(site, "t") == before  # the transaction file among them
    for version, table in sound.items():
        assert site.open("t", version=version).to_table() == table
    check_writable(site)


def check_writable(site: Site) -> None:
    """All that failed on the damaged table, by lancecy and by pylance, without losing a row of the newest version."""
    import lance

    ds = site.open("t")
    expected = ds.to_table()
    reference = lance.dataset(ds.uri, storage_options=site.pylance_options)
    assert reference.to_table() == expected
    assert [v["version"] for v in reference.versions()] == [v["version"] for v in ds.versions()]

    more = pa.table({"n": [-1], "word": ["more"]})
    ds.append(more)
    lance.write_dataset(more, ds.uri, mode="append", storage_options=site.pylance_options)
    ds = ds.checkout_latest()
    assert ds.to_table() == pa.concat_tables([expected, more, more])
    assert ds.delete("n = -1") == {"num_deleted_rows": 2}
    assert ds.to_table() == expected
    assert ds.verify()
    overwritten = lancecy.write_dataset(more, ds.uri, mode="overwrite", storage_options=site.storage_options)
    assert overwritten.to_table() == more
    ds.restore()
    assert ds.to_table() == expected
    ds.cleanup_old_versions(timedelta(days=1))
    reference = lance.dataset(ds.uri, storage_options=site.pylance_options)
    reference.cleanup_old_versions(timedelta(days=1))
    assert reference.to_table() == expected
    if any("_damaged" in path for path in files(site, "t")):
        # Cleanups of all that may go leave the damaged bytes.
        ds.cleanup_old_versions(timedelta(0), delete_unverified=True)
        lance.dataset(ds.uri, storage_options=site.pylance_options).cleanup_old_versions(
            timedelta(0), delete_unverified=True
        )
        assert any("_damaged" in path for path in files(site, "t"))
        assert site.open("t").to_table() == expected


def test_manifest_whose_rows_are_in_bases_of_another_table_is_found(tmp_path: Path) -> None:
    # Every row can be read: the files are in the other table's bases.
    site = Site(str(tmp_path), {}, {})
    for name, first in (("t", 0), ("other", 100)):
        base = DatasetBasePath(str(tmp_path / name / "base"), name="base", is_dataset_root=False)
        lancecy.write_dataset({"n": [first]}, site.uri(name), initial_bases=[base], target_bases=["base"])
        for n in range(first + 1, first + NEWEST):
            lancecy.write_dataset({"n": [n]}, site.uri(name), mode="append", target_bases=["base"])
    assert site.open("t").verify() and site.open("other").verify()
    store = site.store("other")
    site.store("t").put(newest_manifest(), store.get(newest_manifest()).tobytes())
    before = files(site, "t")
    ds = site.open("t")
    assert ds.to_table()["n"].to_pylist() == [*range(100, 105)]

    found = ds.verify()
    (finding,) = found.findings
    assert not found and (finding.kind, finding.place) == ("manifest", "version 5")
    assert f"lancecy.repair({ds.uri!r})" in finding.problem
    shown = CliRunner().invoke(main, ["verify", ds.uri, "--quiet"])
    assert shown.exit_code == 1 and "another table's" in shown.output
    assert site.open("t", version=4).verify()
    with pytest.raises(FormatError, match="another table's"):
        ds.cleanup_old_versions(timedelta(0))
    assert files(site, "t") == before

    lancecy.repair(ds.uri)
    ds = site.open("t")
    assert ds.verify() and ds.to_table()["n"].to_pylist() == [*range(4)]
    assert ds.cleanup_old_versions(timedelta(0)).old_versions == 4
    assert site.open("t").to_table()["n"].to_pylist() == [*range(4)]


# -- two at once --------------------------------------------------------------------------------------


def spoil(site: Site, *versions: int) -> None:
    for version in versions:
        store = site.store("t")
        store.put(newest_manifest(version), store.get(newest_manifest(version)).tobytes()[:-30])


def test_repairs_at_once_do_it_once(site: Site) -> None:
    make(site, "t")
    expected = site.open("t", version=2).to_table()
    spoil(site, 3, 4, 5)
    with ThreadPoolExecutor(6) as pool:
        found = list(
            pool.map(
                lambda _: lancecy.repair(site.uri("t"), site.storage_options, session=lancecy.Session()),
                range(6),
            )
        )
    assert {one.version for repair in found for one in repair.set_aside} == {3, 4, 5}
    assert {one.rows_of for repair in found for one in repair.set_aside} == {2}
    assert [site.open("t", version=version).to_table() == expected for version in (2, 3, 4, 5)] == [True] * 4
    assert len([path for path in files(site, "t") if "_damaged" in path]) == 3
    check_writable(site)


def test_repairs_and_restores_of_several_processes(tmp_path: Path) -> None:
    site = Site(str(tmp_path), {}, {})
    make(site, "t")
    expected = site.open("t", version=3).to_table()
    spoil(site, 4, 5)
    program = """
import sys, warnings, lancecy
warnings.simplefilter("ignore")
if sys.argv[2] == "repair":
    lancecy.repair(sys.argv[1])
else:
    lancecy.dataset(sys.argv[1], recover=True).restore()
"""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, site.uri("t"), how], stderr=subprocess.PIPE, text=True
        )
        for how in ("repair", "restore", "repair", "restore")
    ]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    ds = site.open("t")
    assert ds.to_table() == expected
    assert NEWEST < ds.version <= NEWEST + 2
    check_writable(site)


# -- what else a user meets ---------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> Site:
    site = Site(str(tmp_path), {}, {})
    make(site, "t")
    spoil(site, 5)
    return site


def test_every_way_into_a_damaged_table_names_the_repair(damaged: Site) -> None:
    with pytest.warns(RuntimeWarning, match="version 4 is opened instead, and restore"):
        ds = damaged.open("t", recover=True)
    more = {"n": [1], "word": ["1"]}
    for fails in (
        lambda: ds.append(more),
        lambda: ds.delete("n = 1"),
        ds.checkout_latest,
        ds.cleanup_old_versions,
        ds.versions,
        lambda: ds.checkout_version(5),
        lambda: damaged.open("t", asof="2100-01-01"),
        lambda: lancecy.write_dataset(more, ds.uri, mode="overwrite"),
        lambda: lancecy.write_dataset(more, ds.uri, mode="append"),
        lambda: lancecy.scan(ds.uri),
    ):
        with pytest.raises(LanceError, match=re.escape(f"lancecy.repair({ds.uri!r})")):
            fails()
    assert ds.repair() and ds.version == 5
    ds.append(more)


def test_where_no_version_is_sound_no_message_promises_a_repair(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [1]}, tmp_path / "t.lance")
    ds.append({"n": [2]})
    for manifest in Path(ds.uri, "_versions").glob("*.manifest"):
        manifest.write_bytes(b"junk" * 30)
    for fails in (
        lambda: lancecy.dataset(ds.uri),
        lambda: lancecy.dataset(ds.uri, version=1),
        lambda: lancecy.dataset(ds.uri, recover=True),
        lambda: lancecy.write_dataset({"n": [1]}, ds.uri, mode="overwrite"),
        lambda: lancecy.repair(ds.uri),
    ):
        with pytest.raises(
            FormatError, match="no other version is sound either, so the table cannot be"
        ) as found:
            fails()
        assert "lancecy.repair" not in str(found.value) and str(found.value).count("no other version") == 1
    (data, _) = (tmp_path / "t.lance/data").iterdir()  # what the message advises
    assert lancecy.LanceFileReader(str(data)).read_all().to_table().num_rows == 1


def test_result_says_what_was_done(damaged: Site) -> None:
    uri = damaged.uri("t")
    found = lancecy.repair(uri)
    (one,) = found.set_aside
    assert (one.version, one.rows_of, found.version) == (5, 4, 5)
    assert repr(found).splitlines() == [str(one), "version 5 is the newest"]
    assert json.loads(json.dumps(found.to_dict()))["set_aside"][0]["kept_as"] == one.kept_as
    again = lancecy.repair(lancecy.dataset(uri))
    assert not again and str(again) == "nothing to repair"


def test_the_shell_repairs_before_it_verifies(damaged: Site) -> None:
    run, uri = CliRunner(), damaged.uri("t")
    failed = run.invoke(main, ["verify", uri, "--quiet"])
    assert failed.exit_code == 2 and f"`lancecy repair {uri}`" in failed.output
    found = run.invoke(main, ["verify", uri, "--repair", "--quiet", "--json"])
    assert found.exit_code == 0, found.output
    told = json.loads(found.output)
    assert told["ok"] and [one["version"] for one in told["repair"]["set_aside"]] == [5]
    found = run.invoke(main, ["verify", uri, "--repair", "--quiet"])
    assert found.exit_code == 0 and found.output.startswith("nothing to repair\n")
    told = json.loads(run.invoke(main, ["repair", uri, "--json"]).output)
    assert (told["version"], told["set_aside"]) == (5, [])


def test_a_writer_that_opened_the_table_before_notices(damaged: Site) -> None:
    # It read version 4 and must not go on as if there had been no version 5.
    mine = damaged.open("t", version=4)
    lancecy.repair(mine.uri)
    written = lancecy.write_fragments({"n": [1], "word": ["1"]}, mine.uri)
    append = lancecy.LanceOperation.Append(written)
    with pytest.raises(ConflictError, match=r"version 5 \(an operation of kind Restore\)"):
        lancecy.commit(mine.uri, append, read_version=4)
    assert lancecy.commit(mine.uri, append, read_version=5).version == 6


def test_damage_between_sound_versions_is_repaired_too(damaged: Site) -> None:
    import lance

    lancecy.repair(damaged.uri("t"))
    expected = damaged.open("t").to_table()
    spoil(damaged, 3)
    ds = damaged.open("t")  # the newest is sound
    with pytest.raises(FormatError, match="lancecy.repair"):
        ds.cleanup_old_versions(timedelta(days=1))
    (one,) = ds.repair().set_aside
    assert (one.version, one.rows_of, ds.version) == (3, 2, 5)
    ds.cleanup_old_versions(timedelta(days=1))
    assert len(lance.dataset(ds.uri).versions()) == 5
    assert ds.to_table() == expected
    assert damaged.open("t", version=3).to_table() == damaged.open("t", version=2).to_table()


def test_row_ids_and_manifests_are_repaired_by_one_call(tmp_path: Path) -> None:
    rows = {"n": [1, 2, 3]}
    for mode in ("create", "append", "append"):
        lancecy.write_dataset(rows, tmp_path / "t/t.lance", mode=mode, enable_stable_row_ids=mode == "create")
    site = Site(str(tmp_path), {}, {})
    store = site.store("t")
    store.put(newest_manifest(3), b"")
    found = lancecy.repair(site.uri("t"))
    assert [one.version for one in found.set_aside] == [3]
    ds = site.open("t")
    assert ds.to_table(with_row_id=True)["_rowid"].to_pylist() == [*range(6)]
    ds.append(rows)
    assert ds.to_table(with_row_id=True)["_rowid"].to_pylist() == [*range(9)]


def test_rows_of_a_time_are_the_same_after_a_repair(damaged: Site) -> None:
    ds = damaged.open("t", version=4)
    time = lancecy.dataset(ds.uri, version=4).versions  # reads every manifest
    with pytest.raises(FormatError):
        time()
    lancecy.repair(ds.uri)
    made = ds.checkout_latest().versions()
    for known in made:
        found = damaged.open("t", asof=known["timestamp"])
        assert found.to_table() == damaged.open("t", version=known["version"]).to_table()


def test_branch_is_repaired_by_its_own_uri(tmp_path: Path) -> None:
    import lance

    site = Site(str(tmp_path), {}, {})
    make(site, "t")
    main_table = lance.dataset(site.uri("t"))
    branch = main_table.create_branch("trial")
    lance.write_dataset(pa.table({"n": [7], "word": ["7"]}), branch, mode="append")
    uri = f"{site.uri('t')}/tree/trial"
    expected = lancecy.dataset(uri, version=5).to_table()
    (newest, *_) = sorted(Path(uri, "_versions").iterdir())
    newest.write_bytes(newest.read_bytes()[:-30])
    with pytest.raises(FormatError, match=re.escape(f"lancecy.repair({uri!r})")):
        site.open("t").cleanup_old_versions(timedelta(days=1))
    (one,) = lancecy.repair(uri).set_aside
    assert (one.version, one.rows_of) == (6, 5)
    assert lancecy.dataset(uri).to_table() == expected
    assert lance.dataset(uri).to_table() == expected
    site.open("t").cleanup_old_versions(timedelta(days=1))
