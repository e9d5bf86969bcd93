"""Errors show the line of the user and the message, and nothing between them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import LanceError, with_short_tracebacks

MISTAKES: dict[str, Callable[[lancecy.Dataset], object]] = {
    "missing table": lambda ds: lancecy.dataset(f"{ds.uri}-none"),
    "table exists": lambda ds: lancecy.write_dataset({"id": [1]}, ds.uri),
    "missing column": lambda ds: ds.to_table(columns=["idd"]),
    "bad filter": lambda ds: ds.to_table(filter="id >"),
    "filter that ends early": lambda ds: ds.count_rows("id > 3 AND"),
    "unknown function": lambda ds: ds.scanner(filter="sqroot(id) > 3"),
    "other schema": lambda ds: ds.append({"id": ["x"]}),
    "overflow": lambda ds: ds.to_table(filter="id * 9223372036854775807 > 3"),
    "missing version": lambda ds: ds.checkout_version(99),
    "delete by a missing column": lambda ds: ds.delete("idd = 3"),
    "fragment": lambda ds: ds.get_fragments()[0].to_table(["idd"]),
    "scan": lambda ds: lancecy.scan(ds.uri, columns=["idd"]),
    "no such file": lambda ds: lancecy.inspect(f"{ds.uri}/data/none.lance"),
}


@pytest.fixture
def ds(tmp_path: Path) -> lancecy.Dataset:
    return lancecy.write_dataset(pa.table({"id": pa.array([1, 2], pa.int64())}), tmp_path / "t")


def frames(ds: lancecy.Dataset, mistake: Callable[[lancecy.Dataset], object]) -> list[str]:
    """Files of lancecy among the frames that Python would print, those of causes too."""
    with pytest.raises(LanceError) as caught:
        mistake(ds)
    shown: traceback.TracebackException | None = traceback.TracebackException.from_exception(caught.value)
    found: list[str] = []
    while shown is not None:
        found += [frame.filename for frame in shown.stack]
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
    return [name for name in found if "/tests/" not in name]


@pytest.mark.parametrize("name", MISTAKES)
def test_lancecy_has_few_frames_below_the_line_of_the_user(
    ds: lancecy.Dataset, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LANCECY_TRACEBACKS")
    assert len(frames(ds, MISTAKES[name])) <= 2
    monkeypatch.setenv("LANCECY_TRACEBACKS", "full")
    assert len(frames(ds, MISTAKES[name])) > 2


def test_errors_that_may_be_bugs_keep_their_frames(
    ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LANCECY_TRACEBACKS")
    with pytest.raises(TypeError) as caught:
        ds.take([1.5])  # type: ignore[list-item]
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 2


def test_error_that_is_its_own_cause_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANCECY_TRACEBACKS")

    @with_short_tracebacks
    def fails() -> None:
        error = LanceError("around")
        error.__cause__ = error
        raise error

    with pytest.raises(LanceError, match="around"):
        fails()


def test_warnings_are_about_the_line_of_the_user(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": [1]}, tmp_path / "damaged")
    ds.append({"id": [2]})
    newest = min((tmp_path / "damaged" / "_versions").iterdir())
    newest.write_bytes(newest.read_bytes()[:-4])
    with pytest.warns(RuntimeWarning, match="version 2") as told:
        assert lancecy.dataset(ds.uri, recover=True).version == 1
    assert [warning.filename for warning in told] == [__file__]
