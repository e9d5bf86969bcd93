"""Properties of a directory namespace, from texts.

Source: namespace document, "Configuration".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lance_namespace import InvalidInputError

from lancecy.errors import nearest, printable
from lancecy.records import dataclass
from lancecy.store.uri import canonical_uri

__all__ = ["STORAGE", "Properties"]

STORAGE = "storage."
"""Prefix of properties that are storage options."""

_TRUE, _FALSE = frozenset({"true", "1", "yes", "y", "on"}), frozenset({"false", "0", "no", "n", "off"})
_FLAGS = (
    "manifest_enabled",
    "dir_listing_enabled",
    "table_version_tracking_enabled",
    "vend_input_storage_options",
    "untrusted",
    "ops_metrics_enabled",
)
# Properties of pylance that change nothing here: both sources are always merged.
_WITHOUT_EFFECT = frozenset(
    {
        "dir_listing_to_manifest_migration_enabled",
        "inline_optimization_enabled",
        "vend_input_storage_options_refresh_interval_millis",
    }
)
_OTHERS = ("credential_vendor.", "dynamic_context_provider.")


@dataclass(frozen=True)
class Properties:
    """Properties as values.

    Attributes
    ----------
    root : str
        Canonical URI or absolute path.
    manifest_enabled : bool
        Whether ``__manifest`` is used (V2).
    dir_listing_enabled : bool
        Whether directories of the root are tables (V1).
    table_version_tracking_enabled : bool
        Whether answers say that versions are committed through the namespace.
    vend_input_storage_options : bool
        Whether answers have the storage options.
    untrusted : bool
        Whether the root comes from an untrusted source: tables are opened as ``lancecy.dataset(…, untrusted=True)``
        opens them, and symbolic links are not followed.
    ops_metrics_enabled : bool
        Whether calls of operations are counted.
    commit_retries : int
        Maximum number of lost races of one change.
    storage_options : mapping of str to str
        Never shown.
    """

    root: str
    manifest_enabled: bool = True
    dir_listing_enabled: bool = True
    table_version_tracking_enabled: bool = False
    vend_input_storage_options: bool = False
    untrusted: bool = False
    ops_metrics_enabled: bool = False
    commit_retries: int = 20
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Properties:
        """The properties of texts.

        Parameters
        ----------
        given : mapping
            A relative root is taken from the working directory of now.

        Raises
        ------
        InvalidInputError
            There is no root, or a name or value is not known.

        Examples
        --------
        >>> Properties.parse({"root": "file:///my/dir/", "manifest_enabled": "no"}).manifest_enabled
        False
        """
        rest = {name: value for name, value in given.items() if not name.startswith(STORAGE)}
        root = rest.pop("root", None)
        if not root:
            raise InvalidInputError(
                "a directory namespace needs the property root, the directory of its tables"
            )
        _check_known(rest)
        retries = str(rest.get("commit_retries", cls.commit_retries))
        if not retries.isdecimal():
            raise InvalidInputError(f"commit_retries is a whole number, not {printable(retries)!r}")
        flags = {name: _flag(name, rest[name]) for name in _FLAGS if name in rest}
        options = {n.removeprefix(STORAGE): v for n, v in given.items() if n.startswith(STORAGE)}
        return cls(_root(str(root)), **flags, commit_retries=int(retries), storage_options=options)


def _root(text: str) -> str:
    try:
        canonical = canonical_uri(text)
    except ValueError as error:
        raise InvalidInputError(f"the root is no directory: {error}") from error
    # The user and password of a URL become storage options of the location.
    return text if "@" in text and "://" in text else canonical


def _check_known(rest: Mapping[str, Any]) -> None:
    known = {*_FLAGS, "commit_retries", *_WITHOUT_EFFECT}
    for name in rest:
        if name.startswith(_OTHERS):
            raise InvalidInputError(
                f"property {printable(name)!r} is not supported: credentials are given as storage.* properties"
            )
        if name not in known:
            close = nearest(name, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidInputError(f"a directory namespace has no property {printable(name)!r}{hint}")


def _flag(name: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in _TRUE | _FALSE:
        raise InvalidInputError(f"property {name} is true or false, not {printable(text)!r}")
    return text in _TRUE
