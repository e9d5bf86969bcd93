"""The shell on tables that DynamoDB commits."""

from __future__ import annotations

import uuid

import pytest

import lancecy
from tests.helpers.dynamodb import DynamoTable
from tests.helpers.s3 import SECRET, S3Server
from tests.helpers.shell import run


@pytest.mark.s3
def test_commands_read_change_and_copy_a_table_that_dynamodb_commits(s3_server: S3Server) -> None:
    s3_server.make_bucket("shell-ddb")
    dynamo = DynamoTable(s3_server, f"shell-{uuid.uuid4().hex}")
    uri, copies = dynamo.uri("shell-ddb/dir/t"), (dynamo.uri("shell-ddb/dir/copy"), "s3://shell-ddb/plain")
    lancecy.write_dataset({"id": [1, 2, 3, 4]}, uri, storage_options=dynamo.options)
    given = [text for name, value in dynamo.options.items() for text in ("-o", f"{name}={value}")]
    for command in (
        ["delete", uri, "id = 2", "--yes"],
        ["update", uri, "--set", "id=id + 10", "--where", "id = 4", "--yes"],
        ["tag", uri, "create", "kept"],
        ["branch", uri, "create", "dev"],
        ["compact", uri],
        *(["copy", uri, copy] for copy in copies),
        ["cleanup", uri, "--older-than", "0s", "--keep-tagged"],
        ["info", uri],
        ["verify", uri],
    ):
        done = run(*command, *given)
        assert done.exit_code == 0, (command, done.output)
        assert SECRET not in done.output
        assert "@shell-ddb" not in done.output  # the form that other libraries do not read
    for place in (uri, *copies):
        found = lancecy.dataset(place, storage_options=dynamo.options)
        assert sorted(found.to_table()["id"].to_pylist()) == [1, 3, 14]
        assert list(found.tags.list()) == ["kept"]
    assert sorted(dynamo.items("dir/copy")) == [1, 2, 3, 4]
    assert sorted(dynamo.items("dir/t")) == [3, 4]
