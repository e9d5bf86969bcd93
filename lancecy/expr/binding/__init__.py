"""Binds trees to schemas: names are resolved, types checked, literals typed.

===============  ======================================================
``bind``         the one public function
``binder``       the walk over a tree, and helpers of its rules
``compare``      rules for comparisons, IN, LIKE
``logic``        rules for AND, OR, NOT, IS NULL
``values``       rules for arithmetic, CAST, CASE, functions
``arithmetic``   types of ``+ - * / %``
``names``        column names to paths in a schema
===============  ======================================================
"""
