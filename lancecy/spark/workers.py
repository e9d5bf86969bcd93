"""Checks that Spark's Python workers can run lancecy's tasks.

A worker with another version of Python or without the package is otherwise reported as a
Java stack trace in the middle of a job. :func:`check` runs one small job per session
beforehand and says what to set; objects sent to executors (:class:`Carried`, :func:`carried`) check again
when they are unpickled, before they need the package.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import lancecy
from lancecy.errors import printable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["Carried", "carried", "check"]

_TELLING = re.compile(r"^Caused by:|\[[A-Z]+(?:_[A-Z]+)+\]|Error\b")
_checked: weakref.WeakSet[Any] = weakref.WeakSet()

_REMEDY = (
    "Start Spark with PYSPARK_PYTHON (or spark.pyspark.python) set to a Python {version} that has lancecy "
    "{release} installed on every executor; on one machine that is {executable}"
)


def _question() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # A nested function is pickled by value, so it runs where lancecy is not installed.
    def answer(batches: Iterator[Any]) -> Iterator[Any]:
        import sys

        import pyarrow

        for _ in batches:
            try:
                import lancecy

                found, reason = lancecy.__version__, ""
            except ImportError as error:
                found, reason = "", str(error)
            yield pyarrow.RecordBatch.from_pydict(
                {"release": [found], "reason": [reason], "python": [sys.executable]}
            )

    return answer


def carried(module: str, name: str, *state: object) -> tuple[Callable[..., Any], tuple[object, ...]]:
    """The result of ``__reduce__`` for an object that is sent to executors.

    Unpickling raises a clear error if lancecy is missing or another release.

    Parameters
    ----------
    module, name : str
        Location of its class.
    *state
        Arguments for making it.

    Returns
    -------
    (callable, arguments)
        Only PySpark's pickler accepts them, as it pickles nested functions by value.
    """
    # Arguments are unpickled in order: the guard runs before the state needs any class of lancecy.
    return _maker(), (_Guard(), module, name, *state)


class Carried:
    """Base of dataclasses that are sent to executors, see :func:`carried`."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        me: Any = self
        state = [getattr(me, part.name) for part in fields(me)]
        return carried(type(me).__module__, type(me).__name__, *state)


class _Guard:
    def __reduce__(self) -> tuple[Callable[..., None], tuple[str, str]]:
        return _asker(), (lancecy.__version__, _remedy())


def _asker() -> Callable[[str, str], None]:
    def ask(release: str, remedy: str) -> None:
        import sys

        try:
            import lancecy
        except ImportError as error:
            said = f"Spark's Python worker {sys.executable} cannot import lancecy ({error}). {remedy}"
            raise ImportError(said, name="lancecy") from None
        if lancecy.__version__ != release:
            said = f"Spark's Python worker {sys.executable} has lancecy {lancecy.__version__}, not {release}. {remedy}"
            raise ImportError(said, name="lancecy")

    return ask


def _maker() -> Callable[..., Any]:
    def make(guard: object, module: str, name: str, *state: object) -> Any:
        import importlib

        return getattr(importlib.import_module(module), name)(*state)

    return make


def check(spark: SparkSession) -> None:
    """Check once per session that a Python worker has this release of lancecy.

    Raises
    ------
    ImportError
        It has none or another one, or the worker does not start; the message says what to set.
    """
    if spark in _checked:
        return
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    schema = "release string, reason string, python string"
    try:
        answer = spark.range(0, 1, 1, 1).mapInArrow(_question(), schema).collect()[0]
    except (PySparkException, Py4JError) as error:
        raise ImportError(
            f"Spark's Python worker does not start: {_reason(str(error))}. {_remedy()}"
        ) from error
    if not answer["release"]:
        raise ImportError(
            f"Spark's Python worker {answer['python']} cannot import lancecy ({answer['reason']}). {_remedy()}",
            name="lancecy",
        )
    if answer["release"] != lancecy.__version__:
        raise ImportError(
            f"Spark's Python worker {answer['python']} has lancecy {answer['release']}, "
            f"the driver {lancecy.__version__}. {_remedy()}",
            name="lancecy",
        )
    _checked.add(spark)


def _reason(trace: str) -> str:
    """The informative lines of a Java stack trace, the cause last."""
    lines = [line.strip() for line in trace.splitlines()]
    telling = [line for line in lines if _TELLING.search(line) and not line.startswith("at ")]
    return printable(" … ".join(dict.fromkeys(telling[:1] + telling[-2:])))


def _remedy() -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return _REMEDY.format(version=version, release=lancecy.__version__, executable=sys.executable)
