"""Checks that all kernels make of their arguments, and the choice of implementation in ``lancecy.kernels``."""

from __future__ import annotations

import doctest
import functools
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyroaring import BitMap

import lancecy.kernels
from lancecy.errors import ExpressionError, FormatError, TruncatedError
from lancecy.kernels import _codes
from tests.helpers.folded import folded
from tests.helpers.frames import build_frame, int64
from tests.kernels.both import CYTHON, REFERENCE, Kernels, i64, memory_of

ROOT = Path(lancecy.kernels.__file__).parents[2]
NAMES = sorted(vars(CYTHON))


def valid_call(name: str) -> dict[str, Any]:
    """Arguments of a small call that succeeds; every array is fresh."""
    return {key: _fresh(value) for key, value in _call(name).items()}


def _fresh(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    copy = value.copy()
    copy.flags.writeable = value.flags.writeable
    return copy


@functools.cache
def _call(name: str) -> dict[str, Any]:
    offsets = np.array([0, 1, 3], "<i8")
    one, bits = i64(0), np.empty(1, np.uint8)
    rows = {"out_offsets": np.empty(3, np.int32), "out_starts": i64(9), "out_lengths": i64(9)}
    bytes_bounds = {"low_bytes": memory_of(b"abc"), "high_bytes": memory_of(b"xyz")}
    texts = {"values": memory_of(b"abc"), "offsets": memory_of(np.array([0, 1, 3], np.int32)), "width": 4}
    runs = {"memory": memory_of(offsets), "positions": one, "counts": i64(2)}
    entries = {
        "memory": memory_of(b"\x01\x01"),
        "starts": i64(0, 1),
        "stops": i64(1, 2),
        "word_bytes": 1,
        "def_bits": 1,
        "visible_max": 0,
        "max_rep": 0,
        "max_def": 1,
        "out_rep": np.empty(2, np.uint16),
        "out_def": np.empty(2, np.uint16),
    }
    chunk = {
        "memory": memory_of(bytes(128)),
        "positions": one,
        "lengths": i64(129 if name == "unpack_inline" else 128),
        "counts": i64(4),
        "run_chunks": i64(0, 0),
        "run_starts": i64(0, 3),
        "run_counts": i64(2, 1),
    }
    looked_up = {
        "codes": np.zeros(8, np.int8),
        "dict_offsets": np.array([0, 1, 2], np.int32),
        "validity": np.full(1, 0xFF, np.uint8),
    }
    cut = {f"out_{what}": i64(9, 9, 9) for what in ("pages", "starts", "counts")}
    calls: dict[str, dict[str, Any]] = {
        "copy_spans": {
            "memory": memory_of(b"abc"),
            "positions": i64(1),
            "lengths": i64(2),
            "out": np.empty(2, "u1"),
        },
        "gather_fixed": {
            "memory": memory_of(b"abc"),
            "positions": i64(1),
            "width": 2,
            "out": np.empty(2, "u1"),
        },
        "copy_bits": {
            "memory": memory_of(b"abc"),
            "positions": one,
            "bit_offsets": one,
            "counts": i64(8),
            "out": bits,
        },
        "filter_fixed": {
            "values": memory_of(bytes(20)),
            "width": 1,
            "bits": memory_of(b"abc"),
            "first": 1,
            "count": 20,
            "out": np.empty(20, np.uint8),
        },
        "filter_lists": {
            "offsets": np.arange(9, dtype=np.int32),
            "bits": memory_of(b"abc"),
            "first": 1,
            "out_offsets": np.empty(9, np.int32),
            "out_bits": np.zeros(1, np.uint8),
        },
        "find_bits": {"bits": memory_of(b"abc"), "first": 1, "count": 20, "out": np.empty(20, np.int64)},
        "varwidth_offsets": {**runs, "file_size": 9, "nullable": True, "out_validity": bits, **rows},
        "list_offsets": {**runs, "width": 8, "child_lengths": i64(3), **rows},
        "check_codes": {"codes": np.zeros(8, np.int8), "num_values": 1, "out_validity": bits},
        "chunk_headers": {
            "memory": memory_of(np.array([0, 0, 2, 0, 7, 0, 0, 0], "<u2")),
            "positions": one,
            "lengths": i64(16),
            "has_rep": True,
            "has_def": False,
            "num_buffers": 1,
            "size_width": 2,
            "out": np.empty((7, 1), np.int64),
        },
        "chunk_offsets": {
            "memory": memory_of(np.array([12, 12, 14, 0], "<u4")),
            "positions": i64(0, 0),
            "lengths": i64(14, 14),
            "counts": i64(2, 2),
            "width": 4,
            "run_chunks": i64(0, 1),
            "run_starts": i64(0, 1),
            "run_counts": i64(1, 1),
            "out_offsets": np.empty(3, np.int32),
            "out_starts": i64(9, 9),
            "out_lengths": i64(9, 9),
        },
        "ended_offsets": {
            **runs,
            "previous": i64(-1),
            "adjustments": i64(9),
            "value_sizes": i64(3),
            "out_validity": bits,
            **rows,
        },
        "pick_ended": {
            "memory": memory_of(offsets),
            "end_positions": i64(8),
            "value_positions": one,
            "value_sizes": i64(3),
            "adjustments": i64(9),
            "counts": i64(2),
            "run_pages": i64(0, 0),
            "run_starts": i64(0, 1),
            "run_counts": i64(1, 1),
            "out_offsets": np.empty(3, np.int32),
            "out_validity": bits,
            "out_positions": i64(9, 9),
            "out_lengths": i64(9, 9),
        },
        "zipped_offsets": {"lengths": i64(1, 2), "out_offsets": np.empty(3, np.int32)},
        "level_validity": {
            "levels": np.zeros(8, np.uint16),
            "valid_max": 0,
            "visible_max": 0,
            "out_validity": bits,
        },
        "peel_lists": {
            "rep": np.ones(2, np.uint16),
            "definition": np.zeros(2, np.uint16),
            "null_level": 1,
            "empty_level": 2,
            "upper": 2,
            "visible_max": 2,
            "out_offsets": np.empty(3, np.int32),
            "out_validity": bits,
            "out_rep": np.empty(2, np.uint16),
            "out_def": np.empty(2, np.uint16),
        },
        "select_rows": {
            "rep": np.ones(2, np.uint16),
            "definition": np.zeros(2, np.uint16),
            "max_rep": 1,
            "visible_max": 0,
            "group_stops": i64(1, 2),
            "range_groups": i64(0, 1),
            "range_starts": i64(0, 0),
            "range_stops": i64(1, 1),
            **{f"out_{what}_{end}": i64(9, 9) for what in ("level", "slot") for end in ("starts", "stops")},
        },
        "zip_fixed": {**entries, "value_bytes": 1, "out_values": np.empty(3, np.uint8)},
        "zip_variable": {**entries, "length_bytes": 4, "out_starts": i64(9, 9), "out_lengths": i64(9, 9)},
        "unpack_inline": {
            **chunk,
            "memory": memory_of(b"\x01", bytes(128)),
            "bits": 8,
            "out": np.empty(3, "u1"),
        },
        "unpack_blocks": {**chunk, "bits": 8, "packed_bits": 1, "raw_tail": True, "out": np.empty(3, "u1")},
        "unpack_stream": {
            **runs,
            "bit_offsets": one,
            "packed_bits": 3,
            "bits": 8,
            "signed": False,
            "out": np.empty(2, "u1"),
        },
        "join_bytes": {**chunk, "width": 2, "out": np.empty(6, "u1")},
        "expand_runs": {
            "memory": memory_of(b"\x07\x09\x02\x02"),
            "value_positions": one,
            "value_lengths": i64(2),
            "length_positions": i64(2),
            "length_lengths": i64(2),
            **{key: chunk[key] for key in ("counts", "run_chunks", "run_starts", "run_counts")},
            "width": 1,
            "length_width": 1,
            "out": np.empty(3, "u1"),
        },
        "fsst_decode": {
            "symbols": np.zeros(256, np.uint64),
            "symbol_lengths": np.array([1, 1] + [0] * 254, np.uint8),
            "memory": memory_of(b"\x00\x01"),
            "positions": one,
            "lengths": i64(2),
            "offsets": np.array([0, 1, 2], np.int32),
            "first": 0,
            "start": 0,
            "out_offsets": np.empty(3, np.int32),
            "out": np.empty(2, "u1"),
        },
        "match_bytes": {
            "offsets": np.array([0, 1, 2], np.int32),
            "values": memory_of(b"ab"),
            "value": b"a",
            "out": bits,
        },
        "search_bytes": {
            "offsets": np.array([0, 1, 2], np.int32),
            "values": memory_of(b"ab"),
            "value": b"a",
            "out": bits,
        },
        "measure_bitmap": {"memory": memory_of(BitMap([5, 9]).serialize())},
        "read_bitmap": {"memory": memory_of(BitMap([5, 9]).serialize()), "out": i64(0, 0)},
        "sort_words": {
            "words": np.array([0x201, 0x102], np.uint64),
            "out": np.zeros(2, np.uint64),
            "out_room": np.zeros(2, np.uint64),
            "first_bit": 8,
            "stop_bit": 16,
        },
        "set_filter_bits": {
            "hashes": np.array([5, 1 << 63], np.uint64),
            "out": np.zeros(64, np.uint8),
        },
        "hash_rows": {
            "offsets": np.array([0, 1, 2], np.int32),
            "values": memory_of(b"ab"),
            "out": np.empty(2, np.uint64),
        },
        "index_words": {
            "words": np.array([7, 5], np.uint64),
            "out_slots": i64(9, 9, 9, 9),
            "out_chain": i64(9, 9),
            "out_marks": np.empty(4, np.uint8),
        },
        "find_words": {
            "queries": np.array([7, 5], np.uint64),
            "words": np.array([7, 5], np.uint64),
            "slots": i64(-1, -1, -1, -1),
            "marks": np.full(4, 0xFF, np.uint8),
            "out_queries": i64(9, 9),
            "out_rows": i64(9, 9),
        },
        "lz4_blocks": {
            "memory": memory_of(b"\x20ab\x20cd"),
            "positions": i64(0, 3),
            "lengths": i64(3, 3),
            "sizes": i64(2, 2),
            "out": np.empty(4, "u1"),
        },
        "take_offsets": {**looked_up, "out_offsets": np.empty(9, np.int32)},
        "take_values": {
            **looked_up,
            "dict_values": memory_of(b"ab"),
            "out_offsets": np.arange(9, dtype=np.int32),
            "out": np.empty(8, "u1"),
        },
        "take_fixed": {
            "codes": looked_up["codes"],
            "validity": looked_up["validity"],
            "values": memory_of(b"ab"),
            "width": 1,
            "out": np.empty(8, "u1"),
        },
        "json_texts": {
            "offsets": i64(0, 4, 8),
            "values": memory_of(b"\x80\0\0\0" * 2),
            "validity": np.full(1, 0xFF, np.uint8),
            "out_offsets": i64(9, 9, 9),
            "out": np.empty(4, "u1"),
        },
        "json_scalars": {
            "offsets": i64(0, 4, 8),
            "values": memory_of(b"\x80\0\0\0" * 2),
            "out_kinds": np.empty(2, np.uint8),
            "out_integers": i64(9, 9),
            "out_floats": np.empty(2),
            "validity": np.full(1, 0xFF, np.uint8),
        },
        "json_array_has": {
            "offsets": i64(0, 4, 8),
            "values": memory_of(b"\x80\0\0\0" * 2),
            "text": memory_of(b"1"),
            "out": np.empty(2, np.uint8),
            "validity": np.full(1, 0xFF, np.uint8),
        },
        "json_select": {
            "offsets": i64(0, 4, 8),
            "values": memory_of(b"\x80\0\0\0" * 2),
            "steps": i64(0, 0, 1, 0),
            "names": memory_of(b"a"),
            "mode": 0,
            "out_offsets": i64(9, 9, 9),
            "out": np.empty(8, np.uint8),
            "out_found": np.empty(2, np.uint8),
            "validity": np.full(1, 0xFF, np.uint8),
        },
        "place_spans": {
            "memory": memory_of(b"abc"),
            "starts": i64(0, 2),
            "lengths": i64(1, 1),
            "out": np.empty(2, np.uint8),
            "positions": i64(1, 0),
        },
        "pack_blocks": {
            "values": memory_of(bytes(1024)),
            "bits": 8,
            "widths": i64(1),
            "out": np.empty(128, np.uint8),
            "positions": one,
        },
        "chunk_table": {
            "words": memory_of(b"\x0a\0\x0a\0"),
            "width": 2,
            "out_offsets": i64(9, 9, 9),
            "out_starts": i64(9, 9, 9),
        },
        "column_pages": {
            "memory": memory_of(bytes([18, 8, 10, 1, 64, 18, 1, 16, 24, 3])),
            "starts": i64(0),
            "sizes": i64(10),
            "out_edges": np.empty((2, 2), np.int64),
            "out_pages": np.empty((4, 1), np.int64),
            "out_buffers": np.empty((2, 1), np.int64),
            "out_counts": np.empty((1, 7), np.int64),
        },
        "file_frame": {
            "memory": memory_of(build_frame([[int64([1])]], 1).data),
            "start": 0,
            "most_columns": 9,
            "out_ranges": np.empty((2, 1), np.int64),
            "out_counts": np.empty(10, np.int64),
        },
        "cut_ranges": {"page_starts": i64(0, 2, 4), "starts": i64(1), "stops": i64(4), **cut},
        "cut_rows": {"page_starts": i64(0, 2, 4), "rows": i64(0, 1, 3), **cut},
        "find_chunks": {
            "chunk_starts": i64(0, 2, 4),
            "offsets": i64(0, 8, 24),
            "rows": i64(1, 3),
            "stops": i64(2, 4),
            "out_chunks": np.empty((3, 2), np.int64),
            "out_runs": np.empty((3, 2), np.int64),
        },
        "find_lists": {
            "begins": i64(0, 2, 4),
            "ends": i64(2, 4),
            "rows": i64(1, 3),
            "stops": i64(2, 4),
            "out_chunks": i64(9, 9),
            "out_groups": i64(9, 9, 9),
            "out_ranges": np.empty((3, 2), np.int64),
        },
        "read_lists": {
            "memory": memory_of(np.array([1, 1, 0, 0], "<u2")),
            "found": i64(2, 0, 4, 4, 4)[:, None],
            "counts": i64(2),
            "begun": i64(2),
            "groups": i64(0, 1),
            "ranges": i64(0, 0, 1)[:, None],
            "program": i64(1, 16, 0, 0, 1, 16, 0, 0, 1, 0),
            "out_rep": np.empty(2, np.uint16),
            "out_def": np.empty(2, np.uint16),
            "out_runs": np.empty((3, 2), np.int64),
        },
        "read_chunks": {
            "memory": memory_of(
                np.array([2, 4, 15, 0, 0, 1, 0, 0, 12, 0, 14, 0, 15, 0], "<u2"), b"abc\0\0\0\0"
            ),
            "chunks": i64(0, 32, 2)[:, None],
            "num_chunks": 1,
            "runs": i64(0, 1, 1)[:, None],
            "num_runs": 1,
            "programs": i64(2, 0, 1, 1, 0, 1, 16, 0, 0, 4, 32, 0, 0)[None],
            "program_numbers": i64(0),
            "out_levels": np.empty(1, np.uint16),
            "out_values": np.empty(8, np.uint8),
            "out_spans": np.empty((2, 1), np.int64),
        },
        "write_chunks": {
            "values": memory_of(b"abc\0"),
            "program": i64(3, 64, 2, 2, 0, 1, 1, 16, 1, 16, 4),
            "offsets": memory_of(np.array([0, 1, 3], np.int32)),
            "rep": np.array([1, 0, 1], np.uint16),
            "definition": np.array([0, 0, 1], np.uint16),
            "out": np.empty(64, np.uint8),
            "out_words": np.empty(2, np.uint8),
            "out_index": np.empty(2, np.int64),
        },
        "measure_numbers": {
            "values": memory_of(b"abcd"),
            "width": 1,
            "definition": np.zeros(4, np.uint16),
            "visible_max": 0,
            "step": 1,
        },
        "measure_texts": {**texts, "definition": np.zeros(2, np.uint16), "visible_max": 0},
        "fsst_train": {**texts, "out_table": np.empty(2312, np.uint8)},
        "fsst_encode": {
            "table": np.zeros(2312, np.uint8),
            **texts,
            "out": np.empty(6, np.uint8),
            "out_offsets": np.empty(12, np.uint8),
        },
        "distinct_pages": {"pages": i64(4, 4), "out_distinct": i64(9, 9), "out_numbers": i64(9, 9)},
        "compare_bounds": {"op": 0, "lows": one, "highs": one, "value": 1, "out_empty": bits},
        "compare_bytes_bounds": {
            "op": 0,
            "low_offsets": i64(0, 3),
            "high_offsets": i64(0, 3),
            **bytes_bounds,
            "has_low": np.ones(1, bool),
            "has_high": np.ones(1, bool),
            "value": b"m",
            "out_empty": bits,
        },
        "vector_distances": {
            "metric": 0,
            "vectors": np.ones(4),
            "queries": np.ones(4),
            "dimension": 2,
            "out_norms": np.empty(2),
            "out": np.empty(4, np.float32),
        },
        "hamming_distances": {
            "vectors": memory_of(b"abcd"),
            "queries": memory_of(b"abcd"),
            "dimension": 2,
            "out": np.empty(4, np.float32),
        },
    }
    return calls[name]


ARRAYS = [
    (name, key) for name in NAMES for key, value in valid_call(name).items() if isinstance(value, np.ndarray)
]
OPTIONAL = {
    *((name, "validity") for name in ("take_offsets", "take_values", "take_fixed")),
    *((name, "validity") for name in ("json_texts", "json_scalars", "json_array_has", "json_select")),
    ("check_codes", "out_validity"),
    ("find_chunks", "stops"),
    ("find_lists", "stops"),
    ("read_lists", "begun"),
    ("read_lists", "out_def"),
    ("read_chunks", "program_numbers"),
    ("read_chunks", "out_levels"),
    ("read_chunks", "out_spans"),
    ("select_rows", "definition"),
    *(("write_chunks", key) for key in ("offsets", "rep", "definition", "out_index")),
    *((name, "definition") for name in ("measure_numbers", "measure_texts")),
    ("peel_lists", "definition"),
    ("peel_lists", "out_def"),
    *((name, key) for name in ("zip_fixed", "zip_variable") for key in ("out_rep", "out_def")),
}


# Offsets that another kernel filled.
FILLED = {("take_values", "out_offsets")}


def is_output(name: str, key: str) -> bool:
    return key.startswith("out") and (name, key) not in FILLED


@folded("name", NAMES)
def test_every_kernel_takes_read_only_inputs(kernels: Kernels, name: str) -> None:
    call = valid_call(name)
    for key, value in call.items():
        if isinstance(value, np.ndarray) and not is_output(name, key):
            value.flags.writeable = False
    getattr(kernels, name)(**call)


@folded("name, key", [pair for pair in ARRAYS if is_output(*pair)])
def test_every_kernel_refuses_read_only_outputs(kernels: Kernels, name: str, key: str) -> None:
    call = valid_call(name)
    call[key].flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        getattr(kernels, name)(**call)


@folded("name, key", ARRAYS)
def test_every_kernel_refuses_arrays_with_gaps_or_two_dimensions(
    kernels: Kernels, name: str, key: str
) -> None:
    call = valid_call(name)
    strided = np.repeat(call[key], 2)[::2]
    if strided.size > 1:
        with pytest.raises((ValueError, TypeError)):
            getattr(kernels, name)(**{**call, key: strided})
    with pytest.raises((ValueError, TypeError)):
        getattr(kernels, name)(**{**call, key: call[key][:, None]})


@folded("name, key", ARRAYS)
def test_every_kernel_refuses_arrays_of_another_dtype(kernels: Kernels, name: str, key: str) -> None:
    call = valid_call(name)
    with pytest.raises((ValueError, TypeError)):
        getattr(kernels, name)(**{**call, key: np.ones_like(call[key], np.float16)})


@folded("name, key", [pair for pair in ARRAYS if pair not in OPTIONAL])
def test_every_kernel_refuses_none(kernels: Kernels, name: str, key: str) -> None:
    with pytest.raises(TypeError):
        getattr(kernels, name)(**{**valid_call(name), key: None})


def test_both_implementations_and_the_door_have_the_same_functions() -> None:
    numbers = {"EQ", "NE", "LT", "LE", "GT", "GE", "L2", "COSINE", "DOT"}
    assert set(vars(CYTHON)) == set(vars(REFERENCE)) == set(lancecy.kernels.__all__) - numbers
    assert lancecy.kernels.copy_spans is CYTHON.copy_spans or os.environ.get("LANCECY_KERNELS") == "reference"


@folded("name", NAMES)
def test_the_examples_in_the_docstrings_are_true(name: str) -> None:
    function = getattr(CYTHON, name)
    example = doctest.DocTestParser().get_doctest(function.__doc__, {}, name, None, 0)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


def test_fault_numbers_agree_between_header_and_python() -> None:
    header = (ROOT / "_ext" / "cursor.pxd").read_text()
    declared = {
        name: int(value) for name, value in re.findall(r"^    (FAULT_\w+) = (\d+)$", header, re.MULTILINE)
    }
    assert declared == {"FAULT_NONE": 0, **{f"FAULT_{fault.name}": fault.value[0] for fault in _codes.Fault}}


@pytest.mark.parametrize("fault", _codes.Fault)
def test_a_fault_becomes_an_error_that_knows_its_place(fault: _codes.Fault) -> None:
    number, kind, _ = fault.value
    with pytest.raises(kind) as caught:
        _codes.fail(number, 41)
    assert "41" in str(caught.value) or kind is ValueError
    assert getattr(caught.value, "position", 41) == 41 or kind is ExpressionError
    assert type(caught.value) in {FormatError, TruncatedError, ExpressionError, ValueError}


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=settings,
        timeout=200,
        check=False,
    )


def test_the_environment_chooses_the_reference_kernels() -> None:
    code = "import lancecy.kernels as k; print({getattr(k, n).__module__ for n in k.__all__ if n.islower()})"
    compiled, twins = (python(code, LANCECY_KERNELS=choice).stdout for choice in ("cython", "reference"))
    assert "lancecy.kernels._spans" in compiled
    assert "reference" not in compiled
    assert "lancecy.kernels.reference.spans" in twins
    assert "lancecy.kernels._" not in twins


def test_an_unknown_choice_of_kernels_is_refused() -> None:
    done = python("import lancecy.kernels", LANCECY_KERNELS="numba")
    assert done.returncode == 1
    assert "ImportError: LANCECY_KERNELS is 'numba'" in done.stderr


def test_missing_compiled_kernels_are_named_with_the_remedy() -> None:
    code = "import sys; sys.modules['lancecy.kernels._bits'] = None; import lancecy.kernels"
    done = python(code, LANCECY_KERNELS="cython")
    assert done.returncode == 1
    assert "setup.py build_ext --inplace" in done.stderr


def test_big_endian_hosts_are_refused() -> None:
    done = python("import sys; sys.byteorder = 'big'; import lancecy.kernels", LANCECY_KERNELS="reference")
    assert done.returncode == 1
    assert "ImportError: lancecy runs on little-endian machines only" in done.stderr


def test_kernels_run_side_by_side_in_threads() -> None:
    """Each thread checks its own results, on shared read-only memory."""
    memory = memory_of(bytes(range(256)) * 64)
    failures: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            positions = rng.integers(0, memory.size - 8, 500)
            out = np.empty(4000, np.uint8)
            CYTHON.gather_fixed(memory, positions, 8, out)
            if not (out.reshape(500, 8) == memory[positions[:, None] + np.arange(8)]).all():
                failures.append(f"thread {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
