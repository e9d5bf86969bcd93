"""``lancecy.inspect``: descriptions of files of every version, and the reasons for unreadable columns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lancecy
from lancecy.encodings.model.notation import notation
from lancecy.encodings.model.spec import (
    BitStream,
    Compressed,
    EndedBinary,
    Nullable,
    Plain,
    SymbolCoded,
    Variable,
)
from lancecy.errors import DatasetNotFoundError, FormatError
from lancecy.inspection.files import FileInspection
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore
from tests.helpers.container import Container
from tests.helpers.datasets import SCHEMA, VERSIONS, data_file
from tests.helpers.files2 import numbers_page, v2_file
from tests.helpers.golden import all_goldens

ENCODINGS = {
    "2.0": ["Flat64", "Flat64", "Binary(Flat64, Flat8)", "FSL[2](Flat32)"],
    "2.1": ["M[VI] Flat64", "M[VI] Flat64", "M[NI] Var(Flat32) D=F16", "M[VI] FSL[2](Flat32)"],
}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_columns_of_a_file_and_how_they_are_encoded(version: str, tmp_path: Path) -> None:
    (tmp_path / "f.lance").write_bytes(data_file(0, 100, 30, version=version))
    shown = lancecy.inspect(tmp_path / "f.lance")
    assert (shown.version, shown.num_rows, shown.size) == (
        version,
        100,
        (tmp_path / "f.lance").stat().st_size,
    )
    assert [(c.name, c.type) for c in shown.columns] == [(f.name, f.logical_type) for f in SCHEMA.fields]
    wanted = ENCODINGS["2.0" if version == "2.0" else "2.1"]
    assert [c.encodings for c in shown.columns] == [((text, 4),) for text in wanted]
    assert [c.num_values for c in shown.columns] == [100] * 4
    assert 8 <= shown.columns[0].bytes_per_value < 12
    page = shown.columns[0].pages[3]
    assert (page.values, page.encoding) == (10, wanted[0])
    assert page.nbytes == sum(size for _, size in page.buffers) > 0
    assert sum(p.nbytes for p in shown.columns[2].pages) == shown.columns[2].nbytes


def test_columns_of_a_file_of_the_first_version() -> None:
    for golden in all_goldens():
        for file in sorted(Path(golden.path).glob("data/*.lance")):
            shown = lancecy.inspect(file)
            names = {column.name.split(".")[0] for column in shown.columns}
            assert shown.num_rows > 0 and names and all(column.encodings for column in shown.columns)
            assert shown.version != "0.1" or sum(c.nbytes for c in shown.columns) <= 2 * shown.size


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_shown_as_text_html_and_json(version: str, tmp_path: Path) -> None:
    (tmp_path / "f.lance").write_bytes(data_file(0, 1000, 300, version=version))
    shown = lancecy.inspect(str(tmp_path / "f.lance"))
    text = str(shown)
    assert f"version {version}, 1,000 rows, 4 columns" in text and "×4" in text and "per value" in text
    assert len({line.index("Flat") for line in text.splitlines()[2:] if "Flat64 ×" in line}) == 1
    assert shown._repr_html_().count("<tr>") == 5
    told = json.loads(json.dumps(shown.to_dict(pages=True)))
    assert told["columns"][1]["pages"][0]["values"] == 300
    assert "pages" not in shown.to_dict()["columns"][1]


def test_names_of_strangers_are_escaped(tmp_path: Path) -> None:
    from lancecy.schema import Field, Schema

    schema = Schema((Field("<b>\x1b[1m", 0, logical_type="int64"),))
    page = numbers_page("2.1", np.arange(5))
    (tmp_path / "f.lance").write_bytes(v2_file("2.1", schema, [[page]]))
    shown = lancecy.inspect(tmp_path / "f.lance")
    assert "\x1b" not in str(shown) and "<b>" not in shown._repr_html_()


def test_column_that_cannot_be_read_says_why_and_the_others_are_shown(tmp_path: Path) -> None:
    container = Container.parse(data_file(0, 100, 50, version="2.1"))
    container.columns[1].pages[0].buffer_offsets[0] = 1 << 40
    (tmp_path / "f.lance").write_bytes(container.build())
    shown = lancecy.inspect(tmp_path / "f.lance")
    assert "outside the file" in shown.columns[1].problem and "outside the file" in str(shown)
    assert shown.columns[1].pages == () and shown.to_dict()["columns"][1]["problem"]
    assert [bool(c.encodings) for c in shown.columns] == [True, False, True, True]


def test_columns_that_the_schema_does_not_explain_are_numbered(tmp_path: Path) -> None:
    page = numbers_page("2.0", np.arange(5))
    (tmp_path / "f.lance").write_bytes(v2_file("2.0", SCHEMA, [[page]] * 6))
    shown = lancecy.inspect(tmp_path / "f.lance")
    assert [c.name for c in shown.columns] == [f"column {n}" for n in range(6)]


def test_only_the_end_of_a_remote_file_is_read() -> None:
    inner = MemoryStore()
    inner.put("f.lance", data_file(0, 100_000, 20_000, version="2.1"))
    store = CountingStore(inner, uri="surveyed://here")
    register_store("surveyed", lambda uri, options, **_: store)
    shown = lancecy.inspect("surveyed://here/f.lance", session=lancecy.Session())
    assert isinstance(shown, FileInspection) and shown.num_rows == 100_000
    assert store.nbytes <= 3 * (64 << 10) < shown.size


@pytest.mark.parametrize(
    "content", [b"", b"LANC", b"no Lance file at all, but long enough to look at it" * 3]
)
def test_what_is_no_data_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f.lance").write_bytes(content)
    with pytest.raises(FormatError):
        lancecy.inspect(tmp_path / "f.lance")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        lancecy.inspect(tmp_path / "f.lance")
    with pytest.raises(ValueError, match="not the path of a file"):
        lancecy.inspect("/")


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (Nullable(Plain(32), Plain(1)), "Nullable(Flat32)"),
        (Nullable(Plain(32)), "Flat32"),
        (EndedBinary(Plain(64), Compressed("zstd", Plain(8)), 7), "Binary(Flat64, ZSTD(Flat8))"),
        (SymbolCoded(b"", Variable(8)), "Fsst(Var(Flat64))"),
        (BitStream(5, 32, False, 0), "Bits32→5"),
    ],
)
def test_notation_of_nodes(page: object, text: str) -> None:
    assert notation(page) == text  # type: ignore[arg-type]
