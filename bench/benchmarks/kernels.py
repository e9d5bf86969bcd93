"""The compiled loops on pages like those of 0.1 files: 1,024 rows each."""

from __future__ import annotations

import numpy as np

from lancecy import kernels

from .scale import rows

PAGE_ROWS = 1024


def _pages(width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Memory, positions and lengths of pages of ``width`` bytes per row, with a gap of 13 bytes between them."""
    count = max(1, rows() // PAGE_ROWS)
    stride = PAGE_ROWS * width + 13
    memory = np.random.default_rng(1).integers(0, 255, count * stride, dtype=np.uint8)
    positions = np.arange(count, dtype=np.int64) * stride
    return memory, positions, np.full(count, PAGE_ROWS * width, np.int64)


class Spans:
    """Copying pages and single values."""

    params = (1, 8, 16)
    param_names = ("width",)

    def setup(self, width: int) -> None:
        self.memory, self.positions, self.lengths = _pages(width)
        self.out = np.empty(int(self.lengths.sum()), np.uint8)
        some = np.random.default_rng(2).integers(0, len(self.memory) - width, 100_000)
        self.scattered = some.astype(np.int64)
        self.values = np.empty(len(some) * width, np.uint8)

    def time_copy_spans(self, width: int) -> None:
        kernels.copy_spans(self.memory, self.positions, self.lengths, self.out)

    def time_gather_fixed(self, width: int) -> None:
        kernels.gather_fixed(self.memory, self.scattered, width, self.values)


class Bits:
    """Joining bitmaps: whole bytes, and runs that start inside a byte."""

    params = (0, 3)
    param_names = ("bit_offset",)

    def setup(self, bit_offset: int) -> None:
        count = max(1, rows() // PAGE_ROWS)
        self.memory = np.random.default_rng(4).integers(0, 255, count * (PAGE_ROWS // 8) + 8, dtype=np.uint8)
        self.positions = np.arange(count, dtype=np.int64) * (PAGE_ROWS // 8)
        self.offsets = np.full(count, bit_offset, np.int64)
        self.counts = np.full(count, PAGE_ROWS - bit_offset, np.int64)
        self.out = np.empty(-(-int(self.counts.sum()) // 8), np.uint8)
        self.found = np.empty(8 * self.memory.size, np.int64)

    def time_find_bits(self, bit_offset: int) -> None:
        kernels.find_bits(self.memory, bit_offset, 8 * self.memory.size - bit_offset, self.found)

    def time_copy_bits(self, bit_offset: int) -> None:
        kernels.copy_bits(self.memory, self.positions, self.offsets, self.counts, self.out)


class Variable:
    """Offsets of strings and of lists, checked and rebased over all pages."""

    params = (False, True)
    param_names = ("nullable",)

    def setup(self, nullable: bool) -> None:
        count = max(1, rows() // PAGE_ROWS)
        total = count * PAGE_ROWS
        self.counts = np.full(count, PAGE_ROWS, np.int64)
        lengths = np.random.default_rng(5).integers(0, 20, (count, PAGE_ROWS))
        relative = np.zeros((count, PAGE_ROWS + 1), np.int64)
        relative[:, 1:] = lengths.cumsum(axis=1)
        starts = np.concatenate([[0], relative[:-1, -1].cumsum()])
        self.strings = (relative + starts[:, None]).reshape(-1).view(np.uint8)
        self.lists = relative.astype(np.int32).reshape(-1).view(np.uint8)
        self.children = relative[:, -1].copy()
        self.size = int(self.children.sum())
        self.wide = np.arange(count, dtype=np.int64) * (PAGE_ROWS + 1) * 8
        self.narrow = self.wide // 2
        self.offsets = np.empty(total + 1, np.int32)
        self.validity = np.empty(-(-total // 8), np.uint8)
        self.starts, self.lengths = np.empty(count, np.int64), np.empty(count, np.int64)

    def time_varwidth_offsets(self, nullable: bool) -> None:
        kernels.varwidth_offsets(
            self.strings, self.wide, self.counts, self.size, nullable,
            self.offsets, self.validity, self.starts, self.lengths,
        )  # fmt: skip

    def time_list_offsets(self, nullable: bool) -> None:
        kernels.list_offsets(
            self.lists, self.narrow, self.counts, 4, self.children, self.offsets, self.starts, self.lengths
        )


class Codes:
    """Checking dictionary codes."""

    params = ("int8", "int32")
    param_names = ("dtype",)

    def setup(self, dtype: str) -> None:
        self.codes = np.random.default_rng(6).integers(0, 100, rows()).astype(dtype)

    def time_check_codes(self, dtype: str) -> None:
        kernels.check_codes(self.codes, 100)


class Bounds:
    """Comparing a filter's value with the bounds of many pages."""

    def setup(self) -> None:
        count = 100_000
        self.lows = np.random.default_rng(7).integers(0, 1 << 40, count)
        self.highs = self.lows + 1000
        self.empty = np.empty(count, np.uint8)
        self.offsets = np.arange(count + 1, dtype=np.int64) * 8
        self.low_bytes = self.lows.astype(">i8").view(np.uint8)
        self.high_bytes = self.highs.astype(">i8").view(np.uint8)
        self.has = np.ones(count, np.uint8)

    def time_compare_bounds(self) -> None:
        kernels.compare_bounds(kernels.LT, self.lows, self.highs, 1 << 39, self.empty)

    def time_compare_bytes_bounds(self) -> None:
        kernels.compare_bytes_bounds(
            kernels.GE, self.offsets, self.low_bytes, self.offsets, self.high_bytes, self.has, self.has,
            b"\x00\x00\x00\x80", self.empty,
        )  # fmt: skip
