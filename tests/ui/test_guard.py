"""Who is answered, and with which headers."""

from __future__ import annotations

from pathlib import Path

import pytest
from werkzeug.test import Client

from lancecy.ui.guard import is_loopback
from lancecy.ui.options import LONGEST_QUERY, UiOptions
from lancecy.ui.pages import TABS, application
from tests.helpers.folded import folded
from tests.helpers.ui import PAYLOAD, TOKEN, client_of, shared_client
from tests.meta.example import EXAMPLE


@pytest.fixture(scope="module")
def client() -> Client:
    return client_of(EXAMPLE)


@pytest.fixture
def stranger() -> Client:
    return client_of(EXAMPLE, enter=False)


def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger: Client) -> None:
    answer = stranger.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert TOKEN not in cookie
    assert {part.strip() for part in cookie.split(";")[1:]} == {"HttpOnly", "Path=/", "SameSite=Strict"}
    assert stranger.get("/").status_code == 200


@folded(
    "query",
    [
        "",
        "token=",
        "token=x",
        f"token={TOKEN}x",
        f"token=x{TOKEN}",
        f"Token={TOKEN}",
        "token=%00",
        "token=é",
        f"id={TOKEN}",
    ],
)
def test_no_other_token_opens_it(query: str) -> None:
    stranger = client_of(EXAMPLE, enter=False)
    answer = stranger.get(f"/?{query}")
    assert answer.status_code == 403
    assert "Set-Cookie" not in answer.headers
    assert stranger.get("/table/rows").status_code == 403


@folded(
    "path", ["/table/rows", "/image", "//evil.example/", "/static/style.css", "/\\evil.example", "//", ""]
)
def test_the_token_is_taken_at_one_place_only(path: str) -> None:
    client = client_of(EXAMPLE, enter=False)
    answer = client.get(f"/?token={TOKEN}", environ_overrides={"PATH_INFO": path})
    if not path.strip("/"):  # other names of the same place
        assert answer.headers["Location"] == "/"
        return
    assert answer.status_code == 403
    assert "Location" not in answer.headers


@folded("cookie", ["", "x", TOKEN, "\xff", "a" * 4000])
def test_no_other_cookie_opens_it(cookie: str) -> None:
    stranger = client_of(EXAMPLE, enter=False)
    name = client_of(EXAMPLE, enter=False).get(f"/?token={TOKEN}").headers["Set-Cookie"].split("=")[0]
    stranger.set_cookie(name, cookie)
    assert stranger.get("/").status_code == 403


def test_the_cookie_of_one_server_is_not_that_of_another(client: Client) -> None:
    cookie = client_of(EXAMPLE, enter=False).get(f"/?token={TOKEN}").headers["Set-Cookie"].partition(";")[0]
    other = client_of(EXAMPLE, enter=False)
    assert other.get("/", headers={"Cookie": cookie}).status_code == 403


@folded("path", ["/", *[f"/table/{tab}" for tab in TABS], "/namespace", "/find", "/image"])
def test_nothing_is_shown_without_the_cookie(path: str) -> None:
    answer = client_of(EXAMPLE, enter=False).get(path)
    assert answer.status_code == 403
    assert EXAMPLE.name not in answer.text


GOOD_HOSTS = [
    "localhost",
    "localhost:9000",
    "LOCALHOST:80",
    "127.0.0.1",
    "127.0.0.1:43817",
    "127.8.8.8:1",
    "[::1]",
    "[::1]:9000",
]
BAD_HOSTS = [
    "", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:", "localhost:99999",
    "localhost@evil.example", "localhost:80@evil.example", "evil.example#localhost", "localhost/evil", "localhost\\evil", " localhost",
    "localhost evil.example", "localhost,evil.example", "127.0.0.1:80:80", "0.0.0.0", "192.168.1.7:8080", "[::2]", "[::1", "::1",
    "localhost.", "2130706433", "0x7f000001", "lоcalhost", "[::ffff:8.8.8.8]", "localhost\t", "[]", "[localhost]",
]  # fmt: skip


@folded("host", GOOD_HOSTS)
def test_hosts_of_this_machine_are_answered(host: str) -> None:
    answer = shared_client(EXAMPLE).get("/", headers={"Host": host})
    assert answer.status_code in (200, 403)  # the client sends no cookie to other hosts
    assert "another host" not in answer.text


@folded("host", BAD_HOSTS)
def test_other_hosts_are_refused(host: str) -> None:
    client = application(UiOptions(str(EXAMPLE)), TOKEN).test_client()
    for path in ("/", f"/?token={TOKEN}", "/static/style.css"):
        answer = client.get(path, environ_overrides={"HTTP_HOST": host})
        assert answer.status_code == 400, host
        assert "Set-Cookie" not in answer.headers


def test_an_exposed_page_is_reached_by_addresses_and_its_own_name_only() -> None:
    client = application(UiOptions(str(EXAMPLE)), TOKEN, host="0.0.0.0").test_client()
    for host in ("192.168.1.7:8080", "[fe80::1]:80", "localhost:1"):
        assert client.get("/", environ_overrides={"HTTP_HOST": host}).status_code == 403
    for host in ("evil.example", "0.0.0.0.evil.example"):
        assert client.get("/", environ_overrides={"HTTP_HOST": host}).status_code == 400


@folded("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "FOO"])
def test_other_methods_are_refused(method: str) -> None:
    client = shared_client(EXAMPLE)
    for path in ("/", "/table/rows", "/static/style.css", f"/?token={TOKEN}"):
        answer = client.open(path, method=method)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_head_has_the_headers_of_get_and_no_body(client: Client) -> None:
    get, head = client.get("/table/rows"), client.head("/table/rows")
    assert (head.status_code, head.data) == (200, b"")
    assert set(head.headers.keys()) == set(get.headers.keys())


@folded("site", ["cross-site", "same-site", "unknown"])
def test_requests_of_other_sites_are_refused(site: str) -> None:
    client = shared_client(EXAMPLE)
    for path in ("/", "/table/rows", "/static/style.css", "/image?column=x"):
        answer = client.get(path, headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 403
    assert client.get("/", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert client.get("/", headers={"Sec-Fetch-Site": "none"}).status_code == 200


def test_a_link_elsewhere_with_the_token_goes_on_by_itself(stranger: Client) -> None:
    # A browser would not send the strict cookie along a redirection.
    answer = stranger.get(f"/?token={TOKEN}", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/">' in answer.text
    assert TOKEN not in answer.text
    assert stranger.get("/").status_code == 200


@folded(
    "path",
    [
        "/",
        "/table/rows",
        "/table/nothing",
        "/nothing",
        "/static/style.css",
        "/static/nothing",
        "/image?column=x&row=1",
        "/table/rows?at=x",
        "/table/rows?from=x",
        "/?token=x",
    ],
)
def test_every_answer_has_the_headers(path: str) -> None:
    headers = shared_client(EXAMPLE).get(path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert not {"'unsafe-inline'", "'unsafe-eval'", "*", "data:", "http:", "https:"} & set(
        headers["Content-Security-Policy"].replace(";", " ").split()
    )
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] in ("no-store", "no-cache")
    assert "Access-Control-Allow-Origin" not in headers


@folded(
    "query",
    [
        "filter=" + "x" * (LONGEST_QUERY + 1),
        "&".join(["id=a"] * 100),
        "id=" + "n" * 2000,
        "from=" + "9" * 30,
        "from=-1",
        "from=1e3",
        "from=%D9%A1",
        "cf=x",
        "limit=0x10",
        "filter=" + "y" * 5000,
        "row=1&from=%00",
    ],
)
def test_parameters_that_are_too_large_or_no_numbers_are_refused(query: str) -> None:
    client = shared_client(EXAMPLE)
    answers = [
        client.get(f"/table/{tab}?{query}").status_code for tab in ("rows", "layout", "versions", "schema")
    ]
    assert set(answers) <= {200, 400, 404, 414}
    assert {400, 404, 414} & set(answers)


@folded("text", ["%0d%0aSet-Cookie:%20a=b", "%0aX: y", PAYLOAD.replace("#", ""), "%00", "%ff%fe"])
def test_no_parameter_gets_into_a_header(text: str) -> None:
    client = shared_client(EXAMPLE)
    for path in (
        f"/?token={text}",
        f"/table/rows?at={text}",
        f"/find?q={text}",
        f"/{text}",
        f"/table/{text}",
    ):
        answer = client.get(path)
        assert "a=b" not in str(answer.headers.getlist("Set-Cookie"))
        assert all("\n" not in value and "\r" not in value for _, value in answer.headers)


def test_loopback() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.0.1", "localhost.", "evil", "", "unix://x"]))


def test_static_files_are_those_of_the_package_only(client: Client, tmp_path: Path) -> None:
    for path in (
        "../pages.py",
        "..%2fpages.py",
        "%2e%2e/pages.py",
        "/etc/passwd",
        "..\\pages.py",
        "style.css%00.py",
        ".",
    ):
        assert client.get(f"/static/{path}").status_code in (308, 404)
    assert client.get("/static/page.js").status_code == 200
