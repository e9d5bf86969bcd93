"""Errors of lancecy as errors of ``lance_namespace``, which have the codes of its specification."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import lance_namespace as codes
import pyarrow as pa

from lancecy import errors

__all__ = ["coded", "with_codes"]

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
_EXISTING = {"tag": codes.TableTagAlreadyExistsError, "branch": codes.TableBranchAlreadyExistsError}


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


def with_codes(function: F) -> F:
    """Decorator for an operation of a namespace: errors of lancecy get a code, and are the cause of the error raised."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except codes.LanceNamespaceError:
            raise
        except Exception as error:
            made = coded(error)
            if made is None:
                raise
            raise made from error

    return cast(F, call)
