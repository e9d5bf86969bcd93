"""Scans over the threads of a process: ``threads.collect``, ``threads.stream``, ``threads.count``.

``tasks`` runs one task of a plan the same way. Dask and Spark map tasks over a cluster; see ``lancecy.dask`` and
``lancecy.spark``.
"""
