"""Figures and pictures of a table: summary, layout, differences between versions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lancecy
from tests.helpers.golden import golden


def test_summary_is_what_the_manifest_says() -> None:
    ds = lancecy.dataset(golden("14.0.2_v22_rowids").path)
    found = ds.summary()
    assert (found["rows"], found["version"]) == (ds.count_rows(), ds.version)
    assert found["bytes"] == sum(
        (Path(ds.uri) / "data" / file.path).stat().st_size
        for f in ds.get_fragments()
        for file in f.data_files()
    )
    assert found["stable_row_ids"] is True
    assert lancecy.dataset(golden("14.0.2_deleted").path).summary()["bytes"] is None


def test_layout_has_the_bytes_of_every_column_and_fragment() -> None:
    ds = lancecy.dataset(golden("14.0.2_v21_deleted").path)
    found = ds.layout()
    assert found.nbytes.shape == (len(ds.get_fragments()), len(ds.schema))
    assert dict(zip(found.columns, found.nbytes.sum(axis=0), strict=True)) == ds.stats.data_stats()
    assert int((found.rows - found.deleted).sum()) == ds.count_rows()
    assert found.deleted.any()
    assert "rows deleted" in repr(found)


def test_plot_draws_one_row_per_fragment() -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    ds = lancecy.dataset(golden("14.0.2_v21_deleted").path)
    figure = ds.plot_layout()
    left, right = figure.axes[0], figure.axes[1]
    assert left.images[0].get_array().shape == ds.layout().nbytes.shape
    assert len(right.patches) == 2 * len(ds.get_fragments())
    assert ds.plot_layout(plt.subplots(1, 2)[1]) is not figure
    plt.close("all")


def test_diff_of_appends_deletions_and_columns() -> None:
    ds = lancecy.dataset(golden("14.0.2_evolved").path)
    found = ds.diff(1)
    old, new = ds.checkout_version(1), ds
    assert found.rows == (old.count_rows(), new.count_rows())
    assert set(found.added_columns) | set(found.removed_columns) | set(found.changed_columns)
    assert {c.split(":")[0] for c in found.added_columns} & set(new.schema.names)
    assert found.to_dict()["old"] == 1
    assert "columns" in str(found)
    assert "<table>" in found._repr_html_()
    same = ds.diff(ds.version)
    assert (same.added_columns, same.added_fragments, dict(same.deleted_rows)) == ((), (), {})


def test_diff_counts_rows_deleted_in_place() -> None:
    ds = lancecy.dataset(golden("14.0.2_v21_deleted").path)
    steps = [ds.diff(v, v + 1) for v in range(1, ds.version)]
    assert sum(bool(step.deleted_rows) for step in steps) > 1
    for step in steps:
        if step.deleted_rows and not (step.added_fragments or step.removed_fragments):
            before, after = step.rows
            assert before is not None and after is not None
            assert before - after == sum(step.deleted_rows.values())


def test_diff_of_a_version_that_is_not_there() -> None:
    with pytest.raises(lancecy.errors.NotFoundError):
        lancecy.dataset(golden("14.0.2_evolved").path).diff(99)


def test_layout_of_an_empty_table() -> None:
    found = lancecy.dataset(golden("14.0.2_empty").path).layout()
    assert np.array_equal(found.nbytes.sum(axis=1), found.rows * 0)
