"""Mapping scan units over threads: ``threads.collect``, ``threads.stream``, ``threads.count``.

Dask and Spark map the same units over a cluster; see ``lancecy.dask`` and ``lancecy.spark``.
"""
