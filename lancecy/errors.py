"""Every exception class of lancecy.

All derive from :class:`LanceError`; a builtin as second base lets the usual
``except`` of Python work. Facts are attributes and the message is made from them.
Parsers add a breadcrumb with :meth:`LanceError.within` as an error passes upward
through a layer that knows a name (page, column, file, dataset).

:func:`with_short_tracebacks` and :func:`warn` show errors and warnings at the line of the user.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar, cast

__all__ = [
    "ColumnNotFoundError",
    "CommitError",
    "CommitUnknownError",
    "ConflictError",
    "ContentionError",
    "DatasetNotFoundError",
    "ExistsError",
    "ExpressionError",
    "FormatError",
    "IndexExistsError",
    "IndexNotFoundError",
    "IndexTypeError",
    "LanceError",
    "LimitError",
    "MissingFileError",
    "NamespaceError",
    "NotFoundError",
    "PathPolicyError",
    "RefExistsError",
    "RefNotFoundError",
    "RetryableConflictError",
    "RowNotFoundError",
    "SchemaError",
    "StoreError",
    "TruncatedError",
    "UnsupportedError",
    "VersionNotFoundError",
    "WorkerError",
    "nearest",
    "needing",
    "printable",
    "warn",
    "with_short_tracebacks",
]

_MAX_TEXT = 500

_SHORTENS = "__shortens_tracebacks__"
"""Mark of functions that are decorated already: those with shared options are."""

_Called = TypeVar("_Called", bound=Callable[..., Any] | type)


def with_short_tracebacks(called: _Called) -> _Called:
    """Decorator for a public function or class: an error of lancecy shows the user's line, and not the frames below.

    A message says what is wrong; the frames of lancecy between it and the user's line say nothing to a user. Errors
    of other classes, which may be bugs, keep all frames. ``LANCECY_TRACEBACKS=full`` keeps them always.

    Examples
    --------
    >>> @with_short_tracebacks
    ... def read(path): raise LanceError(f"no table at {path}")
    >>> read("x")
    Traceback (most recent call last):
        ...
    lancecy.errors.LanceError: no table at x
    """
    if inspect.isclass(called):
        for name in dir(called):
            method = inspect.getattr_static(called, name)
            is_public = inspect.isfunction(method) and not name.startswith("_")
            if is_public and not hasattr(method, _SHORTENS):
                setattr(called, name, with_short_tracebacks(method))
        return called
    function = cast(Callable[..., Any], called)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except LanceError as error:
            if os.environ.get("LANCECY_TRACEBACKS") == "full":
                raise
            shown: BaseException | None = error
            known: set[int] = set()
            # An exception may be among its own causes.
            while shown is not None and id(shown) not in known:
                known.add(id(shown))
                shown.__traceback__ = None
                shown = shown.__cause__ or shown.__context__
            raise

    setattr(call, _SHORTENS, True)
    return cast(_Called, call)


class _Escaped(str):
    """Text whose control characters are escaped; ``repr`` does not escape the backslashes again."""

    __slots__ = ()

    def __repr__(self) -> str:
        quote = '"' if "'" in self and '"' not in self else "'"
        return f"{quote}{self}{quote}"


def warn(message: str) -> None:
    """Warn at the line of the user that called lancecy, however many of its functions are between."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "lancecy":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Name the extra to install if a package that is imported in the block is missing.

    Parameters
    ----------
    what : str
        What needs it.
    extra : str
        The extra of lancecy that has it.

    Raises
    ------
    ImportError
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f"{what} needs {error.name}: pip install 'lancecy[{extra}]'") from error


def printable(text: object) -> str:
    """The text with control characters escaped and its length bounded.

    Names and values come from files: a NUL byte or a megabyte of text must not
    reach a C API or a terminal through an error message.
    """
    raw = str(text)
    if len(raw) > _MAX_TEXT:
        raw = raw[:_MAX_TEXT] + "…"
    if raw.isprintable():
        return raw
    return _Escaped(
        "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in raw)
    )


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Up to ``limit`` known names similar to ``name``, without ``name`` itself."""
    pool = [k for k in itertools.islice(known, 10_000) if k != name]
    close = difflib.get_close_matches(name, pool, n=limit, cutoff=0.5)
    if close:
        return close
    lowered = {k.lower(): k for k in pool}
    return [lowered[name.lower()]] if name.lower() in lowered else []


class LanceError(Exception):
    """Base of every exception that lancecy raises deliberately.

    Attributes
    ----------
    breadcrumbs : list of str
        Where it happened, innermost first ("page 3", "column 7 'price'", "data/x.lance").
    """

    def __init__(self, what: str) -> None:
        self.what = printable(what)
        self.breadcrumbs: list[str] = []
        super().__init__(self.what)

    def within(self, place: str) -> LanceError:
        """Add one place to the breadcrumbs and return the same error, to be re-raised."""
        self.breadcrumbs.append(printable(place))
        return self

    def __str__(self) -> str:
        if not self.breadcrumbs:
            return self.what
        return f"{self.what} (in {' of '.join(self.breadcrumbs)})"

    def __reduce__(self) -> tuple[object, ...]:
        # Dask and Spark pickle errors between processes; classes with more arguments
        # are rebuilt without calling their __init__.
        return (_rebuild, (type(self), self.what, dict(self.__dict__)))


def _rebuild(kind: type[LanceError], what: str, state: dict[str, object]) -> LanceError:
    # LanceError and OSError are made by C, each with its own ``__new__``.
    base: type[BaseException] = OSError if issubclass(kind, OSError) else Exception
    error: LanceError = base.__new__(kind, what)
    error.__dict__.update(state)
    error.args = (what,)
    return error


class FormatError(LanceError, ValueError):
    """Bytes do not follow the format.

    Attributes
    ----------
    path : str or None
        File the bytes come from, relative to its root.
    position : int or None
        Byte position in that file, or the index a kernel reports.
    """

    def __init__(self, what: str, *, path: str | None = None, position: int | None = None) -> None:
        super().__init__(what)
        self.path = path
        self.position = position


class TruncatedError(FormatError):
    """The data is shorter than the format requires."""


class LimitError(FormatError):
    """Valid by the format, but beyond :class:`lancecy.Limits`.

    Attributes
    ----------
    limit : str
        Name of the field of ``Limits`` to raise for a trusted file; "" where smaller batches help.
    claimed : int
        The number in the file.
    """

    def __init__(self, what: str, *, limit: str, claimed: int, path: str | None = None) -> None:
        super().__init__(f"{what}; raise Limits.{limit} to allow it" if limit else what, path=path)
        self.limit = limit
        self.claimed = claimed


class PathPolicyError(FormatError, OSError):
    """A path in the metadata leads where this table may not read (see SECURITY.md), or a blob is given by such a URI.

    An ``OSError`` as of pylance's writes of blobs outside of the bases.
    """


class UnsupportedError(LanceError, NotImplementedError):
    """Valid, but not yet supported by lancecy.

    Attributes
    ----------
    feature : str
        The version, encoding, flag or type that is missing.
    """

    def __init__(self, what: str, *, feature: str = "") -> None:
        super().__init__(what)
        self.feature = printable(feature)


class NotFoundError(LanceError, LookupError):
    """A dataset, version, tag, branch, fragment, object or column does not exist.

    Attributes
    ----------
    kind, name : str
        Kind and name of the missing thing.
    known : list of str
        Existing names that are similar.
    """

    def __init__(self, what: str, *, kind: str = "", name: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(what)
        self.kind = kind
        self.name = printable(name)
        self.known = [printable(k) for k in known]


class DatasetNotFoundError(NotFoundError, FileNotFoundError, ValueError):
    """There is no dataset or no such file at the given place; a ``ValueError`` as of ``dataset`` in pylance."""


class MissingFileError(DatasetNotFoundError):
    """The table is there, but a file that it names is not.

    Attributes
    ----------
    path : str
        The file, relative to the root of its store.
    fragment : int
        Fragment that needs it.
    base : int or None
        Base it should be in; None for the table's own folder.
    """

    def __init__(self, what: str, *, path: str, fragment: int, base: int | None = None) -> None:
        super().__init__(what, kind="file", name=path)
        self.path = printable(path)
        self.fragment = fragment
        self.base = base


class VersionNotFoundError(NotFoundError, ValueError, OSError):
    """There is no such version, or it was removed.

    A ``ValueError`` as of ``dataset`` and tags, and an ``OSError`` as of ``checkout_version`` and ``restore``, in pylance.
    """

    def __init__(self, what: str, *, name: str, known: Iterable[str] = ()) -> None:
        super().__init__(what, kind="version", name=name, known=known)


class ColumnNotFoundError(NotFoundError, KeyError, ValueError, OSError):
    """The schema has no such column; the message lists similar names.

    A ``KeyError``, a ``ValueError`` as of scans in pylance, and an ``OSError`` as of changes there.
    """

    def __init__(self, name: str, known: Iterable[str] = (), *, where: str = "the schema") -> None:
        # The name itself may exist where it cannot be selected, such as the items of a list.
        names = [k for k in known if k != name]
        close = nearest(name, names)
        if close:
            hint = f"; did you mean {', '.join(repr(printable(c)) for c in close)}?"
        elif names:
            shown = ", ".join(printable(n) for n in names[:10])
            hint = f"; it has {shown}{', …' if len(names) > 10 else ''}"
        else:
            hint = ""
        super().__init__(
            f"no column {printable(name)!r} in {where}{hint}", kind="column", name=name, known=close
        )


class RowNotFoundError(NotFoundError, IndexError, ValueError, OSError):
    """A row number, row id or row address names no row, or a deleted one.

    An ``IndexError`` as for any sequence, a ``ValueError`` as of files, and an ``OSError`` as of ``take``, in pylance.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what, kind="row")


class IndexNotFoundError(NotFoundError, KeyError, RuntimeError):
    """There is no such index.

    A ``RuntimeError`` as of ``drop_index`` and a ``KeyError`` as of ``index_statistics`` in pylance.
    """


class ExistsError(LanceError, FileExistsError):
    """Something that was to be created already exists."""

    def __init__(self, what: str, *, kind: str = "", name: str = "") -> None:
        super().__init__(what)
        self.kind = kind
        self.name = printable(name)


class IndexExistsError(ExistsError, ValueError, RuntimeError):
    """There is an index of this name already; a ``RuntimeError`` as in pylance."""


class IndexTypeError(LanceError, TypeError, ValueError, NotImplementedError):
    """An index of this type is not made, or not of such columns.

    A ``NotImplementedError`` as of ``create_scalar_index`` with an unknown type, and a ``TypeError`` or ``ValueError`` as
    of it with a column of another type, in pylance.
    """


class RefNotFoundError(NotFoundError, ValueError, OSError):
    """There is no such tag or branch.

    A ``ValueError`` as of ``dataset`` and tags, and an ``OSError`` as of ``checkout_version``, in pylance.
    """


class RefExistsError(ExistsError, ValueError):
    """There is a tag or branch of this name already; a ``ValueError`` as in pylance."""


class SchemaError(LanceError, ValueError, OSError):
    """Two schemas do not match; an ``OSError`` as of writes and changes in pylance.

    Attributes
    ----------
    difference : str
        What differs.
    """

    def __init__(self, what: str, *, difference: str = "") -> None:
        super().__init__(what)
        self.difference = printable(difference)


class ExpressionError(LanceError, ValueError, OSError):
    """A filter or a computed column cannot be parsed or does not fit the schema.

    A ``ValueError`` as of scans, and an ``OSError`` as of ``delete`` and ``add_columns``, in pylance.

    Attributes
    ----------
    text : str
        The expression as given.
    position : int or None
        Index of a character in it, where known.
    """

    def __init__(self, what: str, *, text: str = "", position: int | None = None) -> None:
        super().__init__(what)
        self.text = printable(text)
        self.position = position


class CommitError(LanceError, OSError):
    """A change could not become the next version; an ``OSError`` as in pylance.

    Attributes
    ----------
    retryable : bool
        Whether the same change, made again from the newest version, may succeed; pylance's name.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, what: str = "another writer committed first") -> None:
        super().__init__(what)


CommitConflictError = CommitError
"""pylance's name."""


class ConflictError(CommitError):
    """The change conflicts with a concurrent commit."""


class RetryableConflictError(ConflictError):
    """The change must be recomputed from the newer version."""

    retryable = True


class ContentionError(CommitError):
    """Another writer committed first too often."""

    retryable = True


class CommitUnknownError(CommitError):
    """The commit may have landed: nothing may be deleted."""


class StoreError(LanceError, OSError):
    """A storage request failed.

    Attributes
    ----------
    path : str
        Object the request was for.
    store : str
        URI of the store, without secrets.
    tries : int
        How often the request was made. The store makes a request again only if that may help.
    """

    def __init__(self, what: str, *, path: str = "", store: str = "", tries: int = 1) -> None:
        super().__init__(what)
        self.path = printable(path)
        self.store = printable(store)
        self.tries = tries


class NamespaceError(LanceError):
    """An operation on a namespace failed; ``code`` is the numeric code of the namespace specification."""

    def __init__(self, what: str, *, code: int = 0) -> None:
        super().__init__(what)
        self.code = code


class WorkerError(LanceError, RuntimeError):
    """A worker of a PyTorch loader failed; the message ends with the error of the worker.

    A loader makes the error again from its traceback, as text, which other classes would shorten.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.args = (what,)
