"""The commands of the shell, run in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from lancecy.cli.main import main

__all__ = ["run", "run_json"]


def run(*arguments: object, said: str | bytes | None = None) -> Result:
    """The result of a command; ``said`` is its standard input."""
    return CliRunner().invoke(main, [str(a) for a in arguments], input=said)


def run_json(*arguments: object) -> Any:
    """What a command that succeeds prints with ``--json``."""
    found = run(*arguments, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)
