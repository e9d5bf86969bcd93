"""The differences between two versions of a table, from their manifests alone."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lancecy.errors import printable
from lancecy.records import dataclass
from lancecy.schema import Field, Schema
from lancecy.table.manifest import Fragment, Manifest

__all__ = ["SharedIds", "VersionDiff", "diff"]

_SHOWN = 30


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """The differences between two versions of a table.

    Attributes
    ----------
    uri : str
    old, new : int
        The versions.
    added_columns, removed_columns : tuple of str
        ``name: type``; a column is identified by its field id.
    changed_columns : tuple of str
        Renamed, cast, or with changed nullability.
    added_fragments, removed_fragments : tuple of int
    rewritten_fragments : tuple of int
        Fragments with other data files than before.
    deleted_rows : mapping of int to int
        Number of newly deleted rows by fragment, for fragments that kept their files.
    rows : tuple of (int or None, int or None)
        Live rows of the old and new version; None if the manifest does not state them.
    changed_config, changed_metadata : mapping of str to (old, new)
        None if absent.
    branches : tuple of (str or None, str or None)
        Branches of the old and new version; None for the main one.
    """

    uri: str
    old: int
    new: int
    added_columns: tuple[str, ...]
    removed_columns: tuple[str, ...]
    changed_columns: tuple[str, ...]
    added_fragments: tuple[int, ...]
    removed_fragments: tuple[int, ...]
    rewritten_fragments: tuple[int, ...]
    deleted_rows: Mapping[int, int]
    rows: tuple[int | None, int | None]
    changed_config: Mapping[str, tuple[str | None, str | None]]
    changed_metadata: Mapping[str, tuple[str | None, str | None]]
    branches: tuple[str | None, str | None] = (None, None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return asdict(self)

    def _facts(self) -> list[tuple[str, str]]:
        before, after = (("unknown" if n is None else f"{n:,}") for n in self.rows)
        deleted = sum(self.deleted_rows.values())
        facts = [
            ("versions", f"{self._names()} of {self.uri}"),
            ("rows", f"{before} to {after}" + (f", {deleted:,} deleted in place" if deleted > 0 else "")),
        ]
        for name, items in (
            ("columns added", self.added_columns),
            ("columns removed", self.removed_columns),
            ("columns changed", self.changed_columns),
        ):
            if items:
                facts.append((name, _listed(items)))
        for name, ids in (
            ("fragments added", self.added_fragments),
            ("fragments removed", self.removed_fragments),
            ("fragments rewritten", self.rewritten_fragments),
            ("fragments with deletions", tuple(self.deleted_rows)),
        ):
            if ids:
                facts.append((name, _numbered(ids)))
        for name, changes in (("config", self.changed_config), ("metadata", self.changed_metadata)):
            facts += [
                (f"{name} {printable(key)}", f"{_value(a)} to {_value(b)}") for key, (a, b) in changes.items()
            ]
        return facts

    def _names(self) -> str:
        if self.branches[0] == self.branches[1]:
            return f"{self.old} to {self.new}"
        old, new = (printable(name or "main") for name in self.branches)
        return f"{self.old} ({old}) to {self.new} ({new})"

    def __str__(self) -> str:
        facts = self._facts()
        width = max(len(name) for name, _ in facts)
        return "\n".join(f"{name:>{width}}  {value}" for name, value in facts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = "<tr><th style='text-align:left'>{}</th><td style='text-align:left'>{}</td></tr>"
        return (
            f"<table>{''.join(cell.format(html.escape(n), html.escape(v)) for n, v in self._facts())}</table>"
        )


def _listed(items: tuple[object, ...]) -> str:
    shown = ", ".join(str(item) for item in items[:_SHOWN])
    return shown + (f", … ({len(items):,} in all)" if len(items) > _SHOWN else "")


def _numbered(ids: tuple[int, ...]) -> str:
    """``2 (ids 4, 7)``, ``1 (id 0)``: a list of ids alone reads as a number of fragments."""
    shown = ", ".join(map(str, ids[:_SHOWN])) + (", …" if len(ids) > _SHOWN else "")
    return f"{len(ids):,} ({'id' if len(ids) == 1 else 'ids'} {shown})"


def _value(text: str | None) -> str:
    return "none" if text is None else repr(printable(text))


@dataclass(frozen=True, slots=True)
class SharedIds:
    """Ids that stand for one thing in versions of different branches, which may give one id to two things.

    Attributes
    ----------
    fields : frozenset of int
    max_fragment : int
        Fragment ids up to this one are those of both.
    """

    fields: frozenset[int]
    max_fragment: int

    def is_one(self, old: Fragment, new: Fragment) -> bool:
        """Whether fragments of one id are the same: by the id, or by their files, which a fast-forward copies."""
        names = {file.path for file in old.files}
        return new.id <= self.max_fragment or any(file.path in names for file in new.files)


def diff(uri: str, old: Manifest, new: Manifest, shared: SharedIds | None = None) -> VersionDiff:
    """The differences from ``old`` to ``new``.

    Parameters
    ----------
    uri : str
        For display.
    old, new : Manifest
    shared : SharedIds, optional
        For versions of different branches; otherwise an id stands for one thing in both.
    """
    added, removed, changed = _columns(old.schema, new.schema, None if shared is None else shared.fields)
    before, after = ({f.id: f for f in manifest.fragments} for manifest in (old, new))
    kept = [i for i in after if i in before and (shared is None or shared.is_one(before[i], after[i]))]
    same = {i for i in kept if _files(before[i], shared) == _files(after[i], shared)}
    deletions = {i: count for i in kept if i in same and (count := _deleted(after[i]) - _deleted(before[i]))}
    stayed = set(kept)
    return VersionDiff(
        uri,
        old.version,
        new.version,
        added,
        removed,
        changed,
        tuple(i for i in after if i not in stayed),
        tuple(i for i in before if i not in stayed),
        tuple(i for i in kept if i not in same),
        deletions,
        (old.num_rows, new.num_rows),
        _changes(old.config, new.config),
        _changes(old.table_metadata, new.table_metadata),
        (old.branch, new.branch),
    )


def _columns(
    old: Schema, new: Schema, shared: frozenset[int] | None
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    before, after = _by_id(old), _by_id(new)
    both = {i for i in after if i in before and (shared is None or i in shared)}
    added = tuple(text for i, text in after.items() if i not in both)
    removed = tuple(text for i, text in before.items() if i not in both)
    changed = tuple(f"{before[i]} to {after[i]}" for i in after if i in both and before[i] != after[i])
    return added, removed, changed


def _by_id(schema: Schema) -> dict[int, str]:
    found: dict[int, str] = {}

    def walk(node: Field, above: str) -> None:
        name = f"{above}{printable(node.name)}"
        found[node.id] = f"{name}: {printable(node.logical_type)}" + ("" if node.nullable else " not null")
        for child in node.children:
            walk(child, f"{name}.")

    for top in schema.fields:
        walk(top, "")
    return found


def _files(fragment: Fragment, shared: SharedIds | None) -> tuple[object, ...]:
    # A base has another id on each branch; the names of files are random.
    return tuple(
        (file.base_id if shared is None else None, file.path, file.fields) for file in fragment.files
    )


def _deleted(fragment: Fragment) -> int:
    return 0 if fragment.deletion_file is None else fragment.deletion_file.num_deleted_rows or 0


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    keys = sorted({*old, *new})
    return {key: (old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)}
