"""Options of ``spark.read.format("lancecy")``, and how options of the format are parsed and checked.

Spark passes options as text under lower-case names. An unknown name is an error, so that a
misspelt ``filter`` does not scan the whole table; ``batchSize`` and ``batch_size`` are the
same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from types import MappingProxyType
from typing import Any, TypeVar

from lancecy.api.named_tables import named_place
from lancecy.errors import UnsupportedError, nearest, needing, printable
from lancecy.records import dataclass
from lancecy.table.refs.reference import Reference

__all__ = ["KEPT_NOWHERE", "ReadOptions", "TableOptions", "json_value", "parsed", "placed"]

Options = TypeVar("Options", bound="TableOptions")

_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


@dataclass(frozen=True)
class TableOptions:
    """Options that name a table.

    Attributes
    ----------
    path : str
        A path, or a URL that the executors reach too.
    storage_options : dict
        From a JSON object.
    namespace : dict or None
        From a JSON object: properties of a namespace, in place of a path, and its class or alias as ``impl``; that of
        lancecy by default.
    table_id : list of str or None
        From a JSON list, or names joined by dots.
    """

    path: str = ""
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False)
    namespace: dict[str, Any] | None = field(default=None, repr=False)
    table_id: list[str] | None = None


@dataclass(frozen=True)
class ReadOptions(TableOptions):
    """Options of a read through the data source.

    Attributes
    ----------
    columns : sequence of str, mapping or None
        From comma-separated names, a JSON list of names, or a JSON object of output names and SQL text.
    filter : str or None
        SQL text.
    version : int, str or None
        A number, or the name of a tag.
    tag : str or None
        The name of a tag, also one of digits only.
    branch : str or None
        Its newest version, or the one of ``version`` or ``asof``; "main" is the main table.
    asof : str or None
        ISO 8601.
    batch_size : int or None, rows
    blocksize : int or None, bytes
        Target size of a partition.
    partitions : int or None
        Target number of partitions.
    with_row_id, with_row_address, truncate_nanoseconds, untrusted : bool
    allowed_bases : list of str or None
        From a JSON list, or comma-separated names.
    replicas : dict or None
        From a JSON object of lists.
    """

    columns: Any = None
    filter: str | None = None
    version: int | str | None = None
    tag: str | None = None
    branch: str | None = None
    asof: str | None = None
    batch_size: int | None = None
    blocksize: int | None = None
    partitions: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    truncate_nanoseconds: bool = False
    untrusted: bool = False
    allowed_bases: Any = None
    replicas: dict[str, Any] | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReadOptions:
        """Check the options of a read.

        Parameters
        ----------
        given : mapping of str to str
            As Spark passes them.

        Raises
        ------
        ValueError
            A name is unknown (the message suggests one), a value cannot be parsed, or there is no path.

        Examples
        --------
        >>> ReadOptions.parse({"path": "t.lance", "batchsize": "4096", "columns": "id, vec"}).columns
        ['id', 'vec']
        """
        found = placed(parsed(cls, given), None)
        if not found.path:
            raise ValueError(
                'lancecy reads one table: say which with .load(path), or in SQL with a temporary view and OPTIONS (path "…"). '
                + KEPT_NOWHERE
                + " FROM name WITH (path '…')"
            )
        if found.tag is not None and (found.version, found.branch) != (None, None):
            raise ValueError("option tag names a version of a branch already: leave out version and branch")
        if found.branch is not None and isinstance(found.version, str):
            raise ValueError(
                f"option version must be a number with option branch, not {printable(found.version)!r}; "
                "a tag names its branch itself"
            )
        return found

    @property
    def reference(self) -> Reference:
        """The version to open, as for ``lancecy.dataset``."""
        if self.branch is not None:
            return self.branch, self.version if isinstance(self.version, int) else None
        return self.version if self.tag is None else self.tag


def parsed(
    kind: Callable[..., Options],
    given: Mapping[str, str],
    readers: Mapping[str, Callable[[str, str], Any]] = MappingProxyType({}),
) -> Options:
    """Options from the texts that Spark passes.

    Parameters
    ----------
    kind : dataclass
    given : mapping of str to str
    readers : mapping of str to function
        Functions of a name and a text that return the value, of options that only this kind has.

    Raises
    ------
    ValueError
        A name is unknown, or a value cannot be parsed.
    UnsupportedError
        They are those of a table in Spark's catalog.
    """
    known = {f.name.replace("_", ""): f.name for f in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    if "provider" in given and "owner" in given:
        raise _no_catalog()
    for key, text in given.items():
        name = known.get(key.replace("_", "").lower())
        if name is None:
            raise ValueError(_unknown(key, list(known.values())))
        values[name] = readers.get(name, _READERS.get(name, _text))(name, text)
    return kind(**values)


def placed(found: Options, mode: str | None) -> Options:
    """The options with the path of the table that a namespace names.

    Parameters
    ----------
    found : ReadOptions or SinkOptions
    mode : str or None
        Of a write.

    Raises
    ------
    ValueError
        Both a path and a name are given, or a part of the name is missing.
    """
    if found.namespace is None and found.table_id is None:
        return found
    if found.path or found.namespace is None or found.table_id is None:
        raise ValueError("a table by name needs the options namespace and table_id, and no path")
    with needing("a table by name", "namespace"):
        import lance_namespace

    properties = dict(found.namespace)
    impl = properties.pop("impl", "lancecy.namespace.DirectoryNamespace")
    place = named_place(
        lance_namespace.connect(impl, properties), found.table_id, found.storage_options, mode=mode
    )
    return replace(found, path=place.uri, storage_options=place.storage_options)


KEPT_NOWHERE = (
    "Spark keeps no path and no options of tables made by CREATE TABLE … USING lancecy or saveAsTable; give them with "
    "each query, as in"
)


def _no_catalog() -> UnsupportedError:
    # Spark passes the properties of a catalog's table only while it asks for the columns of a new one.
    return UnsupportedError(
        "CREATE TABLE … USING lancecy does not work: for formats in Python, Spark keeps neither the path nor the options "
        'of a table. Make it with df.write.format("lancecy").mode("append").save(path) or lancecy.spark.write(df, path); '
        "for SQL, CREATE TEMPORARY VIEW name USING lancecy OPTIONS (path '…') reads it, and INSERT INTO name adds rows",
        feature="Spark: CREATE TABLE",
    )


def _unknown(key: str, known: list[str]) -> str:
    if key.lower() in ("nearest", "prefilter"):
        return f"lancecy has no option {key!r}: lancecy.spark.read(spark, path, nearest=…) searches"
    close = nearest(key.lower(), known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"lancecy has no option {printable(key)!r}{hint} Its options are {', '.join(sorted(known))}"


def _text(name: str, text: str) -> str:
    return text


def _number(name: str, text: str) -> int:
    try:
        number = int(text.strip())
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError(f"option {name} must be a whole number above zero, not {printable(text)!r}")
    return number


def _version(name: str, text: str) -> int | str:
    return _number(name, text) if text.strip().lstrip("-").isdigit() else text.strip()


def _flag(name: str, text: str) -> bool:
    value = text.strip().lower()
    if value not in _TRUE + _FALSE:
        raise ValueError(f"option {name} must be true or false, not {printable(text)!r}")
    return value in _TRUE


def json_value(name: str, text: str, kind: type, what: str) -> Any:
    """The value of an option that is JSON.

    Parameters
    ----------
    name, text : str
        The option.
    kind : type
        Of the value.
    what : str
        The same in words, for the message.

    Raises
    ------
    ValueError
        It is no JSON, or has another type.
    """
    # The message does not quote the text: storage options hold secrets.
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"option {name} is not JSON: {getattr(error, 'msg', 'too deep')}") from None
    if not isinstance(value, kind):
        raise ValueError(f"option {name} must be {what}")  # noqa: TRY004
    return value


def _names(name: str, text: str) -> list[str]:
    if text.lstrip().startswith("["):
        names = json_value(name, text, list, "a JSON list of strings")
        if not all(isinstance(item, str) for item in names):
            raise ValueError(f"option {name} must be a JSON list of strings")
        return list(names)
    return [part.strip() for part in text.split(",") if part.strip()]


def _flag_or_names(name: str, text: str) -> bool | list[str]:
    is_flag = text.strip().lower() in _TRUE + _FALSE
    return _flag(name, text) if is_flag else _names(name, text)


def _columns(name: str, text: str) -> list[str] | dict[str, Any]:
    if text.lstrip().startswith("{"):
        return dict(json_value(name, text, dict, "a JSON object"))
    return _names(name, text)


def _object(name: str, text: str) -> dict[str, Any]:
    return dict(json_value(name, text, dict, "a JSON object"))


def _table_id(name: str, text: str) -> list[str]:
    return _names(name, text) if text.lstrip().startswith("[") else text.strip().split(".")


_READERS: dict[str, Callable[[str, str], Any]] = {
    "namespace": _object,
    "table_id": _table_id,
    "columns": _columns,
    "allowed_bases": _names,
    "target_bases": _names,
    "zonemaps": _flag_or_names,
    "storage_options": _object,
    "replicas": _object,
    "version": _version,
    **dict.fromkeys(("batch_size", "blocksize", "partitions"), _number),
    **dict.fromkeys(("max_rows_per_file", "max_bytes_per_file", "max_rows_per_group"), _number),
    **dict.fromkeys(("with_row_id", "with_row_address", "truncate_nanoseconds", "untrusted"), _flag),
    **dict.fromkeys(("enable_stable_row_ids", "target_all_bases", "cast"), _flag),
}
