"""Binds trees to schemas: names are resolved, types checked, literals typed.

===============  ======================================================
``bind``         the one public function
``binder``       the walk over a tree, helpers of its rules, column names to paths in a schema
``conditions``   rules for AND, OR, NOT, IS NULL, comparisons, IN, LIKE
``values``       rules for arithmetic, CAST, CASE, functions
``nested``       rules for functions of lists, structs and maps
``arithmetic``   types of ``+ - * / %``
===============  ======================================================
"""
