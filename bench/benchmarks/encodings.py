"""The compiled loops behind the encodings of 2.x files, on chunks as pylance writes them."""

from __future__ import annotations

import numpy as np

from lancecy import kernels

from .scale import rows

CHUNK = 1024


def _chunks(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, lengths and numbers of values of enough chunks for the rows, ``size`` bytes each."""
    count = max(1, rows() // CHUNK)
    lengths = np.full(count, size, np.int64)
    return np.arange(count, dtype=np.int64) * size, lengths, np.full(count, CHUNK, np.int64)


def _whole(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs that take every value."""
    return np.arange(len(counts), dtype=np.int64), np.zeros_like(counts), counts


def _single(counts: np.ndarray, number: int = 100_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs of one value each, at random positions."""
    random = np.random.default_rng(5)
    chosen = np.sort(random.integers(0, len(counts), number))
    return chosen, random.integers(0, CHUNK, number), np.ones(number, np.int64)


class BitPacking:
    """Blocks of 1,024 integers, all of them and single ones."""

    params = ([8, 16, 32, 64], ["all", "single"])
    param_names = ("bits", "rows")

    def setup(self, bits: int, which: str) -> None:
        width = bits * 5 // 8
        size = bits // 8 + CHUNK * width // 8
        self.positions, self.lengths, self.counts = _chunks(size)
        self.memory = np.random.default_rng(6).integers(0, 255, len(self.counts) * size, dtype=np.uint8)
        header = np.frombuffer(width.to_bytes(bits // 8, "little"), np.uint8)
        self.memory.reshape(-1, size)[:, : bits // 8] = header
        self.runs = _whole(self.counts) if which == "all" else _single(self.counts)
        self.out = np.empty(int(self.runs[2].sum()) * bits // 8, np.uint8)

    def time_unpack_inline(self, bits: int, which: str) -> None:
        kernels.unpack_inline(
            self.memory, self.positions, self.lengths, self.counts, bits, *self.runs, self.out
        )


class Runs:
    """Run lengths of about ten values."""

    params = (4, 8)
    param_names = ("width",)

    def setup(self, width: int) -> None:
        per_chunk = CHUNK // 8
        self.positions, self.lengths, self.counts = _chunks(per_chunk * width)
        count = len(self.counts)
        values = np.random.default_rng(7).integers(0, 255, count * per_chunk * width, dtype=np.uint8)
        self.memory = np.concatenate((values, np.full(count * per_chunk, 8, np.uint8)))
        self.length_positions = len(values) + np.arange(count, dtype=np.int64) * per_chunk
        self.length_lengths = np.full(count, per_chunk, np.int64)
        self.runs = _whole(self.counts)
        self.out = np.empty(count * CHUNK * width, np.uint8)

    def time_expand_runs(self, width: int) -> None:
        kernels.expand_runs(
            self.memory,
            self.positions,
            self.lengths,
            self.length_positions,
            self.length_lengths,
            self.counts,
            width,
            1,
            *self.runs,
            self.out,
        )


class Symbols:
    """Strings of 12 bytes, coded with symbols of three."""

    def setup(self) -> None:
        self.symbols = np.random.default_rng(8).integers(0, 1 << 24, 256).astype(np.uint64)
        self.symbol_lengths = np.full(256, 3, np.uint8)
        self.symbol_lengths[255] = 0
        self.offsets = np.arange(rows() + 1, dtype=np.int32) * 4
        self.values = np.random.default_rng(9).integers(0, 255, rows() * 4, dtype=np.uint8)
        self.out_offsets = np.empty(rows() + 1, np.int32)
        self.positions, self.lengths = np.zeros(1, np.int64), np.array([self.values.size])
        self.out = np.empty(8 * self.values.size, np.uint8)

    def time_fsst_decode(self) -> None:
        kernels.fsst_decode(
            self.symbols,
            self.symbol_lengths,
            self.values,
            self.positions,
            self.lengths,
            self.offsets,
            0,
            0,
            self.out_offsets,
            self.out,
        )


class Dictionary:
    """Strings of 6 bytes and numbers of 8 looked up among 100."""

    def setup(self) -> None:
        self.codes = np.random.default_rng(10).integers(0, 100, rows(), dtype=np.int32)
        self.offsets = np.arange(101, dtype=np.int32) * 6
        self.values = np.random.default_rng(11).integers(97, 122, 800, dtype=np.uint8)
        self.out_offsets = np.empty(rows() + 1, np.int32)
        self.text = np.empty(rows() * 6, np.uint8)
        self.numbers = np.empty(rows() * 8, np.uint8)
        kernels.take_offsets(self.codes, self.offsets, self.out_offsets)

    def time_take_offsets(self) -> None:
        kernels.take_offsets(self.codes, self.offsets, self.out_offsets)

    def time_take_values(self) -> None:
        kernels.take_values(self.codes, self.offsets, self.values[:600], self.out_offsets, self.text)

    def time_take_fixed(self) -> None:
        kernels.take_fixed(self.codes, self.values, 8, self.numbers)


class Levels:
    """Definition levels to bitmaps, and both kinds of levels to lists of about four."""

    def setup(self) -> None:
        random = np.random.default_rng(12)
        self.definition = random.integers(0, 2, rows(), dtype=np.uint16)
        self.rep = (random.random(rows()) < 0.25).astype(np.uint16)
        self.rep[0] = 1
        self.bitmap = np.empty(-(-rows() // 8), np.uint8)
        self.offsets = np.empty(rows() + 1, np.int32)
        self.out_rep, self.out_def = np.empty_like(self.rep), np.empty_like(self.rep)

    def time_level_validity(self) -> None:
        kernels.level_validity(self.definition, 0, 1, self.bitmap)

    def time_peel_lists(self) -> None:
        kernels.peel_lists(
            self.rep, self.definition, -1, -1, 1, 1, self.offsets, self.bitmap, self.out_rep, self.out_def
        )


class FullZip:
    """Values of 256 bytes with a control word before each."""

    def setup(self) -> None:
        count = max(1, rows() // 64)
        self.memory = np.zeros(count * 257, np.uint8)
        self.starts, self.stops = np.zeros(1, np.int64), np.full(1, count * 257, np.int64)
        self.out_def, self.values = np.empty(count, np.uint16), np.empty(count * 256, np.uint8)

    def time_zip_fixed(self) -> None:
        kernels.zip_fixed(
            self.memory, self.starts, self.stops, 1, 1, 256, 1, 0, 1, None, self.out_def, self.values
        )
