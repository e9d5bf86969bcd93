"""Filters on texts use the NGRAM indices of the reference implementation."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import FormatError
from lancecy.expr import bind, parse
from lancecy.index.ngram import needed_runs
from lancecy.index.row_sets import decode_row_map
from lancecy.table.rows import roaring

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")

# Letters that become ASCII in lower case, without their accent, or as two letters; and marks between words.
ALPHABET = "abcABCsk1 é-ſKßﬁİ"
FORMS = (
    "contains(s, '{0}')",
    "s LIKE '%{0}%'",
    "s LIKE '{0}_{1}%'",
    "s LIKE '%{0}!%{1}%' ESCAPE '!'",
    "s ILIKE '%{0}%{1}'",
    "starts_with(s, '{0}')",
    "ends_with(s, '{0}')",
    "regexp_like(s, '{0}')",
    "regexp_like(s, '{0}', 'i')",
    "s = '{0}{1}'",
    "s IN ('{0}', '{1}', NULL)",
    "contains(s, '{0}') OR contains(s, '{1}')",
    "contains(s, '{0}') AND NOT contains(s, '{1}')",
    "NOT contains(s, '{0}')",
    "(s LIKE '%{0}%' OR s IS NULL) AND n % 2 = 0",
)


def texts(chance: random.Random, count: int) -> list[str | None]:
    made = ("".join(chance.choice(ALPHABET) for _ in range(chance.randrange(12))) for _ in range(count))
    return [None if chance.random() < 0.05 else text for text in made]


def names(ds: lancecy.Dataset, text: str) -> set[str]:
    lines = ds.scanner(filter=text).explain().fragments
    return {name for line in lines for source in line.sources for name in source.indices}


@pytest.mark.parametrize("stable", [False, True])
def test_answers_are_those_of_plain_scans(tmp_path: Path, stable: bool) -> None:
    chance = random.Random(stable)
    rows = pa.table({"s": texts(chance, 1500), "n": range(1500)})
    made = lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=500, enable_stable_row_ids=stable)
    made.create_scalar_index("s", "NGRAM")
    made.update({"s": "'xabcabc'"}, where="n % 17 = 3")
    made.delete("n % 19 = 3")
    lance.write_dataset(pa.table({"s": texts(chance, 50), "n": range(50)}), tmp_path / "t", mode="append")
    if stable:
        lance.dataset(tmp_path / "t").optimize.compact_files()
    ds, used = lancecy.dataset(tmp_path / "t"), 0
    for number in range(150):
        words = ["".join(chance.choice(ALPHABET[:10]) for _ in range(chance.randint(1, 4))) for _ in "01"]
        text = FORMS[number % len(FORMS)].format(*words)
        plain = ds.to_table(filter=text, use_scalar_index=False)
        assert ds.to_table(filter=text, use_scalar_index=True).equals(plain), text
        used += names(ds, text) == {"s_idx (NGRAM)"}
    assert used > 20
    assert names(ds, "s LIKE '%abc%'") == names(ds, "contains(s, 'abc') AND n < 9") == {"s_idx (NGRAM)"}
    assert names(ds, "s LIKE '%ab%'") == names(ds, "NOT contains(s, 'abc')") == set()


def test_compacted_rows_stay_in_the_index_by_their_new_addresses(tmp_path: Path) -> None:
    chance = random.Random(3)
    rows = pa.table({"s": texts(chance, 900), "n": range(900)})
    made = lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=150)
    made.create_scalar_index("s", "NGRAM")
    made.delete("n % 7 = 3 OR n BETWEEN 320 AND 440")
    lance.write_dataset(
        pa.table({"s": texts(chance, 40), "n": range(900, 940)}), tmp_path / "t", mode="append"
    )
    ds = lancecy.dataset(tmp_path / "t")
    ds.optimize.compact_files(target_rows_per_fragment=180)
    (index,) = ds.describe_indices()
    assert len(ds.get_fragments()) > 2
    assert index.num_rows_indexed == ds.count_rows("n < 900")
    theirs, rows_found = lance.dataset(str(tmp_path / "t")), 0
    assert theirs.stats.index_stats("s_idx")["num_indexed_rows"] == index.num_rows_indexed
    for _ in range(40):
        text = f"contains(s, '{''.join(chance.choice(ALPHABET[:9]) for _ in range(3))}')"
        plain = ds.to_table(filter=text, use_scalar_index=False)
        assert ds.to_table(filter=text, use_scalar_index=True).equals(plain), text
        assert theirs.to_table(filter=text)["n"].to_pylist() == plain["n"].to_pylist(), text
        rows_found += plain.num_rows
    assert rows_found
    assert names(ds, "contains(s, 'abc')") == {"s_idx (NGRAM)"}


def test_a_damaged_index_is_left_as_it_is_by_a_compaction(tmp_path: Path) -> None:
    rows = pa.table({"s": ["abcd", "xabc"] * 20})
    lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=10).create_scalar_index("s", "NGRAM")
    (file,) = (tmp_path / "t").rglob("ngram_postings.lance")
    file.write_bytes(file.read_bytes()[:-30] + bytes(30))
    ds = lancecy.dataset(tmp_path / "t")
    with pytest.warns(RuntimeWarning, match="do not cover the compacted rows"):
        ds.optimize.compact_files()
    assert len(list((tmp_path / "t" / "_indices").iterdir())) == 1
    assert ds.count_rows("contains(s, 'abc')") == 40


def test_few_rows_are_left_for_a_rare_text(tmp_path: Path) -> None:
    rows = {"s": [f"number {n} of many" for n in range(5000)]}
    lance.write_dataset(pa.table(rows), tmp_path / "t").create_scalar_index("s", "NGRAM")
    found = lancecy.dataset(tmp_path / "t").scanner(filter="s LIKE '% 4321 %'").explain()
    assert 1 <= found.kept_rows < 10
    assert found.sources[0] == "indices"


def test_runs_of_letters_that_a_filter_needs() -> None:
    schema = pa.schema({"s": pa.string(), "t": pa.string()})

    def runs(text: str) -> list[list[int]] | None:
        expr = parse(text)
        assert expr is not None
        found = needed_runs(bind(expr, schema, boolean=True).expr)
        return None if found is None else [sorted(way) for way in found]

    abc, bcd = 11 * 37 * 37 + 12 * 37 + 13, 12 * 37 * 37 + 13 * 37 + 14
    assert runs("contains(s, 'abcd')") == runs("s ILIKE '%ABCD%'") == [[abc, bcd]]
    assert runs("s LIKE 'abc%' OR s = 'xbcd'") == [[abc], [bcd, 34 * 37 * 37 + 12 * 37 + 13]]
    assert runs("contains(s, 'abc') AND contains(s, 'bcd')") == [[abc, bcd]]
    assert runs("contains(s, 'abc') AND s != 'x'") == [[abc]]
    assert runs("contains(s, 'abc') OR s IS NULL") is None
    assert runs("s IN ('abc', 'x')") is runs("contains(s, 'aébc')") is runs("regexp_like(s, 'a.bcd')") is None
    assert runs("lower(s) = 'abcd'") is None
    many = " AND ".join(f"s IN ({', '.join(repr(f'{a}{n:03d}') for n in range(9))})" for a in "pqr")
    found = runs(many)
    assert found is not None and len(found) <= 64


def test_sets_of_64_bits_are_decoded() -> None:
    one, other = (roaring.encode(np.array(rows)) for rows in ([1, 70_000], [5]))
    data = (2).to_bytes(8, "little") + bytes(4) + one + b"\3\0\0\0" + other
    memory = np.frombuffer(data, np.uint8)
    assert [(upper, rows.tolist()) for upper, rows in decode_row_map(memory)] == [(0, [1, 70_000]), (3, [5])]
    descending = data[:8] + b"\3\0\0\0" + one + bytes(4) + other
    for damaged in (data[:-1], data + b"\0", data[:6], descending, b"\xff" * 8 + data[8:]):
        with pytest.raises(FormatError):
            list(decode_row_map(np.frombuffer(damaged, np.uint8)))
