"""A writer of one S3 object that sends parts while later bytes are still made."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from lancecy.store.pools import submit
from lancecy.store.upload import Upload

__all__ = ["S3Upload"]

# In parts of a quarter of this, a file of 30 MB takes a third longer: each is a request of s3fs.
_PART_BYTES = 32 << 20
# S3 takes at most 10,000 parts: later parts are larger, so that an object may have a terabyte.
_GROWS_EVERY = 500
_AT_ONCE = 3

Request = Callable[[Any, str], Any]


class S3Upload(Upload):
    """Objects up to 32 MiB are put whole when they are closed, larger ones in parts, of which three are sent at a time.

    Parameters
    ----------
    path, store : str
        For messages.
    ask : function of a request
        Calls the request with the s3fs file system and the full name of the object, and translates its errors.
    put : function of bytes
        Writes a whole object.
    """

    def __init__(
        self, path: str, store: str, ask: Callable[[Request], Any], put: Callable[[bytes], object]
    ) -> None:
        super().__init__(path, store)
        self._ask = ask
        self._put = put
        self._rest = bytearray()
        self._id = ""
        self._parts: list[Future[Any]] = []
        self._threads: ThreadPoolExecutor | None = None

    def _append(self, data: memoryview) -> None:
        self._rest += data
        while len(self._rest) > (size := _PART_BYTES * (1 + len(self._parts) // _GROWS_EVERY)):
            self._send(bytes(memoryview(self._rest)[:size]))
            del self._rest[:size]

    def _publish(self) -> None:
        if self._threads is None:
            self._put(bytes(self._rest))
            return
        self._send(bytes(self._rest))
        tags = [part.result()["ETag"] for part in self._parts]
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        self._request("complete_multipart_upload", UploadId=self._id, MultipartUpload={"Parts": parts})
        self._threads.shutdown()

    def _discard(self) -> None:
        self._rest = bytearray()
        if self._threads is None:
            return
        # A part that arrives after the upload was aborted would stay, and be paid for.
        self._threads.shutdown(wait=True, cancel_futures=True)
        with suppress(Exception):
            self._request("abort_multipart_upload", UploadId=self._id)

    def _send(self, part: bytes) -> None:
        if self._threads is None:
            self._id = self._request("create_multipart_upload")["UploadId"]
            self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lancecy-upload")
        number = len(self._parts) + 1
        if number > _AT_ONCE:
            self._parts[-_AT_ONCE].result()  # no more bytes wait in memory
        self._parts.append(
            submit(
                self._threads, self._request, "upload_part", UploadId=self._id, PartNumber=number, Body=part
            )
        )

    def _request(self, method: str, **options: Any) -> Any:
        def ask(fs: Any, full: str) -> Any:
            bucket, key, _ = fs.split_path(full)
            return fs.call_s3(method, Bucket=bucket, Key=key, **options)

        return self._ask(ask)
