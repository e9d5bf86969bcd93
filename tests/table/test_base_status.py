"""``bases``: what the bases of a version hold, and whether they answer."""

from __future__ import annotations

from pathlib import Path

import lancecy
from lancecy import DatasetBasePath, Session
from tests.helpers.shell import run, run_json


def a_table(folder: Path) -> lancecy.LanceDataset:
    hot, cold = (DatasetBasePath(folder / name, name=name) for name in ("hot", "cold"))
    ds = lancecy.write_dataset(
        {"n": list(range(40))}, folder / "t", max_rows_per_file=10, initial_bases=[hot, cold]
    )
    ds.copy_files("n < 20", base="hot")
    return ds


def test_files_bytes_and_health(tmp_path: Path) -> None:
    ds = a_table(tmp_path)

    own, hot, cold = ds.bases()

    assert (own.id, own.name, own.path, own.is_dataset_root) == (None, None, ds.uri, True)
    assert (hot.id, hot.name, hot.path, hot.is_dataset_root) == (1, "hot", str(tmp_path / "hot"), False)
    assert [one.num_files for one in (own, hot, cold)] == [2, 2, 0]
    assert hot.num_bytes == sum(path.stat().st_size for path in (tmp_path / "hot").iterdir())
    assert [one.health for one in (own, hot, cold)] == ["ok", "ok", "empty"]
    assert own.seconds is not None
    assert [one.health for one in ds.bases(check=False)] == ["unknown"] * 3


def test_damage_is_told_and_not_raised(tmp_path: Path) -> None:
    ds = a_table(tmp_path)
    first, last = (fragment.data_files()[0].path for fragment in ds.get_fragments()[:2])
    (tmp_path / "hot" / last).write_bytes(b"short")

    short = ds.bases()[1]
    (tmp_path / "hot" / first).unlink()
    gone = ds.bases()[1]

    assert (short.health, gone.health) == ("incomplete", "incomplete")
    assert "5 bytes instead of" in short.error
    assert first in gone.error


def test_a_base_that_needs_a_grant(tmp_path: Path) -> None:
    far = DatasetBasePath("memory://status-far", name="far")
    lancecy.write_dataset({"n": [1]}, tmp_path / "t", initial_bases=[far], target_bases=["far"])

    refused = lancecy.dataset(tmp_path / "t").bases()[1]
    granted = lancecy.dataset(tmp_path / "t", allowed_bases=["memory://status-far"]).bases()[1]

    assert (refused.health, granted.health) == ("refused", "ok")
    assert "allowed_bases" in refused.error


def test_replicas_are_looked_at_too(tmp_path: Path) -> None:
    ds = a_table(tmp_path)
    ds.update_config({"lancecy.replicas.hot": f"{tmp_path / 'copy'}\n{tmp_path / 'hot'}"})

    hot = lancecy.dataset(ds.uri, session=Session()).bases()[1]

    assert [(one.path, one.health) for one in hot.replicas] == [
        (str(tmp_path / "copy"), "incomplete"),
        (str(tmp_path / "hot"), "ok"),
    ]


def test_from_the_shell(tmp_path: Path) -> None:
    ds = a_table(tmp_path)
    ds.update_config({"lancecy.replicas.hot": str(tmp_path / "copy")})

    copied = run_json("bases", ds.uri, "copy", "cold", "-f", "n >= 30", "--quiet")
    assert [row["files"] for row in copied] == [1, 2, 1]
    assert [row["files"] for row in run_json("bases", ds.uri, "copy", "")] == [4, 0, 0]
    assert run("bases", ds.uri, "copy").exit_code == 2

    looked = run_json("bases", ds.uri, "--health")
    assert [row["health"] for row in looked] == ["ok", "empty", "empty"]
    assert looked[1]["replicas"][0]["path"] == str(tmp_path / "copy")
    assert "replica" in run("bases", ds.uri, "--health").stdout

    ds.checkout_latest().copy_files(base="hot")
    (tmp_path / "hot").rename(tmp_path / "moved")
    assert run("count", ds.uri, "--filter", "n < 5").exit_code != 0
    found = run("count", ds.uri, "--filter", "n < 5", "--replica", f"hot={tmp_path / 'moved'}")
    assert found.stdout.strip() == "5"
    assert "BASE=PLACE" in run("count", ds.uri, "--replica", "hot").stderr
