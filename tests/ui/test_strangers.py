"""What strangers put into tables and addresses: nothing runs, nothing outside the root is read, and every page ends."""

from __future__ import annotations

import warnings
from pathlib import Path
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pytest
from werkzeug.test import Client

import lancecy
from lancecy.ui.options import Bounds
from lancecy.ui.pages import TABS
from tests.helpers.folded import folded
from tests.helpers.ui import PAYLOAD, PLAIN_PAYLOAD, Page, client_of, make_strange_catalog, shared_client
from tests.meta.example import EXAMPLE

pytestmark = pytest.mark.slow

HIDDEN = "hidden words"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("strange") / "catalog"
    place.mkdir()
    make_strange_catalog(place)
    return place


@pytest.fixture(scope="module", params=[False, True], ids=["trusted", "untrusted"])
def client(request: pytest.FixtureRequest, root: Path) -> Client:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shared_client(root, request.param)


def _is_harmless(html: str) -> Page:
    """The page, after a look at everything in it that could run or load something."""
    page = Page(html)
    for tag, found in page.elements:
        assert tag not in {
            "iframe",
            "object",
            "embed",
            "base",
            "applet",
            "template",
            "video",
            "audio",
            "style",
        }
        assert not [
            name for name in found if name.startswith("on") or name in ("style", "srcdoc", "formaction")
        ]
        if tag == "script":
            assert found == {"src": "/static/page.js", "defer": ""}
        for name in ("href", "src", "action"):
            if name in found:
                assert found[name].startswith(("/", "#")) and not found[name].startswith(("//", "/\\")), (
                    found[name]
                )
                assert not urlsplit(found[name]).netloc
    assert "<img src=x" not in html and "<script>hit" not in html and "<svg onload" not in html
    return page


def _crawled(client: Client, start: str, most: int = 100) -> dict[str, str]:
    """Every page that links lead to, by its address."""
    seen: dict[str, str] = {}
    waiting = [start]
    while waiting and len(seen) < most:
        address = waiting.pop(0)
        if address in seen:
            continue
        answer = client.get(address)
        assert answer.status_code in (200, 404, 422), (address, answer.status_code, answer.text[-500:])
        if answer.mimetype != "text/html":
            assert answer.mimetype == "image/png"
            continue
        seen[address] = answer.text
        waiting += [link for link in _is_harmless(answer.text).links if link.startswith("/")]
    return seen


def test_no_page_of_a_hostile_catalog_has_anything_that_runs(client: Client) -> None:
    seen = _crawled(client, "/")
    assert len(seen) > 40
    # It was there to be shown, in every tab.
    for tab in TABS:
        assert any(f"/table/{tab}" in address and "hit=1" in html for address, html in seen.items()), tab
    assert not any("Traceback" in html or 'File "' in html for html in seen.values())
    assert not any(HIDDEN in html for html in seen.values() if client_is_untrusted(client))


def client_is_untrusted(client: Client) -> bool:
    """Whether the page says so."""
    return ">untrusted<" in client.get("/").text


@folded("name", ["id", "at", "filter", "c", "find", "q", "column", "from", "kind", "after", "tab"])
def test_parameters_are_shown_as_text(name: str) -> None:
    client = shared_client(EXAMPLE)
    value = quote(PAYLOAD)
    for path in (
        "/",
        "/table/rows",
        "/table/explain",
        "/namespace",
        "/find",
        "/image",
        f"/table/{value}",
        f"/{value}",
    ):
        _is_harmless(client.get(f"{path}?{name}={value}").text)


@folded("place", ["up", "absolute", "encoded", "root", "scheme", "catalog", "backslash", "zero"])
def test_locations_outside_the_root_are_not_read(place: str, root: Path) -> None:
    for untrusted in (False, True):
        answer = shared_client(root, untrusted).get(f"/table/rows?id={place}")
        assert answer.status_code == 422
        assert HIDDEN not in answer.text
        assert "no directory of its own" in Page(answer.text).text


def test_a_link_to_another_folder_is_not_followed_for_strangers(root: Path) -> None:
    answer = shared_client(root, True).get("/table/rows?id=linked")
    assert answer.status_code in (404, 422)
    assert HIDDEN not in answer.text


PATHS = [
    "..", ".", "", "../secret", "..%2fsecret", "%2e%2e%2fsecret", "%252e%252e%252fsecret", "..\\secret", "/etc/passwd", "file:///etc/passwd",
    "secret.lance/..", "strange.lance/../../secret", "strange%00", "strange\x00.lance", "\u2024\u2024/secret", "C:\\x", "~", "$HOME",
    "__manifest", "strange$..$secret", "%c0%ae%c0%ae/secret", "s3://bucket/t", "a" * 900, "_refs", "\ud7ff", "memory://x",
]  # fmt: skip


@folded("name", PATHS)
def test_names_that_are_paths_name_no_table(name: str, root: Path) -> None:
    client = shared_client(root)
    for names in ([name], ["..", name], [*name.split("/"), "x"]):
        query = "&".join(f"id={quote(one, safe='')}" for one in names)
        for path in ("/table/rows", "/namespace"):
            answer = client.get(f"{path}?{query}")
            assert HIDDEN not in answer.text
            assert "root:x" not in answer.text
            if path == "/table/rows":
                assert answer.status_code in (400, 404, 422)


@folded("name", ["..", "../x", "x\0", "a.b", "`", "'; DROP", "nested.a", "_rowid", "*", PAYLOAD, ""])
def test_columns_are_found_by_their_whole_name_only(name: str, root: Path) -> None:
    answer = shared_client(root).get(f"/image?id=strange&column={quote(name, safe='')}&row=0")
    assert answer.status_code == 404
    assert answer.mimetype == "text/html"


@folded(
    "at",
    [
        "v0",
        "v99999999999999999999",
        "v-1",
        "t",
        "b:",
        "b1:../../secret",
        "t../../secret",
        "t..%2f..%2fsecret",
        "x",
        "b:%00",
        f"t{quote(PLAIN_PAYLOAD)}x",
        "t" + "9" * 3000,
    ],
)
def test_versions_that_are_none_are_pages_with_an_error(at: str, root: Path) -> None:
    answer = shared_client(root).get(f"/table/rows?id=strange&at={at}")
    assert answer.status_code in (400, 404, 422)
    assert HIDDEN not in answer.text
    _is_harmless(answer.text)


@folded(
    "condition",
    [
        "",
        "1",
        "id",
        "'",
        "x'; DROP TABLE t --",
        "(" * 500,
        "nested IS NULL OR " * 200 + "true",
        "repeat(p, 1000000000) = p",
        "\0",
        "p LIKE '%" + "a%" * 300 + "'",
    ],
)
def test_filters_end_with_rows_or_with_an_error(condition: str, root: Path) -> None:
    client = shared_client(root, True)
    for tab in ("rows", "explain"):
        answer = client.get(f"/table/{tab}?id=strange&count=1&filter={quote(condition, safe='')}")
        assert answer.status_code == 200
        _is_harmless(answer.text)
        assert "Traceback" not in answer.text


def test_a_filter_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    lancecy.write_dataset({"x": list(range(100))}, tmp_path / "t.lance")
    client = client_of(tmp_path, bounds=Bounds(seconds=0.0))
    assert "takes more than 0 s" in client.get("/table/rows?id=t&filter=x%3C3").text
    assert "takes more than 0 s" in client.get("/table/statistics?id=t").text


def test_pictures_are_only_what_browsers_decode_and_nothing_else(root: Path) -> None:
    client = shared_client(root)
    shown = client.get("/image?id=strange&column=p&row=0")
    assert (shown.status_code, shown.mimetype) == (200, "image/png")
    assert "sandbox" in shown.headers["Content-Security-Policy"]
    for row in (1, 2):  # markup, and nothing
        refused = client.get(f"/image?id=strange&column=p&row={row}")
        assert (refused.status_code, refused.mimetype) == (404, "text/html")


def test_pictures_that_claim_too_much_are_not_served(tmp_path: Path) -> None:
    huge = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\xff\xff\xff\xff" * 2 + b"\0" * 20
    frame = b"\xff\xd8\xff\xc0\0\x11\x08" + b"\xff\xff" * 2 + b"\0" * 20
    cut = b"\xff\xd8\xff"
    long = b"\xff\xd8\xff" + b"\0" * 5000
    table = pa.table({"p": pa.array([huge, frame, cut, long], pa.binary())})
    lancecy.write_dataset(table, tmp_path / "t.lance")
    client = client_of(tmp_path, bounds=Bounds(image_bytes=1000))
    answers = [client.get(f"/image?id=t&column=p&row={row}") for row in range(4)]
    assert [answer.status_code for answer in answers] == [422] * 4
    assert ["pixels" in a.text for a in answers[:3]] == [True] * 3
    assert "are shown" in answers[3].text


def test_bounds_hold_for_values_and_their_number(tmp_path: Path) -> None:
    deep = pa.array([{"a": {"b": {"c": {"d": {"e": list(range(1000))}}}}}])
    wide = pa.table({f"c{n:04}": pa.array([n]) for n in range(500)})
    table = wide.append_column("deep", deep).append_column("text", pa.array(["y" * 1_000_000]))
    lancecy.write_dataset(table, tmp_path / "t.lance")
    client = client_of(tmp_path, untrusted=True)
    first = client.get("/table/rows?id=t")
    assert len(first.data) < 60_000
    assert "c0039" in first.text and "c0040" not in first.text
    found = client.get("/table/rows?id=t&c=e")  # deep, text
    assert len(found.data) < 20_000
    assert "1,000,000 characters in all" in found.text
    assert client.get("/table/statistics?id=t").status_code == 200


def test_a_page_of_large_values_is_cut(tmp_path: Path) -> None:
    rows = pa.table({"b": pa.array([bytes(200_000)] * 40, pa.binary())})
    lancecy.write_dataset(rows, tmp_path / "t.lance")
    answer = client_of(tmp_path, bounds=Bounds(page_bytes=1 << 20)).get("/table/rows?id=t")
    assert "32 rows of this page are not shown" in Page(answer.text).text


def test_damaged_tables_are_pages_with_the_error(tmp_path: Path) -> None:
    lancecy.write_dataset({"x": [1, 2]}, tmp_path / "t.lance")
    for file in (tmp_path / "t.lance" / "data").iterdir():
        file.write_bytes(b"\0" * file.stat().st_size)
    client = client_of(tmp_path)
    for tab in TABS:
        answer = client.get(f"/table/{tab}?id=t")
        assert answer.status_code in (200, 422), tab
        assert "Traceback" not in answer.text
    answer = client.get("/table/rows?id=t")
    assert answer.status_code == 422
    assert '<input type="search" name="q" value=""' in answer.text
    assert "/table/overview?id=t" in Page(answer.text).links  # which needs no data file
    for file in (tmp_path / "t.lance" / "_versions").iterdir():
        file.write_bytes(b"nothing")
    answer = client.get("/table/overview?id=t")
    assert answer.status_code == 422
    assert Page(answer.text).text.count("_versions") >= 1


def test_nothing_is_changed(root: Path) -> None:
    def contents() -> dict[str, tuple[int, int]]:
        files = [path for path in root.rglob("*") if path.is_file()]
        return {str(p.relative_to(root)): (p.stat().st_size, p.stat().st_mtime_ns) for p in files}

    before = contents()
    _crawled(shared_client(root), "/", most=30)
    assert contents() == before
