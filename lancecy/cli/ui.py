"""``ui``: serves a local web page of the tables in a directory."""

from __future__ import annotations

import html
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from lancecy.cli.options import pairs, storage_pairs
from lancecy.cli.output import fail, warn
from lancecy.errors import needing, printable

__all__ = ["ui"]


@click.command()
@click.argument("root")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen to.")
@click.option(
    "--port", default=0, type=click.IntRange(0, 65535), help="The port to listen to; a free one by default."
)
@click.option(
    "--expose",
    is_flag=True,
    help="Allow a --host that other machines reach: what they read is not encrypted.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--untrusted", is_flag=True, help="The tables are from an untrusted source: see SECURITY.md.")
@click.option(
    "--allow-base",
    "allowed_bases",
    multiple=True,
    metavar="PREFIX",
    help="A place that base paths of tables may lead to, such as gs://bucket. May be repeated.",
)
@click.option(
    "-p",
    "--property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property of the namespace, such as dir_listing_enabled=false. May be repeated.",
)
@click.option(
    "-o",
    "--storage-option",
    "storage_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A storage option, for example endpoint_url=http://localhost:9000. May be repeated.",
)
def ui(
    root: str,
    host: str,
    port: int,
    expose: bool,
    opens: bool,
    untrusted: bool,
    allowed_bases: tuple[str, ...],
    properties: tuple[str, ...],
    storage_options: tuple[str, ...],
) -> None:
    """Serve a web page of the tables in ROOT, or of the table ROOT, until Ctrl-C.

    The page only reads. It is for this machine alone, and for those who have the address that is printed.
    """
    # Imported here, because the other commands do not need the packages.
    with needing("the page", "ui"):
        import lance_namespace

        from lancecy.ui import UiOptions, application, serve
        from lancecy.ui.guard import is_loopback
    if not is_loopback(host):
        if not expose:
            raise click.UsageError(
                f"other machines reach {host!r}: give --expose too if that is meant; "
                "safer is the default --host with an SSH tunnel"
            )
        warn(f"everyone who reaches {host} and has the address sees these tables; nothing is encrypted")
    token = secrets.token_urlsafe(24)
    options = UiOptions(
        root,
        storage_pairs(storage_options) or {},
        pairs("--property", properties),
        untrusted,
        allowed_bases,
    )
    try:
        page = application(options, token, host)
    except lance_namespace.LanceNamespaceError as error:
        fail(error)
    with _launcher(opens) as launch:

        def started(address: str) -> None:
            url = f"{address}/?token={token}"
            click.echo(f"lancecy: {printable(root)} is shown at\n\n    {url}\n\nCtrl-C ends it.")
            launch(url)

        serve(page, host, port, started)
    click.echo("lancecy: ended", err=True)


class _Launch:
    """Opens an address by a file that only its owner reads: arguments of programs can be seen by other users."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def __call__(self, url: str) -> None:
        if self._folder is None:
            return
        import webbrowser

        page = self._folder / "open.html"
        shown = html.escape(url)
        with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(
                f'<!doctype html><meta http-equiv="refresh" content="0; url={shown}"><a href="{shown}">lancecy</a>'
            )
        if not webbrowser.open(page.as_uri()):
            warn("no browser was found: open the address yourself")


@contextmanager
def _launcher(opens: bool) -> Iterator[_Launch]:
    if not opens:
        yield _Launch(None)
        return
    with tempfile.TemporaryDirectory(prefix="lancecy-ui-") as folder:
        yield _Launch(Path(folder))
