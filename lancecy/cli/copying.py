"""``copy``: copies a table with its versions, tags and branches, or moves bases of it."""

from __future__ import annotations

from dataclasses import asdict

import click

from lancecy.api import copies
from lancecy.changes.copy_dataset import CopiedDataset
from lancecy.cli.options import allow_option, as_json, pairs, quiet_option, storage_pairs, untrusted_option
from lancecy.cli.output import bar, show_facts, show_json, show_text
from lancecy.errors import printable
from lancecy.table.refs import MAIN

__all__ = ["copy"]


@click.command()
@click.argument("source")
@click.argument("target", required=False)
@click.option(
    "--base",
    "bases",
    multiple=True,
    metavar="BASE=PLACE",
    help="Also copy the files of this base, by its name or path, to PLACE. Without TARGET only bases move. May be repeated.",
)
@click.option(
    "--versions", metavar="LIST", help="Only these versions of the table, such as 3,5,8; by default all."
)
@click.option(
    "--newest",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the N newest versions of the table and of each branch.",
)
@click.option(
    "--verify/--no-verify", default=True, help="Compare the bytes of each copy with the source (the default)."
)
@click.option(
    "-o",
    "--storage-option",
    "storage_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A storage option for SOURCE. May be repeated.",
)
@click.option(
    "--target-option",
    "target_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A storage option for TARGET; by default it has those of SOURCE. May be repeated.",
)
@allow_option
@untrusted_option
@click.option("--dry-run", is_flag=True, help="Only say what would be copied.")
@quiet_option
@as_json
def copy(
    source: str,
    target: str | None,
    bases: tuple[str, ...],
    versions: str | None,
    newest: int | None,
    verify: bool,
    storage_options: tuple[str, ...],
    target_options: tuple[str, ...],
    allowed_bases: tuple[str, ...],
    untrusted: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Copy the table at SOURCE with its versions, tags and branches to TARGET, in any storage.

    Without TARGET, only the bases named by --base move: the table then names their new places. An interrupted copy continues when the
    command is repeated. With --versions or --newest, tags and branches of other
    versions are left out.
    """
    if versions is not None and newest is not None:
        raise click.UsageError("--versions and --newest both choose versions: give one of them")
    if target is None and not bases:
        raise click.UsageError("name TARGET for the table, or bases to move with --base")
    with bar(quiet or as_json) as progress:
        copied = copies.copy(
            source,
            target,
            bases=pairs("--base", bases),
            versions=newest if versions is None else _numbers(versions),
            storage_options=storage_pairs(storage_options),
            target_options=storage_pairs(target_options),
            verify=verify,
            dry_run=dry_run,
            progress=progress,
            untrusted=untrusted,
            allowed_bases=allowed_bases or None,
        )
    if as_json:
        show_json({"dry_run": dry_run, **asdict(copied)})
    else:
        show_text("would copy:" if dry_run else "copied:")
        show_facts(_facts(copied))


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise click.UsageError(f"--versions is a list such as 3,5,8, not {text!r}; --newest takes a number")
    return [int(part) for part in parts]


def _facts(copied: CopiedDataset) -> list[tuple[str, str]]:
    branches = [name for name in copied.versions if name != MAIN]
    facts = [
        ("uri", printable(copied.uri)),
        ("versions", f"{len(copied.versions[MAIN]):,}"),
        ("branches", _joined(branches)),
        ("tags", _joined(copied.tags)),
        ("files", f"{copied.num_files:,}"),
        ("bytes", f"{copied.nbytes:,}"),
        *(("base", f"{printable(old)} -> {printable(new)}") for old, new in copied.bases.items()),
    ]
    left_out = (("branches", copied.left_out_branches), ("tags", copied.left_out_tags))
    return [*facts, *((f"{what} left out", _joined(names)) for what, names in left_out if names)]


def _joined(names: list[str]) -> str:
    return ", ".join(map(printable, names)) or "none"
