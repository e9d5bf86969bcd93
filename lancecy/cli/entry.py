"""The entry point of the script; says what to install if a package is missing.

All other modules are imported when the command runs.
"""

from __future__ import annotations

import sys

from lancecy.cli.stopping import end_interrupted, stopping

__all__ = ["run"]


def run() -> None:
    """Entry point of the ``lancecy`` script."""
    try:
        with stopping():
            _command()
    except KeyboardInterrupt as error:  # before the command began
        end_interrupted(error)


def _command() -> None:
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        sys.stderr.write(f"lancecy: the command line needs {error.name}: pip install 'lancecy[cli]'\n")
        sys.exit(2)
    from lancecy.cli.main import main

    main()
