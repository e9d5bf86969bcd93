"""Data files: from the bytes of one file to blocks of rows, and back.

================  ============================================================
``base``          ``FileReader`` and ``FileWriter``, all that upper layers see
``open``          the only door to files: version numbers of a manifest entry to a reader
``create``        the only door to new files: a version to a ``FileWriter``
``writable``      which schemas a version can hold
``footer``        the last bytes, the same in every version
``tail``          the end of a file: one request, and another for what it lacks
``sink``          bytes on their way to the store
``dictionaries``  dictionaries that all files of a 0.1 table share
``describe``      columns and pages of a file, from its metadata alone
``v0``            files of version 0.1
``v2``            files of version 2.0 to 2.3
================  ============================================================

Readers know field ids and never tables; the file that holds dictionary values of 0.1
tables (their manifest) is handed in as a plain ``SourceFile``.
"""
