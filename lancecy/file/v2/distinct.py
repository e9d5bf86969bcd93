"""Check that the index type of a file's dictionaries can count their values.

Every page has its own dictionary, and lancecy returns one per batch. pylance merges the dictionaries of the pages
it reads together, and fails if they have more values than the index type can count.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lancecy.encodings.arrow.from_arrow import without_views
from lancecy.errors import UnsupportedError, printable
from lancecy.schema import Field

__all__ = ["Distinct"]


class Distinct:
    """Collects the dictionary values of a file's columns.

    Examples
    --------
    >>> words = pa.array(["a", "b"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    >>> seen = Distinct()
    >>> seen.note(words, Field("d", 0, logical_type="dict:string:int8:false"))
    """

    def __init__(self) -> None:
        self._known: dict[str, pa.Array] = {}

    def note(self, array: pa.Array, field: Field) -> None:
        """Add a page of a column.

        Parameters
        ----------
        array : pyarrow.Array
        field : Field
            Top-level.

        Raises
        ------
        UnsupportedError
            A dictionary of the file would have more values than its index type can count.
        """
        for path, found in _dictionaries(array, field.name):
            known = self._known.get(path)
            values = without_views(found.dictionary).drop_null()
            if known is not None and not known.equals(values):
                values = pa.chunked_array([known, values]).unique()
            self._known[path] = values
            index = found.type.index_type
            # Signed and unsigned types: pylance counts from 0.
            numbers = 1 << (index.bit_width - pa.types.is_signed_integer(index))
            if len(values) > numbers:
                raise UnsupportedError(
                    f"column {printable(path)!r} has more than {numbers:,} different values in one file, which indices of "
                    f"type {index} cannot number: cast it to a wider index type, or to {found.type.value_type}",
                    feature="dictionaries larger than their index type",
                )


def _dictionaries(array: pa.Array, path: str) -> Iterator[tuple[str, pa.DictionaryArray]]:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _dictionaries(array.storage, path)
    elif pa.types.is_dictionary(kind):
        yield path, array
    elif pa.types.is_struct(kind):
        for number, child in enumerate(kind):
            yield from _dictionaries(array.field(number), f"{path}.{child.name}")
    elif pa.types.is_map(kind):
        yield from _dictionaries(array.keys, f"{path}.{kind.key_field.name}")
        yield from _dictionaries(array.items, f"{path}.{kind.item_field.name}")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _dictionaries(array.values, f"{path}.{kind.value_field.name}")
