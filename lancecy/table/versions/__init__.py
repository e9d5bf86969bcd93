"""Version stores: where the versions of a table are found, listed, published, replaced and removed.

``base``          the protocol :class:`VersionStore` and its values
``folder``        manifests as files in ``_versions/``, published by a conditional put or a local link
``external``      manifests named by a key-value store, which makes up for a missing conditional put
``locked``        manifests published under a lock of the user's
``choice``        the version store of a table
``locate``        finds the manifest that is latest, of a version or of a time, or all versions
``damage``        what counts as a damaged manifest, and the remedy in messages
``select``        the manifest to open, with recovery from damaged ones on request

Every module that looks for a version asks a version store: opening, history, commits and cleanup.
Another store is one class with the methods of the protocol. Its methods are generators over
``requests``, so the simulator of the tests runs them as they are.
"""

from lancecy.table.versions.base import ManifestEntry, ManifestLocation, Outcome, VersionStore
from lancecy.table.versions.choice import version_store
from lancecy.table.versions.external import ExternalVersions
from lancecy.table.versions.folder import ConditionalPut, LocalLink
from lancecy.table.versions.locked import LockedPut

__all__ = [
    "ConditionalPut",
    "ExternalVersions",
    "LocalLink",
    "LockedPut",
    "ManifestEntry",
    "ManifestLocation",
    "Outcome",
    "VersionStore",
    "version_store",
]
