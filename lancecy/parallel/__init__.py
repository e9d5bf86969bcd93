"""Scans over the threads of a process.

``threads.collect`` makes one table, ``threads.stream`` batches within a memory budget, ``threads.count`` a number.

``tasks`` runs one task of a plan the same way. Dask and Spark map tasks over a cluster; see ``lancecy.dask`` and
``lancecy.spark``.
"""
