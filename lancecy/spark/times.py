"""Times of day in Spark, which groups, caches and writes them only where a setting allows it.

Spark's own error names neither the column nor the setting.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, GroupedData
from pyspark.sql import DataFrame as ParentDataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from lancecy.errors import UnsupportedError

__all__ = ["TimedGroups", "naming_times", "time_columns"]

_CONDITION = "UNSUPPORTED_TIME_TYPE"


def time_columns(struct: StructType) -> list[str]:
    """Paths of the times of day in a schema, such as ``t``, ``s.t`` and ``l[]``.

    Parameters
    ----------
    struct : pyspark.sql.types.StructType
    """
    return [path for field in struct.fields for path in _paths(field.name, field.dataType)]


def _paths(path: str, held: DataType) -> list[str]:
    if isinstance(held, StructType):
        return [f"{path}.{inner}" for inner in time_columns(held)]
    if isinstance(held, ArrayType):
        return _paths(f"{path}[]", held.elementType)
    if isinstance(held, MapType):
        return [*_paths(f"{path}.key", held.keyType), *_paths(f"{path}.value", held.valueType)]
    return [path] if held.typeName() == "time" else []


@contextlib.contextmanager
def naming_times(frame: ParentDataFrame) -> Iterator[None]:
    """Replace Spark's refusal of times by an error with their columns and the remedy.

    Raises
    ------
    UnsupportedError
    """
    try:
        yield
    except AnalysisException as error:
        names = time_columns(frame.schema) if error.getCondition() == _CONDITION else []
        if not names:
            raise
        shown = ", ".join(map(repr, names))
        top = names[0].split(".")[0].removesuffix("[]")
        raise UnsupportedError(
            f"Spark does not group, aggregate or cache a frame with times of day ({shown}) unless a setting allows it: "
            'spark.conf.set("spark.sql.timeType.enabled", "true"); or leave the column out, or read it with a cast, '
            f"for example columns={{'{top}': 'CAST({names[0]} AS string)'}}",
            feature="Spark: time",
        ) from error


class TimedGroups(GroupedData):
    """Spark's groups of a frame, with errors that name its times of day.

    Parameters
    ----------
    groups : pyspark.sql.GroupedData
    """

    def __init__(self, groups: GroupedData) -> None:
        super().__init__(groups._jgd, groups._df)

    def agg(self, *exprs: Column | dict[str, str]) -> ParentDataFrame:
        with naming_times(self._df):
            return super().agg(*exprs)  # type: ignore[arg-type]

    def count(self) -> ParentDataFrame:
        with naming_times(self._df):
            return super().count()

    def avg(self, *cols: str) -> ParentDataFrame:
        with naming_times(self._df):
            return super().avg(*cols)

    def mean(self, *cols: str) -> ParentDataFrame:
        return self.avg(*cols)

    def max(self, *cols: str) -> ParentDataFrame:
        with naming_times(self._df):
            return super().max(*cols)

    def min(self, *cols: str) -> ParentDataFrame:
        with naming_times(self._df):
            return super().min(*cols)

    def sum(self, *cols: str) -> ParentDataFrame:
        with naming_times(self._df):
            return super().sum(*cols)

    def pivot(self, pivot_col: str, values: list[Any] | None = None) -> GroupedData:
        with naming_times(self._df):
            return TimedGroups(super().pivot(pivot_col, values))
