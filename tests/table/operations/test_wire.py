"""Transactions survive being written and read."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from lancecy.errors import FormatError
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.schema import Schema
from lancecy.table.operations import (
    Append,
    Clone,
    CreateIndex,
    DataOverlay,
    DataReplacement,
    Delete,
    Foreign,
    MapUpdate,
    Merge,
    Operation,
    OverlayFile,
    Overwrite,
    Project,
    RepairRowIds,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Transaction,
    Update,
    UpdateBases,
    UpdateConfig,
    new_transaction,
)
from lancecy.table.operations.key_filter import KeyFilter
from lancecy.table.operations.registry import REGISTRY
from lancecy.table.operations.transaction import decode_transaction, encode_transaction
from lancecy.table.wire.fragment import encode_fragment
from tests.helpers.builders import (
    make_base,
    make_data_file,
    make_deletion_file,
    make_fragment,
    make_index,
    make_schema,
)

# Its rows keep their ids and versions.
MOVED = make_fragment(0, deletion_file=None)
FRESH = make_fragment(
    0, deletion_file=None, row_ids=None, created_at_versions=None, last_updated_versions=None
)


DELETION = make_deletion_file()
# Of each operation that is made: what is written, and what is read.
SAMPLES: dict[type[Operation], list[Operation]] = {
    Append: [Append((FRESH, FRESH))],
    Delete: [Delete(removed=(3, 4), predicate="a > 1")],
    Overwrite: [Overwrite((FRESH,), make_schema(), {"k": "v"},
                          initial_bases=(make_base(2), make_base(5, "/x", name="n")))],
    Restore: [Restore(9)],
    ReserveFragments: [ReserveFragments(3)],
    UpdateConfig: [
        UpdateConfig(MapUpdate({"a": "1", "b": None}), MapUpdate({}, replace=True), MapUpdate({"s": "2"}),
                     {7: MapUpdate({"f": None})}),
        UpdateConfig(table_metadata=MapUpdate({"a": ""})),
    ],
    UpdateBases: [UpdateBases((make_base(0), make_base(0, "/x", is_dataset_root=True)))],
    RepairRowIds: [RepairRowIds()],
    Update: [
        Update(fragments=(MOVED,), removed=(3, 4), fields=(1, 2)),
        Update(fragments=(MOVED,), fields=(0,), keys=KeyFilter.of((0,), np.array([7, 5], np.uint64))),
    ],
    Rewrite: [Rewrite((RewriteGroup((make_fragment(3), make_fragment(4)), (MOVED,)),))],
    Merge: [Merge((make_fragment(3),), make_schema()), Merge((), make_schema(), preserves_nullability=False)],
    Project: [Project(replace(make_schema(), metadata={})),
              Project(replace(make_schema(), metadata={}), preserves_nullability=False)],
    Clone: [Clone(3, "/t"), Clone(4, "/t/tree/a", "a", "b"), Clone(5, "s3://b/t", is_shallow=False)],
    CreateIndex: [CreateIndex((make_index(), make_index(name="m")), (make_index(),)), CreateIndex()],
    DataReplacement: [DataReplacement(((3, make_data_file()), (4, make_data_file(path="g"))))],
}  # fmt: skip


def test_every_operation_that_is_made_has_a_sample() -> None:
    assert {*SAMPLES} == {made for made in REGISTRY.values() if not issubclass(made, Foreign)}


def test_every_operation_of_the_message_is_registered() -> None:
    fields = transaction_pb2.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields
    assert {field.name for field in fields} | {"repair_row_ids", "unknown"} == {*REGISTRY}


@pytest.mark.parametrize(
    "operation", list(chain.from_iterable(SAMPLES.values())), ids=lambda sample: sample.name
)
def test_operation_comes_back_as_it_was(operation: Operation) -> None:
    given = Transaction(4, "some-id", operation, {"__lance_commit_message": "why"})
    written = encode_transaction(given)
    assert {footprint.kind for footprint in operation.footprints()} <= {*operation.kinds}
    found = decode_transaction(written)
    assert (found.read_version, found.uuid, found.properties) == (4, "some-id", given.properties)
    if isinstance(operation, RepairRowIds):
        assert found.operation == Merge((), Schema(()))
        return
    assert type(found.operation) is type(operation)
    assert encode_transaction(found) == written
    assert found.operation == operation or isinstance(operation, Delete), "a delete has no equality"


def test_overlays_come_back_as_they_were() -> None:
    overlays = (
        OverlayFile(make_data_file(), b"all columns"),
        OverlayFile(make_data_file(), (b"one", b"two"), 7),
    )
    operation = DataOverlay("overlay", rewritten=frozenset({3}), groups=((3, overlays),))
    assert decode_transaction(encode_transaction(Transaction(4, "u", operation))).operation == operation


def test_delete_comes_back_with_its_files() -> None:
    changed = encode_fragment(make_fragment(12, deletion_file=DELETION))
    operation = Delete(files={12: DELETION}, removed=(3, 4), predicate="a > 1")
    found = decode_transaction(
        encode_transaction(Transaction(4, "u", operation), table_pb2.Manifest(fragments=[changed]))
    ).operation
    assert isinstance(found, Delete)
    assert (dict(found.files), found.removed, found.predicate) == ({12: DELETION}, (3, 4), "a > 1")


def test_new_fragments_are_written_without_ids_of_any_kind() -> None:
    fragment = make_fragment(12, deletion_file=None, row_ids=b"\n\x04\n\x02\x10\x03")
    data = encode_transaction(Transaction(4, "u", Append((fragment,))))
    written = transaction_pb2.Transaction.FromString(data).append.fragments[0]
    assert written.id == 0 and written.WhichOneof("row_id_sequence") is None


def test_maps_of_old_releases_are_understood() -> None:
    message = transaction_pb2.Transaction()
    message.update_config.upsert_values["a"] = "1"
    message.update_config.delete_keys.append("b")
    message.update_config.schema_metadata["s"] = "2"
    found = decode_transaction(message.SerializeToString()).operation
    assert found == UpdateConfig(MapUpdate({"b": None, "a": "1"}), None, MapUpdate({"s": "2"}, replace=True))


def test_bytes_that_are_no_transaction_are_refused() -> None:
    with pytest.raises(FormatError, match="transaction"):
        decode_transaction(b"\xff\xff\xff")


def test_operation_of_others_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="not one that lancecy makes"):
        encode_transaction(Transaction(1, "u", Foreign("rewrite")))


def test_token_decides_the_id() -> None:
    ids = [new_transaction(Restore(1), 3, token=token).uuid for token in ("a", "a", "b", None, None)]
    assert ids[0] == ids[1] and len(set(ids)) == 4
