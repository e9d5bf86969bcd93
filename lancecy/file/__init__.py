"""Data files: from the bytes of one file to blocks of rows, and back.

================  ============================================================
``base``          ``FileReader`` and ``FileWriter``, the interface for upper layers
``open``          opens files: version numbers of a manifest entry to a reader
``create``        creates files: a version to a ``FileWriter``
``standalone``    opens files of 2.x by the schema in themselves, without a table
``writable``      which schemas a version can hold
``tail``          the end of a file, read in one request or two, and the footer in it
``sink``          output to the store, buffered and written by a thread
``dictionaries``  dictionaries that all files of a 0.1 table share; the limit of those of 2.x pages
``describe``      fields, columns and pages of a file, from its metadata alone
``v0``            files of version 0.1
``v2``            files of version 2.0 to 2.3
================  ============================================================

Readers work with field ids and need no table; the file with the dictionary values of a 0.1 table (its manifest) is
passed as a plain ``SourceFile``.

Code for pylance imports ``LanceFileReader`` and what it returns from here; these classes are in ``lancecy.api``.
"""

from __future__ import annotations

from lancecy.lazy_attributes import lazy_attributes

_PYLANCE = {
    "lancecy.api.file_writer": "LanceFileWriter",
    "lancecy.api.files": (
        "LanceBufferDescriptor LanceColumnMetadata LanceFileMetadata LanceFileReader LanceFileStatistics "
        "LancePageMetadata ReaderResults"
    ),
}

__getattr__ = lazy_attributes(__name__, _PYLANCE)[0]
