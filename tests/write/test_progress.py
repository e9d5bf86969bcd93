"""``progress=`` of the writers: a function of steps, or an object as pylance has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.progress import Step

ROWS = pa.table({"a": range(10)})


def test_steps_count_the_rows_of_a_table(tmp_path: Path) -> None:
    seen: list[Step] = []
    lancecy.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=4, progress=seen.append)
    assert [step.done for step in seen] == [4, 8, 10, 10]
    assert {(step.what, step.total, step.unit) for step in seen} == {("write", 10, "rows")}
    assert seen[-1].fraction == 1


def test_total_of_a_stream_is_unknown_until_its_end(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches(max_chunksize=5)

    seen: list[Step] = []
    lancecy.write_dataset(batches(), tmp_path / "t", progress=seen.append)
    assert [(step.done, step.total, step.fraction) for step in seen] == [(5, 0, 0), (10, 0, 0), (10, 10, 1)]


class Files:
    """As a subclass of pylance's ``FragmentWriteProgress``."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int | None]] = []

    def begin(self, fragment: Any, **kwargs: Any) -> None:
        self.calls.append(("begin", fragment.physical_rows))

    def complete(self, fragment: Any, **kwargs: Any) -> None:
        assert fragment.to_json()["files"]
        self.calls.append(("complete", fragment.physical_rows))


@pytest.mark.parametrize("version", ["0.1", "2.1"])
def test_object_is_told_of_every_file(tmp_path: Path, version: str) -> None:
    told = Files()
    ds = lancecy.write_dataset(
        ROWS, tmp_path / "t", max_rows_per_file=4, progress=told, data_storage_version=version
    )
    assert sorted(told.calls, key=str) == sorted(
        [("begin", None)] * 3 + [("complete", rows) for rows in (4, 4, 2)], key=str
    )
    told.calls.clear()
    ds.append(ROWS, progress=told)
    lancecy.write_fragments(ROWS, ds, progress=told)
    assert told.calls == [("begin", None), ("complete", 10)] * 2


def test_callback_that_raises_stops_the_write_and_leaves_nothing(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(ROWS, tmp_path / "t")
    before = sorted((tmp_path / "t").rglob("*.lance"))

    def stop(step: Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.append(ROWS, progress=stop)
    assert sorted((tmp_path / "t").rglob("*.lance")) == before
    assert lancecy.dataset(tmp_path / "t").count_rows() == 10


def test_what_is_no_callback_is_refused(tmp_path: Path) -> None:
    import dask.dataframe as dd
    import pandas as pd

    with pytest.raises(TypeError, match=r"a function of a lancecy\.progress\.Step, .* not bool"):
        lancecy.write_dataset(ROWS, tmp_path / "t", progress=True)  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()
    frame = dd.from_pandas(pd.DataFrame({"a": [1, 2]}), npartitions=1)
    for write in (lancecy.write_dataset, lancecy.write_dask):
        with pytest.raises(ValueError, match="ProgressBar"):
            write(frame, tmp_path / "t", progress=print)


def test_rows_are_named_as_in_pylance(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(data_obj=ROWS, uri=tmp_path / "t")
    earlier: Any = lancecy.write_dataset
    assert earlier(data=ROWS, uri=ds, mode="append").count_rows() == 20
    with pytest.raises(TypeError, match="got 'data_obj' twice, also as 'data'"):
        earlier(data=ROWS, data_obj=ROWS, uri=ds)
