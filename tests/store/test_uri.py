"""From text to store."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import fsspec
import pytest

import lancecy
from lancecy.errors import UnsupportedError
from lancecy.store import uri as module
from lancecy.store.base import Store
from lancecy.store.credentials import Options
from lancecy.store.fsspec import FsspecStore
from lancecy.store.local import LocalStore
from lancecy.store.uri import canonical_uri, open_store, register_store, scheme_of, split_credentials
from lancecy.store.wrap import LatencyStore

SAME_PLACES = [
    ("/data/t", "/data/t"),
    ("/data/t/", "/data/t"),
    ("/data//x/../t", "/data/t"),
    ("//data/t", "/data/t"),
    ("file:///data/t/", "/data/t"),
    ("file://localhost/data/t", "/data/t"),
    ("FILE:///data/a%20b", "/data/a b"),
    ("file:/data/t", "/data/t"),
    ("file-object-store:/data/a%20b", "/data/a b"),
    ("/", "/"),
    ("s3://bucket/t/", "s3://bucket/t"),
    ("S3A://bucket/t", "s3://bucket/t"),
    ("s3://Bucket-Keeps-Case/T", "s3://Bucket-Keeps-Case/T"),
    ("gcs://bucket/t", "gs://bucket/t"),
    ("memory://a/t/", "memory://a/t"),
    ("memory:///a/t", "memory://a/t"),
    ("memory:/a/t", "memory://a/t"),
    ("https://Example.COM/Dir/", "https://example.com/Dir"),
    ("abfs://container@account.dfs.core.windows.net/t", "abfs://container@account.dfs.core.windows.net/t"),
    ("simplecache::s3://bucket/t/", "simplecache::s3://bucket/t"),
    ("zip://inner::file:///data/x.zip", "zip://inner::file:///data/x.zip"),
    ("zip://inner.csv::data@home/x.zip", "zip://inner.csv::data@home/x.zip"),
    ("hf://datasets/org/name@v1/data", "hf://datasets/org/name@v1/data"),
]
LOGINS = [
    ("ftp://me:pa%40ss@host/dir", "ftp://host/dir", {"username": "me", "password": "pa@ss"}),
    ("sftp://me@Host/dir", "sftp://host/dir", {"username": "me"}),
    ("s3://AKIA:SECRET@bucket/t", "s3://bucket/t", {"key": "AKIA", "secret": "SECRET"}),
    (
        "https://me:p%20w@h.example/d",
        "https://h.example/d",
        {"client_kwargs": {"headers": {"Authorization": "Basic bWU6cCB3"}}},
    ),
    (
        "simplecache::ftp://me:pw@host/d",
        "simplecache::ftp://host/d",
        {"ftp": {"username": "me", "password": "pw"}},
    ),
    ("s3://AKIA:SEC::RET@bucket/t", "s3://bucket/t", {"key": "AKIA", "secret": "SEC::RET"}),
    (
        "filecache://you:word@cache::ftp://me:pw@host/d",
        "filecache://cache::ftp://host/d",
        {"filecache": {"username": "you", "password": "word"}, "ftp": {"username": "me", "password": "pw"}},
    ),
]


@pytest.mark.parametrize(("text", "canonical"), SAME_PLACES)
def test_one_spelling_for_one_place(text: str, canonical: str) -> None:
    assert canonical_uri(text) == canonical
    assert canonical_uri(canonical) == canonical


@pytest.mark.parametrize(("text", "canonical", "options"), LOGINS)
def test_logins_become_options(text: str, canonical: str, options: Options) -> None:
    assert split_credentials(text) == (canonical, options)


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/somewhere/somebody")
    assert canonical_uri("t") == str(tmp_path / "t")
    assert canonical_uri(Path("t")) == str(tmp_path / "t")
    assert canonical_uri("~/t") == "/somewhere/somebody/t"
    for name in ("a:b", "C:/t", "data:2024", "./s3:/bucket/t", "notes.s3:/t"):
        assert canonical_uri(name) == str(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("s3:/bucket/t", "s3:/… is no URI: write s3://…, or ./s3:/… for a local path"),
        ("s3:KEY:secret@bucket/t", "s3:… is no URI: write s3://…, or ./s3:… for a local path"),
        ("GCS:bucket/t", "GCS:… is no URI: write gcs://…, or ./GCS:… for a local path"),
        ("memory:t", "memory:… is no URI: write memory://…, or ./memory:… for a local path"),
        ("file:t", "file:… is no URI: write file:///…, or ./file:… for a local path"),
    ],
)
def test_a_scheme_without_slashes_is_no_local_folder(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(advice)}$"):
        open_store(text)
    # Path takes a slash off a URI.
    with pytest.raises(ValueError, match="is no URI: write s3://…"):
        open_store(Path("s3://bucket/t"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\0b",
        "file://server/share",
        "file:///a%00b",
        "https://h/d?X-Amz-Signature=1",
        "http://h/d#x",
        "az://c/x?sig=hunter2",
        "s3://b/k?a=1&X-Amz-Signature=hunter2",
        "zip://a::az://c/x.zip?sig=hunter2",
        "ftp://me:hun/ter2@h/d",
    ],
)
def test_what_cannot_be_a_folder_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"path|host|folder|URI") as caught:
        canonical_uri(text)
    assert "Signature" not in str(caught.value)


def test_bytes_are_refused() -> None:
    with pytest.raises(TypeError, match="a path or a URL, not bytes"):
        canonical_uri(b"/data")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("uri", "scheme"),
    [("/a", "file"), ("s3://b/c", "s3"), ("simplecache::s3://b", "simplecache"), ("zip://i::/x.zip", "zip")],
)
def test_scheme(uri: str, scheme: str) -> None:
    assert scheme_of(uri) == scheme


def test_paths_open_local_stores(tmp_path: Path) -> None:
    for text in (tmp_path, str(tmp_path), f"file://{tmp_path}/"):
        store = open_store(text)
        assert isinstance(store, LocalStore)
        assert store.uri == str(tmp_path)
    assert open_store(tmp_path).traits.is_mapped
    assert not open_store(tmp_path, mapped=False).traits.is_mapped


def test_urls_open_fsspec_stores() -> None:
    store = open_store("memory://uri-test/t/")
    assert isinstance(store, FsspecStore)
    assert store.uri == "memory://uri-test/t"


def test_unknown_scheme_names_near_ones() -> None:
    with pytest.raises(UnsupportedError, match=r"s4://.*s3://") as caught:
        open_store("s4://bucket/t")
    assert caught.value.feature == "s4"
    assert isinstance(caught.value, NotImplementedError)


def test_missing_package_names_its_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lancecy.store.google", raising=False)
    monkeypatch.setitem(sys.modules, "gcsfs.core", None)
    with pytest.raises(UnsupportedError, match=re.escape("pip install 'lancecy[gcs]'")):
        open_store("gs://bucket/t").head("a")


def test_own_schemes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FACTORIES", dict(module._FACTORIES))

    def delayed(uri: str, options: Options | None, *, mapped: bool, follow_symlinks: bool) -> Store:
        inner = open_store(uri.removeprefix("delayed:/"), mapped=mapped, follow_symlinks=follow_symlinks)
        return LatencyStore(inner, (options or {}).get("delay_s", 0.0), uri=uri)

    register_store("delayed", delayed)
    store = open_store(f"delayed:/{tmp_path}", {"delay_s": 0.001})
    assert isinstance(store, LatencyStore)
    assert store.uri == f"delayed:/{tmp_path}"
    store.put("a", b"x")
    assert Path(tmp_path, "a").read_bytes() == b"x"
    with pytest.raises(ValueError, match="not a scheme"):
        register_store("no scheme", delayed)


def test_scheme_may_be_registered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FACTORIES", dict(module._FACTORIES))
    register_store("memory2", f"{__name__}:opened_by_name")
    assert open_store("memory2://x").uri == "memory2://x"


def opened_by_name(uri: str, options: Options | None, *, mapped: bool, follow_symlinks: bool) -> Store:
    from lancecy.store.memory import MemoryStore

    return MemoryStore(uri)


def test_opening_reads_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "not" / "there")
    assert not os.path.exists(store.uri)


def test_a_file_system_is_no_place_and_the_error_names_the_option_for_it(tmp_path: Path) -> None:
    folder = fsspec.filesystem("file").get_mapper(str(tmp_path))
    for open_at in (open_store, lancecy.dataset, lancecy.scan):
        with pytest.raises(TypeError, match=r'a path or a URL, not FSMap; .*storage_options=\{"fs": it'):
            open_at(folder)
