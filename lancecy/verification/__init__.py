"""Reading a table to the last page, to say what of it is damaged.

=============  ===============================================================================
``report``     what was found: :class:`Finding`, :class:`Verification`
``run``        :func:`verify`: fragments, their files, columns, deletions, row ids, in turn
``statistics`` whether page statistics hold for the values they describe
=============  ===============================================================================

A damaged place is reported and the rest is read. Nothing is changed: ``Dataset.repair`` mends row ids, and nothing else can be mended.
"""

from __future__ import annotations

from lancecy.verification.report import Finding, Verification
from lancecy.verification.run import verify

__all__ = ["Finding", "Verification", "verify"]
