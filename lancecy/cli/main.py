"""The group of commands, and how errors become messages and exit codes."""

from __future__ import annotations

import sys
from typing import Any

import click

from lancecy.cli import checking, reading, writing
from lancecy.cli.output import fail
from lancecy.errors import LanceError

__all__ = ["main"]


class _Commands(click.Group):
    """Commands by the order they were added in; errors of lancecy end as one line and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of a pipe (head, less) has gone: nothing is wrong.
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
    """Lance tables: what is in them, how it is stored, whether it is whole; and rows in and out of them."""


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
