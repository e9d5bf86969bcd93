"""URIs of tables on S3 that DynamoDB commits: ``s3+ddb://bucket/path?ddbTableName=T``.

Inside of lancecy the DynamoDB table stands before the bucket, ``s3+ddb://T@bucket/path``, because folders are added to the
end of a URI. Both forms are accepted everywhere.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from lancecy.errors import printable

__all__ = ["SCHEME", "canonical_ddb", "data_uri", "shown_uri", "table_of"]

SCHEME = "s3+ddb"
_PARAMETER = "ddbTableName"
_MARK = f"{SCHEME}://"
_QUOTED = {"%": "%25", "?": "%3F", "#": "%23"}
_NAME = re.compile(r"[A-Za-z0-9_.\-]{3,255}").fullmatch


def canonical_ddb(rest: str) -> tuple[str, str]:
    """The canonical form of a URI, and its login.

    Parameters
    ----------
    rest : str
        The URI without its scheme.

    Returns
    -------
    str, str
        The URI without its scheme and login; ``key:secret``, or "".

    Raises
    ------
    ValueError
        It does not name one DynamoDB table, or no folder of a bucket.

    Examples
    --------
    >>> canonical_ddb("bucket/t/?ddbTableName=versions"), canonical_ddb("versions@bucket/t")
    (('versions@bucket/t', ''), ('versions@bucket/t', ''))
    """
    place, mark, query = rest.partition("?")
    host, _, path = place.partition("/")
    # As in the reference, which reads a URI with a query as a URL.
    path = unquote(path) if mark else path
    user, _, bucket = host.rpartition("@")
    login, name = (user, "") if ":" in user else ("", user)
    if mark:
        if "#" in rest:
            raise ValueError(f"a {_MARK} URI has no fragment; write # in a path as %23")
        parameter, _, name = query.partition("=")
        if parameter != _PARAMETER or "&" in name or user not in ("", login):
            raise ValueError(
                f"{_MARK} URIs have exactly one query parameter, {_PARAMETER}: {_MARK}bucket/path?{_PARAMETER}=T, "
                f"not ?{printable(parameter)}=…"
            )
    if not _NAME(name):
        what = (
            f"{printable(name)!r} is no name of a DynamoDB table" if name else "the DynamoDB table is missing"
        )
        raise ValueError(f"{what}: write {_MARK}bucket/path?{_PARAMETER}=T")
    path = path.strip("/")
    if not bucket or not path:
        raise ValueError(
            f"a {_MARK} table is a folder of a bucket, not a whole bucket: its path is the key of its items"
        )
    return f"{name}@{bucket}/{path}", login


def table_of(uri: str) -> tuple[str, str]:
    """The name of the DynamoDB table of a canonical URI, and the key of its items there.

    Examples
    --------
    >>> table_of("s3+ddb://versions@bucket/dir/t")
    ('versions', 'dir/t')
    """
    name, _, place = uri.removeprefix(_MARK).partition("@")
    return name, place.partition("/")[2]


def data_uri(uri: str) -> str:
    """The canonical URI of the objects themselves.

    Examples
    --------
    >>> data_uri("s3+ddb://versions@bucket/dir/t"), data_uri("gs://bucket/t")
    ('s3://bucket/dir/t', 'gs://bucket/t')
    """
    return f"s3://{uri.partition('@')[2]}" if uri.startswith(_MARK) else uri


def shown_uri(uri: str) -> str:
    """A canonical URI as users and other libraries write it.

    Examples
    --------
    >>> shown_uri("s3+ddb://versions@bucket/dir/t"), shown_uri("/dir/t")
    ('s3+ddb://bucket/dir/t?ddbTableName=versions', '/dir/t')
    """
    if not uri.startswith(_MARK):
        return uri
    place = "".join(_QUOTED.get(letter, letter) for letter in uri.partition("@")[2])
    return f"{_MARK}{place}?{_PARAMETER}={table_of(uri)[0]}"
