"""DynamoDB tables at the server of the tests, which speaks its protocol beside that of S3."""

from __future__ import annotations

from typing import Any

from tests.helpers.s3 import SECRET, S3Server

__all__ = ["DynamoTable"]


class DynamoTable:
    """An empty DynamoDB table with the keys of an external manifest store.

    Parameters
    ----------
    server : S3Server
    name : str
    """

    def __init__(self, server: S3Server, name: str) -> None:
        self.name = name
        self.server = server
        self.client = _client(server.endpoint)
        keys = (("base_uri", "S", "HASH"), ("version", "N", "RANGE"))
        self.client.create_table(
            TableName=name,
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind, _ in keys],
            KeySchema=[{"AttributeName": key, "KeyType": role} for key, _, role in keys],
            BillingMode="PAY_PER_REQUEST",
        )

    @property
    def options(self) -> dict[str, str]:
        """Storage options that both libraries take."""
        return {
            "access_key_id": "test",
            "secret_access_key": SECRET,
            "endpoint": self.server.endpoint,
            "dynamodb_endpoint": self.server.endpoint,
            "region": "us-east-1",
            "allow_http": "true",
        }

    def uri(self, place: str) -> str:
        """The URI of a table in a bucket and folder."""
        return f"s3+ddb://{place}?ddbTableName={self.name}"

    def items(self, table: str) -> dict[int, dict[str, Any]]:
        """The items of a table as they are, by version."""
        found = self.client.query(
            TableName=self.name,
            KeyConditionExpression="base_uri = :table",
            ExpressionAttributeValues={":table": {"S": table}},
        )["Items"]
        return {int(item["version"]["N"]): item for item in found}

    def put(self, item: dict[str, Any]) -> None:
        """Write an item as it is."""
        self.client.put_item(TableName=self.name, Item=item)

    def delete(self, table: str, version: int) -> None:
        """Delete an item."""
        key = {"base_uri": {"S": table}, "version": {"N": str(version)}}
        self.client.delete_item(TableName=self.name, Key=key)


def _client(endpoint: str) -> Any:
    import botocore.session

    return botocore.session.Session().create_client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key=SECRET,
    )
