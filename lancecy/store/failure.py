"""Translates errors of the operating system and of client libraries into lancecy's errors.

Messages name the store and the path. Values of secret storage options are
masked, and an original error that quotes one is not chained.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Mapping
from typing import NoReturn

from lancecy.errors import DatasetNotFoundError, ExistsError, LanceError, StoreError, TruncatedError
from lancecy.store.retries import tries_of

__all__ = [
    "forget_requests",
    "is_too_long",
    "mask_secrets",
    "missing",
    "raise_translated",
    "too_short",
    "translated",
]

_MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_READS = ("read", "list", "stat")
_SHOWN = 300
# Advice for failed writes whose cause the user can remove.
_ADVICE = {
    errno.ENOSPC: "the disk is full: free space and try again",
    errno.EDQUOT: "the quota is used up: free space or raise it, and try again",
    errno.EFBIG: "files may not become that large here: raise the limit (ulimit -f), or write smaller files",
    errno.ENOTDIR: "a part of this path is a file, and a table is a folder: write to another path",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "this user may not write there",
    errno.EPERM: "this user may not write there",
}


def is_too_long(error: BaseException) -> bool:
    """Whether a name is longer than the file system allows, so that no object has it."""
    return isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG


def missing(path: str, store: str) -> DatasetNotFoundError:
    """The error for an object that is missing."""
    return DatasetNotFoundError(f"no object {path!r} in {store}", kind="object", name=path)


def too_short(path: str, store: str, start: int, stop: int | None, size: int | None) -> TruncatedError:
    """The error for a range that passes the end of its object."""
    wanted = f"bytes {start} to {'the end' if stop is None else stop}"
    present = "it has fewer" if size is None else f"it has {size}"
    return TruncatedError(
        f"cannot read {wanted} of {path!r} in {store}: {present}", path=path, position=start
    )


def mask_secrets(text: str, secrets: Collection[str]) -> str:
    """The text with every secret replaced by stars."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def translated(
    error: BaseException, doing: str, path: str, store: str, secrets: Collection[str] = (), note: str = ""
) -> LanceError:
    """The lancecy error for a failed request.

    Parameters
    ----------
    error : exception
    doing : str
        The request as a verb ("read", "list"). A write never reports the object itself as missing.
    path, store : str
    secrets : collection of str
        Masked in the message.
    note : str
        Added to the message of a ``StoreError``.

    Returns
    -------
    LanceError
        ``DatasetNotFoundError``, ``ExistsError`` or ``StoreError``; ``StoreError`` keeps the ``errno`` and says
        how often the request was made.
    """
    if isinstance(error, LanceError):
        return error
    if (isinstance(error, _MISSING) and doing != "write") or (is_too_long(error) and doing in _READS):
        return missing(path, store)
    if isinstance(error, FileExistsError):
        return ExistsError(f"{path!r} already exists in {store}", kind="object", name=path)
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    shown = mask_secrets(reason, secrets)[:_SHOWN]
    number = error.errno if isinstance(error, OSError) and doing not in _READS else None
    if number in _ADVICE:
        note = f"; {_ADVICE[number]}{note}"
    tries = tries_of(error)
    tried = f" ({tries} tries)" if tries > 1 else ""
    failure = StoreError(
        f"cannot {doing} {path!r} in {store}{tried}: {type(error).__name__}{': ' if shown else ''}{shown}{note}",
        path=path,
        store=store,
        tries=tries,
    )
    if isinstance(error, OSError):
        failure.errno = error.errno
    return failure


def raise_translated(
    error: BaseException, doing: str, path: str, store: str, secrets: Collection[str] = (), note: str = ""
) -> NoReturn:
    """Raise the error from :func:`translated`, chained to it unless it quotes a secret."""
    failure = translated(error, doing, path, store, secrets, note)
    if failure is error:
        raise failure
    forget_requests(error)
    if _quotes(error, secrets):
        try:
            raise failure from None
        except LanceError:
            # "from None" only hides the context; pickling with tblib, as Dask does, would include it.
            failure.__context__ = None
            raise
    raise failure from error


def forget_requests(error: BaseException) -> None:
    """Drop requests and answers from the errors of client libraries, for a pickle of them would have secrets.

    Addresses of Azure hold the signature, and headers of botocore's requests the session token.
    """
    for each in _chain(error):
        for name in ("request", "response"):
            # That of botocore is a dictionary without the request.
            if not isinstance(vars(each).get(name), Mapping | None):
                setattr(each, name, None)


def _quotes(error: BaseException, secrets: Collection[str]) -> bool:
    return any(secret in f"{each!r} {each}" for each in _chain(error) for secret in secrets)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
