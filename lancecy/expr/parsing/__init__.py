"""Text and pyarrow expressions to expression trees.

=================  =====================================================================
``parse``          a filter of any form to one tree
``sql``            SQL text to a tree
``sql_dialect``    sqlglot's settings: tokens, precedence, type names, texts of its errors; columns
                   named like keywords, without backquotes
=================  =====================================================================
"""
