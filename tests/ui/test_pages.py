"""What the pages show of a catalog, and of one table."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from werkzeug.test import Client

import lancecy
from lancecy.arrow import ImageArray
from lancecy.errors import DatasetNotFoundError
from lancecy.ui.deadline import Deadline, TooSlowError, Workers
from lancecy.ui.options import Bounds, UiOptions
from lancecy.ui.pages import TABS, application
from tests.helpers.namespaces import make, ours
from tests.helpers.ui import Page, client_of, make_catalog, names_of, png, shared_client
from tests.meta.example import EXAMPLE

ORDERS = "id=sales&id=orders"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("catalog")
    make_catalog(place)
    return place


@pytest.fixture(scope="module")
def client(root: Path) -> Client:
    return shared_client(root)


def _page(client: Client, address: str) -> Page:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text[-800:]
    return Page(answer.text)


def test_the_root_lists_namespaces_and_tables_of_both_versions(client: Client) -> None:
    page = _page(client, "/")
    assert "/namespace?id=sales" in names_of(page, "space")
    tables = names_of(page)
    assert "/table/overview?id=media" in tables
    assert "/table/overview?id=plain" in tables


def test_a_namespace_has_its_properties_and_names(client: Client) -> None:
    page = _page(client, "/namespace?id=sales")
    assert "owner me" in page.text
    assert "/namespace?id=sales&id=old" in names_of(page, "space")
    assert "/table/overview?id=sales&id=orders" in names_of(page)
    assert _page(client, "/namespace?id=sales&id=old").text.count("This namespace is empty.") == 1
    assert client.get("/namespace?id=none").status_code == 404


def test_tables_of_all_namespaces_are_found(client: Client) -> None:
    page = _page(client, "/find?q=ORD")
    assert "1 table" in page.text
    assert "/table/overview?id=sales&id=orders" in page.links
    assert "No table has such a name." in _page(client, "/find?q=nothing").text
    assert "0 tables" in _page(client, "/find?q=").text


def test_overview(client: Client) -> None:
    text = _page(client, f"/table/overview?{ORDERS}").text
    for told in (
        "900 rows 100 deleted",
        "3 columns",
        "4 fragments 4 files",
        "order_id_idx BTree order_id 900",
        "disk2, disk3",
        "version 3",
    ):
        assert told in text, told


def test_schema(client: Client) -> None:
    text = _page(client, "/table/schema?id=media").text
    assert "nested struct yes" in text
    assert "vector float[768] yes" in text
    assert "c string yes" in text


def test_rows_with_vectors_pictures_and_nested_values(client: Client) -> None:
    answer = client.get("/table/rows?id=media")
    page = Page(answer.text)
    pictures = [found for tag, found in page.elements if tag == "img"]
    assert len(pictures) == 33
    assert client.get(pictures[0]["src"]).mimetype == "image/png"
    lines = [found["points"] for tag, found in page.elements if tag == "polyline"]
    assert len(lines) == 50
    assert all(len(points.split()) == 96 for points in lines)
    assert "5,000 characters in all" in page.text
    assert "14 bytes: 00 01 02 20 6e 6f" in page.text
    assert [tag for tag, _ in page.elements].count("details") == 101
    assert "rows 0 to 49 of 60" in page.text
    later = _page(client, "/table/rows?id=media&from=50")
    assert "rows 50 to 59 of 60" in later.text


def test_pictures_of_extension_types_and_dictionaries_are_served(tmp_path: Path) -> None:
    bytes_of = pa.array([png(), png(3)])
    lancecy.write_dataset(
        pa.table({"image": ImageArray.from_array(bytes_of), "coded": bytes_of.dictionary_encode()}),
        tmp_path / "t.lance",
    )
    client = client_of(tmp_path)
    found = [tag for name, tag in _page(client, "/table/rows?id=t").elements if name == "img"]
    assert [client.get(tag["src"]).data for tag in found] == [png(), png(), png(3), png(3)]


def test_rows_that_pass_a_filter(client: Client) -> None:
    page = _page(client, f"/table/rows?{ORDERS}&filter=city%20%3D%20'Oslo'%20AND%20order_id%20%3C%20110")
    # 102, 105, 108; those below 100 are deleted
    assert re.findall(r"\b(1\d\d) Oslo", page.text) == ["102", "105", "108"]
    assert "rows 0 to 2" in page.text
    pages = [
        _page(client, f"/table/rows?{ORDERS}&filter=order_id%3E300&from={first}").text for first in (0, 50)
    ]
    assert [re.findall(r" (\d{3}) (?:Oslo|Bergen|Bodø)", text)[0] for text in pages] == ["301", "351"]
    assert "No row passes the filter." in _page(client, f"/table/rows?{ORDERS}&filter=order_id%3C0").text
    wrong = _page(client, f"/table/rows?{ORDERS}&filter=city%20oops")
    assert "unexpected text near 'oops'" in wrong.text
    assert ("input", "city oops") in [(tag, found.get("value")) for tag, found in wrong.elements]
    assert "nothing" in _page(client, f"/table/rows?{ORDERS}&filter=nothing%3D1").text


def test_explain_and_count(client: Client) -> None:
    page = _page(client, f"/table/explain?{ORDERS}&filter=order_id%3C300&count=1")
    assert "200 rows pass of 900" in page.text
    assert "2 of 4 fragments to look at" in page.text
    assert "rows left by order_id_idx (BTREE)" in page.text
    assert [tag for tag, _ in page.elements].count("rect") >= 8


def test_statistics(client: Client) -> None:
    text = _page(client, f"/table/statistics?{ORDERS}").text
    assert "75.0 %" in text
    assert "100 999" in text
    assert "first 900 rows" in text
    assert "Bergen Oslo" in text


def test_layout_over_bases(client: Client) -> None:
    page = _page(client, f"/table/layout?{ORDERS}&check=1")
    assert len(re.findall(r"2 files \S*disk\d ok", page.text)) == 2
    assert "0 250 100 1" in page.text
    assert "not asked" in _page(client, f"/table/layout?{ORDERS}").text


def test_versions_tags_and_branches(client: Client) -> None:
    page = _page(client, f"/table/versions?{ORDERS}")
    for told in (
        "first load",
        "v1.0",
        "team/prices",
        "from version 1 of main",
        "−100",
        "where order_id < 100",
    ):
        assert told in page.text, told
    assert f"/table/overview?{ORDERS}&at=v1" in page.links
    circles = [found for tag, found in page.elements if tag == "circle"]
    assert len(circles) == 5
    text = _page(client, f"/table/references?{ORDERS}").text
    assert "v1.0 1 main" in text
    assert "team/prices version 1 of main" in text


def test_other_versions_are_shown(client: Client) -> None:
    for at, rows in (
        ("v1", "1,000"),
        ("tv1.0", "1,000"),
        ("b:team/prices", "1,010"),
        ("b1:team/prices", "1,000"),
        ("", "900"),
    ):
        assert f"{rows} rows" in _page(client, f"/table/overview?{ORDERS}&at={at}").text, at
    assert client.get(f"/table/overview?{ORDERS}&at=tnone").status_code == 404
    # Links keep the version.
    page = _page(client, f"/table/overview?{ORDERS}&at=tv1.0")
    assert f"/table/rows?{ORDERS}&at=tv1.0" in page.links


def test_a_single_table_is_served_without_a_tree() -> None:
    client = client_of(EXAMPLE)
    page = _page(client, "/")
    assert "1,000 rows" in page.text
    assert not [tag for tag, found in page.elements if tag == "nav" and found.get("class") == "tree"]
    for tab in TABS:
        assert "/table/rows" in _page(client, f"/table/{tab}").links
    assert client.get("/table/rows?id=x").status_code == 404


@pytest.mark.slow
def test_many_names_are_paged(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "many")
    make(ns, "many.inner")
    from lancecy.namespace.catalog import Add
    from lancecy.namespace.entries import TABLE, Entry

    entries = [Entry(f"many$table{n:05}", TABLE, f"x{n}") for n in range(5000)]
    ns._catalog.change(lambda _view: Add(entries))
    client = client_of(tmp_path)
    first = _page(client, "/namespace?id=many")
    assert "5,000 tables" in first.text
    assert len(first.links) < 350
    (following,) = [link for link in first.links if "after=" in link and "kind=tables" in link]
    second = _page(client, following)
    assert "/table/overview?id=many&id=table00200" in second.links
    found = _page(client, "/namespace?id=many&find=0499")
    assert "with “0499”" in found.text
    assert "/table/overview?id=many&id=table04990" in found.links
    assert "1 table" in _page(client, "/find?q=04999").text


@pytest.mark.slow
def test_many_fragments_columns_and_versions_are_shortened(tmp_path: Path) -> None:
    table = pa.table({f"c{n:03}": pa.array([n, None]) for n in range(120)})
    ds = lancecy.write_dataset(table, tmp_path / "t.lance")
    for _ in range(11):
        ds.append(table)
    client = client_of(tmp_path, bounds=Bounds(columns=10, rows=5, fragments=4, versions=6))
    rows = _page(client, "/table/rows?id=t")
    assert "columns 1 to 10 of 120" in rows.text
    assert "c009" in rows.text and "c010" not in rows.text
    assert "columns 11 to 20 of 120" in _page(client, "/table/rows?id=t&cf=10").text
    assert "columns 1 to 10 of 10 (of 120)" in _page(client, "/table/schema?id=t&c=c01").text
    assert "in 4 of 12 fragments" in _page(client, "/table/statistics?id=t").text
    assert (
        "The first 4 of 12 fragments are explained: the page does so for 2 s, and for 4 fragments, at most."
        in _page(client, "/table/explain?id=t&filter=c000%3D0").text
    )
    assert "older versions are not shown" in _page(client, "/table/versions?id=t&limit=100").text


def test_empty_tables_and_declared_ones(tmp_path: Path) -> None:
    import lance_namespace as ln

    lancecy.write_dataset(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "empty.lance")
    ours(tmp_path).declare_table(ln.DeclareTableRequest(id=["declared"]))
    client = client_of(tmp_path)
    for tab in TABS:
        assert client.get(f"/table/{tab}?id=empty").status_code == 200, tab
    answer = client.get("/table/overview?id=declared")
    assert (answer.status_code, "only declared" in answer.text) == (404, True)


def test_roots_that_cannot_be_shown(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "nothing", tmp_path / "file"):
        with pytest.raises(DatasetNotFoundError, match="there is no directory"):
            application(UiOptions(str(place)), "token")


def test_work_that_does_not_end_is_not_waited_for() -> None:
    workers, end = Workers(1, most_late=2), threading.Event()
    for _ in range(3):
        with pytest.raises(TooSlowError, match="takes more than"):
            workers.run(lambda _deadline: end.wait(60), 0.05)
        if _ < 2:  # what hangs made room
            assert workers.run(lambda _deadline: 1, 60) == 1
    with pytest.raises(TooSlowError, match="asked for before are still at work"):
        workers.run(lambda _deadline: 1, 0.05)
    end.set()
    assert workers.run(lambda _deadline: 1, 60) == 1
    with pytest.raises(ZeroDivisionError):
        workers.run(lambda _deadline: 1 // 0, 60)
    with pytest.raises(TimeoutError, match="own"):
        workers.run(_own_timeout, 60)


def _own_timeout(_deadline: Deadline) -> None:
    raise TimeoutError("own")
