"""Evaluates bound expressions over Arrow tables.

===============  ========================================================================
``evaluate``     a bound tree over a table
``constants``    columns compared with constants
``functions``    the functions a filter may call, with their parameters and kernels
``growth``       functions whose text may grow, and the bound on it
``lists``        where the elements of lists are, and lists made of them; ``list_edits``,
                 ``list_search``, ``list_shapes``, ``list_texts``: functions of lists;
                 ``list_keys``: numbers that stand for their elements
``series``       ``range()`` and ``generate_series()``
``structs``      structs and maps
``instants``     calendar and clock; ``instant_functions``: functions of time, ``chrono_formats``: their formats,
                 ``calendar``: months and days added to dates
``mathematics``  functions of numbers
``characters``   functions of texts, ``matches`` those of regular expressions, ``digests`` those of bytes
``rows``         functions whose arguments are columns where most calls have constants
``patterns``     LIKE and regular expressions
``exact``        values of two types compared exactly
``casts``        CAST between types; ``try_casts``: TRY_CAST, ``texts``: to text
``decimals``     decimals to other numbers and back
``values``       arithmetic kernels
===============  ========================================================================
"""
