"""Random queries that Dask and pandas answer alike.

A query is a list of steps, each a function of a frame that works in both; everything about a case follows from
(seed, index).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd

from lancecy.dask.dtypes import to_frame
from tests.helpers.random_tables import NUMBERS, ORDERED, RandomTable

__all__ = ["Case", "canonical", "outcome"]

Step = Callable[[Any], Any]


class Case(RandomTable):
    """One table and one query.

    Attributes
    ----------
    scan : dict
        Options of the scan.
    text : list of str
        What the query does.
    """

    def __init__(self, seed: int, index: int) -> None:
        super().__init__(seed, index)
        self.scan: dict[str, Any] = {"blocksize": self.pick(None, None, "1kB", "64MiB")}
        self.text: list[str] = []
        self.steps: list[Step] = []
        for _ in range(self.dice.integers(0, 3)):
            self._add(self.pick(_filtered, _assigned, _shuffled, _mapped, _joined, _repartitioned, _filled))
        self._add(self.pick(*_ENDS))

    def _add(self, make: Callable[[Case], tuple[str, Step]]) -> None:
        text, step = make(self)
        self.text.append(text)
        self.steps.append(step)

    def expected(self) -> pd.DataFrame:
        """The live rows as pandas has them, labelled by their number."""
        return to_frame(self.live())

    def rows(self, frame: Any) -> Any:
        """The frame that the last step of the query is given."""
        for step in self.steps[:-1]:
            frame = step(frame)
        return frame

    def answer(self, frame: Any) -> Any:
        """The query's answer, of a Dask frame still to be computed."""
        return self.steps[-1](self.rows(frame))

    def __str__(self) -> str:
        return f"({self.seed}, {self.index}): {' | '.join(self.text)}"


def _is_dask(frame: Any) -> bool:
    return hasattr(frame, "dask")


# -- steps ---------------------------------------------------------------------------------------------------


def _filtered(c: Case) -> tuple[str, Step]:
    name, other = c.key(), c.key(ORDERED)
    value, bound = c.value(name), c.value(other)
    how = int(c.dice.integers(7))
    op = c.pick("__lt__", "__le__", "__gt__", "__ge__")
    filters: tuple[tuple[str, Step], ...] = (
        (f"{name} == {value!r}", lambda t: t[t[name] == value]),
        (f"{name} != {value!r}", lambda t: t[t[name] != value]),
        (f"{other} {op} {bound!r}", lambda t: t[getattr(t[other], op)(bound)]),
        (f"{name} null", lambda t: t[t[name].isna()]),
        (f"{name} not null", lambda t: t[t[name].notnull()]),
        (f"both {name} {other}", lambda t: t[(t[name] == value) | ~t[other].isna() & (t.id > 11)]),
        (f"not {name} == {value!r}", lambda t: t[~(t[name] == value)]),
    )
    return filters[how]


def _assigned(c: Case) -> tuple[str, Step]:
    name = c.key((*NUMBERS, "ts"))
    if name == "ts":
        return "assign year", lambda t: t.assign(extra=t.ts.dt.year)
    return f"assign {name} + 1", lambda t: t.assign(extra=t[name] / 2)


def _shuffled(c: Case) -> tuple[str, Step]:
    name, method = c.key(), c.pick("tasks", "disk", None)
    return f"shuffle {name} {method}", lambda t: t.shuffle(name, shuffle_method=method) if _is_dask(t) else t


def _mapped(c: Case) -> tuple[str, Step]:
    return "map_partitions", lambda t: t.map_partitions(_same) if _is_dask(t) else t


def _same(part: Any) -> Any:
    return part


def _joined(c: Case) -> tuple[str, Step]:
    return "concat", lambda t: (dd if _is_dask(t) else pd).concat([t[t.id < 40], t[t.id >= 30]])


def _repartitioned(c: Case) -> tuple[str, Step]:
    return "repartition", lambda t: t.repartition(npartitions=1) if _is_dask(t) else t


def _filled(c: Case) -> tuple[str, Step]:
    name = c.key((*NUMBERS, "text", "flag"))
    value = c.value(name)
    return f"fillna {name}", lambda t: t.assign(**{name: t[name].fillna(value)})


# -- what a query ends with ------------------------------------------------------------------------------------


def _split(c: Case) -> int:
    return int(c.dice.integers(1, 4))


def _options(t: Any, split: int, **others: Any) -> dict[str, Any]:
    # Dask fails where fewer partitions are to become more.
    return {**others, "split_out": min(split, t.npartitions)} if _is_dask(t) else others


def _rows(c: Case) -> tuple[str, Step]:
    return "rows", lambda t: t


def _length(c: Case) -> tuple[str, Step]:
    return "len", len


def _groups(c: Case) -> tuple[str, Step]:
    by = [c.key() for _ in range(c.dice.integers(1, 3))]
    by = list(dict.fromkeys(by))
    how = c.pick("sum", "count", "min", "max", "mean", "nunique", "size")
    of = c.key(NUMBERS if how in ("sum", "mean") else ORDERED)
    # Dask forgets dropna=False when it counts distinct values.
    split, dropna = _split(c), bool(c.dice.random() < 0.7) or how == "nunique"
    of = "id" if of in by else of

    def step(t: Any) -> Any:
        grouped = t.groupby(by if len(by) > 1 else by[0], dropna=dropna)
        chosen = grouped if how == "size" else grouped[of]
        return getattr(chosen, how)(**_options(t, split))

    return f"{how} of {of} by {by} dropna={dropna} {split}", step


def _several(c: Case) -> tuple[str, Step]:
    by, split = c.key(), _split(c)

    def step(t: Any) -> Any:
        return t.groupby(by).agg({"id": ["sum", "max", "count"]}, **_options(t, split))

    return f"agg by {by} {split}", step


def _values(c: Case) -> tuple[str, Step]:
    name, split = c.key(), _split(c)
    return f"value_counts {name} {split}", lambda t: t[name].value_counts(**_options(t, split))


def _unique(c: Case) -> tuple[str, Step]:
    name = c.key()
    return f"unique {name}", lambda t: t[name].unique() if _is_dask(t) else pd.Series(t[name].unique())


def _nunique(c: Case) -> tuple[str, Step]:
    name = c.key()
    return f"nunique {name}", lambda t: t[name].nunique()


def _distinct(c: Case) -> tuple[str, Step]:
    names, split = list(dict.fromkeys([c.key(), c.key()])), _split(c)

    def step(t: Any) -> Any:
        return t[names].drop_duplicates(**_options(t, split, ignore_index=True)).reset_index(drop=True)

    return f"distinct {names} {split}", step


def _merge(c: Case) -> tuple[str, Step]:
    name, how = c.key(), c.pick("inner", "left", "right", "outer")
    method = c.pick("tasks", None)

    def step(t: Any) -> Any:
        left, right = t, t[t.id < 25][list(dict.fromkeys([name, "id"]))]
        right = right.rename(columns={"id": "other"} if name != "id" else {})
        right = right if name != "id" else right.assign(other=right.id)
        left, right = left[left[name].notnull()], right[right[name].notnull()]
        options = {"shuffle_method": method, "broadcast": False} if _is_dask(t) and method else {}
        return left.merge(right, on=name, how=how, **options)

    return f"merge {how} on {name} {method}", step


def _sorted(c: Case) -> tuple[str, Step]:
    name, ascending = c.key(ORDERED), bool(c.dice.random() < 0.6)
    return (
        f"sort {name}",
        lambda t: (
            t[["id", name]].sort_values(name, ascending=ascending) if name != "id" else t.sort_values("id")
        ),
    )


def _indexed(c: Case) -> tuple[str, Step]:
    name = c.key(("id", "i64", "text", "f64", "day", "ts", "tz", "dur"))
    return f"set_index {name}", lambda t: t[t[name].notnull()].set_index(name)


def _largest(c: Case) -> tuple[str, Step]:
    n = int(c.dice.integers(1, 9))
    return f"nlargest {n}", lambda t: t.nlargest(n, "id")


def _reduced(c: Case) -> tuple[str, Step]:
    how = c.pick("sum", "min", "max", "mean", "count", "any")
    name = c.key(NUMBERS if how in ("sum", "mean") else ("flag",) if how == "any" else ORDERED)
    if name == "id" and how == "any":
        how = "count"
    return f"{how} {name}", lambda t: getattr(t[name], how)()


def _cumulated(c: Case) -> tuple[str, Step]:
    how, name = c.pick("cumsum", "cummax", "cummin"), c.key(("i32", "f64"))
    return f"{how} {name}", lambda t: getattr(t.sort_values("id")[name], how)()


def _located(c: Case) -> tuple[str, Step]:
    low = int(c.dice.integers(0, 60))

    def step(t: Any) -> Any:
        # After some shuffles Dask has no loc: its divisions are unknown.
        if _is_dask(t) and not t.known_divisions:
            labelled = t.reset_index()
            return labelled[labelled["index"].between(low, low + 20)].drop(columns="index")
        return t.loc[low : low + 20]

    return f"loc {low}", step


def _member(c: Case) -> tuple[str, Step]:
    name = c.key(("i8", "i32", "i64", "text", "f64", "cat", "code", "u8", "large"))
    values = [c.value(name), c.value(name)]
    return f"{name} in {values!r}", lambda t: t[t[name].isin(values)]


_ENDS = (
    *(_rows, _length, _groups, _groups, _groups, _several, _values, _values, _unique, _unique),
    *(_nunique, _nunique, _distinct, _distinct),
    *(_merge, _merge, _sorted, _indexed, _largest, _reduced, _cumulated, _located, _member),
)


# -- answers -----------------------------------------------------------------------------------------------------


def outcome(ask: Callable[[], Any]) -> Any:
    """The answer, or the error that there is instead."""
    try:
        return ask()
    except Exception as error:  # any: pandas and Dask have many for what they refuse
        return error


def canonical(answer: Any) -> Any:
    """Rows of an answer in an order of their own, as Python values; numbers of the index only where it has a name."""
    if isinstance(answer, pd.Series):
        answer = answer.to_frame("value")
    if not isinstance(answer, pd.DataFrame):
        return _plain(answer)
    if answer.index.name is not None or answer.index.nlevels > 1:
        labels = [_plain(label) for label in answer.index]
    else:
        labels = [None] * len(answer)
    columns = [[_plain(v) for v in answer.iloc[:, i].astype(object)] for i in range(answer.shape[1])]
    rows = sorted(zip(labels, *columns, strict=True), key=repr)
    return [str(c) for c in answer.columns], rows


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list | np.ndarray):
        return tuple(_plain(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, _plain(v)) for k, v in value.items())
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, pd.Timestamp | dt.datetime):
        return str(pd.Timestamp(value))
    if isinstance(value, pd.Timedelta | dt.timedelta):
        return pd.Timedelta(value).value
    return float(value) if isinstance(value, int | float) and abs(value) < 2**53 else value
