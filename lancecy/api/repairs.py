"""``repair``: makes a damaged table readable and writable again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from lancecy.api.datasets import Dataset
from lancecy.changes.repair import TableRepair, repaired_after
from lancecy.limits import Limits
from lancecy.session import Session, default
from lancecy.table.location import TableLocation
from lancecy.table.snapshot import load_snapshot

__all__ = ["repair"]


def repair(
    uri: str | os.PathLike[str] | Dataset,
    storage_options: Mapping[str, Any] | None = None,
    *,
    untrusted: bool = False,
    allowed_bases: Sequence[str] | None = None,
    limits: Limits | None = None,
    session: Session | None = None,
) -> TableRepair:
    """Make a table readable and writable again whose manifests or row ids are damaged.

    Works on tables that :func:`dataset` cannot open; otherwise the same as :meth:`Dataset.repair`, which says what is
    repaired and how.

    Parameters
    ----------
    uri : str, path or Dataset
    storage_options, untrusted, allowed_bases, limits, session
        As for :func:`dataset`.

    Returns
    -------
    TableRepair
        What was done; true if there was anything to repair.

    Raises
    ------
    DatasetNotFoundError
        There is no dataset at ``uri``.
    FormatError, ConflictError, CommitError, UnsupportedError, LimitError, StoreError
        As :meth:`Dataset.repair`.

    Examples
    --------
    >>> import lancecy, pathlib, tempfile
    >>> ds = lancecy.write_dataset({"a": [1]}, tempfile.mkdtemp() + "/t.lance")
    >>> ds.append({"a": [2]})
    >>> newest = min(pathlib.Path(ds.uri, "_versions").iterdir())
    >>> _ = newest.write_bytes(newest.read_bytes()[:100])
    >>> found = lancecy.repair(ds.uri)
    >>> [(one.version, one.rows_of) for one in found.set_aside]
    [(2, 1)]
    >>> lancecy.dataset(ds.uri).to_table()["a"].to_pylist()
    [1]
    """
    if isinstance(uri, Dataset):
        return uri.repair()
    active = session or default()
    location = TableLocation.of(uri, storage_options, untrusted, allowed_bases, limits or active.limits)
    active = active.with_limits(location.limits)
    return repaired_after(location, active, lambda: Dataset(load_snapshot(location, session=active)))
