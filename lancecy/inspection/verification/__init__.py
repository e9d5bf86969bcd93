"""Verification: reads a whole table and reports damage.

=============  ===============================================================================
``report``     the results: :class:`Finding`, :class:`Verification`
``run``        :func:`verify`: fragments, their files, columns, deletions, row ids, in turn
``statistics`` checks page statistics against the values
=============  ===============================================================================

Damage is reported and the rest is read. Nothing is changed; ``Dataset.repair`` can mend manifests and row ids.
"""

from __future__ import annotations

from lancecy.inspection.verification.report import Finding, Verification
from lancecy.inspection.verification.run import verify

__all__ = ["Finding", "Verification", "verify"]
