"""Wrong arguments of writes and cleanups are named, with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lancecy


def test_a_version_of_data_files_is_text(tmp_path: Path) -> None:
    version: Any = 2.1
    with pytest.raises(TypeError, match=r"data_storage_version is text, such as '2.1', not 2.1"):
        lancecy.write_dataset({"a": [1]}, tmp_path / "t", data_storage_version=version)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("age", [7, 0.5, "7d"])
def test_the_age_of_old_versions_is_a_timedelta(tmp_path: Path, age: Any) -> None:
    ds = lancecy.write_dataset({"a": [1]}, tmp_path / "t")
    with pytest.raises(TypeError, match=r"such as datetime.timedelta\(days=7\)"):
        ds.cleanup_old_versions(age)
