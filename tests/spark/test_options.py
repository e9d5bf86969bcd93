"""Options of ``format("lancecy")``: every text is understood or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from lancecy.errors import UnsupportedError
from lancecy.spark.options import ReadOptions
from lancecy.spark.sink_options import SinkOptions


def _parsed(**given: str) -> ReadOptions:
    return ReadOptions.parse({"path": "t.lance", **given})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("columns", "id", ["id"]),
        ("columns", " id , s.a,vec", ["id", "s.a", "vec"]),
        ("columns", '["a, b", "c"]', ["a, b", "c"]),
        ("columns", '{"y": "x * 2"}', {"y": "x * 2"}),
        ("filter", "k < 10", "k < 10"),
        ("version", " 7", 7),
        ("version", " v1.0 ", "v1.0"),
        ("tag", "2024", "2024"),
        ("branch", "team/test", "team/test"),
        ("asof", "2026-01-01T00:00:00", "2026-01-01T00:00:00"),
        ("batch_size", "4096", 4096),
        ("blocksize", "1048576", 1 << 20),
        ("partitions", "3", 3),
        ("with_row_id", "TRUE", True),
        ("with_row_address", "1", True),
        ("truncate_nanoseconds", "false", False),
        ("untrusted", "yes", True),
        ("allowed_bases", "s3://a, s3://b", ["s3://a", "s3://b"]),
        ("storage_options", '{"anon": true, "KEY": "v"}', {"anon": True, "KEY": "v"}),
    ],
)
def test_text_becomes_the_value(name: str, text: str, expected: Any) -> None:
    assert getattr(_parsed(**{name: text}), name) == expected


@pytest.mark.parametrize("spelling", ["batch_size", "batchsize", "batchSize", "BATCH_SIZE"])
def test_names_are_known_in_any_spelling(spelling: str) -> None:
    assert _parsed(**{spelling: "5"}).batch_size == 5


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"nearest": "{}"}, r"no option 'nearest': lancecy\.spark\.read\(spark, path, nearest=…\) searches"),
        ({"filtre": "k < 1"}, r"no option 'filtre'; did you mean 'filter'\? Its options are allowed_bases, "),
        ({"paths": "[]"}, "did you mean 'path'"),
        ({"header": "true"}, "no option 'header'"),
        ({"version": "0"}, "version must be a whole number above zero, not '0'"),
        ({"version": "-1"}, "version must be a whole number above zero, not '-1'"),
        ({"tag": "v1", "version": "1"}, "option tag names a version of a branch already"),
        ({"tag": "v1", "branch": "b"}, "option tag names a version of a branch already"),
        ({"branch": "b", "version": "v1"}, "option version must be a number with option branch, not 'v1'"),
        ({"batch_size": "0"}, "batch_size must be"),
        ({"partitions": "-1"}, "partitions must be"),
        ({"with_row_id": "maybe"}, "with_row_id must be true or false, not 'maybe'"),
        ({"columns": '["a", 1]'}, "columns must be a JSON list of strings"),
        ({"columns": '{"y": '}, "columns is not JSON"),
        ({"storage_options": "anon=true"}, "storage_options is not JSON"),
        ({"storage_options": "[1]"}, "storage_options must be a JSON object"),
        ({"path": ""}, "say which"),
    ],
    ids=lambda value: next(iter(value.values())) if isinstance(value, dict) else "",
)
def test_wrong_option_is_named(given: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ReadOptions.parse({"path": "t.lance", **given})


def test_a_view_is_written_to_whatever_way_it_is_read_in() -> None:
    given = {"path": "t.lance", "partitions": "3", "batchSize": "10", "maxRowsPerFile": "5"}
    assert SinkOptions.parse(given).max_rows_per_file == 5


@pytest.mark.parametrize("name", ["columns", "filter", "withRowId", "version", "asof"])
def test_a_view_of_some_rows_or_columns_is_not_written_to(name: str) -> None:
    with pytest.raises(ValueError, match="is for reading: INSERT needs one of the whole table"):
        SinkOptions.parse({"path": "t.lance", name: "1"})


def test_missing_path_says_how_to_give_one() -> None:
    with pytest.raises(ValueError, match=r"\.load\(path\)"):
        ReadOptions.parse({"filter": "k < 1"})


def test_secrets_are_in_no_message_and_no_repr() -> None:
    with pytest.raises(ValueError, match="not JSON") as raised:
        _parsed(storage_options='{"secret": "hunter2"')
    assert "hunter2" not in str(raised.value)
    assert "hunter2" not in repr(_parsed(storage_options='{"secret": "hunter2"}'))


def test_properties_of_a_catalog_table_are_told_apart_from_options() -> None:
    # What Spark 4.3 passes for CREATE TABLE … USING lancecy OPTIONS (path 't.lance', filter 'k < 9').
    given = {
        "location": "file:/t.lance",
        "option.filter": "k < 9",
        "filter": "k < 9",
        "owner": "me",
        "path": "file:/t.lance",
        "provider": "lancecy",
    }
    with pytest.raises(
        UnsupportedError, match=r"CREATE TABLE … USING lancecy does not work.* TEMPORARY VIEW"
    ):
        ReadOptions.parse(given)
    with pytest.raises(ValueError, match="no option 'owner'"):
        _parsed(owner="me")
    for kind in (ReadOptions, SinkOptions):
        with pytest.raises(ValueError, match=r"say which .* name WITH \(path '…'\)"):
            kind.parse({})
