"""Evaluates bound expressions over Arrow tables.

===============  ========================================================================
``evaluate``     a bound tree over a table
``constants``    columns compared with constants
``functions``    the functions a filter may call, with their parameters and kernels
``growth``       functions whose text may grow, and the bound on it
``instants``     calendar and clock
``patterns``     LIKE and regular expressions
``exact``        values of two types compared exactly
``casts``        CAST between types; ``try_casts``: TRY_CAST
``decimals``     decimals to other numbers and back
``values``       arithmetic kernels
===============  ========================================================================
"""
