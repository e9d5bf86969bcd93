"""Items of versions in a DynamoDB table, byte-compatible with the reference.

==============  ====  ===================================================================
attribute       type  value
==============  ====  ===================================================================
``base_uri``    S     key of the table: its path in the bucket, without the bucket (HASH)
``version``     N     (RANGE)
``path``        S     of the manifest in the bucket
``size``        N     bytes; older writers leave it out
``committer``   S     ``lancedb``
``e_tag``       S     of older writers; ignored
==============  ====  ===================================================================

Tables of two buckets with one path have the same items: each bucket takes a DynamoDB table of its own.

Source: table sheet, section 5.3.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from lancecy.errors import StoreError, UnsupportedError
from lancecy.store.aws import RENEW_ADVICE, Handlers, may_have_happened
from lancecy.store.base import Store
from lancecy.store.credentials import Options, has_secrets, redact, secret_texts
from lancecy.store.failure import raise_translated
from lancecy.store.fsspec import FsspecStore
from lancecy.store.fsspec_parts import error_code
from lancecy.store.key_values.base import KeyedTable, ManifestItem, commit_through
from lancecy.store.key_values.ddb_uri import data_uri, table_of
from lancecy.store.key_values.opening import key_values_of
from lancecy.store.retries import EXPIRED, split_policy
from lancecy.store.services import for_fsspec
from lancecy.store.uri import split_credentials

__all__ = ["DynamoKeyValue", "open_dynamodb", "open_s3_ddb"]

T = TypeVar("T")

_COMMITTER = "lancedb"
_DETACHED = 1 << 63
# Of one request that deletes.
_MOST_DELETED = 25
_IS_NEW = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
_IS_OTHER = "ConditionalCheckFailedException"
# Errors of a client that asked nobody.
_NOT_SENT = frozenset({"NoCredentialsError", "NoRegionError", "PartialCredentialsError", "ProfileNotFound"})
# Answers of a service that would do nothing when asked again.
_REFUSED = _NOT_SENT | {
    "AccessDeniedException", "ExpiredTokenException", "IncompleteSignatureException", "InvalidSignatureException",
    "MissingAuthenticationTokenException", "ResourceNotFoundException", "UnrecognizedClientException",
    "ValidationException",
}  # fmt: skip
_SCHEMA = (("base_uri", "HASH", "S"), ("version", "RANGE", "N"))
_ENDPOINTS = ("dynamodb_endpoint", "dynamodb_endpoint_url")


class DynamoKeyValue:
    """The items of a DynamoDB table.

    Parameters
    ----------
    name : str
        Of the DynamoDB table, which exists: its HASH key is ``base_uri`` (S) and its RANGE key ``version`` (N).
    options : mapping
        Storage options of S3, under fsspec's names or pylance's, whose login, profile, region, retries and time-outs
        are used here too; ``dynamodb_endpoint`` is the URL of another server than AWS's, otherwise
        ``DYNAMODB_ENDPOINT`` in the environment is.

    Notes
    -----
    A pickle leaves secrets out, and relies on credentials of the environment then.
    """

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self._policy, rest = split_policy(options)
        self._options = for_fsspec("s3", rest) | _endpoint(options)
        self._is_bare = False
        self._prepare()

    def _prepare(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[int, Any] | None = None
        self._handlers: Handlers | None = None
        self._secrets = secret_texts(self._options)

    def __repr__(self) -> str:
        return f"DynamoKeyValue({self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        loses = has_secrets(self._options)
        return {
            "name": self.name,
            "_options": redact(self._options),
            "_policy": self._policy,
            "_is_bare": self._is_bare or loses,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    # Items

    def get(self, table: str, version: int) -> ManifestItem | None:
        """See ``ManifestKeyValue``."""
        found = self._call(
            "read",
            table,
            lambda client: client.get_item(**self._named, Key=_key(table, version), ConsistentRead=True),
        )
        return _item(table, found["Item"])[1] if "Item" in found else None

    def latest(self, table: str) -> tuple[int, ManifestItem] | None:
        """See ``ManifestKeyValue``."""
        found = self._query(table, 0, ScanIndexForward=False, Limit=1)
        return _item(table, found["Items"][0]) if found["Items"] else None

    def above(self, table: str, version: int = 0) -> list[tuple[int, ManifestItem]]:
        """See ``ManifestKeyValue``."""
        items: list[tuple[int, ManifestItem]] = []
        further: dict[str, Any] = {}
        while True:
            page = self._query(table, version, **further)
            items += [_item(table, one) for one in page["Items"]]
            if "LastEvaluatedKey" not in page:
                return items
            further = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def put_if_absent(self, table: str, version: int, item: ManifestItem) -> bool:
        """See ``ManifestKeyValue``."""
        return self._put(table, version, item, ConditionExpression=_IS_NEW)

    def put_if(self, table: str, version: int, item: ManifestItem, expected: ManifestItem) -> bool:
        """See ``ManifestKeyValue``."""
        return self._put(
            table,
            version,
            item,
            ConditionExpression="#path = :expected",
            ExpressionAttributeNames={"#path": "path"},
            ExpressionAttributeValues={":expected": {"S": f"{table}/{expected.path}"}},
        )

    def delete(self, table: str, versions: Sequence[int]) -> None:
        """See ``ManifestKeyValue``."""
        keys = [_key(table, version) for version in dict.fromkeys(versions)]
        waiting = [{"DeleteRequest": {"Key": key}} for key in keys]
        while waiting:
            some, waiting = waiting[:_MOST_DELETED], waiting[_MOST_DELETED:]
            waiting += self._deleted(table, some)

    def _deleted(self, table: str, some: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Delete items; those that the service asks to send again."""
        answer = self._call(
            "delete", table, lambda client: client.batch_write_item(RequestItems={self.name: some})
        )
        left: list[dict[str, Any]] = answer.get("UnprocessedItems", {}).get(self.name, [])
        return left

    # Requests

    @property
    def _named(self) -> dict[str, str]:
        return {"TableName": self.name}

    @property
    def _store(self) -> str:
        return f"DynamoDB table {self.name!r}"

    def _query(self, table: str, above: int, **further: Any) -> Any:
        return self._call(
            "read",
            table,
            lambda client: client.query(
                **self._named,
                KeyConditionExpression="base_uri = :table AND version BETWEEN :first AND :last",
                ExpressionAttributeValues={
                    ":table": {"S": table},
                    ":first": {"N": str(above + 1)},
                    ":last": {"N": str(_DETACHED - 1)},
                },
                ConsistentRead=True,
                **further,
            ),
        )

    def _put(self, table: str, version: int, item: ManifestItem, **condition: Any) -> bool:
        attributes = {
            **_key(table, version),
            "path": {"S": f"{table}/{item.path}"},
            "committer": {"S": _COMMITTER},
        }
        if item.size is not None:
            attributes["size"] = {"N": str(item.size)}

        def put(client: Any) -> bool | None:
            try:
                client.put_item(**self._named, Item=attributes, **condition)
            except Exception as error:
                if error_code(error) == _IS_OTHER:
                    return None if may_have_happened(error) else False
                raise
            return True

        is_put = self._call("write", table, put)
        if is_put is not None:
            return is_put
        # The answer to an earlier try was lost, and the item that is there may be its.
        if self.get(table, version) == item:
            return True
        raise StoreError(
            f"version {version} of {table} in DynamoDB table {self.name!r} may or may not have been written: an answer "
            "was lost, and the item was changed since",
            path=table,
            store=self._store,
        )

    def _call(self, doing: str, table: str, request: Callable[[Any], T]) -> T:
        """Make one request; errors become lancecy's."""
        try:
            return request(self._client())
        except (StoreError, UnsupportedError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - a client library may raise anything
            self._fail(error, doing, table)

    def _fail(self, error: Exception, doing: str, table: str) -> NoReturn:
        note = "; its storage options were pickled without their secrets" if self._is_bare else ""
        code = error_code(error) or type(error).__name__
        if code in EXPIRED:
            note = f"; {RENEW_ADVICE}{note}"
        used = self._handlers.secret_texts if self._handlers is not None else frozenset()
        try:
            raise_translated(
                error, f"{doing} the versions of", table, self._store, self._secrets | used, note
            )
        except StoreError as failure:
            # An earlier try, whose answer was lost, may have been carried out.
            if code in _NOT_SENT or not may_have_happened(error):
                failure.errno = errno.EACCES if code in _REFUSED else errno.EAGAIN
            raise

    def _client(self) -> Any:
        made = self._made
        if made is None or made[0] != os.getpid():
            with self._lock:
                made = self._made
                if made is None or made[0] != os.getpid():
                    made = self._made = (os.getpid(), self._new_client())
        return made[1]

    def _new_client(self) -> Any:
        try:
            from lancecy.store.key_values.dynamodb_client import DynamoHandlers, make_client
        except ImportError as error:
            raise UnsupportedError(
                "s3+ddb:// needs a package: pip install 'lancecy[dynamodb]'", feature="dynamodb"
            ) from error
        self._handlers = DynamoHandlers(self._policy)
        client = make_client(self._options, self._options.get(_ENDPOINTS[0]), self._handlers)
        self._check(client)
        return client

    def _check(self, client: Any) -> None:
        """Refuse a DynamoDB table with other keys."""
        try:
            table = client.describe_table(**self._named)["Table"]
        except Exception as error:
            if error_code(error) == "AccessDeniedException":
                return  # who may read and write items need not be allowed to describe the table
            raise
        types = {one["AttributeName"]: one["AttributeType"] for one in table["AttributeDefinitions"]}
        keys = tuple(
            (k["AttributeName"], k["KeyType"], types[k["AttributeName"]]) for k in table["KeySchema"]
        )
        if keys != _SCHEMA:
            wanted = ", ".join(f"{name} ({kind}) as {role}" for name, role, kind in _SCHEMA)
            raise UnsupportedError(
                f"the keys of DynamoDB table {self.name!r} are not those of an external manifest store: {wanted}",
                feature="DynamoDB keys",
            )


def open_dynamodb(url: str, options: Options) -> DynamoKeyValue:
    """The key-value store of ``dynamodb://T``."""
    return DynamoKeyValue(url.partition("://")[2].strip("/"), options)


def open_s3_ddb(uri: str, options: Options | None, *, mapped: bool, follow_symlinks: bool) -> Store:
    """The store of a canonical ``s3+ddb://`` URI; ``mapped`` and ``follow_symlinks`` have no effect."""
    canonical, found = split_credentials(uri)
    given = {**found, **(options or {})}
    name, key = table_of(canonical)
    store = FsspecStore(data_uri(canonical), given)
    # Whoever opens the table by the name that the store says must find its external manifest store again.
    store.uri = canonical
    commit_through(store, KeyedTable(key_values_of(f"dynamodb://{name}", given), key))
    return store


def _endpoint(options: Options) -> dict[str, Any]:
    lowered = {str(name).lower().removeprefix("aws_"): value for name, value in options.items()}
    found = next(
        (lowered[name] for name in _ENDPOINTS if lowered.get(name)), os.environ.get("DYNAMODB_ENDPOINT")
    )
    return {_ENDPOINTS[0]: found} if found else {}


def _key(table: str, version: int) -> dict[str, Any]:
    return {"base_uri": {"S": table}, "version": {"N": str(version)}}


def _item(table: str, attributes: Mapping[str, Any]) -> tuple[int, ManifestItem]:
    """The version and item of the attributes; a path outside of the table stays as it is, and is refused by readers."""
    path = attributes.get("path", {}).get("S", "")
    size = attributes.get("size", {}).get("N")
    return int(attributes["version"]["N"]), ManifestItem(
        path.removeprefix(f"{table}/"), None if size is None else int(size)
    )
