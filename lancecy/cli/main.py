"""The group of commands; errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Any, NoReturn

import click
import pyarrow as pa

from lancecy.cli import (
    branches,
    cloning,
    columns,
    compacting,
    copying,
    exporting,
    indexing,
    merging,
    namespaces,
    reading,
    tags,
    ui,
    writing,
)
from lancecy.cli.options import Listed
from lancecy.cli.output import fail, warn
from lancecy.cli.stopping import end_interrupted
from lancecy.errors import LanceError

__all__ = ["main"]

_FAILURES = (
    LanceError,
    ImportError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    NotImplementedError,
    OSError,
    pa.ArrowException,
)


class _Commands(Listed):
    """Turns lancecy's errors into one line and exit code 2."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)  # --help is printed here
        except BrokenPipeError:
            _end_quietly()
        except KeyboardInterrupt as error:  # click would say "Aborted!" and end with 1
            end_interrupted(error)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                # Such as another version than the one that was asked for: said whatever Python is told to hide.
                warnings.simplefilter("always", RuntimeWarning)
                warnings.showwarning = lambda message, *_, **__: warn(str(message))
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            _end_quietly()
        except KeyboardInterrupt as error:
            end_interrupted(error)
        except _FAILURES as error:
            fail(error)
        except Exception:  # noqa: BLE001 - Python's exit code of a failure is that of damage found.
            traceback.print_exc()
            sys.exit(2)


def _end_quietly() -> NoReturn:
    """End without an error: the reader of the pipe (head, less) has closed it."""
    try:
        # What is still buffered has no reader, and Python would complain of it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        sys.stderr.close()
    sys.exit(0)


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
    reading.log,
    reading.explain,
    reading.inspect,
    reading.diff,
    reading.verify,
    exporting.export,
    writing.write,
    writing.delete,
    writing.update,
    merging.merge,
    columns.columns,
    compacting.compact,
    indexing.index,
    writing.restore,
    writing.cleanup,
    tags.tag,
    branches.branch,
    cloning.clone,
    copying.copy,
    writing.bases,
    writing.repair,
    namespaces.ns,
    ui.ui,
):
    main.add_command(_command)
