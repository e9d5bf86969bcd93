"""Pages of 2.3: those with a dense structure are read as the page of 2.2 that they describe.

Source: file sheet 2.1, section 3.12. Imports ``miniblock``, ``fullzip``, ``constant``, ``layouts``, ``pages``, ``repdef``,
``store.reads``, ``rows``, ``schema``, ``limits`` and ``errors``.
"""

from __future__ import annotations

from dataclasses import replace

from lancecy.encodings import constant, fullzip, miniblock
from lancecy.encodings.layouts import ConstantPage, MiniBlock, Planar
from lancecy.encodings.pages import Page
from lancecy.encodings.repdef import LeafPage
from lancecy.errors import UnsupportedError
from lancecy.limits import Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import Read, SourceFile

__all__ = ["read"]


def read(
    spec: Planar, page: Page, chain: tuple[Field, ...], rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[LeafPage]:
    """Decode rows of a page of 2.3; parameters and errors as ``miniblock.read``.

    Raises
    ------
    UnsupportedError
        The structure is sparse.
    """
    values = spec.values
    if spec.sparse is not None or values is None or spec.indexed is not None:
        raise UnsupportedError("pages with a sparse structure (version 2.3)", feature="sparse structure")
    inner = replace(page, spec=values)
    if isinstance(values, MiniBlock):
        return (yield from miniblock.read(values, inner, chain, rows, file, limits))
    if isinstance(values, ConstantPage):
        return (yield from constant.read(values, inner, chain, rows, file, limits))
    return (yield from fullzip.read(values, inner, chain, rows, file, limits))
