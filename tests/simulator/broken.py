"""Commit protocols with one mistake each, of the kind real systems made: the simulator must notice every one.

A variant is a context in which the code under test is changed, as little as makes it wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from lancecy.errors import DatasetNotFoundError, ExistsError, StoreError
from lancecy.table.commit import history
from lancecy.table.commit import loop as commit
from lancecy.table.commit.conflicts import Verdict
from lancecy.table.operations import (
    deletions,
    merge,
    new_fragments,
    restore,
    rewrite,
    row_lineage,
    update,
)
from lancecy.table.operations.key_filter import KeyFilter
from lancecy.table.requests import Create, Put, Read, Steps, again, one_by_one
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.versions import ConditionalPut, ManifestLocation, Outcome
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire.fragment import encode_data_file

__all__ = ["VARIANTS"]

Variant = Callable[[], AbstractContextManager[None]]
VARIANTS: dict[str, Variant] = {}


def variant(function: Callable[[], Iterator[None]]) -> Variant:
    """Register a mistake under its name."""
    made = contextmanager(function)
    VARIANTS[function.__name__] = made
    return made


def _changed(module: Any, name: str, value: Any) -> AbstractContextManager[Any]:
    return patch.object(module, name, value)


@variant
def own_transaction_is_not_recognised() -> Iterator[None]:
    right = history.History.transaction

    def wrong(self: Any, stored: Any) -> Steps[Any]:
        found = yield from right(self, stored)
        return None if found is None else replace(found, uuid="somebody")

    with _changed(history.History, "transaction", wrong):
        yield


@variant
def conflicts_are_not_checked() -> Iterator[None]:
    with _changed(commit, "check", lambda mine, theirs: Verdict.COMPATIBLE):
        yield


def _path(version: int, naming: Any) -> str:
    return ManifestLocation.canonical(version, naming).path


@variant
def manifest_replaces_what_is_there() -> Iterator[None]:
    def publish(self: Any, version: int, naming: Any, data: bytes) -> Steps[Outcome]:
        yield Put(_path(version, naming), data)
        return Outcome.WON

    with _changed(ConditionalPut, "publish", publish):
        yield


@variant
def absence_is_looked_up_and_then_relied_on() -> Iterator[None]:
    def publish(self: Any, version: int, naming: Any, data: bytes) -> Steps[Outcome]:
        path = _path(version, naming)
        try:
            yield from again(Read(path), 2)
        except DatasetNotFoundError:
            yield Put(path, data)
            return Outcome.WON
        return Outcome.LOST

    with _changed(ConditionalPut, "publish", publish):
        yield


@variant
def lost_race_counts_as_won() -> Iterator[None]:
    def publish(self: Any, version: int, naming: Any, data: bytes) -> Steps[Outcome]:
        yield from _right_publish(self, version, naming, data)
        return Outcome.WON

    with _changed(ConditionalPut, "publish", publish):
        yield


_right_publish = ConditionalPut.publish


@variant
def error_counts_as_failure() -> Iterator[None]:
    def publish(self: Any, version: int, naming: Any, data: bytes) -> Steps[Outcome]:
        try:
            yield Create(_path(version, naming), data)
        except ExistsError:
            return Outcome.LOST
        return Outcome.WON

    with _changed(ConditionalPut, "publish", publish):
        yield


@variant
def error_counts_as_success() -> Iterator[None]:
    def publish(self: Any, version: int, naming: Any, data: bytes) -> Steps[Outcome]:
        try:
            yield Create(_path(version, naming), data)
        except ExistsError:
            return Outcome.LOST
        except StoreError:
            return Outcome.WON
        return Outcome.WON

    with _changed(ConditionalPut, "publish", publish):
        yield


@variant
def not_there_yet_counts_as_failed() -> Iterator[None]:
    with _changed(ConditionalPut, "fails_at_once", True):
        yield


@variant
def change_is_applied_to_the_version_it_was_made_from() -> Iterator[None]:
    right = commit._Commit._prepared

    def wrong(self: Any, version: int) -> Steps[bytes]:
        self.first = getattr(self, "first", None) or (yield from _origin_of(self))
        newest, self.base = self.base, self.first
        data = yield from right(self, version)
        self.base = newest
        return data

    with _changed(commit._Commit, "_prepared", wrong):
        yield


def _origin_of(self: Any) -> Steps[Any]:
    if self.origin is None:
        return None
    stored = yield from self.history.at(self.origin.version)
    return stored or self.base


@variant
def fragment_ids_start_again_after_an_overwrite() -> Iterator[None]:
    def wrong(message: Any) -> int:
        return max((fragment.id for fragment in message.fragments), default=-1)

    with _changed(new_fragments, "max_fragment_id", wrong):
        yield


@variant
def row_ids_go_back_with_a_restore() -> Iterator[None]:
    right = restore._keep_given_out

    def wrong(message: Any, newest: Any) -> None:
        before = message.next_row_id
        right(message, newest)
        message.next_row_id = before

    with _changed(restore, "_keep_given_out", wrong):
        yield


@variant
def deletes_of_others_are_forgotten() -> Iterator[None]:
    def wrong(base: Any, fragment: Any, rows: Any, limits: Any) -> Steps[DeletionVector]:
        return DeletionVector(rows)
        yield

    with _changed(deletions, "_merged", wrong):
        yield


@variant
def rebased_deletes_keep_their_first_file() -> Iterator[None]:
    def wrong(fragment: Any, before: Any) -> Any:
        return None if before is None else before[0].get(fragment.id)

    with _changed(deletions, "_kept", wrong):
        yield


@variant
def versions_do_not_say_what_made_them() -> Iterator[None]:
    def wrong(message: Any, indices: Any, transaction: Any, dictionaries: bytes) -> bytes:
        return _right_encode(message, indices, None, dictionaries)

    with _changed(manifest_wire, "encode", wrong):
        yield


_right_encode = manifest_wire.encode


@variant
def gaps_in_the_history_are_skipped() -> Iterator[None]:
    def wrong(self: Any, listed: Any, seen: int, certain: int | None) -> Steps[Any]:
        return [location for location in listed if location.version > seen]
        yield

    with _changed(history.History, "_complete", wrong):
        yield


@variant
def next_version_is_tried_without_looking() -> Iterator[None]:
    def wrong(self: Any, listed: Any, seen: int, certain: int | None) -> Steps[Any]:
        return [] if certain is None else [ManifestLocation.canonical(certain, self.naming)]
        yield

    with _changed(history.History, "_complete", wrong):
        yield


@variant
def manifest_is_written_before_the_files_it_names() -> Iterator[None]:
    right = commit._Commit._race

    def wrong(self: Any) -> Steps[Any]:
        steps, waiting = one_by_one(right(self)), []
        try:
            request = next(steps)
            while True:
                if isinstance(request, Put) and request.path.startswith("_deletions/"):
                    waiting.append(request)
                    request = steps.send(None)
                    continue
                try:
                    answer = yield request
                except Exception as error:  # thrown in by whoever drives
                    request = steps.throw(error)
                    continue
                if isinstance(request, Create):
                    for late in waiting:  # noqa: UP028  (the answer is sent to this generator)
                        yield late
                    waiting = []
                request = steps.send(answer)
        except StopIteration as end:
            return end.value

    with _changed(commit._Commit, "_race", wrong):
        yield


@variant
def tokens_are_not_looked_up() -> Iterator[None]:
    def wrong(self: Any, uuid: str, seen: int) -> Steps[Any]:
        return None
        yield

    with _changed(history.History, "landed", wrong):
        yield


@variant
def table_made_by_another_is_overwritten_by_create() -> Iterator[None]:
    def wrong(self: Any, first: Any) -> Steps[Any]:
        self.doubt, self.seen = None, first.version
        self.base = yield from self.history.stored(first)
        return None

    with _changed(commit._Commit, "_created", wrong):
        yield


@variant
def restored_ids_are_taken_as_the_largest() -> Iterator[None]:
    right = restore._keep_given_out

    def wrong(message: Any, newest: Any) -> None:
        before = message.max_fragment_id
        right(message, newest)
        message.max_fragment_id = before

    with _changed(restore, "_keep_given_out", wrong):
        yield


@variant
def rewrites_forget_rows_that_were_deleted_meanwhile() -> Iterator[None]:
    right = rewrite._deleted_since

    def wrong(group: Any, gone: Any) -> Any:
        return [offsets[:0] for offsets in right(group, gone)]

    with _changed(rewrite, "_deleted_since", wrong):
        yield


@variant
def rewrites_look_once_for_rows_that_were_deleted_meanwhile() -> Iterator[None]:
    with _changed(rewrite, "_stored", lambda planned, newest: b"never changes"):
        yield


@variant
def rewrites_count_deleted_rows_by_their_old_places() -> Iterator[None]:
    right = rewrite._gone_from

    def wrong(planned: Any, newest: Any) -> Steps[Any]:
        found = yield from right(planned, newest)
        now = newest.stored.fragments[planned.id]
        before = yield from deletions.deleted_offsets(newest.stored, planned, newest.limits)
        after = yield from deletions.deleted_offsets(newest.stored, now, newest.limits)
        return replace(found, offsets=np.setdiff1d(after, before)[: found.num_live])

    with _changed(rewrite, "_gone_from", wrong):
        yield


@variant
def moved_rows_get_fresh_ids() -> Iterator[None]:
    right = row_lineage.give_row_ids

    def wrong(message: Any, fragment: Any) -> None:
        fragment.ClearField("inline_row_ids")
        right(message, fragment)

    with _changed(new_fragments, "give_row_ids", wrong):
        yield


@variant
def keys_of_added_rows_are_not_compared() -> Iterator[None]:
    with _changed(KeyFilter, "may_share", lambda self, other: False):
        yield


@variant
def added_rows_are_not_read() -> Iterator[None]:
    def wrong(self: Any, added: Any) -> Steps[bool]:
        yield from ()
        return False

    with _changed(update.Update, "adds_same_keys", wrong):
        yield


@variant
def only_rows_of_the_last_version_are_read() -> Iterator[None]:
    right = commit._Commit._check_keys

    def wrong(self: Any, added: Any) -> Steps[None]:
        yield from right(self, replace(added, fragments=added.fragments[-1:]))

    with _changed(commit._Commit, "_check_keys", wrong):
        yield


@variant
def replaced_columns_stay_in_their_old_files() -> Iterator[None]:
    def wrong(fragment: Any, file: Any) -> None:
        fragment.files.append(encode_data_file(file))

    with _changed(update, "put_file", wrong):
        yield


@variant
def added_columns_do_not_count_as_changes_of_rows() -> Iterator[None]:
    with _changed(merge, "set_updated", lambda part, version: None):
        yield
