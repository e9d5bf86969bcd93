"""Options of ``spark.read.format("lancecy")``: texts in, checked values out.

Spark hands options over as texts under names in lower case. Every name must be known, so that
a misspelt ``filter`` is an error and not a scan of the whole table; ``batchSize`` and
``batch_size`` are the same.

Imports ``errors`` only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lancecy.errors import nearest, printable

__all__ = ["ReadOptions"]

_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


@dataclass(frozen=True)
class ReadOptions:
    """What a user of the data source asked for.

    Attributes
    ----------
    path : str
        Where the table is: a path, or a URL that the executors reach too.
    columns : sequence of str, mapping or None
        From names separated by commas, a JSON list of names, or a JSON object of output names and SQL text.
    filter : str or None
        SQL text.
    version : int or None
    asof : str or None
        ISO 8601.
    batch_size : int or None, rows
    blocksize : int or None, bytes
        Of a partition.
    partitions : int or None
        How many partitions to aim for.
    with_row_id, with_row_address, truncate_nanoseconds, untrusted : bool
    allowed_bases : list of str or None
        From a JSON list, or names separated by commas.
    storage_options : dict
        From a JSON object.
    """

    path: str
    columns: Any = None
    filter: str | None = None
    version: int | None = None
    asof: str | None = None
    batch_size: int | None = None
    blocksize: int | None = None
    partitions: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    truncate_nanoseconds: bool = False
    untrusted: bool = False
    allowed_bases: Any = None
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReadOptions:
        """Check the options of a read.

        Parameters
        ----------
        given : mapping of str to str
            As Spark has them.

        Raises
        ------
        ValueError
            A name is unknown (the nearest one is named), a value cannot be read, or there is no path.

        Examples
        --------
        >>> ReadOptions.parse({"path": "t.lance", "batchsize": "4096", "columns": "id, vec"}).columns
        ['id', 'vec']
        """
        known = {f.name.replace("_", ""): f.name for f in fields(cls)}
        values: dict[str, Any] = {}
        for key, text in given.items():
            name = known.get(key.replace("_", "").lower())
            if name is None:
                raise ValueError(_unknown(key, list(known.values())))
            values[name] = _READERS.get(name, _text)(name, text)
        if not values.get("path"):
            raise ValueError('lancecy reads one table: say which with .load(path) or OPTIONS (path "…")')
        return cls(**values)


def _unknown(key: str, known: list[str]) -> str:
    close = nearest(key.lower(), known, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"lancecy has no option {printable(key)!r}; {hint}Its options are {', '.join(sorted(known))}"


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


def _flag(name: str, text: str) -> bool:
    value = text.strip().lower()
    if value not in _TRUE + _FALSE:
        raise ValueError(f"option {name} must be true or false, not {printable(text)!r}")
    return value in _TRUE


def _json(name: str, text: str, kind: type, what: str) -> Any:
    # The text is not quoted: storage options hold secrets.
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"option {name} is no JSON: {getattr(error, 'msg', 'too deep')}") from None
    if not isinstance(value, kind):
        raise ValueError(f"option {name} must be {what}")  # noqa: TRY004
    return value


def _names(name: str, text: str) -> list[str]:
    if text.lstrip().startswith("["):
        names = _json(name, text, list, "a JSON list of texts")
        if not all(isinstance(item, str) for item in names):
            raise ValueError(f"option {name} must be a JSON list of texts")
        return list(names)
    return [part.strip() for part in text.split(",") if part.strip()]


def _columns(name: str, text: str) -> list[str] | dict[str, Any]:
    if text.lstrip().startswith("{"):
        return dict(_json(name, text, dict, "a JSON object"))
    return _names(name, text)


def _object(name: str, text: str) -> dict[str, Any]:
    return dict(_json(name, text, dict, "a JSON object"))


_READERS: dict[str, Callable[[str, str], Any]] = {
    "columns": _columns,
    "allowed_bases": _names,
    "storage_options": _object,
    **dict.fromkeys(("version", "batch_size", "blocksize", "partitions"), _number),
    **dict.fromkeys(("with_row_id", "with_row_address", "truncate_nanoseconds", "untrusted"), _flag),
}
