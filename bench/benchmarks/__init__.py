"""asv benchmarks, one file per layer: ``time_`` seconds, ``peakmem_`` bytes, ``track_`` counts.

``LANCECY_BENCH_ROWS`` sets the rows of the seven-column table (1,000,000 by default).
"""
