"""The tables of a namespace as temporary views of a Spark session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lancecy.api.named_tables import named_place
from lancecy.errors import DatasetNotFoundError, printable
from lancecy.spark.frames import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_views"]


def register_views(spark: SparkSession, namespace: Any, within: Sequence[str] = ()) -> list[str]:
    """Make a temporary view of each table of a namespace; replaces views of the same names.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    namespace : lance_namespace.LanceNamespace
    within : sequence of str
        Only the tables of this namespace and of those in it.

    Returns
    -------
    list of str
        Names of the views, in order.

    Raises
    ------
    ValueError
        Two tables would have one view.
    LanceError
        A table cannot be opened, or Spark has no type for a column.
    """
    tables: dict[str, list[str]] = {}
    for names in _tables(namespace, list(within)):
        view = "_".join(names[len(within) :])
        if view in tables:
            first = ".".join(tables[view])
            raise ValueError(
                f"tables {printable(first)!r} and {printable('.'.join(names))!r} would both be view {view!r}"
            )
        tables[view] = names
    made = []
    for view, names in sorted(tables.items()):
        place = named_place(namespace, names)
        try:
            frame = read(spark, place.uri, storage_options=place.storage_options or None)
        except DatasetNotFoundError:
            continue
        frame.createOrReplaceTempView("`" + view.replace("`", "``") + "`")
        made.append(view)
    return made


def _tables(namespace: Any, within: list[str]) -> Iterator[list[str]]:
    """The ids of all tables in a namespace and below it."""
    import lance_namespace

    for name in _pages(namespace.list_tables, lance_namespace.ListTablesRequest, within, "tables"):
        yield [*within, name]
    for name in _pages(
        namespace.list_namespaces, lance_namespace.ListNamespacesRequest, within, "namespaces"
    ):
        yield from _tables(namespace, [*within, name])


def _pages(operation: Any, request: Any, within: list[str], field: str) -> Iterator[str]:
    token: str | None = None
    while True:
        answer = operation(request(id=within, page_token=token))
        yield from getattr(answer, field)
        token = answer.page_token
        if not token:
            return
