"""When a failed request is made again, and how long to wait before.

Servers refuse requests when there are too many, fail, answer late, or close connections in the middle of an
answer. Such a request is made again after a pause that doubles each time and is partly random, so that clients that
failed together do not come back together. A pause that the server asks for (``Retry-After``) is kept.

Options have pylance's names, with or without the prefix of a service; see :func:`split_policy`.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from lancecy.records import dataclass
from lancecy.store.credentials import Options

__all__ = [
    "EXPIRED",
    "RetryPolicy",
    "Tries",
    "error_code",
    "is_transient",
    "is_transient_answer",
    "mark_tries",
    "seconds",
    "split_policy",
    "tries_of",
    "wait_asked",
]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_MARK = "_lancecy_tries"

EXPIRED = frozenset(
    {
        "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId",
        "UnrecognizedClientException",
    }
)  # fmt: skip
"""Codes of servers for credentials that new ones may replace."""

_TRANSIENT_CODES = frozenset(
    {
        "408", "429", "500", "502", "503", "504", "509",
        "InternalError", "ServiceUnavailable", "SlowDown", "Busy", "RequestTimeout", "RequestTimeoutException",
        "OperationAborted", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
        "RequestThrottledException", "TooManyRequestsException", "BandwidthLimitExceeded", "RequestLimitExceeded",
        "ProvisionedThroughputExceededException", "InternalServerError",
        "XAmzContentSHA256Mismatch", "BadDigest",
    }
)  # fmt: skip
# By name, so that no client library has to be imported: connections that broke or were silent, and answers cut short.
_TRANSIENT_CLASSES = frozenset(
    {
        "HTTPClientError", "ClientPayloadError", "ClientConnectionError", "IncompleteRead", "IncompleteReadError",
        "ResponseParserError", "FSTimeoutError", "ConnectionError", "TimeoutError", "RemoteDisconnected",
        "ServiceRequestError", "ServiceResponseError",
        "FlexibleChecksumError",
    }
)  # fmt: skip
# Botocore's classes of failed connections that would fail again.
_LASTING_CLASSES = frozenset(
    {
        "SSLError",
        "ClientSSLError",
        "ClientCertificateError",
        "ProxyConnectionError",
        "InvalidProxiesConfigError",
    }
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a failing request is made again.

    Attributes
    ----------
    retries : int
        Further tries after the first.
    limit_s : float, seconds
        No try begins later than this after the first one.

    Examples
    --------
    >>> RetryPolicy(retries=2).pause(3, 0.0) is None
    True
    >>> 0.05 <= RetryPolicy().pause(1, 0.0) <= 0.1
    True
    """

    retries: int = 10
    limit_s: float = 180.0

    def pause(self, tries: int, elapsed_s: float, asked_s: float = 0.0) -> float | None:
        """Seconds to wait before the next try; None if there is none.

        Parameters
        ----------
        tries : int
            Made so far.
        elapsed_s : float, seconds
            Since the first try began.
        asked_s : float, seconds
            What the server asked to wait.
        """
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 20))
        pause = asked_s + longest * (0.5 + secrets.randbelow(1001) / 2000)
        return pause if tries <= self.retries and elapsed_s + pause <= self.limit_s else None


class Tries:
    """The tries of one request.

    Parameters
    ----------
    policy : RetryPolicy
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self.made = 1
        self._policy = policy
        self._began = time.monotonic()

    def wait(self, asked_s: float = 0.0) -> bool:
        """Wait for the next try; False if there is none."""
        pause = self._policy.pause(self.made, time.monotonic() - self._began, asked_s)
        if pause is None:
            return False
        time.sleep(pause)
        self.made += 1
        return True

    def go_on(self, error: BaseException) -> bool:
        """Wait for the next try after an error; False if it would not help, or if the client has made all tries."""
        if not _is_final(error) and is_transient(error) and self.wait():
            return True
        mark_tries(error, self.made)
        return False


# Where errors of aiohttp, Azure and Google keep the number of their answer.
_STATUS = ("status", "status_code", "code")


def error_code(error: BaseException | None) -> str:
    """The error code of a server, from the error or its cause; "" if there is none."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, Mapping):
            return str(response.get("Error", {}).get("Code", ""))
        # aiohttp calls an answer that is cut short 400, which no server sent.
        names = _STATUS[:1] if type(error).__module__.startswith("aiohttp.") else _STATUS
        found = next((value for name in names if isinstance(value := getattr(error, name, None), int)), None)
        if found is not None:
            return str(int(found))
        error = error.__cause__
    return ""


def is_transient(error: BaseException) -> bool:
    """Whether the request that failed may succeed later."""
    code = error_code(error)
    if code:
        return code in _TRANSIENT_CODES
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & _TRANSIENT_CLASSES) and not names & _LASTING_CLASSES


def is_transient_answer(code: str, status: int) -> bool:
    """Whether an error that a server answered may be gone later."""
    return code in _TRANSIENT_CODES or str(status) in _TRANSIENT_CODES


def mark_tries(error: Any, tries: int) -> None:
    """Write into an error, or the answer that becomes one, how many tries it ended, unless an earlier mark says more."""
    if tries >= tries_of(error):
        setattr(error, _MARK, tries)


def _is_final(error: BaseException | None) -> bool:
    """Whether the client itself has decided that there is no further try."""
    while error is not None:
        response = getattr(error, "response", None)
        if (
            hasattr(error, _MARK)
            or hasattr(response, _MARK)
            or (isinstance(response, Mapping) and "ResponseMetadata" in response)
        ):
            return True
        error = error.__cause__
    return False


def tries_of(error: Any) -> int:
    """How many tries an error ended: 1 if nothing is known."""
    while error is not None:
        response = getattr(error, "response", None)
        marked = getattr(error, _MARK, 0) or getattr(response, _MARK, 0)
        if not marked and isinstance(response, Mapping):
            marked = int(response.get("ResponseMetadata", {}).get("RetryAttempts", 0)) + 1
        if marked:
            return int(marked)
        error = getattr(error, "__cause__", None)
    return 1


def wait_asked(header: str | None) -> float:
    """Seconds that a header ``Retry-After`` asks to wait: a number or a date; 0 if it says nothing.

    Examples
    --------
    >>> wait_asked("2"), wait_asked(None), wait_asked("Thu, 01 Jan 1970 00:00:00 GMT"), wait_asked("soon")
    (2.0, 0.0, 0.0, 0.0)
    """
    text = (header or "").strip()
    if re.fullmatch(r"\d{1,9}", text):
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "sec": 1.0, "secs": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)").fullmatch
_RETRIES = frozenset({"client_max_retries"})
_LIMIT = frozenset({"client_retry_timeout"})
# Answers that end early are covered by the policy.
_COVERED = frozenset({"download_retry_count"})
_PREFIX = re.compile(r"^(aws|google|azure)_")


def seconds(name: str, value: object) -> float:
    """A duration in seconds: a number, or text such as "500ms", "30s" and "2m".

    Raises
    ------
    ValueError
        It is none; the message names the option.

    Examples
    --------
    >>> seconds("timeout", "500ms"), seconds("timeout", 3), seconds("timeout", "2m")
    (0.5, 3.0, 120.0)
    """
    found = _DURATION(str(value).strip().lower())
    if isinstance(value, bool) or found is None or found[2] not in _UNITS:
        raise ValueError(f"{name} is a duration such as 30, '30s' or '500ms', not {value!r}")
    return float(found[1]) * _UNITS[found[2]]


def split_policy(options: Options) -> tuple[RetryPolicy, dict[str, Any]]:
    """The policy that storage options ask for, and the other options.

    Parameters
    ----------
    options : mapping
        ``client_max_retries`` and ``client_retry_timeout`` as in pylance; without them s3fs's
        ``config_kwargs={"retries": {"max_attempts": n}}``.

    Raises
    ------
    ValueError
        A number is none.

    Examples
    --------
    >>> split_policy({"client_max_retries": "3", "anon": True})
    (RetryPolicy(retries=3, limit_s=180.0), {'anon': True})
    """
    rest: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    botocore = (options.get("config_kwargs") or {}).get("retries") or {}
    if "total_max_attempts" in botocore:
        policy["retries"] = int(botocore["total_max_attempts"]) - 1
    elif "max_attempts" in botocore:
        policy["retries"] = int(botocore["max_attempts"])
    for name, value in options.items():
        bare = _PREFIX.sub("", str(name).lower())
        if bare in _RETRIES:
            policy.setdefault("retries", _whole(name, value))
        elif bare in _LIMIT:
            policy["limit_s"] = seconds(name, value)
        elif bare not in _COVERED:
            rest[name] = value
    return RetryPolicy(**policy), rest


def _whole(name: str, value: object) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,6}", text):
        raise ValueError(f"{name} is a whole number, not {value!r}")
    return int(text)
