"""The ``lancecy`` command: tables and files from a shell.

===============  ======================================================================
``main``         the group of commands; errors become exit codes
``reading``      ``info schema head count versions explain inspect diff verify``
``exporting``    ``export``, and the files and pipes that it writes
``writing``      ``write delete restore cleanup bases repair``
``tags``         ``tag``
``branches``     ``branch``
``cloning``      ``clone``
``namespaces``   ``ns ls tree create rename drop migrate describe``
``ui``           ``ui``
``stopping``     what signals that end the process do
``sources``      files that ``write`` takes rows from, and standard input
``text_values``  dates, bytes, vectors and so on from text
``json_text``    Arrow arrays as JSON text
``output``       tables and progress bars for people, in the terms of the shell; JSON for programs
===============  ======================================================================

Exit codes: 0 success, 1 ``verify`` found damage or a question was answered with no, 2 the command failed,
130 interrupted from the keyboard,
143 by SIGTERM, 129 by SIGHUP.
Needs ``click`` (which comes with Dask) and ``rich`` (``pip install 'lancecy[cli]'``).
"""

from __future__ import annotations

from lancecy.cli.entry import run

__all__ = ["run"]
