"""Bytes of a transaction to a :class:`~lancecy.table.operations.Transaction` and back.

The same message is stored as a file below ``_transactions/`` and inside the manifest file of the
version it made. Decoding is total; an operation that this release does not know is ``Foreign`` of kind
``unknown``, which conflicts with everything.

Facts: table sheet, sections 4.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.schema import Schema
from lancecy.schema_wire import decode_schema, encode_fields, parse_message
from lancecy.table.fragment_wire import (
    decode_base_paths,
    decode_deletion_file,
    decode_fragment,
    encode_base_path,
    encode_fragment,
)
from lancecy.table.manifest import BasePath, Fragment
from lancecy.table.operations import (
    Append,
    Delete,
    Foreign,
    MapUpdate,
    Operation,
    Overwrite,
    RepairRowIds,
    ReserveFragments,
    Restore,
    Transaction,
    UpdateBases,
    UpdateConfig,
)

__all__ = ["decode_transaction", "encode_transaction", "new_fragment"]

_Message: TypeAlias = transaction_pb2.Transaction
_NEUTRAL = {"create_index": "index", "update_mem_wal_state": "mem_wal", "clone": "clone"}


def encode_transaction(
    transaction: Transaction,
    updated: Iterable[table_pb2.DataFragment] = (),
    made: table_pb2.Manifest | None = None,
) -> bytes:
    """The message of a transaction.

    Parameters
    ----------
    transaction : Transaction
    updated : iterable of lance.table.DataFragment
        Of a ``Delete``: the fragments with their new deletion files, as the version it is made on has them.
    made : lance.table.Manifest, optional
        Of a ``RepairRowIds``: the version it makes.

    Raises
    ------
    ValueError
        Its operation is one that lancecy does not make.
    """
    message = _Message(
        read_version=transaction.read_version,
        uuid=transaction.uuid,
        transaction_properties=dict(transaction.properties),
    )
    operation = transaction.operation
    match operation:
        case Append():
            message.append.SetInParent()
            message.append.fragments.extend(map(new_fragment, operation.fragments))
        case Delete():
            message.delete.SetInParent()
            message.delete.updated_fragments.extend(updated)
            message.delete.deleted_fragment_ids.extend(operation.removed)
            message.delete.predicate = operation.predicate
        case Overwrite():
            _encode_overwrite(message.overwrite, operation)
        case Restore():
            message.restore.version = operation.version
        case ReserveFragments():
            message.reserve_fragments.num_fragments = operation.num_fragments
        case UpdateConfig():
            _encode_config(message.update_config, operation)
        case UpdateBases():
            message.update_bases.SetInParent()
            message.update_bases.new_bases.extend(map(encode_base_path, operation.bases))
        case RepairRowIds():
            _encode_repair(message.merge, made or table_pb2.Manifest())
        case Foreign():
            raise ValueError(f"an operation of kind {operation.kind!r} is none that lancecy makes")
    return message.SerializeToString()


def new_fragment(fragment: Fragment) -> table_pb2.DataFragment:
    """The message of a fragment still to be numbered: no ids, no versions."""
    unnumbered = replace(fragment, id=0, row_ids=None, last_updated_versions=None, created_at_versions=None)
    return encode_fragment(unnumbered)


def _encode_overwrite(message: transaction_pb2.Transaction.Overwrite, operation: Overwrite) -> None:
    message.SetInParent()
    message.fragments.extend(map(new_fragment, operation.fragments))
    message.schema.extend(encode_fields(operation.schema.fields))
    message.schema_metadata.update(operation.schema.metadata)
    message.config_upsert_values.update(operation.config)
    message.initial_bases.extend(map(encode_base_path, operation.initial_bases))


def _encode_repair(message: transaction_pb2.Transaction.Merge, made: table_pb2.Manifest) -> None:
    message.SetInParent()
    message.fragments.extend(made.fragments)
    message.schema.extend(made.fields)
    message.schema_metadata.update(made.schema_metadata)
    message.preserves_nullability = True


def _encode_config(message: transaction_pb2.Transaction.UpdateConfig, operation: UpdateConfig) -> None:
    message.SetInParent()
    if operation.config is not None:
        _encode_map(message.config_updates, operation.config)
    if operation.table_metadata is not None:
        _encode_map(message.table_metadata_updates, operation.table_metadata)
    if operation.schema_metadata is not None:
        _encode_map(message.schema_metadata_updates, operation.schema_metadata)
    for field_id, update in operation.field_metadata.items():
        _encode_map(message.field_metadata_updates[field_id], update)


def _encode_map(message: transaction_pb2.Transaction.UpdateMap, update: MapUpdate) -> None:
    message.SetInParent()
    message.replace = update.replace
    for key, value in update.entries.items():
        message.update_entries.add(key=key, value=value)


def decode_transaction(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Transaction:
    """The transaction in a message.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        The bytes are no such message, or what it adds to the table cannot be read.

    Examples
    --------
    >>> decode_transaction(encode_transaction(Transaction(3, "u", Restore(2)))).operation
    Restore(version=2)
    """
    message = parse_message(_Message, data, "transaction", limits)
    operation = _operation(message, limits)
    return Transaction(message.read_version, message.uuid, operation, dict(message.transaction_properties))


def _operation(message: _Message, limits: Limits) -> Operation:
    match message.WhichOneof("operation"):
        case "append":
            return Append(_fragments(message.append.fragments, limits))
        case "delete":
            return _delete(message.delete)
        case "overwrite":
            return _overwrite(message.overwrite, limits)
        case "restore":
            return Restore(message.restore.version)
        case "reserve_fragments":
            return ReserveFragments(message.reserve_fragments.num_fragments)
        case "update_config":
            return _config(message.update_config)
        case "update_bases":
            return UpdateBases(_bases(message.update_bases.new_bases))
        case _:
            return _foreign(message)


def _foreign(message: _Message) -> Foreign:
    """The footprint of an operation that lancecy does not make."""
    name: str = message.WhichOneof("operation") or "unknown"
    match name:
        case "update":
            return _update(message.update)
        case "rewrite":
            groups = (old for group in message.rewrite.groups for old in group.old_fragments)
            old = {part.id for part in (*message.rewrite.old_fragments, *groups)}
            return Foreign("rewrite", rewritten=frozenset(old))
        case "merge":
            kind = "merge" if message.merge.preserves_nullability else "merge_strict"
            return Foreign(kind, fields=frozenset(field.id for field in message.merge.schema))
        case "project":
            kind = "project" if message.project.preserves_nullability else "project_strict"
            return Foreign(kind, fields=frozenset(field.id for field in message.project.schema))
        case "data_replacement":
            ids = frozenset(part.fragment_id for part in message.data_replacement.replacements)
            return Foreign("replacement", rewritten=ids)
        case "data_overlay":
            return Foreign("overlay", rewritten=frozenset(g.fragment_id for g in message.data_overlay.groups))
    return Foreign(_NEUTRAL.get(name, "unknown"))


def _update(message: transaction_pb2.Transaction.Update) -> Foreign:
    ids = frozenset(fragment.id for fragment in message.updated_fragments)
    removed = frozenset(message.removed_fragment_ids)
    # Releases before the mode existed said which columns they rewrote, and nothing else.
    if message.update_mode == transaction_pb2.Transaction.Update.REWRITE_COLUMNS or message.fields_modified:
        return Foreign("update_columns", rewritten=ids | removed)
    return Foreign("update_rows", changed=ids, rewritten=removed)


def _delete(message: transaction_pb2.Transaction.Delete) -> Delete:
    files = {
        part.id: decode_deletion_file(part.deletion_file, part.id, part.physical_rows)
        for part in message.updated_fragments
    }
    return Delete(files=files, removed=tuple(message.deleted_fragment_ids), predicate=message.predicate)


def _overwrite(message: transaction_pb2.Transaction.Overwrite, limits: Limits) -> Overwrite:
    schema: Schema = decode_schema(message.schema, message.schema_metadata, limits)
    fragments = _fragments(message.fragments, limits)
    bases = _bases(message.initial_bases)
    return Overwrite(fragments, schema, dict(message.config_upsert_values), initial_bases=bases)


def _config(message: transaction_pb2.Transaction.UpdateConfig) -> Operation:
    if message.field_metadata:
        return Foreign("unknown")  # the form of old releases, whose insides are not described
    config, schema = None, None
    if message.upsert_values or message.delete_keys:
        config = MapUpdate({**dict.fromkeys(message.delete_keys), **message.upsert_values})
    if message.schema_metadata:
        schema = MapUpdate(dict(message.schema_metadata), replace=True)
    if message.HasField("config_updates"):
        config = _map(message.config_updates)
    if message.HasField("schema_metadata_updates"):
        schema = _map(message.schema_metadata_updates)
    table = None
    if message.HasField("table_metadata_updates"):
        table = _map(message.table_metadata_updates)
    fields = {field_id: _map(update) for field_id, update in message.field_metadata_updates.items()}
    return UpdateConfig(config, table, schema, fields)


def _map(message: transaction_pb2.Transaction.UpdateMap) -> MapUpdate:
    entries: Mapping[str, str | None] = {
        entry.key: entry.value if entry.HasField("value") else None for entry in message.update_entries
    }
    return MapUpdate(entries, message.replace)


def _fragments(messages: Iterable[table_pb2.DataFragment], limits: Limits) -> tuple[Fragment, ...]:
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    return tuple(decode_fragment(message, shared, limits) for message in messages)


def _bases(messages: Iterable[table_pb2.BasePath]) -> tuple[BasePath, ...]:
    # Several may have id 0, which stands for "to be numbered".
    return tuple(base for message in messages for base in decode_base_paths([message]).values())
