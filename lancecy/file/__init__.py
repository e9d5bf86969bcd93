"""Data files: from the bytes of one file to blocks of rows.

==============  =================================================================
``open``        the only door: version numbers of a manifest entry to a reader
``base``        the ``FileReader`` protocol, all that upper layers see
``footer``      the last bytes, the same in every version
``runs``        selected rows as runs within pages
``v0_wire``     the Metadata message of 0.1 files
``v0_meta``     their page table: parsed, its origin found, its cells checked
``v0_layout``   bytes per page, told from the page table
``v0_reader``   a 0.1 file behind the protocol
``page_stats``  stored page statistics, as far as they may be believed
==============  =================================================================

Readers know field ids and never tables; the file that holds dictionary values of 0.1
tables (their manifest) is handed in as a plain ``SourceFile``.
"""
