"""Locks and errors of commits under the names of pylance's ``lance.commit``. The function ``lancecy.commit`` stays one.

``CommitConflictError`` is :class:`lancecy.errors.CommitError`, so that it catches every failed commit. A ``commit_lock``
raises it where another writer has the version.

Examples
--------
>>> import lancecy
>>> from lancecy.commit import CommitConflictError
>>> ds = lancecy.write_dataset({"a": [1]}, "memory://doc-commit-errors")
>>> lancecy.dataset(ds.uri).update_config({"owner": "me"})
{'owner': 'me'}
>>> try:
...     ds.update_config({"owner": "you"})
... except CommitConflictError as error:
...     print(error.retryable)
False
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancecy.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from lancecy.errors import CommitConflictError as CommitConflictError
    from lancecy.store.committing import CommitLock as CommitLock

_HOMES = {"lancecy.errors": "CommitConflictError", "lancecy.store.committing": "CommitLock"}

__getattr__, __dir__, __all__ = lazy_attributes(__name__, _HOMES)
