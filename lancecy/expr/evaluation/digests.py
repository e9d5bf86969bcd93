"""Digests of texts and bytes, and bytes as text: hexadecimal digits and base 64."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError
from lancecy.expr.evaluation.growth import charge
from lancecy.expr.evaluation.rows import by_row
from lancecy.expr.evaluation.values import Data, is_wide

__all__ = ["decode", "digest", "encode", "md5"]

_ALGORITHMS = ("md5", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s")
_ENCODINGS = ("hex", "base64", "base64pad")
_SHOWN = 100
_T = TypeVar("_T")


def md5(values: Data) -> Data:
    """The MD5 digest of each text or binary value as hexadecimal digits.

    Examples
    --------
    >>> md5(pa.array(["x", None])).to_pylist()
    ['9dd4e461268c8034f5c8564e155c67a6', None]
    """
    return by_row(lambda value: _of_bytes("md5", value).hex(), pa.string(), _bytes(values))


def digest(values: Data, algorithm: str) -> Data:
    """The digest of each text or binary value: binary.

    Raises
    ------
    ExpressionError
        There is no such algorithm.

    Examples
    --------
    >>> digest(pa.array(["x"]), "sha256")[0].as_py().hex()[:16]
    '2d711642b726b044'
    """
    if algorithm not in _ALGORITHMS:
        raise ExpressionError(f"digest() has the algorithms {', '.join(_ALGORITHMS)}, not {algorithm!r}")
    return by_row(partial(_of_bytes, algorithm), pa.binary(), _bytes(values))


def _of_bytes(algorithm: str, value: bytes) -> bytes:
    options = {} if algorithm.startswith("blake") else {"usedforsecurity": False}
    return hashlib.new(algorithm, value, **options).digest()


def encode(values: Data, encoding: str) -> Data:
    """Text or binary values as text of hexadecimal digits or of base 64, with padding if the encoding says so.

    Raises
    ------
    ExpressionError
        There is no such encoding, or the result would exceed the allowance.

    Examples
    --------
    >>> encode(pa.array([b"ab", None]), "hex").to_pylist()
    ['6162', None]
    >>> encode(pa.array(["ab"]), "base64").to_pylist()
    ['YWI']
    """
    run = _known("encode()", encoding, _ENCODERS)

    def of_row(value: bytes) -> str:
        charge("encode()", 2 * len(value) + 2)
        return run(value)

    return by_row(of_row, pa.large_string() if is_wide(values.type) else pa.string(), _bytes(values))


def decode(values: Data, encoding: str) -> Data:
    """The bytes that text of hexadecimal digits or of base 64 stands for.

    Raises
    ------
    ExpressionError
        There is no such encoding, or a text is not of it.

    Examples
    --------
    >>> decode(pa.array(["6162", None]), "hex").to_pylist()
    [b'ab', None]
    """
    run = _known("decode()", encoding, _DECODERS)

    def of_row(value: bytes) -> bytes:
        try:
            return run(value)
        except (ValueError, binascii.Error) as error:
            shown = value[:_SHOWN]
            raise ExpressionError(f"decode(): {shown!r} is not {encoding}: {error}") from error

    return by_row(of_row, pa.large_binary() if is_wide(values.type) else pa.binary(), _bytes(values))


def _known(name: str, encoding: str, runs: dict[str, Callable[[bytes], _T]]) -> Callable[[bytes], _T]:
    if encoding not in runs:
        raise ExpressionError(f"{name} has the encodings {', '.join(_ENCODINGS)}, not {encoding!r}")
    return runs[encoding]


def _from_base64(value: bytes, is_padded: bool) -> bytes:
    found = base64.b64decode(value + b"=" * (-len(value) % 4) if not is_padded else value, validate=True)
    padded = base64.b64encode(found)
    if value != padded and (is_padded or value != padded.rstrip(b"=")):
        raise ValueError("its last characters have bits or padding that no value has")
    return found


_ENCODERS: dict[str, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "base64": lambda value: base64.b64encode(value).rstrip(b"=").decode(),
    "base64pad": lambda value: base64.b64encode(value).decode(),
}
_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "hex": binascii.unhexlify,
    "base64": partial(_from_base64, is_padded=False),
    "base64pad": partial(_from_base64, is_padded=True),
}


def _bytes(values: Data) -> Data:
    """Text as its bytes in UTF-8."""
    kind = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(values.type)
    return values if kind is None else pc.cast(values, kind)
