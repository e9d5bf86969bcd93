"""Upper bounds for every number that a file can claim.

A number read from a file is compared with one of these, and with the number of
bytes present, before memory is allocated for it. The defaults admit every table
that the reference writer produces on ordinary hardware; for a larger one, pass a
``Limits`` with the named field raised.
"""

from __future__ import annotations

from lancecy.errors import LimitError
from lancecy.records import dataclass

__all__ = ["COMPUTED_BYTES", "CONSTANT_BYTES", "DEFAULT_LIMITS", "INT32_MAX", "Limits", "check_offsets"]

INT32_MAX = (1 << 31) - 1
"""Largest 32-bit offset."""

COMPUTED_BYTES = 1 << 30
"""Bytes of text that the functions of one expression may make from one batch; eight times the batch if that is more."""

CONSTANT_BYTES = 1 << 20
"""Bytes of text that the functions of one expression may make from constants, which are kept with the expression."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds for what metadata may claim.

    Attributes
    ----------
    metadata_bytes : int, bytes
        One protobuf message: manifest, file metadata, statistics schema.
    fragments : int
        Fragments in a manifest.
    fields : int
        Fields in a schema, nested ones included.
    nesting : int
        Depth of a schema, a type string or an expression.
    columns : int
        Entries per batch in a page table (the range of field ids of a data file).
    pages : int
        Pages of one column in one file.
    rows_per_file : int
        Rows in one data file or fragment; row addresses hold 32 bits.
    value_bytes : int, bytes
        Width of one fixed-width value, lists of fixed size included.
    dictionary_values : int
        Entries of one dictionary.
    name_bytes : int, bytes
        A path segment or column name.
    bare_elements : int
        Elements of the lists of one column in one file that take no bytes there, such as nulls of the
        null type. As many as the file has bits are always allowed.
    page_bytes : int, bytes
        One compressed buffer after decompression; several buffers of a column together may have more only if
        the bytes present justify it.
    """

    metadata_bytes: int = 1 << 30
    fragments: int = 10_000_000
    fields: int = 100_000
    nesting: int = 64
    columns: int = 1_000_000
    pages: int = 1 << 28
    rows_per_file: int = 1 << 32
    value_bytes: int = 1 << 30
    dictionary_values: int = 1 << 31
    name_bytes: int = 4096
    bare_elements: int = 1 << 24
    page_bytes: int = 1 << 31

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise TypeError(f"Limits.{name} is a whole number, not {value!r}")
            if value < 0:
                raise ValueError(f"Limits.{name} must not be negative, got {value}")

    def check(self, name: str, claimed: int, what: str) -> int:
        """Return ``claimed`` if it is within the limit called ``name``.

        Parameters
        ----------
        name : str
            A field of this class.
        claimed : int
            The number in the file.
        what : str
            Its name in an error.

        Raises
        ------
        LimitError
            It is negative or beyond the limit, which the message names.

        Examples
        --------
        >>> Limits().check("nesting", 3, "schema depth")
        3
        """
        cap: int = getattr(self, name)
        if claimed < 0 or claimed > cap:
            raise LimitError(f"{what} of {claimed} is beyond the limit of {cap}", limit=name, claimed=claimed)
        return claimed


DEFAULT_LIMITS = Limits()


def check_offsets(total: int, what: str, instead: str = "read the column in smaller batches") -> None:
    """Refuse a total that 32-bit offsets cannot hold.

    Parameters
    ----------
    total : int
        Bytes or elements of one array.
    what : str
        Their name in an error.
    instead : str
        The remedy, for the message.

    Raises
    ------
    LimitError
        The total is too large; no field of :class:`Limits` changes that.

    Examples
    --------
    >>> check_offsets(1 << 20, "bytes of strings")
    """
    if total > INT32_MAX:
        raise LimitError(
            f"{total} {what} in one array exceed 32-bit offsets (at most {INT32_MAX}): {instead}",
            limit="",
            claimed=total,
        )
