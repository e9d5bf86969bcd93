"""Messages of the library in the terms of the shell.

The library names the remedies of Python, such as ``mode='append'``; the shell has options for them.
"""

from __future__ import annotations

import re

__all__ = ["REMEDIES", "in_shell_terms"]

REMEDIES: tuple[tuple[str, str], ...] = (
    (r"pass allowed_bases=\[(['\"])(.*?)\1\]", r"give --allow-base \2"),
    (r"storage_options with 'base_(\d+)\.<option>' keys", r"--storage-option base_\1.KEY=VALUE"),
    (r"\bin storage_options\b", "with --storage-option KEY=VALUE"),
    (r"\brecover=True\b", "--recover of a command that reads"),
    (r"\bmode='(append|overwrite)'", r"--mode \1"),
    (r"\bdata_storage_version='([\d.]+)'", r"--file-version \1"),
    (r"\bdata_storage_version\b", "--file-version"),
    (r"\bmax_rows_per_file\b", "--rows-per-file"),
    (r"\binitial_bases are\b", "--base is"),
    (r"\badd_bases\b", "`lancecy bases URI add NAME PATH`"),
    (r"\brelocate_base\b", "`lancecy bases URI relocate NAME PATH`"),
    (r"\bcleanup_old_versions\b", "`lancecy cleanup URI`"),
    (r"\berror_if_tagged_old_versions=False\b", "--keep-tagged"),
    (r"\bDataset\.repair\(\) \(or `lancecy repair`\)", "`lancecy repair URI`"),
    (r"\bto_table\(with_row_id=True, with_row_address=True\)", "`lancecy head URI -c _rowid,_rowaddr`"),
    (r"\bupdate_config\b", "`lancecy write FILE URI --mode append`"),
    (r"\braise Limits\.(\w+) to allow it", r"in Python lancecy.Limits(\1=…) allows it"),
    (r"^asof (?=')", "--asof "),
)
"""Patterns of the library's remedies, and the shell's remedies in their place."""

_COMPILED = [(re.compile(pattern), told) for pattern, told in REMEDIES]


def in_shell_terms(text: str) -> str:
    """The message with options of the shell in place of keywords of Python.

    Parameters
    ----------
    text : str

    Examples
    --------
    >>> in_shell_terms("there is a table at t.lance already: mode='append' adds to it")
    'there is a table at t.lance already: --mode append adds to it'
    """
    for pattern, told in _COMPILED:
        text = pattern.sub(told, text)
    return text
