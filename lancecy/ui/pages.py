"""The addresses of the page, and what is shown at each.

A view reads the address, asks the other modules for values in a thread that has limited time, and fills in a template.
The templates escape every value.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import flask
import lance_namespace as ln
import pyarrow as pa
from werkzeug.exceptions import BadRequest, HTTPException, NotFound

from lancecy.api.datasets import Dataset
from lancecy.errors import ColumnNotFoundError, ExpressionError, LanceError, NotFoundError, UnsupportedError
from lancecy.records import dataclass
from lancecy.table.answers import run_on
from lancecy.table.refs import MAIN
from lancecy.table.refs.places import main_location
from lancecy.table.refs.readable import ref_names
from lancecy.ui import charts, figures, found_rows
from lancecy.ui.cells import columns_of
from lancecy.ui.deadline import Deadline, TooSlowError, Workers
from lancecy.ui.guard import PICTURE_POLICY, Guard
from lancecy.ui.options import LONGEST_FILTER, MOST_NAMES, Bounds, UiOptions
from lancecy.ui.pictures import image_bytes
from lancecy.ui.references import address_of, address_of_tag, reference_of
from lancecy.ui.roots import Listing, Root, root_of
from lancecy.ui.texts import counted, escaped, joined, size_text, time_text

__all__ = ["TABS", "application"]

T = TypeVar("T")

TABS = {
    "overview": "Overview",
    "schema": "Schema",
    "rows": "Rows",
    "explain": "Explain",
    "statistics": "Statistics",
    "layout": "Layout",
    "versions": "Versions",
    "references": "Tags & branches",
}
"""The tabs of a table by the last part of their address."""

_LONGEST_NAME = 1000
_MOST_PICKED = 200
_SHOWN_FRAGMENTS = 100
_FIRST_VERSIONS = 50
_ROW_HEIGHT, _JOINT_HEIGHT = 34, 18
# What a filter may be refused for; it is said beside the filter.
_OF_FILTERS = (ExpressionError, ColumnNotFoundError, UnsupportedError, TooSlowError)
_TOLD = (ValueError, TypeError, KeyError, OSError, OverflowError, MemoryError, pa.ArrowException)


@dataclass(frozen=True)
class _Place:
    """What an address names: a namespace or a table, and a version of it."""

    names: list[str]
    at: str = ""


@dataclass(frozen=True)
class _Level:
    """A namespace of the tree: its name, and its own names if it is open."""

    name: str
    names: list[str]
    listing: Listing


def application(options: UiOptions, token: str, host: str = "127.0.0.1") -> flask.Flask:
    """The page as a WSGI application.

    Parameters
    ----------
    options : UiOptions
    token : str
        Whoever gives it as ``/?token=…`` gets a cookie, which all other pages need.
    host : str
        The address that is listened to.

    Returns
    -------
    flask.Flask

    Raises
    ------
    LanceError
        The root cannot be opened; a namespace raises errors of ``lance_namespace``.
    """
    app = flask.Flask(__name__, static_url_path="/static")
    app.url_map.merge_slashes = False  # an address is what it is, and never a redirection
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters |= {"escaped": escaped, "counted": counted, "size": size_text, "time": time_text}
    pages = _Pages(root_of(options), options.effective_bounds)
    for address, view in (
        ("/", pages.start),
        ("/namespace", pages.namespace),
        ("/find", pages.find),
        ("/table/<tab>", pages.table),
        ("/image", pages.image),
    ):
        app.add_url_rule(address, view.__name__, view, methods=["GET"])
    app.register_error_handler(Exception, pages.error)
    app.context_processor(pages.shared)
    refusal = app.jinja_env.get_template("refused.html")
    app.wsgi_app = Guard(  # type: ignore[method-assign]
        app.wsgi_app,
        token,
        lambda status, reason, goes_on: refusal.render(status=status, reason=reason, goes_on=goes_on),
        host,
    )
    return app


class _Pages:
    """The views."""

    def __init__(self, root: Root, bounds: Bounds) -> None:
        self._root = root
        self._bounds = bounds
        self._workers = Workers()

    def _run(self, work: Callable[[Deadline], T]) -> T:
        return self._workers.run(work, self._bounds.seconds)

    def shared(self) -> dict[str, Any]:
        """What every template may use."""
        return {
            "root": self._root,
            "bounds": self._bounds,
            "tab_names": TABS,
            "joined": joined,
            "untrusted": self._root.options.untrusted,
            "line": (charts.LINE_WIDTH, charts.LINE_HEIGHT),
            "can_link": _can_link,
        }

    # -- namespaces -------------------------------------------------------------------------------

    def start(self) -> Any:
        """The root."""
        if self._root.is_table:
            return self.table("overview")
        return self._namespace([])

    def namespace(self) -> Any:
        """A namespace."""
        return self._namespace(_place().names)

    def _namespace(self, names: list[str]) -> str:
        after, find, kind = _text("after"), _text("find"), _text("kind", "tables")
        if kind not in ("tables", "namespaces"):
            raise BadRequest("kind is tables or namespaces")
        most = self._bounds.names

        def work(_deadline: Deadline) -> dict[str, Any]:
            found = self._root.listing(names)
            return {
                "tree": self._tree(names),
                "properties": _pairs(self._root.properties(names)),
                "spaces": found.page("namespaces", most, after if kind == "namespaces" else "", find),
                "tables": found.page("tables", most, after if kind == "tables" else "", find),
            }

        return flask.render_template(
            "namespace.html",
            place=_Place(names),
            find=find,
            title=joined(names) or self._root.name,
            **self._run(work),
        )

    def find(self) -> str:
        """Tables of all namespaces by a part of their name."""
        text = _text("q").strip()

        def work(_deadline: Deadline) -> dict[str, Any]:
            found, total = self._root.find(text) if text else ([], 0)
            return {"tree": self._tree([]), "found": found, "total": total}

        return flask.render_template(
            "find.html",
            place=_Place([]),
            text=text,
            title=f"Tables named {escaped(text, 60)}",
            **self._run(work),
        )

    def _tree(self, names: list[str]) -> list[_Level]:
        """The namespaces from the root to one of them."""
        if self._root.is_table:
            return []
        return [
            _Level(
                names[depth - 1] if depth else self._root.name,
                names[:depth],
                self._root.listing(names[:depth]),
            )
            for depth in range(len(names) + 1)
        ]

    # -- tables -----------------------------------------------------------------------------------

    def table(self, tab: str) -> Any:
        """A tab of a table."""
        make = {
            "overview": self._overview,
            "schema": self._schema,
            "rows": self._rows,
            "explain": self._explain,
            "statistics": self._statistics,
            "layout": self._layout,
            "versions": self._versions,
            "references": self._references,
        }.get(tab)
        if make is None:
            raise NotFound
        place = _place()
        asked = make()

        def work(deadline: Deadline) -> dict[str, Any]:
            ds = self._root.open(place.names, reference_of(place.at))
            tree = self._tree(place.names[:-1])
            return {"tree": tree, **self._head(ds), **asked(ds, deadline)}

        title = joined(place.names) or self._root.name
        values = self._run(work)
        return flask.render_template(f"{tab}.html", place=place, tab=tab, title=title, **values)

    def _head(self, ds: Dataset) -> dict[str, Any]:
        """What stands above the tabs."""
        manifest = ds.context.snapshot.manifest
        tags: tuple[str, ...] = ()
        branches: tuple[str, ...] = ()
        told = ""
        try:
            main = main_location(ds.location, manifest.branch)
            tags, branches = run_on(ref_names(tries=1), main.open(ds.context.snapshot.session))
        except LanceError as error:
            told = str(error)
        return {
            "ds": ds,
            "version": ds.version,
            "branch": manifest.branch,
            "written": manifest.timestamp,
            "pinned": address_of(manifest.branch, ds.version),
            "picks": [
                *[(address_of(name), f"branch {escaped(name, 60)}") for name in branches[:_MOST_PICKED]],
                *[(address_of_tag(name), f"tag {escaped(name, 60)}") for name in tags[:_MOST_PICKED]],
            ],
            "refs_error": told,
        }

    def _overview(self) -> _Asked:
        place = _place()

        def asked(ds: Dataset, _deadline: Deadline) -> dict[str, Any]:
            facts = ds.summary()
            told = self._root.describe(place.names)
            try:
                indices, index_error = figures.index_lines(ds), ""
            except LanceError as error:
                indices, index_error = [], str(error)
            return {
                "facts": facts,
                "indices": indices,
                "index_error": index_error,
                "groups": [
                    ("Properties", _pairs(told.properties)),
                    ("Configuration", _pairs(ds.config)),
                    ("Metadata of the table", _pairs(ds.metadata)),
                    ("Metadata of the schema", _pairs(ds.schema_metadata)),
                ],
            }

        return asked

    def _schema(self) -> _Asked:
        first, find = _number("cf"), _text("c")

        def asked(ds: Dataset, _deadline: Deadline) -> dict[str, Any]:
            page = found_rows.column_page(ds, self._bounds, first, find)
            return {"columns": page, "find_column": find, "fields": figures.field_lines(page.fields)}

        return asked

    def _rows(self) -> _Asked:
        first, find, condition, skipped = _number("cf"), _text("c"), _text("filter").strip(), _number("from")

        def asked(ds: Dataset, deadline: Deadline) -> dict[str, Any]:
            page = found_rows.column_page(ds, self._bounds, first, find)
            values = {"columns": page, "find_column": find, "filter": condition, "error": "", "shown": []}
            try:
                rows = found_rows.read_rows(
                    ds, page.fields, condition or None, skipped, self._bounds, deadline
                )
            except _OF_FILTERS as error:
                return values | {"error": str(error)}
            shown = columns_of(ds, page.fields, rows, self._bounds)
            return values | {"rows": rows, "shown": shown, "total": ds.count_rows()}

        return asked

    def _explain(self) -> _Asked:
        condition, counts = _text("filter").strip(), bool(_text("count"))

        def asked(ds: Dataset, deadline: Deadline) -> dict[str, Any]:
            page = found_rows.column_page(ds, self._bounds)
            values = {"columns": page, "filter": condition, "error": "", "matching": None, "found": None}
            try:
                found = found_rows.explained(
                    ds, page.fields, condition or None, self._bounds, Deadline(self._bounds.explain_seconds)
                )
                deadline.check()
                if counts and condition:
                    values["matching"] = found_rows.count_matches(ds, condition, deadline)
            except _OF_FILTERS as error:
                return values | {"error": str(error)}
            lines = found.fragments
            strips = charts.strips(
                [line.rows for line in lines],
                [line.rows - line.kept_rows for line in lines],
                [0] * len(lines),
                [
                    f"fragment {line.fragment}: {line.kept_rows:,} of {counted(line.rows, 'row')} to look at"
                    for line in lines
                ],
            )
            return values | {
                "found": found,
                "strips": strips,
                "lines": lines[:_SHOWN_FRAGMENTS],
                "total": ds.count_rows(),
                "all_fragments": len(ds.context.snapshot.fragments),
            }

        return asked

    def _statistics(self) -> _Asked:
        first, find = _number("cf"), _text("c")

        def asked(ds: Dataset, deadline: Deadline) -> dict[str, Any]:
            page = found_rows.column_page(ds, self._bounds, first, find)
            sizes = figures.column_sizes(ds, self._bounds)
            lines, sampled = figures.column_lines(ds, page.fields, sizes, deadline)
            return {
                "columns": page,
                "find_column": find,
                "sizes": sizes,
                "total": int(sizes.nbytes.sum()),
                "lines": lines,
                "sampled": sampled,
            }

        return asked

    def _layout(self) -> _Asked:
        first, check = _number("from"), bool(_text("check"))

        def asked(ds: Dataset, _deadline: Deadline) -> dict[str, Any]:
            return {
                "bases": figures.base_lines(ds, check),
                "checked": check,
                "strips": figures.fragment_strips(ds),
                "fragments": figures.fragment_lines(ds, first, _SHOWN_FRAGMENTS),
                "first": first,
                "all_fragments": len(ds.context.snapshot.fragments),
                "page": _SHOWN_FRAGMENTS,
            }

        return asked

    def _versions(self) -> _Asked:
        limit = min(max(1, _number("limit", _FIRST_VERSIONS)), self._bounds.versions)

        def asked(ds: Dataset, _deadline: Deadline) -> dict[str, Any]:
            graph = ds.history_graph(limit)
            rows = [
                (
                    charts.graph_row(
                        drawing,
                        _ROW_HEIGHT if version else _JOINT_HEIGHT,
                        version is not None and version.is_newest,
                        version is not None and version.is_oldest and not version.is_joined,
                    ),
                    version,
                    address_of(version.branch, version.version) if version else "",
                )
                for drawing, version in graph.drawn()
            ]
            own = ds.context.snapshot.manifest.branch or MAIN
            made = [one for one in reversed(graph.versions) if one.branch == own and one.entry]
            counts = [one.entry.rows or 0 for one in made if one.entry]
            strips = charts.strips(
                counts,
                [0] * len(made),
                [0] * len(made),
                [
                    f"version {one.version}: {counted(rows, 'row')}"
                    for one, rows in zip(made, counts, strict=True)
                ],
            )
            return {
                "graph": graph,
                "graph_rows": rows,
                "width": max((row.width for row, _, _ in rows), default=0),
                "strips": strips,
                "greatest": max(counts, default=0),
                "limit": limit,
                "own": own,
            }

        return asked

    def _references(self) -> _Asked:
        def asked(ds: Dataset, _deadline: Deadline) -> dict[str, Any]:
            refs = figures.named_refs(ds)
            tags = [
                (name, address_of_tag(name), tag, _pairs(tag.metadata))
                for name, tag in list(refs.tags.items())[:_MOST_PICKED]
            ]
            branches = [
                (name, address_of(name), branch, _pairs(branch.metadata))
                for name, branch in list(refs.branches.items())[:_MOST_PICKED]
            ]
            return {"refs": refs, "tags": tags, "branches": branches, "main": MAIN}

        return asked

    def image(self) -> flask.Response:
        """An image in a row."""
        place, name, row = _place(), _text("column"), _number("row", most=(1 << 64) - 1)

        def work(_deadline: Deadline) -> tuple[bytes, str]:
            ds = self._root.open(place.names, reference_of(place.at))
            for field in ds.lance_schema.fields:
                if field.name == name:
                    return image_bytes(ds, field, row, self._bounds)
            raise NotFoundError("there is no such column", kind="column", name=name)

        data, kind = self._run(work)
        answer = flask.Response(data, mimetype=kind)
        answer.headers["Content-Security-Policy"] = PICTURE_POLICY
        return answer

    # -- errors -----------------------------------------------------------------------------------

    def error(self, error: Exception) -> tuple[str, int]:
        """The page of an error: its text, and no traceback."""
        status, text = _told(error)
        try:
            place = _place()
            tree = self._run(lambda _deadline: self._tree(place.names[:-1]))
        except (HTTPException, LanceError, ln.LanceNamespaceError, *_TOLD):
            place, tree = _Place([]), []
        page = flask.render_template(
            "error.html",
            place=place,
            tree=tree,
            # The other tabs of a table may do without what is damaged.
            tab=(flask.request.view_args or {}).get("tab")
            if status == 422 and _can_link(place.names)
            else None,
            title="This cannot be shown",
            reason=text,
            status=status,
        )
        return page, status


_Asked = Callable[[Dataset, Deadline], dict[str, Any]]


def _told(error: Exception) -> tuple[int, str]:
    """Status and text of an error."""
    match error:
        case HTTPException():
            return error.code or 500, escaped(error.description or error.name)
        case TooSlowError():
            return 503, str(error)
        case NotFoundError():
            return 404, str(error)
        case LanceError():
            return 422, str(error)
        case ln.LanceNamespaceError():
            return (404 if "NotFound" in type(error).__name__ else 422), escaped(error)
    if isinstance(error, _TOLD):
        return 422, escaped(error)
    traceback.print_exception(error, file=sys.stderr)
    return 500, f"an unexpected error ({type(error).__name__}); the terminal shows where it happened"


# -- addresses ----------------------------------------------------------------------------------------


def _place() -> _Place:
    names = flask.request.args.getlist("id")
    if len(names) > MOST_NAMES or any(len(name) > _LONGEST_NAME for name in names):
        raise BadRequest("the address has too many names, or too long ones")
    return _Place(names, _text("at"))


def _text(name: str, default: str = "") -> str:
    text = flask.request.args.get(name, default)
    if len(text) > LONGEST_FILTER:
        raise BadRequest(f"{name} has more than {LONGEST_FILTER:,} characters")
    return text


def _number(name: str, default: int = 0, most: int = 1 << 40) -> int:
    text = flask.request.args.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,20}", text) or int(text) > most:
        raise BadRequest(f"{name} is a number")
    return int(text)


def _pairs(values: Mapping[str, object]) -> list[tuple[str, str]]:
    """The first names and values of a mapping as text."""
    return [(escaped(key, 80), escaped(value, 400)) for key, value in list(values.items())[:100]]


def _can_link(names: list[str]) -> bool:
    """Whether an address can have these names: file systems have names that are no text."""
    return not any(0xD800 <= ord(character) <= 0xDFFF for name in names for character in name)
