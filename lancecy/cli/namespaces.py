"""``ns``: lists and changes the namespaces and tables of a directory. Names are joined by dots, such as ``ns1.table``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from lancecy.cli.options import Listed, as_json, pairs
from lancecy.cli.output import fail, show_facts, show_json, show_rows, show_text
from lancecy.errors import DatasetNotFoundError, needing, printable
from lancecy.store.uri import canonical_uri, scheme_of

__all__ = ["ns"]

F = TypeVar("F", bound=Callable[..., Any])

_OURS = "lancecy.namespace.DirectoryNamespace"


@click.group(cls=Listed)
def ns() -> None:
    """List and change namespaces and tables by name.

    ROOT is a directory or its URL. Names are joined by dots, such as ns1.table.
    """


def _root_options(function: F, *, makes_root: bool = False) -> F:
    """Add the argument ROOT and the options of a namespace; the command gets the namespace.

    A local directory ROOT must exist, unless the command makes it: a misspelt one would look like an empty namespace.
    """

    @functools.wraps(function)
    def connected(
        *, root: str, storage_options: tuple[str, ...], properties: tuple[str, ...], **options: Any
    ) -> Any:
        # Imported here, because the other commands do not need the package.
        with needing("`lancecy ns`", "namespace"):
            import lance_namespace

        given = pairs("--property", properties)
        stored = {f"storage.{k}": v for k, v in pairs("a storage option", storage_options).items()}
        impl = given.pop("impl", _OURS)
        if not makes_root and impl in (_OURS, "dir") and _is_missing(root):
            raise DatasetNotFoundError(
                f"there is no directory {printable(root)!r}", kind="namespace", name=root
            )
        try:
            space = lance_namespace.connect(impl, {"root": root, **stored, **given})
            return function(space=space, **options)
        except lance_namespace.LanceNamespaceError as error:
            fail(error)

    for decorate in (
        click.option(
            "-p",
            "--property",
            "properties",
            multiple=True,
            metavar="KEY=VALUE",
            help="A property, such as dir_listing_enabled=false, or impl=dir for the class of pylance. May be repeated.",
        ),
        click.option(
            "-o",
            "--storage-option",
            "storage_options",
            multiple=True,
            metavar="KEY=VALUE",
            help="A storage option, for example endpoint_url=http://localhost:9000. May be repeated.",
        ),
    ):
        connected = decorate(connected)
    return click.argument("root")(connected)  # type: ignore[return-value]


def _is_missing(root: str) -> bool:
    place = canonical_uri(root)
    return scheme_of(place) == "file" and not Path(place).exists()


def _names(name: str) -> list[str]:
    return name.split(".") if name else []


def _all(operation: Any, request: Any, names: list[str], field: str) -> Iterator[str]:
    """All names of a listing, page by page."""
    token: str | None = None
    while True:
        answer = operation(request(id=names, page_token=token, limit=1000))
        yield from getattr(answer, field)
        token = answer.page_token
        if not token:
            return


def _namespaces(space: Any, names: list[str]) -> list[str]:
    import lance_namespace as ln

    return [*_all(space.list_namespaces, ln.ListNamespacesRequest, names, "namespaces")]


def _tables(space: Any, names: list[str]) -> list[str]:
    import lance_namespace as ln

    return [*_all(space.list_tables, ln.ListTablesRequest, names, "tables")]


def _is_table(space: Any, names: list[str]) -> bool:
    import lance_namespace as ln

    try:
        space.table_exists(ln.TableExistsRequest(id=names))
    except (ln.TableNotFoundError, ln.NamespaceNotFoundError):
        return False
    return True


@contextmanager
def _of_either_kind(names: list[str]) -> Iterator[None]:
    """Say of a name that is no table either that there is neither: the user may have meant a table."""
    import lance_namespace as ln

    try:
        yield
    except ln.NamespaceNotFoundError as error:
        raise ln.NamespaceNotFoundError(
            f"there is no table or namespace {printable('.'.join(names))!r}"
        ) from error


@ns.command()
@_root_options
@click.argument("name", default="")
@as_json
def ls(space: Any, name: str, as_json: bool) -> None:
    """List the namespaces and tables in ROOT, or in the namespace NAME."""
    names = _names(name)
    found = [("namespace", one) for one in _namespaces(space, names)]
    found += [("table", one) for one in _tables(space, names)]
    if as_json:
        show_json([{"kind": kind, "name": one} for kind, one in found])
    else:
        show_rows(("kind", "name"), found)


@ns.command()
@_root_options
@click.argument("name", default="")
@as_json
def tree(space: Any, name: str, as_json: bool) -> None:
    """Show all namespaces and tables in ROOT, or in the namespace NAME."""
    if as_json:
        show_json(_tree(space, _names(name)))
        return
    show_text(printable(name) if name else ".")
    for line in _lines(space, _names(name), ""):
        show_text(line)


def _tree(space: Any, names: list[str]) -> dict[str, Any]:
    """Namespaces by name, each with what is in it, and names of tables."""
    spaces = {one: _tree(space, [*names, one]) for one in _namespaces(space, names)}
    return {"namespaces": spaces, "tables": list(_tables(space, names))}


def _lines(space: Any, names: list[str], indent: str) -> Iterator[str]:
    spaces = _namespaces(space, names)
    entries = [(one, True) for one in spaces] + [(one, False) for one in _tables(space, names)]
    for number, (one, is_space) in enumerate(entries, 1):
        is_last = number == len(entries)
        yield f"{indent}{'└── ' if is_last else '├── '}{printable(one)}{'/' if is_space else ''}"
        if is_space:
            yield from _lines(space, [*names, one], indent + ("    " if is_last else "│   "))


@ns.command()
@functools.partial(_root_options, makes_root=True)
@click.argument("name")
@click.option("--set", "texts", multiple=True, metavar="KEY=VALUE", help="A property of it. May be repeated.")
@as_json
def create(space: Any, name: str, texts: tuple[str, ...], as_json: bool) -> None:
    """Create the namespace NAME, in one that exists."""
    import lance_namespace as ln

    space.create_namespace(ln.CreateNamespaceRequest(id=_names(name), properties=pairs("--set", texts)))
    _told("created", "namespace", name, as_json)


@ns.command()
@_root_options
@click.argument("name")
@click.argument("new")
@as_json
def rename(space: Any, name: str, new: str, as_json: bool) -> None:
    """Give the table NAME the name NEW, which may be in another namespace."""
    import lance_namespace as ln

    if not new:
        raise click.UsageError("NEW is empty: give the table a name")
    *parent, last = _names(new)
    request = ln.RenameTableRequest(id=_names(name), new_table_name=last, new_namespace_id=parent)
    space.rename_table(request)
    if as_json:
        show_json({"kind": "table", "name": new, "change": "renamed", "before": name})
    else:
        show_text(f"renamed {printable(name)} to {printable(new)}")


@ns.command()
@_root_options
@click.argument("name")
@click.option("--cascade", is_flag=True, help="Drop a namespace with all that is in it.")
@click.option("--keep-files", is_flag=True, help="Only remove a table from the namespace.")
@as_json
def drop(space: Any, name: str, cascade: bool, keep_files: bool, as_json: bool) -> None:
    """Drop the table or namespace NAME."""
    import lance_namespace as ln

    names = _names(name)
    if _is_table(space, names):
        if keep_files:
            space.deregister_table(ln.DeregisterTableRequest(id=names))
        else:
            space.drop_table(ln.DropTableRequest(id=names))
        _told("dropped", "table", name, as_json)
        return
    behavior = "Cascade" if cascade else "Restrict"
    with _of_either_kind(names):
        space.drop_namespace(ln.DropNamespaceRequest(id=names, behavior=behavior))
    _told("dropped", "namespace", name, as_json)


def _told(done: str, kind: str, name: str, as_json: bool) -> None:
    """Say what became of a namespace or table."""
    if as_json:
        show_json({"kind": kind, "name": name, "change": done})
    else:
        show_text(f"{done} {kind} {printable(name)}")


@ns.command()
@_root_options
@click.option("--dry-run", is_flag=True, help="Change nothing.")
@click.option("--back", is_flag=True, help="Remove tables of V1 from __manifest instead.")
@as_json
def migrate(space: Any, dry_run: bool, back: bool, as_json: bool) -> None:
    """Add the tables of V1 in ROOT to __manifest. Files stay where they are."""
    if not hasattr(space, "migrate"):
        raise click.UsageError("only namespaces of lancecy migrate")
    found = space.migrate_back(dry_run=dry_run) if back else space.migrate(dry_run=dry_run)
    if as_json:
        show_json({"tables": found.tables, "skipped": found.skipped, "is_dry_run": found.is_dry_run})
        return
    done = "would be " if dry_run else ""
    rows = [(name, f"{done}{'removed' if back else 'added'}") for name in found.tables]
    rows += [(name, f"stays: {reason}") for name, reason in found.skipped.items()]
    show_rows(("table", "change"), rows)


@ns.command()
@_root_options
@click.argument("name", default="")
@as_json
def describe(space: Any, name: str, as_json: bool) -> None:
    """Describe the table or namespace NAME; ROOT by default."""
    facts = _facts(space, _names(name))
    if as_json:
        show_json(facts)
    else:
        words = {True: "yes", False: "no"}
        show_facts(
            [
                (key, words[value] if isinstance(value, bool) else printable(value))
                for key, value in facts.items()
                if value is not None
            ]
        )


def _facts(space: Any, names: list[str]) -> dict[str, Any]:
    import lance_namespace as ln

    if not names or not _is_table(space, names):
        with _of_either_kind(names):
            found = space.describe_namespace(ln.DescribeNamespaceRequest(id=names))
        return {"kind": "namespace", "name": ".".join(names), "properties": found.properties}
    found = space.describe_table(ln.DescribeTableRequest(id=names, load_detailed_metadata=True))
    columns = [field.name for field in found.var_schema.fields] if found.var_schema else None
    return {
        "kind": "table",
        "name": ".".join(names),
        "location": found.location,
        "properties": found.properties,
        "version": found.version,
        "rows": (found.metadata or {}).get("total_rows"),
        "columns": None if columns is None else ", ".join(columns),
        "only declared": found.is_only_declared,
    }
