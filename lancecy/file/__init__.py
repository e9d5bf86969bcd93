"""Data files: from the bytes of one file to blocks of rows.

===================  ============================================================
``open``             the only door: version numbers of a manifest entry to a reader
``base``             the ``FileReader`` protocol, all that upper layers see
``create``           the only door to new files: a version to a ``FileWriter``
``writable``         which schemas a version can hold
``sink``             bytes on their way to the store; ``streamed``: what writers do with it
``distinct``         whether a file's dictionaries fit their index type
``footer``           the last bytes, the same in every version
``runs``             selected rows as runs within pages
``v0_wire``          the Metadata message of 0.1 files
``v0_meta``          their page table: parsed, its origin found, its cells checked
``v0_layout``        bytes per page, told from the page table
``v0_reader``        a 0.1 file behind the protocol
``v0_writer``        a 0.1 file that is written (``v0_output``: its container, ``v0_encode_wire``: its messages)
``v0_dictionaries``  dictionaries that all files of a 0.1 table share
``page_stats``       stored page statistics, as far as they may be believed
``tail``             the end of a file: one request, and another for what it lacks
``v2_wire``          the messages of 2.x containers
``v2_meta``          footer, tables and columns of 2.x files, every number checked
``v2_fields``        which physical columns a field is read from
``v2_reader``        a 2.x file behind the protocol
``v2_writer``        a 2.x file that is written (``v2_output``, ``v2_encode_wire``)
``v2_stats``         what the description of a page says of nulls
===================  ============================================================

Readers know field ids and never tables; the file that holds dictionary values of 0.1
tables (their manifest) is handed in as a plain ``SourceFile``.
"""
