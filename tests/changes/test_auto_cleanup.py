"""Automatic cleanups after commits: what pylance removes goes, what anybody needs stays, and no commit fails."""

from __future__ import annotations

import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import MissingFileError, RetryableConflictError
from lancecy.table.cleanup.automatic import auto_cleanup, parse_age
from lancecy.table.snapshot import committed_snapshot
from tests.changes.rows import rows_of
from tests.helpers.folded import folded

KEY = "lance.auto_cleanup."
ALWAYS = {f"{KEY}interval": "1", f"{KEY}older_than": "0s"}
EIGHT_DAYS = 8 * 86_400


def versions(ds: Any) -> list[int]:
    return [version["version"] for version in ds.versions()]


def configured(root: Path, **keys: str) -> lancecy.Dataset:
    """A table of two versions with these keys below ``lance.auto_cleanup.``."""
    ds = lancecy.write_dataset({"n": [0]}, root)
    ds.update_config({f"{KEY}{key}": value for key, value in keys.items()}, replace=True)
    return ds


def test_new_table_cleans_up_after_every_commit(tmp_path: Path) -> None:
    options = {"interval": 1, "older_than_seconds": 0}
    ds = lancecy.write_dataset({"n": [0]}, tmp_path, auto_cleanup_options=options)
    assert ds.config == ALWAYS
    ds.append({"n": [1]})
    assert versions(ds) == [1, 2]
    ds.append({"n": [2]})
    assert versions(ds) == [2, 3]
    ds.delete("n = 1")
    assert versions(ds) == [3, 4]
    ds.update_config({"a": "b"})
    assert versions(ds) == [4, 5]
    made = lancecy.commit(ds, lancecy.LanceOperation.Append(lancecy.write_fragments({"n": [3]}, ds)))
    assert (versions(made), rows_of(made)) == ([5, 6], [0, 2, 3])
    assert made.verify().is_ok


def test_overwrite_frees_the_files_of_the_versions_before_the_last(tmp_path: Path) -> None:
    ds = configured(tmp_path, interval="1", older_than="0s")
    for number in range(4):
        ds.insert({"n": [number]}, mode="overwrite")
    assert len(list((tmp_path / "data").iterdir())) == 2
    assert rows_of(ds) == [3]


def test_automatic_cleanup_is_turned_on_and_off(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [0]}, tmp_path)
    ds.optimize.enable_auto_cleanup({"interval": 2, "older_than_seconds": 0})
    assert ds.config == {f"{KEY}interval": "2", f"{KEY}older_than": "0s"}
    for number in range(3):
        ds.append({"n": [number]})
    assert versions(ds) == [3, 4, 5]
    ds.optimize.disable_auto_cleanup()
    ds.append({"n": [3]})
    assert (ds.config, versions(ds)) == ({}, [3, 4, 5, 6, 7])
    with pytest.raises(ValueError, match="have no 'days'"):
        ds.optimize.enable_auto_cleanup({"days": 3})


def test_defaults_are_those_of_pylance(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [0]}, tmp_path / "a", auto_cleanup_options={})
    assert ds.config == {f"{KEY}interval": "20", f"{KEY}older_than": "14days"}
    ds = lancecy.write_dataset({"n": [0]}, ds, mode="append", auto_cleanup_options={"interval": 1})
    assert ds.config[f"{KEY}interval"] == "20"  # for new tables only


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"interval": 1.5}, TypeError, "interval of auto_cleanup_options is a whole number"),
        ({"interval": -1}, ValueError, "it cannot be negative"),
        ({"older_than": 3}, ValueError, "have no 'older_than', only interval and older_than_seconds"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, given: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        lancecy.write_dataset({"n": [0]}, tmp_path / "t", auto_cleanup_options=given)
    assert not (tmp_path / "t").exists()


def test_distributed_write_cleans_up_once_it_is_committed(tmp_path: Path) -> None:
    import dask.dataframe as dd
    import pandas as pd

    ds = configured(tmp_path, interval="1", older_than="0s")
    frame = dd.from_pandas(pd.DataFrame({"n": [1, 2, 3, 4]}), npartitions=2)
    made = lancecy.write_dask(frame, ds, mode="append")
    assert (versions(made), rows_of(made)) == ([2, 3], [0, 1, 2, 3, 4])


def test_one_commit_can_do_without(tmp_path: Path) -> None:
    ds = configured(tmp_path, interval="1", older_than="0s")
    ds.append({"n": [1]}, skip_auto_cleanup=True)
    ds = lancecy.write_dataset({"n": [2]}, ds, mode="append", skip_auto_cleanup=True)
    parts = lancecy.write_fragments({"n": [3]}, ds)
    ds = lancecy.commit(ds, lancecy.LanceOperation.Append(parts), skip_auto_cleanup=True)
    assert versions(ds) == [1, 2, 3, 4, 5]
    ds.append({"n": [4]})
    assert versions(ds) == [5, 6]


def test_interval_alone_keeps_two_weeks(tmp_path: Path) -> None:
    ds = configured(tmp_path, interval="1")
    ds.append({"n": [1]})
    assert versions(ds) == [1, 2, 3]


def test_tagged_versions_stay_and_the_others_go(tmp_path: Path) -> None:
    ds = configured(tmp_path, interval="1", older_than="0s")
    tags = tmp_path / "_refs" / "tags"
    tags.mkdir(parents=True)
    (tags / "kept.json").write_text('{"branch": null, "version": 2, "manifestSize": 1}')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(3):
            ds.append({"n": [number]})
    assert versions(ds) == [2, 4, 5]
    assert rows_of(ds.checkout_version("kept")) == [0]


def test_files_of_running_writers_stay(tmp_path: Path) -> None:
    ds = configured(tmp_path, interval="1", older_than="0s")
    pending = lancecy.write_fragments({"n": [7]}, ds)
    left = tmp_path / "data" / "0101.lance"
    left.write_bytes(b"left by a crash")
    os.utime(left, (time.time() - EIGHT_DAYS,) * 2)
    for number in range(3):
        ds.insert({"n": [number]}, mode="overwrite")
    assert not left.exists()
    made = lancecy.commit(ds, lancecy.LanceOperation.Append(pending))
    assert rows_of(made) == [2, 7]


@pytest.mark.interop
def test_files_of_tables_that_use_this_one_stay(tmp_path: Path) -> None:
    import lance

    ds = configured(tmp_path / "t", interval="1", older_than="0s")
    lance.dataset(ds.uri).shallow_clone(str(tmp_path / "clone"), reference=2)
    ds.update_config({"lancecy.used_by": str(tmp_path / "clone")})
    for number in range(3):
        ds.insert({"n": [number]}, mode="overwrite")
    assert versions(ds) == [5, 6]
    assert rows_of(lancecy.dataset(tmp_path / "clone", allowed_bases=[str(tmp_path)])) == [0]


def test_failing_cleanup_is_a_warning_and_the_commit_stands(tmp_path: Path) -> None:
    ds = configured(tmp_path, interval="1", older_than="0s")
    ds.append({"n": [1]}, skip_auto_cleanup=True)
    first = next(path for path in (tmp_path / "_versions").iterdir() if path.name.endswith("614.manifest"))
    first.write_bytes(b"torn" * 100)
    with pytest.warns(
        RuntimeWarning, match=r"version 4 is committed, but the automatic cleanup after it failed"
    ) as seen:
        ds.append({"n": [2]})
    assert seen[0].filename == __file__
    assert (ds.version, rows_of(ds)) == (4, [0, 1, 2])
    assert len(list((tmp_path / "_versions").glob("*.manifest"))) == 4


WRONG = {
    "interval": ["x", "-1", "1.5", " 1", "", "99999999999999999999999"],
    "older_than": ["14", "x", "", "1 fortnight", "1s,2s", "-1d"],
    "retain_versions": ["0", "x", "-2"],
    "referenced_branch": ["maybe"],
    "delete_rate_limit": ["fast", "0"],
    "delete_concurrency": ["-1", "0"],
}


@folded(("key", "value"), [(key, value) for key, values in WRONG.items() for value in values])
def test_wrong_value_is_named_once_and_nothing_is_removed(tmp_path: Path, key: str, value: str) -> None:
    keys = {"interval": "1", "older_than": "0s", key: value}
    root = tmp_path / f"{key}{value}".encode().hex()
    with pytest.warns(RuntimeWarning, match="is not cleaned up automatically") as seen:
        ds = configured(root, **keys)
    assert f"{KEY}{key} is {value!r}" in str(seen[0].message) and len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.append({"n": [1]})
    assert versions(ds) == [1, 2, 3]


def test_writers_at_the_same_time_clean_up_without_a_word(tmp_path: Path) -> None:
    configured(tmp_path, interval="1", retain_versions="5")

    def write(number: int) -> None:
        for attempt in range(4):
            lancecy.write_dataset({"n": [1 + 4 * number + attempt]}, tmp_path, mode="append")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(write, range(3)))
    ds = lancecy.dataset(tmp_path)
    assert sorted(rows_of(ds)) == list(range(13))
    assert ds.verify().is_ok and len(versions(ds)) <= 6


AGES = {
    "0s": 0, "0": 0, "14d": 14 * 86_400, "1h 30m": 5400, "1h30m": 5400, "1.5h": 5400, "2 weeks": 1_209_600, "  1s ": 1, "1M": 2_630_016,
    "2y": 63_115_200, "1min": 60, "1days": 86_400, "1s1s": 2, "90sec": 90, "1000ms": 1, "1000000us": 1, "1000000µs": 1, "1000000000ns": 1,
}  # fmt: skip


@folded(("text", "seconds"), AGES.items())
def test_ages_are_texts_with_units(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds * 10**9


def test_table_without_the_key_has_no_automatic_cleanup() -> None:
    assert auto_cleanup({f"{KEY}older_than": "0s"}) is None
    assert auto_cleanup({"lance.compaction.batch_size": "1"}) is None


CONFIGURATIONS: list[dict[str, str]] = [
    {"interval": "1", "older_than": "0s"},
    {"interval": "2", "older_than": "0s"},
    {"interval": "0", "older_than": "0"},
    {"interval": "3", "retain_versions": "2"},
    {"interval": "1", "retain_versions": "1"},
    {"interval": "1", "retain_versions": "3"},
    {"interval": "1", "older_than": "0s", "retain_versions": "3"},
    {"interval": "1", "older_than": "1h", "retain_versions": "2"},
    {"interval": "1", "older_than": "14days"},
    {"interval": "1", "older_than": "0s", "delete_rate_limit": "100", "delete_concurrency": "2", "referenced_branch": "false"},
    {"older_than": "0s"},
]  # fmt: skip


@pytest.mark.interop
@folded("keys", CONFIGURATIONS)
def test_versions_go_as_by_pylance(tmp_path: Path, keys: dict[str, str]) -> None:
    import lance

    root, theirs = tmp_path / "ours" / str(hash(str(keys))), tmp_path / "theirs" / str(hash(str(keys)))
    ours = configured(root, **keys)
    lance.write_dataset(pa.table({"n": [0]}), str(theirs))
    lance.dataset(str(theirs)).update_config({f"{KEY}{key}": value for key, value in keys.items()})
    for number in range(1, 8):
        ours.append({"n": [number]})
        lance.write_dataset(pa.table({"n": [number]}), str(theirs), mode="append")
        assert versions(ours) == versions(lance.dataset(str(theirs))), number
    assert rows_of(ours) == list(range(8))


@pytest.mark.interop
@folded(
    "text", [*AGES, "14", "x", "", "1S", "1 fortnight", "1s,2s", "00", "+1s", "1nanosecond", "1wks", "3mins"]
)
def test_ages_are_understood_as_by_pylance(tmp_path: Path, capfd: Any, text: str) -> None:
    import lance

    theirs = lance.write_dataset(pa.table({"n": [0]}), str(tmp_path / text.encode().hex()))
    capfd.readouterr()
    theirs.update_config({f"{KEY}interval": "1", f"{KEY}older_than": text})
    refuses = "Auto cleanup failed" in capfd.readouterr().err
    try:
        parse_age(text)
    except ValueError:
        assert refuses
    else:
        assert not refuses


@pytest.mark.interop
def test_both_libraries_clean_up_one_table(tmp_path: Path) -> None:
    import lance

    options: Any = {"interval": 1, "older_than_seconds": 0}
    lance.write_dataset(pa.table({"n": [0]}), str(tmp_path), auto_cleanup_options=options)
    for number in range(1, 9):
        if number % 2:
            lancecy.dataset(tmp_path).append({"n": [number]})
        else:
            lance.write_dataset(pa.table({"n": [number]}), str(tmp_path), mode="append")
    ds = lance.dataset(str(tmp_path))
    assert versions(ds) == [8, 9]
    assert sorted(ds.to_table()["n"].to_pylist()) == list(range(9))
    ds.validate()


def test_versions_made_during_a_distributed_write_stay_until_it_is_committed(tmp_path: Path) -> None:
    import dask
    import dask.dataframe as dd
    import pandas as pd

    ds = configured(tmp_path, interval="1", older_than="0s")

    def others_write(rows: Any) -> Any:
        other = lancecy.dataset(tmp_path)
        for number in range(3):
            other.append({"n": [10 + number]})
        assert versions(other) == [3, 4, 5]  # its commit has to look at all of these
        return rows

    frame = dd.from_pandas(pd.DataFrame({"n": [1]}), npartitions=1)
    with dask.config.set(scheduler="synchronous"):
        made = lancecy.write_dask(frame.map_partitions(others_write, meta=frame._meta), ds, mode="append")
    assert sorted(rows_of(made)) == [0, 1, 10, 11, 12]
    assert versions(made) == [3, 4, 5, 6] and not list((tmp_path / "_versions").glob(".tmp_write*"))
    made.append({"n": [2]})
    assert versions(made) == [6, 7]


def _slowly(root: Path, change: Any) -> Any:
    """Rows of a long write, during which others change the table."""
    yield pa.record_batch({"n": [1]})
    for number in range(3):
        change(lancecy.dataset(root), number)
    yield pa.record_batch({"n": [2]})


def test_long_append_needs_no_version_that_was_removed_meanwhile(tmp_path: Path) -> None:
    ds = configured(tmp_path, interval="1", older_than="0s")
    ds.append(_slowly(tmp_path, lambda other, number: other.append({"n": [10 + number]})))
    assert sorted(rows_of(ds)) == [0, 1, 2, 10, 11, 12] and versions(ds) == [5, 6]


def test_long_append_to_other_columns_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    ds = configured(tmp_path, interval="1", older_than="0s")
    rows = _slowly(
        tmp_path, lambda other, number: other.insert({"m": [number], "n": ["x"]}, mode="overwrite")
    )
    with pytest.raises(RetryableConflictError, match="was removed"):
        ds.append(rows)
    assert lancecy.dataset(tmp_path).to_table().to_pydict() == {"m": [2], "n": ["x"]}
    assert len(list((tmp_path / "data").iterdir())) == 2  # of the two versions that are there


def test_marker_of_a_process_that_died_counts_for_a_week(tmp_path: Path) -> None:
    ds = configured(tmp_path, interval="1", older_than="0s")
    marker = tmp_path / "_versions" / ".tmp_write_0101"
    marker.write_bytes(b"2")
    for number in range(3):
        ds.append({"n": [number]})
    assert versions(ds) == [3, 4, 5]
    os.utime(marker, (time.time() - EIGHT_DAYS,) * 2)
    ds.append({"n": [3]})
    assert versions(ds) == [5, 6] and not marker.exists()
    marker.write_bytes(b"")  # of an earlier release, which wrote no version
    ds.append({"n": [4]})
    assert versions(ds) == [6, 7]


def test_version_that_another_cleanup_removed_opens_as_the_newest(tmp_path: Path) -> None:
    ds = configured(tmp_path, interval="1", older_than="0s")
    for number in range(3):
        ds.append({"n": [number]})
    assert committed_snapshot(ds.location, 2, ds.session()).version == 5


def _update(ds: Any) -> None:
    ds.update({"v": "v + 10"}, where="k = 0")


def _delete(ds: Any) -> None:
    ds.delete("k = 0 and v = 1")


def _merge(ds: Any) -> None:
    ds.merge_insert("k").when_matched_update_all().execute(pa.table({"k": [0], "v": [7]}))


@pytest.mark.parametrize(
    ("change", "values"),
    [(_update, [1, 11]), (_delete, [1]), (_merge, [1, 7])],
    ids=["update", "delete", "merge"],
)
def test_change_of_a_version_that_a_cleanup_removed_begins_again(
    tmp_path: Path, change: Any, values: list[int]
) -> None:
    path = str(tmp_path / "t.lance")
    ds = lancecy.write_dataset(pa.table({"k": [0, 1], "v": [0, 0]}), path)
    other = lancecy.dataset(path)
    other.update({"v": "v + 1"})
    other.cleanup_old_versions(older_than=timedelta(0))
    change(ds)
    assert sorted(ds.to_table()["v"].to_pylist()) == values


def test_change_of_a_table_that_lost_a_file_still_names_it(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    ds = lancecy.write_dataset(pa.table({"k": [0, 1], "v": [0, 0]}), path)
    (file,) = Path(path, "data").iterdir()
    file.unlink()
    lancecy.dataset(path).update_config({"a": "1"})
    with pytest.raises(MissingFileError, match=file.name):
        _update(ds)
