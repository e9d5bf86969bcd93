"""Snapshots of tables by URI."""

from __future__ import annotations

from typing import Any

from lancecy.limits import Limits
from lancecy.session import Session, default
from lancecy.table.location import TableLocation
from lancecy.table.snapshot import Snapshot, load_snapshot

__all__ = ["snapshot_of"]


def snapshot_of(
    uri: str,
    version: int | None = None,
    *,
    asof: Any = None,
    session: Session | None = None,
    recover: bool = False,
    limits: Limits | None = None,
    **address: Any,
) -> Snapshot:
    """The table at a URI at its newest or a given version; ``address`` as for ``TableLocation.of``."""
    limits = limits or (session or default()).limits
    return load_snapshot(TableLocation.of(uri, limits=limits, **address), version, asof, session, recover)
