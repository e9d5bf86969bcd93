"""Key filters: the keys of the rows that a merge inserted, in its transaction.

Two merges of one new key insert it twice, and touch no common fragment. So each states hashes of the keys that it
inserted, and a commit compares them with those committed meanwhile. Few keys are listed; many are a split block
Bloom filter (SBBF) as in Parquet, which may say "shared" where nothing is, and never the reverse.

A key's hash is XXH64 with seed 0 of its bytes (``changes.key_hashes``). The reference implementation writes
a Bloom filter of fixed size from the same hashes.

Source: table sheet, section 4.2.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.kernels.sorting import sorted_unique
from lancecy.proto import transaction_pb2
from lancecy.records import dataclass

__all__ = ["KeyFilter"]

UInt32: TypeAlias = NDArray[np.uint32]
UInt64: TypeAlias = NDArray[np.uint64]
Message: TypeAlias = transaction_pb2.Transaction.KeyExistenceFilter

# Above this number of keys a Bloom filter is written. A listed hash takes ten bytes, in every transaction.
_MOST_LISTED = 1024
# The reference implementation's Bloom filter: 32 bits for each of 8192 keys. It compares no others.
_ITEMS, _PROBABILITY = 8192, 0.00057
_BYTES_PER_KEY = 4
# A larger filter would make the manifest long that holds the transaction.
_MOST_BYTES = 1 << 20

_WORDS = 8
_BLOCK_BYTES = _WORDS * 4
_SALT: UInt32 = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31],
    dtype=np.uint32,
)


@dataclass(frozen=True, slots=True, eq=False)
class KeyFilter:
    """The keys of the rows that an operation inserted, as hashes.

    Attributes
    ----------
    fields : tuple of int
        Ids of the key's columns, in the order of the key.
    hashes : (n,) uint64, ascending, or None
        The hash of each key; None for a Bloom filter.
    bloom : bytes
        The Bloom filter: blocks of eight little-endian words of 32 bits.
    items : int
        Number of keys that the Bloom filter was made for.
    probability : float
        Rate of false positives that it was made for.

    Examples
    --------
    >>> import numpy as np
    >>> mine = KeyFilter.of((0,), np.array([5, 7], dtype=np.uint64))
    >>> mine.may_share(KeyFilter.of((0,), np.array([7, 9], dtype=np.uint64)))
    True
    >>> mine.may_share(KeyFilter.of((0,), np.array([6], dtype=np.uint64)))
    False
    """

    fields: tuple[int, ...]
    hashes: UInt64 | None
    bloom: bytes = b""
    items: int = 0
    probability: float = 0.0

    @classmethod
    def of(cls, fields: tuple[int, ...], hashes: UInt64) -> KeyFilter:
        """The filter of the keys with these hashes.

        Parameters
        ----------
        fields : tuple of int
        hashes : (n,) uint64
            In any order, also repeated.
        """
        if hashes.size <= _MOST_LISTED:
            return cls(fields, sorted_unique(hashes))
        size = _ITEMS * _BYTES_PER_KEY
        while size < hashes.size * _BYTES_PER_KEY and size < _MOST_BYTES:
            size *= 2
        return cls(fields, None, _bloom_of(hashes, size), size // _BYTES_PER_KEY, _PROBABILITY)

    @property
    def has_keys(self) -> bool:
        """Whether it may have keys; False is certain."""
        return self.hashes is None or self.hashes.size > 0

    def may_share(self, other: KeyFilter) -> bool:
        """Whether both may have a key in common; False is certain.

        True if that cannot be told: filters of other columns, Bloom filters of different sizes or that cannot be
        read. Also for a Bloom filter without a key: the reference implementation leaves out keys of some types.

        Parameters
        ----------
        other : KeyFilter
        """
        if self.fields != other.fields:
            return True
        if not (self.has_keys and other.has_keys):
            return False
        if self.hashes is not None and other.hashes is not None:
            return bool(np.isin(self.hashes, other.hashes, assume_unique=True).any())
        mine, theirs = self._blocks(), other._blocks()
        if self.hashes is not None:
            return theirs is None or _has_any(theirs, self.hashes)
        if other.hashes is not None:
            return mine is None or _has_any(mine, other.hashes)
        if mine is None or theirs is None or mine.shape != theirs.shape:
            return True
        # A key sets one bit in every word of its block.
        return bool(((mine & theirs) != 0).all(axis=1).any())

    def encode(self, message: Message) -> None:
        """Write it into the message of a transaction.

        Parameters
        ----------
        message : lance.table.Transaction.KeyExistenceFilter
            Changed.
        """
        message.field_ids.extend(self.fields)
        if self.hashes is not None:
            message.exact.SetInParent()
            message.exact.key_hashes.extend(self.hashes.tolist())
            return
        message.bloom.bitmap = self.bloom
        # The field has 32 bits; the bitmap states the size.
        message.bloom.num_bits = min(len(self.bloom) * 8, 0xFFFF_FFFF)
        message.bloom.number_of_items = self.items
        message.bloom.probability = self.probability

    @classmethod
    def decode(cls, message: Message) -> KeyFilter:
        """The filter in a message. Any message gives one, whose size is at most that of the message."""
        fields = tuple(message.field_ids)
        if message.WhichOneof("data") == "bloom":
            stored = message.bloom
            items, probability = stored.number_of_items or _ITEMS, stored.probability or _PROBABILITY
            return cls(fields, None, stored.bitmap, items, probability)
        return cls(fields, sorted_unique(np.array(message.exact.key_hashes, dtype=np.uint64)))

    def _blocks(self) -> UInt32 | None:
        """The words of the Bloom filter, shape (blocks, 8); None if they say nothing."""
        if not self.bloom or len(self.bloom) % _BLOCK_BYTES:
            return None
        words = np.frombuffer(self.bloom, dtype="<u4").reshape(-1, _WORDS)
        return words if words.any() else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyFilter) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[object, ...]:
        listed = None if self.hashes is None else self.hashes.tobytes()
        return (self.fields, listed, self.bloom, self.items, self.probability)


def _places(hashes: UInt64, blocks: int) -> tuple[NDArray[np.int64], UInt32]:
    """Block of each hash, (n,), and its bit in each word of the block, (n, 8)."""
    block = ((hashes >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)
    low = (hashes & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
    return block.astype(np.int64), (low[:, None] * _SALT) >> np.uint32(27)


def _bloom_of(hashes: UInt64, size: int) -> bytes:
    bits = np.zeros(size, np.uint8)
    kernels.set_filter_bits(hashes, bits)
    return bits.tobytes()


def _has_any(blocks: UInt32, hashes: UInt64) -> bool:
    block, bit = _places(hashes, len(blocks))
    found = (blocks[block] >> bit) & np.uint32(1)
    return bool(found.all(axis=1).any())
