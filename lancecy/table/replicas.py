"""Replicas: other places that hold the files of a base under the same names.

The user names them when a table is opened, or the table's configuration does. A base is named by its name, id or path,
and the table's own folder by its URI or by nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from lancecy.errors import NotFoundError, PathPolicyError
from lancecy.store.uri import split_credentials

__all__ = [
    "CONFIG_KEY",
    "NamedReplicas",
    "Replicas",
    "check_replicas",
    "configured_replicas",
    "named_replicas",
]

CONFIG_KEY = "lancecy.replicas"
"""Key of the configuration for the table's own folder; followed by a dot and a base for those of the base."""

Replicas: TypeAlias = Mapping[Any, Sequence[str | os.PathLike[str]]]
"""Places by base, the nearest first; None or "" is the table's own folder."""
NamedReplicas: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""The same as a value: canonical URIs, "" for the table's own folder."""


def named_replicas(given: Replicas | None) -> NamedReplicas:
    """The replicas that a user names.

    Parameters
    ----------
    given : mapping of str or None to sequence of str or path, optional

    Raises
    ------
    TypeError
        Not a mapping of lists.
    ValueError
        A place holds credentials, or cannot be a folder.

    Examples
    --------
    >>> named_replicas({"us-east": ["s3://near/data/", "s3://far/data"]})
    (('us-east', ('s3://near/data', 's3://far/data')),)
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise TypeError("replicas is a mapping such as {'us-east': ['s3://bucket/data']}")
    return tuple((name or "", tuple(_places(name, places))) for name, places in given.items())


def _places(name: str | None, places: Sequence[str | os.PathLike[str]]) -> Iterator[str]:
    if isinstance(places, str | os.PathLike):
        raise TypeError(f"the replicas of {name!r} are a list of places, not a single one: write [place]")
    for place in places:
        uri, credentials = split_credentials(os.fspath(place))
        if credentials:
            raise PathPolicyError(
                f"a replica of {name!r} holds credentials: pass storage_options with 'base_<id>.replica_<number>.<option>' keys"
            )
        yield uri


def configured_replicas(config: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    r"""The replicas that a table's configuration names.

    Parameters
    ----------
    config : mapping of str to str

    Examples
    --------
    >>> configured_replicas({"lancecy.replicas.us-east": "s3://near/data\ns3://far/data", "other": "x"})
    {'us-east': ('s3://near/data', 's3://far/data')}
    """
    found = {}
    for key, text in config.items():
        if key == CONFIG_KEY or key.startswith(f"{CONFIG_KEY}."):
            places = tuple(line.strip() for line in text.split("\n") if line.strip())
            found[key.removeprefix(CONFIG_KEY).removeprefix(".")] = places
    return found


def check_replicas(named: NamedReplicas, known: Mapping[str, object]) -> None:
    """Refuse replicas of bases that the table lacks.

    Parameters
    ----------
    named : NamedReplicas
    known : mapping
        Its keys are all names of bases.

    Raises
    ------
    NotFoundError
    """
    for name, _ in named:
        if name not in known:
            names = ", ".join(sorted(repr(one) for one in known if one and not one.isdecimal()))
            raise NotFoundError(
                f"the table has no base {name!r} for replicas, only {names}", kind="base", name=name
            )
