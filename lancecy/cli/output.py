"""Output of commands: tables and progress bars for people, one JSON document for programs.

Control characters of table contents are escaped, so that they cannot control the terminal. The library
names the remedies of Python, such as ``mode='append'``; messages name the options that the shell has for them.
"""

from __future__ import annotations

import base64
import csv
import datetime as dt
import io
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from lancecy.errors import LanceError, printable
from lancecy.progress import Progress as Callback
from lancecy.progress import Step

if TYPE_CHECKING:
    from lancecy.changes.explain import UpdateExplanation
    from lancecy.changes.merging.plan import MergePlan

__all__ = [
    "REMEDIES",
    "bar",
    "fail",
    "in_shell_terms",
    "show_csv",
    "show_explanation",
    "show_facts",
    "show_json",
    "show_rows",
    "show_text",
    "show_values",
    "time_text",
    "warn",
]


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
    (
        r"\bany change of it sets the flag, such as update_config",
        "`lancecy write FILE URI --mode append` sets the flag",
    ),
    (r"\bupdate_config\b", "ds.update_config in Python"),
    (r"\braise Limits\.(\w+) to allow it", r"in Python lancecy.Limits(\1=…) allows it"),
    (r"^asof (?=')", "--asof "),
    (r"\bds\.branches\.remove_leftover\('([^']*)'\)", r"`lancecy branch URI remove-leftover \1`"),
    (r"\bds\.branches\.remove_leftover\b", "`lancecy branch URI remove-leftover`"),
    (r"\bds\.branches\.list_leftovers\(\)", "`lancecy branch URI leftovers`"),
    (r"\bds\.branches\.list\(\)", "`lancecy branch URI`"),
    (r"\bds\.branches\.delete\b", "`lancecy branch URI delete`"),
    (r"\bcreate_branch\b", "`lancecy branch URI create`"),
    (r"\btags\.(update|delete)\b", r"`lancecy tag URI \1`"),
    (r"\bolder_than=timedelta\(0\)", "--older-than 0s"),
    (r"\bshallow_clone\(protect=True\)", "`lancecy clone --protect`"),
    (r"\bdeep_clone\b", "`lancecy clone --deep`"),
    (r"\bforce=True\b", "--force"),
    (r"\bas in merge_insert\(['\"]id['\"]\)", "as in --on id"),
    (r"\bappend or merge_insert\b", "`lancecy write --mode append` or `lancecy merge`"),
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


_MAX_CELL = 60
# Columns of a table on a terminal are folded down to this width; a table that needs less is turned.
_MIN_FOLDED = 20
# Blank characters between two columns, and on both edges of a table.
_GAP, _EDGES = 3, 2
# Lines of a value in a turned table.
_MAX_LINES = 8
_PIPE_WIDTH = 4096


def _console(width: int | None = None) -> Console:
    # Made at each call, so that it writes to the current standard output. In a pipe lines are not wrapped.
    # Without standard output (``>&-``) nothing is shown.
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console(highlight=False, width=width if is_terminal else max(width or 0, _PIPE_WIDTH))


def _print(shown: RenderableType, console: Console) -> None:
    # By way of click: rich ends the process with exit code 1 when the reader of a pipe has closed it.
    with console.capture() as captured:
        console.print(shown)
    text = captured.get()
    click.echo(
        text if console.is_terminal else "".join(f"{s.rstrip()}\n" for s in text.splitlines()), nl=False
    )


def show_json(value: object) -> None:
    """Print one JSON document; values that JSON lacks become text, control characters become escapes."""
    text = json.dumps(_plain(value), ensure_ascii=False, indent=2)
    click.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def show_csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print CSV with a header; nulls are empty, control characters become escapes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *([_csv_value(value) for value in row] for row in rows)])
    click.echo(text.getvalue(), nl=False)


def _csv_value(value: object) -> object:
    plain = _plain(value)
    return printable(plain) if isinstance(plain, str) else plain


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


def time_text(time: dt.datetime | None) -> str:
    """A time to the second, for a column that names its zone."""
    return "unknown" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair per line."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        _print(Text.assemble((f"{name:>{width}}", "bold"), "  ", value), _console())


def show_values(values: Mapping[str, object], as_json: bool = False, said: str = "") -> None:
    """Print named values: as one JSON document, or one per line.

    Parameters
    ----------
    values : mapping of str to object
        Names with underscores, which are blanks for people.
    as_json : bool
    said : str
        A line for people above them.
    """
    if as_json:
        show_json(values)
        return
    if said:
        show_text(said)
    show_facts([(name.replace("_", " "), _value_text(value)) for name, value in values.items()])


def _value_text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{printable(k)}={printable(v)}" for k, v in value.items()) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else printable(value)


def show_explanation(found: UpdateExplanation | MergePlan, as_json: bool) -> None:
    """Print what a change would do."""
    if as_json:
        show_json(found.to_dict())
    else:
        show_text("\n".join(map(printable, str(found).split("\n"))))


def show_rows(
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    right: Sequence[str] = (),
    longest: int = _MAX_CELL,
) -> None:
    """Print a table; if the terminal is too narrow for its columns, one line per column of each row.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequences
        Shown as text; long values are truncated. Members of a dictionary get lines of their own in a turned table.
    right : sequence of str
        Names of the columns aligned to the right.
    longest : int
        Number of characters shown of a value; a turned table shows more.
    """
    cells = [[_cell(value, longest) for value in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(map(printable, header), *cells, strict=True)]
    around = _GAP * max(0, len(widths) - 1) + _EDGES
    console = _console()
    if not console.is_terminal:
        console = _console(sum(widths) + around)
    elif sum(min(width, _MIN_FOLDED) for width in widths) + around > console.width:
        _show_turned(header, rows, console)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        table.add_column(Text(printable(name)), justify="right" if name in right else "left", overflow="fold")
    for texts in cells:
        table.add_row(*map(Text, texts))
    _print(table, console)


def _show_turned(header: Sequence[str], rows: Sequence[Sequence[object]], console: Console) -> None:
    """Print each row as a block with one line per column."""
    for number, row in enumerate(rows, 1):
        _print(Text(f"── row {number} ".ljust(console.width, "─"), "dim", overflow="crop"), console)
        pairs = [pair for name, value in zip(header, row, strict=True) for pair in _members(name, value)]
        table = Table.grid(padding=(0, 2, 0, 0))
        # Long names are folded, so that values have at least half of the line.
        table.add_column(style="bold", justify="right", overflow="fold", max_width=console.width // 2 - 2)
        table.add_column(overflow="fold")
        for name, value in pairs:
            table.add_row(Text(printable(name)), Text(_cell(value, _MAX_LINES * console.width // 2)))
        _print(table, console)


def _members(name: str, value: object) -> Iterator[tuple[str, object]]:
    """The value by its name; of a dictionary, those of its members by names with dots."""
    if not isinstance(value, dict) or not value:
        yield name, value
        return
    for member, part in value.items():
        yield from _members(f"{name}.{member}", part)


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
        TextColumn("{task.fields[amount]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}"),
    )
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task("", detail="", amount="", total=None)

        def tell(step: Step, /) -> None:
            shown.update(
                task,
                description=step.what,
                completed=step.done,
                total=step.total or None,
                amount=_amount(step),
                detail=printable(step.detail),
            )

        yield tell


def _amount(step: Step) -> str:
    """How much is done, and of how much if that is known, such as ``1.5 MB/3.0 MB`` or ``3/12 files``."""
    is_bytes = step.unit == "bytes"
    done, total = (decimal(n) if is_bytes else f"{n:,}" for n in (step.done, step.total))
    return f"{done}/{total if step.total else '?'}{'' if is_bytes else ' ' + step.unit}"


def fail(error: Exception) -> NoReturn:
    """Print the error on standard error and exit with code 2."""
    text = str(error) if isinstance(error, LanceError) else printable(str(error))
    if isinstance(error, KeyError) and not isinstance(error, LanceError):
        text = f"there is no {text}"
    click.echo(f"lancecy: {in_shell_terms(text)}", err=True)
    raise SystemExit(2)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    click.echo(f"lancecy: warning: {in_shell_terms(printable(text))}", err=True)
