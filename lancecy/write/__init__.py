"""Rows become data files, and changes of a table become commits.

Imports everything below datasets; ``datasets`` puts it into the hands of users.
"""
