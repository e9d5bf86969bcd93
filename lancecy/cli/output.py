"""Output of commands: tables and progress bars for people, one JSON document for programs.

Control characters of table contents are escaped, so that they cannot control the terminal.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from lancecy.errors import LanceError, printable
from lancecy.progress import Progress as Callback
from lancecy.progress import Step

__all__ = ["bar", "fail", "show_facts", "show_json", "show_rows", "show_text"]

_MAX_CELL = 60


def _console() -> Console:
    # Made at each call, so that it writes to the current standard output. In a pipe lines are not wrapped.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 4096)


def show_json(value: object) -> None:
    """Print one JSON document; values that JSON lacks become text, control characters become escapes."""
    text = json.dumps(_plain(value), ensure_ascii=False, indent=2)
    click.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def _plain(value: object) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def show_text(text: str) -> None:
    """Print text whose control characters are already escaped."""
    click.echo(text)


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair per line."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        _console().print(Text.assemble((f"{name:>{width}}", "bold"), "  ", value))


def show_rows(
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    right: Sequence[str] = (),
    longest: int = _MAX_CELL,
) -> None:
    """Print a table.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequences
        Shown as text; long values are truncated.
    right : sequence of str
        Names of the columns aligned to the right.
    longest : int
        Number of characters shown of a value.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        table.add_column(Text(printable(name)), justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value, longest)) for value in row))
    _console().print(table)


def _cell(value: object, longest: int) -> str:
    if value is None:
        return "null"
    text = printable(str(value))
    return text if len(text) <= longest else text[: longest - 1] + "…"


@contextmanager
def bar(quiet: bool) -> Iterator[Callback]:
    """Show a progress bar on standard error while the block runs, if that is a terminal.

    Parameters
    ----------
    quiet : bool
        Never show a bar.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}"),
    )
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task("", detail="")

        def tell(step: Step, /) -> None:
            shown.update(
                task, description=step.what, completed=step.done, total=step.total, detail=step.detail
            )

        yield tell


def fail(error: Exception) -> NoReturn:
    """Print the error on standard error and exit with code 2."""
    text = str(error) if isinstance(error, LanceError) else printable(str(error))
    if isinstance(error, KeyError) and not isinstance(error, LanceError):
        text = f"there is no {text}"
    click.echo(f"lancecy: {text}", err=True)
    raise SystemExit(2)
