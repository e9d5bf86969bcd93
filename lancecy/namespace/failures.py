"""What surrounds each operation of a namespace: requests as models, counts of calls, and errors with codes.

Errors of lancecy become errors of ``lance_namespace``, which have the codes of its specification.
"""

from __future__ import annotations

import errno
import functools
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import lance_namespace as codes
import pyarrow as pa

from lancecy import errors

__all__ = ["Calls", "coded", "with_codes"]

F = TypeVar("F", bound=Callable[..., Any])

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# The first class that an error is an instance of.
_CLASSES: tuple[tuple[type[BaseException], type[codes.LanceNamespaceError]], ...] = (
    (errors.ColumnNotFoundError, codes.TableColumnNotFoundError),
    (errors.DatasetNotFoundError, codes.TableNotFoundError),
    (errors.ExistsError, codes.TableAlreadyExistsError),
    (errors.SchemaError, codes.TableSchemaValidationError),
    (errors.ExpressionError, codes.InvalidInputError),
    (errors.UnsupportedError, codes.UnsupportedOperationError),
    (errors.ConflictError, codes.ConcurrentModificationError),
    (errors.ContentionError, codes.ConcurrentModificationError),
    (errors.IndexTypeError, codes.InvalidInputError),
    (errors.FormatError, codes.InvalidTableStateError),
    (errors.StoreError, codes.ServiceUnavailableError),
    (errors.LanceError, codes.InternalError),
    (ValueError, codes.InvalidInputError),
    (TypeError, codes.InvalidInputError),
    (pa.ArrowException, codes.InvalidInputError),
)
_MISSING = {
    "tag": codes.TableTagNotFoundError,
    "branch": codes.TableBranchNotFoundError,
    "version": codes.TableVersionNotFoundError,
    "index": codes.TableIndexNotFoundError,
}
_EXISTING = {
    "tag": codes.TableTagAlreadyExistsError,
    "branch": codes.TableBranchAlreadyExistsError,
    "index": codes.TableIndexAlreadyExistsError,
}


def coded(error: BaseException) -> codes.LanceNamespaceError | None:
    """The error of ``lance_namespace`` for another one; None if it has no code.

    Parameters
    ----------
    error : exception

    Examples
    --------
    >>> coded(errors.ContentionError("others were faster")).code.name
    'CONCURRENT_MODIFICATION'
    """
    kind = getattr(error, "kind", "")
    if isinstance(error, errors.NotFoundError) and kind in _MISSING:
        return _MISSING[kind](str(error))
    if isinstance(error, errors.ExistsError) and kind in _EXISTING:
        return _EXISTING[kind](str(error))
    if isinstance(error, errors.StoreError) and error.errno in _DENIED:
        return codes.PermissionDeniedError(str(error))
    made = next((made for known, made in _CLASSES if isinstance(error, known)), None)
    return None if made is None else made(str(error))


class Calls:
    """How often each operation of a namespace was called.

    Parameters
    ----------
    is_counting : bool
        Otherwise nothing is counted.

    Examples
    --------
    >>> calls = Calls(is_counting=True)
    >>> calls.add("list_tables")
    >>> calls.counts()
    {'list_tables': 1}
    """

    def __init__(self, is_counting: bool) -> None:
        self._is_counting = is_counting
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str) -> None:
        """Count a call of an operation."""
        if self._is_counting:
            with self._lock:
                self._counts[name] += 1

    def counts(self) -> dict[str, int]:
        """The number of calls by operation."""
        with self._lock:
            return dict(self._counts)

    def reset(self) -> None:
        """Forget the calls so far."""
        with self._lock:
            self._counts.clear()


# Operations whose request is that of another one.
_MODELS = {"create_table_scalar_index": "CreateTableIndexRequest", "list_all_tables": "ListTablesRequest"}
# Operations of pylance that answer a mapping with a mapping.
_MAPPED = frozenset({"batch_delete_table_versions", "create_table_version", "describe_table_version"})


def with_codes(function: F) -> F:
    """Decorator for an operation of a namespace: it is counted, and a request may be a mapping.

    Errors of lancecy get a code, and are the cause of the error raised.
    """
    name = function.__name__

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        calls: Calls | None = getattr(args[0], "_calls", None)
        if calls is not None:
            calls.add(name)
        if "request" in options and len(args) == 1:
            args = (*args, options.pop("request"))
        is_mapping = len(args) > 1 and isinstance(args[1], Mapping)
        try:
            if is_mapping:
                args = (args[0], _request(name, args[1]), *args[2:])
            answer = function(*args, **options)
            return answer.model_dump(exclude_none=True) if is_mapping and name in _MAPPED else answer
        except codes.LanceNamespaceError:
            raise
        except Exception as error:
            made = coded(error)
            if made is None:
                raise
            raise made from error

    return cast(F, call)


def _request(operation: str, given: Mapping[str, Any]) -> Any:
    """A request of ``lance_namespace`` that is given as a mapping."""
    name = _MODELS.get(operation) or "".join(word.title() for word in operation.split("_")) + "Request"
    return getattr(codes, name).model_validate(dict(given))
