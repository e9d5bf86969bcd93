"""Random JSON documents, keys and paths: every JSON function gives what pylance gives.

More of them: ``LANCECY_JSON_TABLES=500``; a failure names the seed of its table.
"""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from tests.interop import live

pytestmark = pytest.mark.interop

TABLES = int(os.environ.get("LANCECY_JSON_TABLES", "16"))
CASES = 40

KEYS = ["a", "b", "c", "0", "1", "é", "k y", "x.y", "A", 'q"t', "last", "n\\m", "to"]
INTEGERS = [0, 1, -1, 7, 255, 256, -128, -129, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]
FLOATS = [
    0.0,
    -0.0,
    0.5,
    1.5,
    2.5,
    -0.5,
    -2.5,
    0.49999999999999994,
    1e300,
    1e-7,
    9.2e18,
    9.3e18,
    2.0**63,
    -(2.0**63),
]
TEXTS = """
    x 7 -7 +7 1.5 2.5 -2.5 true TRUE Yes no FALSE null 1e3 inf -inf NaN 9223372036854775807 9223372036854775808 00012
    -9223372036854775808 -9223372036854775809 .5 5. 1e e1 . + - 1_0 é 0x1 Infinity infinit 1e400 1e-400 +inf 1E3 -0
""".split()
# pylance ends the process for a range of an empty array, so that ranges come with tables without one.
INDICES = ["0", "1", "2", "-1", "last", "last-1", "last - 2", "last + 1", "LAST", "+1", " 0 ", "last - -1"]
RANGES = ["0 to 1", "-2 to 2", "1 to 0", "1 to last", "last-1 to last", "0tolast", "2 to 9"]
OTHERS = ["[*]", "[ * ]", ".*", ".**", ".**{1}", ".**{0 to 2}", ".**{1 to last}", ".**{2 to 1}", " ", "\n.a"]
NO_STEPS = [
    ".",
    "[",
    "]",
    "..a",
    "[]",
    "$",
    ".a\\.b",
    "['a']",
    ".**{last}",
    "[1.5]",
    "[1 to]",
    "*",
    "{1}",
    ".**{256}",
]


class Generator:
    """Documents and expressions of one table."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ranges = bool(seed % 2)

    def value(self, depth: int = 0) -> Any:
        pick = self.random
        kind = pick.randrange(9 if depth < 4 else 6)
        if kind == 8:
            return {pick.choice(KEYS): self.value(depth + 1) for _ in range(pick.randrange(5))}
        if kind == 7:
            return [self.value(depth + 1) for _ in range(pick.randrange(int(self.ranges), 5))]
        if kind >= 5:
            return pick.choice([*TEXTS, "", " 7", "7 ", 'a"b', "\n", "\u2028", "😀"])
        return pick.choice([None, True, False, *INTEGERS, *FLOATS, pick.uniform(-10, 10)])

    def document(self) -> str | None:
        pick = self.random
        if pick.random() < 0.1:
            return None
        keys = pick.sample(KEYS, pick.randrange(7))
        value = self.value() if pick.random() < 0.3 else {key: self.value(1) for key in keys}
        return json.dumps(value, ensure_ascii=pick.random() < 0.5)

    def path(self) -> str:
        pick = self.random
        written = pick.choice([*["$"] * 8, "", " $ ", "a", "b", ".a"])
        for _ in range(pick.randrange(5)):
            written += pick.choice([self.name, self.name, self.elements, self.other])()
        return written

    def name(self) -> str:
        key = self.random.choice(KEYS)
        quoted = json.dumps(key, ensure_ascii=False)
        return self.random.choice([f".{key}", f":{key}", f".{quoted}", f"[{quoted}]"])

    def elements(self) -> str:
        known = INDICES + RANGES if self.ranges else INDICES
        return f"[{','.join(self.random.choices(known, k=self.random.choice([1, 1, 2])))}]"

    def other(self) -> str:
        return self.random.choice(NO_STEPS if self.random.random() < 0.1 else OTHERS)

    def expression(self) -> str:
        pick = self.random
        column = f"json_get(j, {_literal(pick.choice(KEYS))})" if pick.random() < 0.2 else "j"
        function = pick.choice(
            ["get", "get_string", "get_int", "get_float", "get_bool", "extract", "extract"]
        )
        function = pick.choice([function, function, "exists", "array_contains", "array_length"])
        if function.startswith("get"):
            keys = [
                *map(_literal, [*KEYS, "2", "+1", "00", "-1", " 1", ""]),
                "0",
                "-1",
                "NULL",
                "true",
                "1.5",
            ]
            return f"json_{function}({column}, {pick.choice(keys)})"
        wanted = ""
        if function == "array_contains":
            text = json.dumps(self.value(3), ensure_ascii=False, separators=(",", ":"))
            wanted = ", " + pick.choice(
                [_literal(text), _literal(text.strip('"')), "1", "1.5", "true", "NULL"]
            )
        return f"json_{function}({column}, {_literal(self.path())}{wanted})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _answer(ds: Any, expression: str) -> tuple[pa.DataType | str, Any]:
    try:
        found = ds.to_table(columns={"x": expression})["x"]
    except (ValueError, pa.ArrowInvalid) as error:
        return "error", str(error)
    return found.type, [repr(value) for value in found.to_pylist()]


def _is_refused(refused: tuple[Any, Any], expression: str, peer: Any) -> bool:
    """Whether a path that only lancecy refuses is none: pylance reads a path when it meets a document."""
    if refused[0] != "error" or ("no JSON path" not in refused[1] and "has a filter" not in refused[1]):
        return False
    plain = re.sub(r"json_get\(j, '(?:[^']|'')*'\)", "j", expression)
    return _answer(peer, plain)[0] == "error"


@pytest.fixture(scope="module")
def one_document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("json") / "t"
    return live.write(pa.table({"j": pa.array(["{}"], pa.json_())}), path, data_storage_version="2.1")


@pytest.mark.parametrize("seed", range(TABLES))
def test_functions_give_what_pylance_gives(seed: int, tmp_path: Path, one_document: Any) -> None:
    made = Generator(seed)
    documents = [made.document() for _ in range(made.random.choice([1, 1, 2, 30]))]
    table = pa.table({"i": range(len(documents)), "j": pa.array(documents, pa.json_())})
    version = made.random.choice(["0.1", "2.0", "2.1", "2.2"])
    path = tmp_path / "t"
    if made.random.random() < 0.5:
        live.write(table, path, data_storage_version=version)
    else:
        lancecy.write_dataset(table, str(path), data_storage_version=version)
    ours, peer = lancecy.dataset(path), live.peer(path)
    for _ in range(CASES):
        expression = made.expression()
        # Several of them make more parts than fit into memory.
        if expression.count(".**") > 1:
            continue
        found, expected = _answer(ours, expression), _answer(peer, expression)
        if found[0] == expected[0] == "error" or _is_refused(found, expression, one_document):
            continue
        assert found == expected, f"table {seed}: {expression} over {documents[:3]}"


def test_filters_select_the_rows_that_pylance_selects(tmp_path: Path) -> None:
    made = Generator(1)
    documents = [
        json.dumps(
            {"n": made.random.randrange(100), "t": made.random.choices("abc", k=2), "v": made.value(2)}
        )
        for _ in range(2000)
    ]
    table = pa.table({"i": range(2000), "j": pa.array(documents, pa.json_())})
    live.write(table, tmp_path / "t", max_rows_per_file=700)
    ours, peer = lancecy.dataset(tmp_path / "t"), live.peer(tmp_path / "t")
    for condition in (
        "json_get_int(j, 'n') > 90",
        "json_get_float(j, 'n') / 2 < 5 AND i % 3 = 0",
        "json_extract(j, '$.t[0]') = '\"b\"'",
        "json_array_contains(j, '$.t', 'c') AND NOT json_exists(j, '$.v[0]')",
        "json_get_string(j, 'n') IN ('1', '2', '77')",
        "json_array_length(j, '$.v') BETWEEN 1 AND 2",
        "json_extract(j, '$.v') IS NULL OR json_extract(j, '$.v.*') LIKE '%a%'",
    ):
        found = ours.to_table(filter=condition)
        assert found["i"].to_pylist() == peer.to_table(filter=condition)["i"].to_pylist(), condition
        assert found["j"].to_pylist() == peer.to_table(filter=condition)["j"].to_pylist(), condition
