"""Mistakes of users that a type checker finds, never run.

Each mistake has the error that mypy reports for it. ``test_types`` fails if mypy no longer reports it: an ignored
error that does not occur is an error.
"""

from __future__ import annotations

import lancecy


def mistakes(ds: lancecy.Dataset, fragment: lancecy.LanceFragment) -> None:
    """Misspelt names, wrong types and missing arguments."""
    # misspelt keywords
    ds.to_table(colums=["id"])  # type: ignore[call-arg]
    ds.get_fragments()[0].to_table(filtr="x")  # type: ignore[call-arg]
    ds.to_table(with_rowid=True)  # type: ignore[call-arg]
    ds.to_batches(batchsize=100)  # type: ignore[call-arg]
    ds.head(5, colunms=["id"])  # type: ignore[call-arg]
    ds.scanner(filters="id > 3")  # type: ignore[call-arg]
    ds.append({"id": [1]}, max_row_per_file=10)  # type: ignore[call-arg]
    ds.insert({"id": [1]}, modes="append")  # type: ignore[call-arg]
    fragment.to_table(fliter="id > 3")  # type: ignore[call-arg]
    lancecy.dataset("t.lance", storageoptions={})  # type: ignore[call-arg]
    lancecy.scan("t.lance", filter_="id > 3")  # type: ignore[call-arg]
    lancecy.write_dataset({"id": [1]}, "t.lance", data_storage_versoin="2.1")  # type: ignore[call-arg]
    lancecy.write_dataset({"a": [1]}, "t", durabilty="none")  # type: ignore[call-arg]
    lancecy.write_fragments({"a": [1]}, "t", commit_message="m")  # type: ignore[call-overload]
    ds.insert({"a": [1]}, storage_options={})  # type: ignore[call-arg]
    # wrong types
    ds.to_batches(batch_size="many")  # type: ignore[arg-type]
    ds.head(columns=3)  # type: ignore[arg-type]
    ds.scanner(limit=2.5)  # type: ignore[arg-type]
    lancecy.commit(ds, lancecy.LanceOperation.Append([]), durability="maybe")  # type: ignore[arg-type]
    ds.to_table(limit="3")  # type: ignore[arg-type]
    ds.to_table(batch_size="1000")  # type: ignore[arg-type]
    ds.count_rows(filter=3)  # type: ignore[arg-type]
    ds.checkout_version([1])  # type: ignore[arg-type]
    ds.take("5")  # type: ignore[arg-type]
    ds.delete(["id = 3"])  # type: ignore[list-item]
    lancecy.dataset(5)  # type: ignore[arg-type]
    lancecy.write_dataset({"id": [1]}, "t.lance", mode="add")  # type: ignore[arg-type]
    lancecy.write_dataset({"id": [1]}, "t.lance", max_rows_per_file="many")  # type: ignore[arg-type]
    # missing arguments
    ds.delete()  # type: ignore[call-arg]
    ds.take()  # type: ignore[call-arg]
    # what is there no longer, or never was
    ds.to_panda()  # type: ignore[attr-defined]
    len(ds.count_rows())  # type: ignore[arg-type]


def no_mistakes(ds: lancecy.Dataset) -> None:
    """Options by name and by place that mypy accepts."""
    ds.to_table(["id"], None, 3)
    ds.insert({"a": [1]}, mode="overwrite", commit_message="m")
    ds.append({"a": [1]}, target_bases=["b"])
    lancecy.write_dataset({"a": [1]}, "t", None, "create", max_rows_per_file=3, session=None)
    lancecy.write_fragments({"a": [1]}, ds, writer_number=1, max_rows_per_group=5)
    lancecy.commit(ds, lancecy.LanceOperation.Append([]), enable_v2_manifest_paths=False)
