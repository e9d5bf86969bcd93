"""Retries and credentials of botocore's clients: S3's, which are asynchronous, and DynamoDB's, which are not.

One handler decides for every request whether it is made again (:class:`RetryPolicy`), in place of botocore's own. It also
asks for new credentials when a server refuses those of a job that outlives them. A request is signed anew for each try.
"""

from __future__ import annotations

import time
from typing import Any

from lancecy.store.credentials import Options
from lancecy.store.failure import forget_requests
from lancecy.store.retries import (
    EXPIRED,
    RetryPolicy,
    is_transient,
    is_transient_answer,
    mark_tries,
    wait_asked,
)
from lancecy.store.services import for_fsspec

__all__ = ["HANDLER_ID", "RENEW_ADVICE", "Handlers", "Renewal", "ends_at", "given_login", "may_have_happened"]

HANDLER_ID = "lancecy-retries"
"""Name of the handlers and of the credentials."""

RENEW_ADVICE = (
    "give credentials that are valid longer, or storage_options={'credentials_provider': function}, "
    "which is called for new ones"
)
"""What to do when credentials expired."""

# Elements of an error that say what is wrong. Others quote the request, with the session token in it.
_SHOWN = frozenset({"Code", "Message", "Condition", "Endpoint", "Region", "Bucket", "BucketName", "Key"})
_UNEXPLAINED = frozenset({"400", "401", "403"})
# One of two may meet credentials that were fetched while the request was signed.
_RENEWALS = 3
# So long the same credentials are not doubted again by answers that do not say what was wrong.
_CONFIRMED_S = 60.0
# Credentials are fetched anew so long before they expire.
_AHEAD_S = 60.0
_IN_DOUBT = "lancecy_in_doubt"


class Handlers:
    """Handlers of a client's events; they must not hold what owns the client, which closes it when it goes.

    Parameters
    ----------
    policy : RetryPolicy

    Attributes
    ----------
    credentials : Renewal or None
        Those that can be renewed.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self.credentials: Renewal | None = None

    @property
    def secret_texts(self) -> frozenset[str]:
        """The credentials used so far that can be renewed."""
        return self.credentials.texts if self.credentials is not None else frozenset()

    def install(self, client: Any) -> None:
        """Replace botocore's own retries of a client."""
        events, service = client.meta.events, client.meta.service_model.service_id.hyphenize()
        events.unregister(f"needs-retry.{service}", unique_id=f"retry-config-{service}")
        events.register(f"needs-retry.{service}", self.needs_retry, unique_id=HANDLER_ID)
        # An id stands for one handler: a second one of the same id would be left out.
        events.register_first(
            f"request-created.{service}", self.request_created, unique_id=f"{HANDLER_ID}-signed"
        )

    def request_created(self, request: Any, **_: Any) -> None:
        """Note when a try is signed."""
        now = time.monotonic()
        request.context.setdefault("lancecy_began", now)
        request.context["lancecy_signed"] = now

    def needs_retry(
        self, attempts: int, response: Any, caught_exception: Exception | None, request_dict: Any, **_: Any
    ) -> float | None:
        """Seconds to wait before the next try; None if there is none."""
        context = request_dict["context"]
        asked = 0.0
        if caught_exception is not None:
            forget_requests(caught_exception)
            mark_tries(caught_exception, attempts)
            context[_IN_DOUBT] = True
            again = is_transient(caught_exception)
        else:
            http, parsed = response
            if http.status_code < 300:
                return None
            parsed["Error"] = {k: v for k, v in parsed.get("Error", {}).items() if k in _SHOWN}
            context[_IN_DOUBT] = context.get(_IN_DOUBT, False) or http.status_code >= 500
            parsed.setdefault("ResponseMetadata", {})[_IN_DOUBT] = context[_IN_DOUBT]
            code = str(parsed["Error"].get("Code", ""))
            if self._is_renewed(code, context):
                return 0.0
            again = is_transient_answer(code, http.status_code)
            asked = wait_asked(http.headers.get("retry-after"))
        if not again:
            return None
        began = context.get("lancecy_began", time.monotonic())
        return self.policy.pause(attempts, time.monotonic() - began, asked)

    def _is_renewed(self, code: str, context: dict[str, Any]) -> bool:
        """Whether other credentials may help; they are looked for when the next try is signed."""
        # The answer to a HEAD has no body that says why: it may be the right that is missing.
        most = _RENEWALS if code in EXPIRED else 1 if code in _UNEXPLAINED else 0
        renewals = context.get("lancecy_renewals", 0)
        if self.credentials is None or renewals >= most:
            return False
        context["lancecy_renewals"] = renewals + 1
        return self.credentials.refuse(context.get("lancecy_signed", 0.0), is_certain=code in EXPIRED)


def may_have_happened(error: BaseException) -> bool:
    """Whether the server may have carried out a try of the failed request, such as one whose answer was lost."""
    response = getattr(error, "response", None) or {}
    return bool(response.get("ResponseMetadata", {}).get(_IN_DOUBT, True))


class Renewal:
    """When credentials are looked for again; a subclass looks for them, under a lock.

    Parameters
    ----------
    first : botocore credentials

    Attributes
    ----------
    inner : botocore credentials
        Those that were found last.
    texts : frozenset of str
        All of them so far, to be masked in messages.
    """

    def __init__(self, first: Any) -> None:
        self.inner = first
        self.texts: frozenset[str] = frozenset()
        self._used: Any = None
        self._found = time.monotonic()
        self._refused = False
        self._confirmed = -_CONFIRMED_S

    @property
    def is_due(self) -> bool:
        """Whether to look again: a server refused them, or they end soon."""
        ends: float | None = getattr(self.inner, "ends_at", None)
        return self._refused or (ends is not None and time.time() >= ends - _AHEAD_S)

    def refuse(self, signed: float, is_certain: bool) -> bool:
        """Look for others before the next request, unless that was done after the refused one was signed.

        Parameters
        ----------
        signed : float
            When the refused request was signed.
        is_certain : bool
            Whether the server said that it is the credentials.

        Returns
        -------
        bool
            Whether another try may help: not if the server said nothing and the last look found the same ones.
        """
        if not is_certain and time.monotonic() < self._confirmed + _CONFIRMED_S:
            return False
        if signed >= self._found:
            self._refused = True
        return True

    def replace(self, found: Any) -> None:
        """Use what a look has found; None if it found nothing."""
        self.inner = found or self.inner
        self._found = time.monotonic()
        self._refused = False

    def use(self, frozen: Any, is_new: bool) -> Any:
        """Note the credentials that sign a request.

        Parameters
        ----------
        frozen : botocore ReadOnlyCredentials
        is_new : bool
            Whether they were looked for just now.
        """
        if is_new and frozen == self._used:
            self._confirmed = self._found
        self._used = frozen
        known = {frozen.access_key, frozen.secret_key, frozen.token or ""}
        if not known <= self.texts:
            self.texts |= {text for text in known if len(text) >= 4}
        return frozen


def given_login(options: Options) -> Options:
    """What a user's function for credentials returned, under s3fs's names.

    Raises
    ------
    ValueError
        A key or a secret is missing.

    Examples
    --------
    >>> given_login({"aws_access_key_id": "AK", "aws_secret_access_key": "SK"})
    {'key': 'AK', 'secret': 'SK'}
    """
    found = for_fsspec("s3", options)
    if not found.get("key") or not found.get("secret"):
        raise ValueError(
            "credentials_provider did not return a key and a secret (access_key_id, secret_access_key)"
        )
    return found


def ends_at(login: Options) -> float | None:
    """When a login ends, in seconds since 1970; None if it does not say.

    Examples
    --------
    >>> ends_at({"expires_at_millis": "1500"}), ends_at({})
    (1.5, None)
    """
    expires = login.get("expires_at_millis")
    return None if expires is None else float(expires) / 1000
