"""Kernels: loops over bytes and values, compiled with Cython, from arrays to arrays.

All kernels are called through this package, except the loops of the row-id index, which Numba compiles
(``rowindex_jit``). They know nothing of files, columns or types; each checks every access against the memory it
is given, runs without the GIL, fills arrays allocated by the caller, and raises ``FormatError`` with the index of
the fault. ``LANCECY_KERNELS=reference`` in the environment selects the slow NumPy twins in
:mod:`lancecy.kernels.reference`; this never happens silently.

=================  ==========================================================
``_spans``         copy_spans, gather_fixed
``_bits``          copy_bits, find_bits
``_bitpack``       unpack_inline, unpack_blocks
``_bitstream``     unpack_stream
``_bloom``         set_filter_bits
``_bytesplit``     join_bytes
``_runs``          expand_runs
``_page_runs``     chunk_table, cut_ranges, cut_rows, distinct_pages
``_chunk_runs``    find_chunks, find_lists
``_chunk_lists``   read_lists
``_chunk_values``  read_chunks
``_varwidth``      varwidth_offsets, list_offsets
``_offsets``       chunk_offsets, zipped_offsets
``_v20_offsets``   ended_offsets
``_v20_take``      pick_ended
``_filter``        filter_fixed, filter_lists
``_fsst``          fsst_decode
``_fsst_writer``   fsst_encode, fsst_train
``_lz4``           lz4_blocks
``_match``         match_bytes
``_search``        search_bytes
``_join``          find_words, hash_rows, index_words
``_dictionary``    check_codes
``_lookup``        take_offsets, take_values, take_fixed
``_structural``    chunk_headers
``_metadata``      column_pages
``_frame``         file_frame
``_levels``        level_validity
``_peel``          peel_lists
``_rows``          select_rows
``_fullzip``       zip_fixed, zip_variable
``_jsonb``         json_texts
``_json_path``     json_select
``_json_values``   json_array_has, json_scalars
``_pack``          pack_blocks
``_chunk_writer``  write_chunks
``_measure``       measure_numbers, measure_texts
``_scatter``       place_spans
``_stats``         compare_bounds, compare_bytes_bounds (EQ, NE, LT, LE, GT, GE)
``_roaring``       measure_bitmap, read_bitmap
``_sort``          sort_words
``_distances``     hamming_distances, vector_distances (L2, COSINE, DOT)
=================  ==========================================================
"""

from __future__ import annotations

import os
import sys

from lancecy.kernels._codes import COSINE, DOT, EQ, GE, GT, L2, LE, LT, NE

__all__ = [
    "COSINE",
    "DOT",
    "EQ",
    "GE",
    "GT",
    "L2",
    "LE",
    "LT",
    "NE",
    "check_codes",
    "chunk_headers",
    "chunk_offsets",
    "chunk_table",
    "column_pages",
    "compare_bounds",
    "compare_bytes_bounds",
    "copy_bits",
    "copy_spans",
    "cut_ranges",
    "cut_rows",
    "distinct_pages",
    "ended_offsets",
    "expand_runs",
    "file_frame",
    "filter_fixed",
    "filter_lists",
    "find_bits",
    "find_chunks",
    "find_lists",
    "find_words",
    "fsst_decode",
    "fsst_encode",
    "fsst_train",
    "gather_fixed",
    "hamming_distances",
    "hash_rows",
    "index_words",
    "join_bytes",
    "json_array_has",
    "json_scalars",
    "json_select",
    "json_texts",
    "level_validity",
    "list_offsets",
    "lz4_blocks",
    "match_bytes",
    "measure_bitmap",
    "measure_numbers",
    "measure_texts",
    "pack_blocks",
    "peel_lists",
    "pick_ended",
    "place_spans",
    "read_bitmap",
    "read_chunks",
    "read_lists",
    "search_bytes",
    "select_rows",
    "set_filter_bits",
    "sort_words",
    "take_fixed",
    "take_offsets",
    "take_values",
    "unpack_blocks",
    "unpack_inline",
    "unpack_stream",
    "varwidth_offsets",
    "vector_distances",
    "write_chunks",
    "zip_fixed",
    "zip_variable",
    "zipped_offsets",
]

# Lance and Arrow are little-endian on disk and in memory; the kernels load values without swapping bytes.
if sys.byteorder != "little":
    raise ImportError("lancecy runs on little-endian machines only")

_chosen = os.environ.get("LANCECY_KERNELS", "cython")

if _chosen == "reference":
    from lancecy.kernels.reference.bits import (
        copy_bits,
        filter_fixed,
        filter_lists,
        find_bits,
        pack_blocks,
        unpack_blocks,
        unpack_inline,
        unpack_stream,
    )
    from lancecy.kernels.reference.bloom import set_filter_bits
    from lancecy.kernels.reference.chunk_lists import find_lists, read_lists
    from lancecy.kernels.reference.chunks import find_chunks, read_chunks
    from lancecy.kernels.reference.comparison import (
        compare_bounds,
        compare_bytes_bounds,
        match_bytes,
        search_bytes,
    )
    from lancecy.kernels.reference.compression import expand_runs, fsst_decode, join_bytes, lz4_blocks
    from lancecy.kernels.reference.dictionary import check_codes, take_fixed, take_offsets, take_values
    from lancecy.kernels.reference.distances import hamming_distances, vector_distances
    from lancecy.kernels.reference.frame import file_frame
    from lancecy.kernels.reference.fullzip import zip_fixed, zip_variable
    from lancecy.kernels.reference.join import find_words, hash_rows, index_words
    from lancecy.kernels.reference.json_path import json_select
    from lancecy.kernels.reference.json_values import json_array_has, json_scalars, json_texts
    from lancecy.kernels.reference.levels import level_validity, peel_lists, select_rows
    from lancecy.kernels.reference.metadata import column_pages
    from lancecy.kernels.reference.offsets import (
        chunk_offsets,
        ended_offsets,
        list_offsets,
        pick_ended,
        varwidth_offsets,
        zipped_offsets,
    )
    from lancecy.kernels.reference.roaring import measure_bitmap, read_bitmap
    from lancecy.kernels.reference.sorting import sort_words
    from lancecy.kernels.reference.spans import (
        chunk_table,
        copy_spans,
        cut_ranges,
        cut_rows,
        distinct_pages,
        gather_fixed,
        place_spans,
    )
    from lancecy.kernels.reference.structural import chunk_headers
    from lancecy.kernels.reference.symbols import fsst_encode, fsst_train
    from lancecy.kernels.reference.writing import measure_numbers, measure_texts, write_chunks
elif _chosen == "cython":
    try:
        from lancecy.kernels._bitpack import unpack_blocks, unpack_inline
        from lancecy.kernels._bits import copy_bits, find_bits
        from lancecy.kernels._bitstream import unpack_stream
        from lancecy.kernels._bloom import set_filter_bits
        from lancecy.kernels._bytesplit import join_bytes
        from lancecy.kernels._chunk_lists import read_lists
        from lancecy.kernels._chunk_runs import find_chunks, find_lists
        from lancecy.kernels._chunk_values import read_chunks
        from lancecy.kernels._chunk_writer import write_chunks
        from lancecy.kernels._dictionary import check_codes
        from lancecy.kernels._distances import hamming_distances, vector_distances
        from lancecy.kernels._filter import filter_fixed, filter_lists
        from lancecy.kernels._frame import file_frame
        from lancecy.kernels._fsst import fsst_decode
        from lancecy.kernels._fsst_writer import fsst_encode, fsst_train
        from lancecy.kernels._fullzip import zip_fixed, zip_variable
        from lancecy.kernels._join import find_words, hash_rows, index_words
        from lancecy.kernels._json_path import json_select
        from lancecy.kernels._json_values import json_array_has, json_scalars
        from lancecy.kernels._jsonb import json_texts
        from lancecy.kernels._levels import level_validity
        from lancecy.kernels._lookup import take_fixed, take_offsets, take_values
        from lancecy.kernels._lz4 import lz4_blocks
        from lancecy.kernels._match import match_bytes
        from lancecy.kernels._measure import measure_numbers, measure_texts
        from lancecy.kernels._metadata import column_pages
        from lancecy.kernels._offsets import chunk_offsets, zipped_offsets
        from lancecy.kernels._pack import pack_blocks
        from lancecy.kernels._page_runs import chunk_table, cut_ranges, cut_rows, distinct_pages
        from lancecy.kernels._peel import peel_lists
        from lancecy.kernels._roaring import measure_bitmap, read_bitmap
        from lancecy.kernels._rows import select_rows
        from lancecy.kernels._runs import expand_runs
        from lancecy.kernels._scatter import place_spans
        from lancecy.kernels._search import search_bytes
        from lancecy.kernels._sort import sort_words
        from lancecy.kernels._spans import copy_spans, gather_fixed
        from lancecy.kernels._stats import compare_bounds, compare_bytes_bounds
        from lancecy.kernels._structural import chunk_headers
        from lancecy.kernels._v20_offsets import ended_offsets
        from lancecy.kernels._v20_take import pick_ended
        from lancecy.kernels._varwidth import list_offsets, varwidth_offsets
    except ImportError as error:
        raise ImportError(
            f"the compiled kernels of lancecy cannot be imported ({error}); in a checkout, build them with "
            "`python setup.py build_ext --inplace`, or set LANCECY_KERNELS=reference for slow NumPy ones"
        ) from error
else:
    raise ImportError(f"LANCECY_KERNELS is {_chosen!r}; it can be 'cython' (default) or 'reference'")
