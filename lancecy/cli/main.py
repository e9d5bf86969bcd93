"""The group of commands; errors become messages and exit codes."""

from __future__ import annotations

import sys
from typing import Any

import click

from lancecy.cli import checking, reading, writing
from lancecy.cli.output import fail
from lancecy.errors import LanceError

__all__ = ["main"]


class _Commands(click.Group):
    """Lists commands in the order added; turns lancecy's errors into one line and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of the pipe (head, less) has closed it: no error.
            sys.stderr.close()
            sys.exit(0)
        except (
            LanceError,
            ImportError,
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            OverflowError,
            OSError,
        ) as error:
            fail(error)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="lancecy", prog_name="lancecy")
def main() -> None:
    """Read, write, inspect and verify Lance tables."""


for _command in (
    reading.info,
    reading.schema,
    reading.head,
    reading.count,
    reading.versions,
    reading.explain,
    checking.inspect,
    checking.diff,
    checking.verify,
    writing.write,
    writing.delete,
    writing.cleanup,
    writing.bases,
    writing.repair,
):
    main.add_command(_command)
