"""The page in a real browser: what people click, and what strangers try."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import TIMEOUT_MS, running_browser
from tests.helpers.ui import PAYLOAD, Shown, make_catalog, make_strange_catalog, shown

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as running:
        yield running


TABS = ("overview", "schema", "rows", "explain", "statistics", "layout", "versions", "references")


class Visit:
    """A visitor in a window of their own, who is let in.

    Attributes
    ----------
    page : playwright Page
    complaints : list of str
        What the browser says of scripts and of what it refused to load.
    requests : list of str
        Every address that was asked for.
    """

    def __init__(self, browser: Any, server: Shown, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1200, "height": 800}, **options)
        self.context.set_default_timeout(TIMEOUT_MS)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._message)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.base = server.base
        self.page.goto(server.url)

    def _message(self, message: Any) -> None:
        # What the browser does by itself on a slow machine, such as loading pictures later, is no complaint.
        if not message.text.startswith("[Intervention]"):
            self.complaints.append(message.text)

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def go(self, path: str) -> None:
        """Open a page."""
        self.page.goto(f"{self.base}{path}")

    def reads(self, place: str, text: str) -> None:
        """Wait until an element has a text."""
        self.page.locator(place).filter(has_text=text).first.wait_for()

    def tab(self, name: str) -> None:
        """Click a tab and wait for it."""
        self.page.locator(".tabs").get_by_role("link", name=name, exact=True).click()
        self.reads('.tabs [aria-current="page"]', name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    root = tmp_path_factory.mktemp("shown")
    make_catalog(root)
    with shown(root) as running:
        yield running


@pytest.fixture(params=[True, False], ids=["scripts", "no scripts"])
def visit(request: pytest.FixtureRequest, browser: Any, server: Shown) -> Iterator[Visit]:
    made = Visit(browser, server, java_script_enabled=request.param)
    yield made
    assert made.complaints == []
    assert [url for url in made.requests if not url.startswith(server.base)] == []
    made.context.close()


def test_people_walk_through_tree_and_tabs(visit: Visit) -> None:
    page = visit.page
    assert page.url == f"{visit.base}/"  # the token has left the address bar
    page.locator(".tree").get_by_role("link", name="sales").click()
    visit.reads("h1", "sales")
    page.locator(".tree").get_by_role("link", name="orders").click()
    visit.reads("h1", "orders")
    visit.reads(".cards", "900")
    visit.tab("Schema")
    visit.reads("td", "order_id")
    visit.tab("Versions")
    visit.reads("td", "first load")
    assert page.locator(".graph circle").count() == 5
    box = page.locator(".graph circle").first.bounding_box()
    assert box is not None and box["width"] > 5
    visit.tab("Tags & branches")
    page.get_by_role("link", name="team/prices").click()
    visit.reads(".pick", "version 2 of team/prices")
    visit.tab("Layout")
    page.get_by_role("link", name="Ask whether they answer").click()
    visit.reads(".health", "ok")
    visit.tab("Statistics")
    assert page.locator("svg.bar").count() == 6
    # The style sheet is loaded under the policy: bars have a colour of their own.
    fill = (
        page.locator("svg.bar .fill").first.evaluate("bar => getComputedStyle(bar).fill")
        if _runs(visit)
        else "x"
    )
    assert fill != "rgb(0, 0, 0)"


def _runs(visit: Visit) -> bool:
    return bool(visit.page.locator(".pick button").is_hidden())


def test_people_filter_and_explain(visit: Visit) -> None:
    visit.go("/table/rows?id=sales&id=orders")
    page = visit.page
    page.get_by_label("Filter").fill("city = 'Oslo' AND order_id < 110")
    page.get_by_role("button", name="Show rows").click()
    visit.reads("main", "rows 0 to 2")
    assert page.locator(".rows tbody tr").count() == 3
    page.get_by_role("link", name="Explain", exact=True).last.click()
    page.get_by_role("button", name="Explain and count").click()
    visit.reads("#matching", "3")
    visit.reads("#explanation", "order_id_idx")
    page.get_by_label("Filter").fill("city oops")
    page.get_by_label("Filter").press("Enter")
    visit.reads('[role="alert"]', "unexpected text near 'oops'")


def test_pictures_lines_and_nested_values_are_seen(visit: Visit) -> None:
    visit.go("/table/rows?id=media")
    page = visit.page
    first = page.locator(".rows img").first
    first.scroll_into_view_if_needed()
    box = first.bounding_box()
    assert box is not None and box["height"] >= 2
    if _runs(visit):
        first.evaluate("image => image.decode()")  # rejects a picture that cannot be shown
        assert first.evaluate("image => image.naturalWidth") == 2
    line = page.locator(".spark polyline").first.bounding_box()
    assert line is not None and line["width"] > 80
    nested = page.locator("td.nested details").first
    assert not nested.locator("pre").is_visible()
    nested.locator("summary").click()
    nested.locator("pre").wait_for(state="visible")
    assert 'c: "yyyy' in nested.locator("pre").inner_text()


def test_the_keyboard_reaches_everything(browser: Any, server: Shown) -> None:
    visit = Visit(browser, server)
    visit.go("/table/overview?id=sales&id=orders")
    page = visit.page
    page.keyboard.press("/")
    page.keyboard.type("med")
    page.keyboard.press("Enter")
    visit.reads("h1", "med")
    page.locator("#found a").focus()
    page.keyboard.press("Enter")
    visit.reads("h1", "media")
    page.locator('.tabs [aria-current="page"]').focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    visit.reads('.tabs [aria-current="page"]', "Rows")
    page.locator("#at").select_option(value="")
    assert visit.complaints == []
    visit.context.close()


def test_another_version_is_shown_once_it_is_chosen(browser: Any, server: Shown) -> None:
    visit = Visit(browser, server)
    visit.go("/table/overview?id=sales&id=orders")
    visit.page.locator("#at").select_option(label="tag v1.0")
    visit.reads(".cards", "1,000")
    assert "at=tv1.0" in visit.page.url
    visit.context.close()


def test_dark_mode_is_dark(browser: Any, server: Shown) -> None:
    def paper(scheme: str) -> int:
        visit = Visit(browser, server, color_scheme=scheme)
        colour = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        visit.context.close()
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    assert paper("dark") < 150 < 600 < paper("light")


def test_a_narrow_window_does_not_scroll_sideways(browser: Any, server: Shown) -> None:
    visit = Visit(browser, server)
    visit.page.set_viewport_size({"width": 390, "height": 800})
    for path in (
        "/",
        "/table/rows?id=media",
        *(f"/table/{tab}?id=sales&id=orders" for tab in TABS),
    ):
        visit.go(path)
        width = visit.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, path
    visit.context.close()


def test_nothing_of_a_stranger_runs(browser: Any, tmp_path: Path) -> None:
    root = tmp_path / "catalog"
    root.mkdir()
    make_strange_catalog(root)
    with shown(root, "--untrusted") as running:
        visit = Visit(browser, running)
        query = "id=strange"
        for path in ("/", f"/find?q={_encoded(PAYLOAD)}", *[f"/table/{tab}?{query}" for tab in TABS],
                     f"/table/rows?{query}&filter={_encoded(PAYLOAD)}", f"/table/rows?id={_encoded(PAYLOAD)}",
                     f"/table/rows?{query}&at=t{_encoded(PAYLOAD)}", f"/namespace?id={_encoded(PAYLOAD)}", "/table/rows?id=up"):  # fmt: skip
            visit.go(path)
            assert visit.page.evaluate("typeof hit") == "undefined", path
            assert (
                visit.page.locator(
                    "script:not([src='/static/page.js']), img[src='x'], [onerror], [onload]"
                ).count()
                == 0
            )
            for link in visit.page.locator("a[href^='javascript']").all():
                raise AssertionError(link.get_attribute("href"))
        # What it refuses for its status is all that the browser complains of.
        assert [one for one in visit.complaints if "status of 4" not in one] == []
        assert [url for url in visit.requests if not url.startswith(running.base)] == []
        # The policy holds even where a page had a hole.
        visit.go("/")
        visit.page.evaluate("""() => {
            const made = document.createElement("script");
            const tries = [
                () => { made.text = "window.hit = 1"; document.head.append(made); },
                () => { document.body.setAttribute("onclick", "window.hit = 1"); document.body.click(); },
                () => { document.body.innerHTML = "<img src=x onerror=hit=1>"; },
            ];
            for (const attempt of tries) try { attempt(); } catch { /* refused */ }
        }""")
        assert visit.page.evaluate("typeof hit") == "undefined"
        visit.context.close()


def _encoded(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


@pytest.mark.parametrize("site", ["http://evil.test/", "http://127.0.0.1:50001/"])
def test_other_sites_cannot_use_the_cookie_of_a_visitor(browser: Any, server: Shown, site: str) -> None:
    """Another port of this machine is the same site for cookies, but another origin."""
    visit = Visit(browser, server)
    other = visit.context.new_page()
    answers: list[tuple[str, int]] = []
    other.on("response", lambda answer: answers.append((answer.url, answer.status)))
    body = f"""<iframe src="{server.base}/table/rows?id=media"></iframe>
        <img id=picture src="{server.base}/image?id=media&at=v1&column=picture&row=1">
        <link rel=stylesheet href="{server.base}/static/style.css"><script src="{server.base}/static/page.js"></script>"""
    other.route(site, lambda route: route.fulfill(content_type="text/html", body=body))
    other.goto(site)
    other.wait_for_load_state("load")
    # Some browsers do not even ask.
    assert {status for url, status in answers if url.startswith(server.base)} <= {403}
    assert other.evaluate("document.getElementById('picture').naturalWidth") == 0
    assert visit.context.request.post(f"{server.base}/table/rows").status == 405
    visit.context.close()
