"""Sizes of files and times of writes and reads: lancecy and pylance, by kind of data and version of the files.

    python bench/compare_sizes.py [--rows N] [--versions 2.1,2.2] [--kinds text,urls] [--repeat R] [--markdown]

Every kind is a table of one column that looks like data people keep. In each turn every library writes it and reads all
of its own table back, one after the other; the first turn is not counted. The figures are medians. ``size`` and
``write`` are lancecy's bytes and pylance's time divided by those of the other library, so a size below 1 and a time above 1 are
good for lancecy.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from compare import machine, show

Random: TypeAlias = np.random.Generator
Make: TypeAlias = Callable[[Random, int], pa.Array]

_ONSETS = "b c d f g h l m n p r s t v w st tr ch sh pl".split()
_VOWELS = "a e i o u ea ou ai".split()
_CODAS = ["", "", "n", "r", "s", "t", "l", "ng", "st", "ck"]


def _words(random: Random, count: int) -> np.ndarray[Any, Any]:
    """Invented words of one to three syllables."""
    parts = [
        np.array(choices)[random.integers(0, len(choices), 3 * count)]
        for choices in (_ONSETS, _VOWELS, _CODAS)
    ]
    syllables = np.char.add(np.char.add(parts[0], parts[1]), parts[2]).reshape(3, count)
    long = np.char.add(syllables[0], syllables[1])
    longer = np.char.add(long, syllables[2])
    return np.choose(random.integers(0, 3, count), [syllables[0], long, longer])


def _text_of(random: Random, num_rows: int, fewest: int, most: int) -> list[str]:
    """Sentences of words whose frequency falls with their rank, as in natural languages."""
    words = _words(random, 8000)
    counts = random.integers(fewest, most + 1, num_rows)
    ranks = np.minimum(random.zipf(1.25, int(counts.sum())) - 1, words.size - 1)
    drawn = words[ranks].tolist()
    ends = np.cumsum(counts).tolist()
    return [
        " ".join(drawn[end - n : end]).capitalize() + "."
        for end, n in zip(ends, counts.tolist(), strict=True)
    ]


def text(random: Random, num_rows: int) -> pa.Array:
    return pa.array(_text_of(random, num_rows, 4, 14))


def long_text(random: Random, num_rows: int) -> pa.Array:
    return pa.array(_text_of(random, num_rows // 8, 40, 160))


def names(random: Random, num_rows: int) -> pa.Array:
    first, last = (_words(random, count)[random.integers(0, count, num_rows)] for count in (300, 4000))
    return pa.array([f"{a.title()} {b.title()}" for a, b in zip(first.tolist(), last.tolist(), strict=True)])


def categories(random: Random, num_rows: int) -> pa.Array:
    kinds = np.array([f"category/{word}" for word in _words(random, 40).tolist()])
    return pa.array(kinds[np.minimum(random.zipf(1.5, num_rows) - 1, 39)])


def sorted_categories(random: Random, num_rows: int) -> pa.Array:
    return categories(random, num_rows).sort()


def urls(random: Random, num_rows: int) -> pa.Array:
    hosts, paths = _words(random, 60).tolist(), _words(random, 900).tolist()
    draws = zip(
        random.integers(0, 60, num_rows).tolist(),
        random.integers(0, 900, (num_rows, 2)).tolist(),
        random.integers(0, 10**7, num_rows).tolist(),
        strict=True,
    )
    return pa.array([f"https://www.{hosts[h]}.com/{paths[p]}/{paths[q]}?id={n}" for h, (p, q), n in draws])


def uuids(random: Random, num_rows: int) -> pa.Array:
    digits = random.bytes(16 * num_rows).hex()
    rows = (digits[32 * n : 32 * n + 32] for n in range(num_rows))
    return pa.array([f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:]}" for d in rows])


def documents(random: Random, num_rows: int) -> pa.Array:
    """Events as JSON texts."""
    places, titles = _words(random, 200).tolist(), _text_of(random, num_rows, 2, 5)
    numbers = zip(
        random.integers(0, 10**6, num_rows).tolist(), random.integers(0, 200, num_rows).tolist(), strict=True
    )
    prices = (random.random(num_rows) * 100).round(2).tolist()
    rows = zip(numbers, titles, prices, strict=True)
    return pa.array(
        [f'{{"user_id": {n}, "city": "{places[p]}", "title": "{t}", "price": {c}}}' for (n, p), t, c in rows]
    )


def booleans(random: Random, num_rows: int) -> pa.Array:
    return pa.array(random.random(num_rows) < 0.3)


def small_integers(random: Random, num_rows: int) -> pa.Array:
    return pa.array(random.integers(0, 100, num_rows))


def nullable_integers(random: Random, num_rows: int) -> pa.Array:
    return pa.array(random.integers(0, 1000, num_rows, np.int32), mask=random.random(num_rows) < 0.1)


def rare_nulls(random: Random, num_rows: int) -> pa.Array:
    return pa.array(random.integers(0, 8, num_rows, np.int8), mask=random.random(num_rows) < 0.001)


def signed_integers(random: Random, num_rows: int) -> pa.Array:
    return pa.array(random.integers(-500, 500, num_rows))


def sorted_keys(random: Random, num_rows: int) -> pa.Array:
    return pa.array(np.cumsum(random.integers(1, 20, num_rows)))


def repeated_keys(random: Random, num_rows: int) -> pa.Array:
    """Keys of orders: each line of an order has its key."""
    return pa.array(
        np.repeat(np.arange(10**6, 10**6 + num_rows), random.integers(1, 12, num_rows))[:num_rows]
    )


def timestamps(_random: Random, num_rows: int) -> pa.Array:
    return pa.array(1_700_000_000_000_000 + np.arange(num_rows) * 1_000_000, pa.timestamp("us", "UTC"))


def jittered_timestamps(random: Random, num_rows: int) -> pa.Array:
    jitter = random.integers(0, 900_000, num_rows)
    return pa.array(1_700_000_000_000_000 + np.arange(num_rows) * 1_000_000 + jitter, pa.timestamp("us"))


def dates(random: Random, num_rows: int) -> pa.Array:
    return pa.array(np.sort(random.integers(18_000, 20_000, num_rows, np.int32)), pa.date32())


def prices(random: Random, num_rows: int) -> pa.Array:
    return pa.array((random.gamma(2, 9, num_rows)).round(2))


def few_prices(random: Random, num_rows: int) -> pa.Array:
    return pa.array(random.integers(1, 200, num_rows) - 0.01)


def sensors(random: Random, num_rows: int) -> pa.Array:
    wave = 20 + 5 * np.sin(np.arange(num_rows) / 700)
    return pa.array((wave + random.standard_normal(num_rows) * 0.1).astype(np.float32))


def measurements(random: Random, num_rows: int) -> pa.Array:
    return pa.array(random.standard_normal(num_rows))


def money(random: Random, num_rows: int) -> pa.Array:
    return pa.array(random.integers(1, 300, num_rows)).cast(pa.decimal128(19)).cast(pa.decimal128(21, 2))


def _lists(random: Random, make: Make, num_rows: int, mean: int = 4) -> pa.Array:
    counts = random.poisson(mean, num_rows)
    items = make(random, int(counts.sum()))
    # Some makers make fewer values than they are asked for.
    offsets = np.minimum(np.concatenate(([0], np.cumsum(counts))), len(items)).astype(np.int32)
    mask = pa.array(random.random(num_rows) < 0.05)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=mask)


def lists_of_integers(random: Random, num_rows: int) -> pa.Array:
    return _lists(random, small_integers, num_rows // 4)


def lists_of_tags(random: Random, num_rows: int) -> pa.Array:
    return _lists(random, categories, num_rows // 4)


def lists_of_texts(random: Random, num_rows: int) -> pa.Array:
    return _lists(random, text, num_rows // 4)


def lists_of_lists(random: Random, num_rows: int) -> pa.Array:
    return _lists(random, lambda other, count: _lists(other, small_integers, count), num_rows // 16)


def structs(random: Random, num_rows: int) -> pa.Array:
    members = {"key": sorted_keys, "kind": categories, "price": prices, "title": text}
    return pa.StructArray.from_arrays([make(random, num_rows) for make in members.values()], list(members))


def pictures(random: Random, num_rows: int) -> pa.Array:
    """Bytes of 40 KB, half of them compressible."""
    return pa.array(
        [random.bytes(20_000) + bytes(20_000) for _ in range(max(1, num_rows // 1000))], pa.binary()
    )


KINDS: dict[str, Make] = {
    make.__name__: make
    for make in (
        *(text, long_text, names, categories, sorted_categories, urls, uuids, documents, booleans),
        *(small_integers, nullable_integers, rare_nulls, signed_integers, sorted_keys, repeated_keys),
        *(timestamps, jittered_timestamps, dates, prices, few_prices, sensors, measurements, money),
        *(lists_of_integers, lists_of_tags, lists_of_texts, lists_of_lists, structs, pictures),
    )
}


def _lancecy(data: pa.Table, path: str, version: str) -> tuple[float, float]:
    import lancecy

    started = time.perf_counter()
    lancecy.write_dataset(data, path, data_storage_version=version, durability="none")
    written = time.perf_counter()
    lancecy.dataset(path).to_table()
    return written - started, time.perf_counter() - written


def _pylance(data: pa.Table, path: str, version: Any) -> tuple[float, float]:
    import lance

    started = time.perf_counter()
    lance.write_dataset(data, path, data_storage_version=version)
    written = time.perf_counter()
    lance.dataset(path).to_table()
    return written - started, time.perf_counter() - written


ENGINES: dict[str, Callable[[pa.Table, str, str], tuple[float, float]]] = {
    "lancecy": _lancecy,
    "pylance": _pylance,
}


def measure(data: pa.Table, version: str, folder: Path, repeat: int) -> dict[str, tuple[float, float, int]]:
    """Median seconds to write and to read, and bytes of the data files, of each engine."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ENGINES}
    sizes: dict[str, int] = {}
    for turn in range(repeat + 1):
        for name, run in ENGINES.items():
            with tempfile.TemporaryDirectory(dir=folder) as place:
                found = run(data, f"{place}/t.lance", version)
                sizes[name] = sum(
                    file.stat().st_size for file in Path(place).rglob("*.lance") if file.is_file()
                )
            if turn:
                taken[name].append(found)
    medians = {
        name: [statistics.median(column) for column in zip(*each, strict=True)]
        for name, each in taken.items()
    }
    return {name: (write, read, sizes[name]) for name, (write, read) in medians.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000, help="rows of each table; fewer of long ones")
    parser.add_argument("--repeat", type=int, default=5, help="number of counted turns")
    parser.add_argument(
        "--versions", default="2.1,2.2", help="versions of the data files, separated by commas"
    )
    parser.add_argument("--kinds", default=",".join(KINDS), help="names separated by commas")
    parser.add_argument("--data", type=Path, help="where to write; by default a temporary folder")
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=chosen.data))
    print(f"{chosen.rows:,} rows; medians of {chosen.repeat} turns; {machine()}\n")
    heading = ["kind", "version", "KB", "size", "write ms", "write", "read ms", "read"]
    show(heading, chosen.markdown)
    if chosen.markdown:
        show(["---", *["---:"] * (len(heading) - 1)], True)
    try:
        for kind in chosen.kinds.split(","):
            data = pa.table({kind: KINDS[kind](np.random.default_rng(5), chosen.rows)})
            for version in chosen.versions.split(","):
                found = measure(data, version, folder, chosen.repeat)
                (write, read, size), (other_write, other_read, other_size) = (
                    found["lancecy"],
                    found["pylance"],
                )
                cells = [f"{size / 1e3:.0f}", f"{size / other_size:.2f}"]
                cells += [
                    f"{write * 1e3:.1f}",
                    f"{other_write / write:.2f}",
                    f"{read * 1e3:.1f}",
                    f"{other_read / read:.2f}",
                ]
                show([kind, version, *cells], chosen.markdown)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
