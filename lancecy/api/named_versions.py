"""Versions of a table that are committed through its namespace (``managed_versioning``).

A namespace that manages versions is a key-value store of manifests: a commit stages its manifest and asks the namespace
for the version, which copies it to its final name unless the version is taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lancecy.errors import StoreError, UnsupportedError
from lancecy.store.key_values.base import ManifestItem
from lancecy.table.paths import parse_manifest_name

__all__ = ["NamespaceVersions"]

_DETACHED = 1 << 63
_PAGE = 1000
_BRANCH = re.compile(r"(.*?)/tree/(.+)", re.DOTALL)
# Codes of ``lance_namespace``: nothing there; another writer was first.
_MISSING, _TAKEN = frozenset({4, 11, 22}), frozenset({14})


class NamespaceVersions:
    """The versions of one table, as a ``lancecy.ManifestKeyValue``.

    Requests can be used as mappings and as models; answers are either.

    Parameters
    ----------
    namespace : lance_namespace.LanceNamespace
    table_id : sequence of str
    """

    def __init__(self, namespace: Any, table_id: Sequence[str]) -> None:
        self._namespace = namespace
        self._table_id = list(table_id)

    def get(self, table: str, version: int) -> ManifestItem | None:
        """See ``ManifestKeyValue``."""
        answer = self._asked("describe_table_version", table, version=version)
        return None if answer is None else _item(_field(answer, "version"))[1]

    def latest(self, table: str) -> tuple[int, ManifestItem] | None:
        """See ``ManifestKeyValue``."""
        answer = self._asked("list_table_versions", table, limit=1, descending=True)
        found = [] if answer is None else [_item(one) for one in _field(answer, "versions") or ()]
        return found[0] if found else None

    def above(self, table: str, version: int = 0) -> list[tuple[int, ManifestItem]]:
        """See ``ManifestKeyValue``."""
        found: list[tuple[int, ManifestItem]] = []
        token: str | None = None
        while True:
            page = {} if token is None else {"page_token": token}
            answer = self._asked("list_table_versions", table, limit=_PAGE, descending=True, **page)
            listed = [] if answer is None else [_item(one) for one in _field(answer, "versions") or ()]
            found += [one for one in listed if version < one[0] < _DETACHED]
            token = None if answer is None else _field(answer, "page_token")
            if not token or not listed or listed[-1][0] <= version:
                return sorted(found, key=lambda one: one[0])

    def put_if_absent(self, table: str, version: int, item: ManifestItem) -> bool:
        """See ``ManifestKeyValue``."""
        name = parse_manifest_name(item.path.rpartition("/")[2])
        if name is None or not name.staged:
            # A finished manifest is what the namespace lists.
            return False
        request = {
            "version": version,
            "manifest_path": f"{_inside_store(table)}/{item.path}",
            "naming_scheme": name.naming.name,
        }
        if item.size is not None:
            request["manifest_size"] = item.size
        try:
            return self._asked("create_table_version", table, **request) is not None
        except _TakenError:
            return False

    def put_if(self, table: str, version: int, item: ManifestItem, expected: ManifestItem) -> bool:
        """See ``ManifestKeyValue``; the namespace names final manifests by itself."""
        return True

    def delete(self, table: str, versions: Sequence[int]) -> None:
        """See ``ManifestKeyValue``."""
        ranges = [{"start_version": version, "end_version": version + 1} for version in versions]
        if ranges:
            self._asked("batch_delete_table_versions", table, ranges=ranges)

    def _asked(self, operation: str, table: str, **fields: Any) -> Any:
        """The answer of the namespace; None if it has no such version."""
        branch = _BRANCH.fullmatch(table)
        request = _Request(id=self._table_id, **fields, **({} if branch is None else {"branch": branch[2]}))
        try:
            return getattr(self._namespace, operation)(request)
        except Exception as error:
            code = getattr(error, "code", None)
            if code in _MISSING:
                return None
            if code in _TAKEN:
                raise _TakenError from error
            if code == 0 or isinstance(error, NotImplementedError):
                raise UnsupportedError(
                    f"the namespace manages versions, and has no {operation}: {error}", feature=operation
                ) from error
            raise StoreError(
                f"the namespace did not answer {operation} of {'.'.join(self._table_id)!r}: {error}",
                store=table,
            ) from error


class _Request(dict[str, Any]):
    """A request that can be used as a mapping and as a model: classes of namespaces take one or the other."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.get(name)

    def model_dump(self, **options: object) -> dict[str, Any]:
        """The fields that are given."""
        return dict(self)


class _TakenError(Exception):
    """Another writer has the version."""


def _field(answer: Any, name: str) -> Any:
    return answer.get(name) if isinstance(answer, Mapping) else getattr(answer, name, None)


def _item(version: Any) -> tuple[int, ManifestItem]:
    path = str(_field(version, "manifest_path"))
    name = path.rpartition("/")[2]
    return int(_field(version, "version")), ManifestItem(
        f"_versions/{name}", _field(version, "manifest_size")
    )


def _inside_store(table: str) -> str:
    """The path of a table within its bucket or disk, as namespaces name manifests.

    Examples
    --------
    >>> _inside_store("s3://bucket/dir/t.lance"), _inside_store("/dir/t.lance")
    ('dir/t.lance', 'dir/t.lance')
    """
    scheme, mark, rest = table.partition("://")
    return rest.partition("/")[2] if mark else scheme.lstrip("/")
