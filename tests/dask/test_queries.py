"""Random queries of a scan have the answers that pandas has on the same rows.

``make hunt-dask`` asks many more: LANCECY_DASK_QUERIES of them, from LANCECY_DASK_SEED on.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from distributed import Client

import lancecy
from lancecy.dask.dtypes import to_frame
from tests.dask.queries import Case, canonical, outcome
from tests.helpers.s3 import S3Server

QUERIES = int(os.environ.get("LANCECY_DASK_QUERIES", "18"))
SEED = int(os.environ.get("LANCECY_DASK_SEED", "1"))


class Refused(Exception):
    """pandas has no answer to a query either."""


class RefusedByDask(Exception):
    """Dask has no answer to a query of the same partitions in memory either."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    # pandas and Dask on types that differ and divisions that are unknown
    with warnings.catch_warnings(), dask.config.set(scheduler="sync"):
        warnings.simplefilter("ignore")
        yield


def _computed(answer: Any) -> Any:
    return answer.compute() if hasattr(answer, "compute") else answer


def _check(case: Case, place: str, compute: Callable[[Any], Any] = _computed, **options: Any) -> None:
    """Fail unless the query's answer is that of pandas, where pandas has one."""
    case.write(place, **options)
    ddf = lancecy.scan(place, **case.scan, **options, embed_credentials=bool(options))
    expected = outcome(lambda: canonical(case.answer(case.expected())))
    found = outcome(lambda: canonical(compute(case.answer(ddf))))
    if isinstance(expected, Exception):
        raise Refused(expected)
    if isinstance(found, Exception):
        parts = [part.compute() for part in ddf.to_delayed()]
        plain = dd.from_map(_itself, parts, meta=ddf._meta, divisions=ddf.divisions)
        without_lancecy = outcome(lambda: canonical(compute(case.answer(plain))))
        if type(without_lancecy) is type(found):
            raise RefusedByDask(found)
        pytest.fail(f"{type(found).__name__}: {found}")
    assert found == expected


def _itself(part: pd.DataFrame) -> pd.DataFrame:
    return part


def _each(check: Callable[[Case, str], None], indices: range, folder: str) -> None:
    """Check cases one after the other, and fail with all that differ."""
    refused, by_dask, failed = 0, 0, []
    for index in indices:
        case = Case(SEED, index)
        try:
            check(case, f"{folder}/{SEED}-{index}.lance")
        except Refused:
            refused += 1
        except RefusedByDask:
            by_dask += 1
        except (Exception, pytest.fail.Exception) as error:  # any: what is looked for is not known
            failed.append(f"{case}: {type(error).__name__}: {error}"[:2000])
            print(failed[-1], flush=True)
    print(
        f"seed {SEED}: {len(indices)} queries, {refused} that pandas refuses, {by_dask} that Dask refuses of the "
        f"same rows in memory too, {len(failed)} that differ",
        flush=True,
    )
    assert not failed, "\n\n".join(failed)
    assert refused + by_dask <= len(indices) // 3


@pytest.mark.slow
def test_random_queries_have_the_answers_of_pandas(tmp_path: Path) -> None:
    _each(_check, range(QUERIES), str(tmp_path))


def test_random_queries_of_tables_in_memory_have_the_answers_of_pandas() -> None:
    with dask.config.set(scheduler="threads"):
        _each(_check, range(QUERIES, QUERIES + QUERIES // 3), f"memory://queries-{SEED}")


@pytest.mark.s3
def test_random_queries_of_tables_on_s3_have_the_answers_of_pandas(s3_server: S3Server) -> None:
    def check(case: Case, place: str) -> None:
        _check(case, place, storage_options=s3_server.storage_options)

    _each(check, range(QUERIES, QUERIES + QUERIES // 6), s3_server.make_bucket("queries"))


@pytest.mark.slow
def test_random_queries_on_a_cluster_have_the_answers_of_pandas(client: Client, tmp_path: Path) -> None:
    def compute(answer: Any) -> Any:
        return client.compute(answer).result(timeout=270) if hasattr(answer, "dask") else answer

    def check(case: Case, place: str) -> None:
        with dask.config.set({"scheduler": client.get}):
            _check(case, place, compute)

    _each(check, range(2 * QUERIES, 2 * QUERIES + QUERIES // 4), str(tmp_path))


def _written(case: Case, place: str) -> None:
    """Fail unless the rows that a query works on are written, added and put in place of others as they are."""
    case.write(place)
    rows = case.rows(lancecy.scan(place, **case.scan))
    expected = outcome(lambda: case.rows(case.expected()))
    if isinstance(expected, Exception):
        raise Refused(expected)
    modes: tuple[tuple[Literal["create", "append", "overwrite"], int], ...]
    modes = (("create", 1), ("append", 2), ("overwrite", 1))
    for mode, times in modes:
        ds = lancecy.write_dask(rows, f"{place}-answer", mode=mode, data_storage_version="2.1")
        found = canonical(to_frame(ds.to_table()))
        assert found == canonical(pd.concat([expected] * times)), mode
    if case.table.num_rows == len(expected):
        added = lancecy.write_dask(lancecy.scan(place), place, mode="append")
        assert added.schema == lancecy.dataset(place, version=1).schema
        assert added.count_rows() == 2 * len(expected)


@pytest.mark.slow
def test_rows_of_random_queries_are_written_as_they_are(tmp_path: Path) -> None:
    _each(_written, range(3 * QUERIES, 3 * QUERIES + QUERIES // 3), str(tmp_path))


@pytest.mark.interop
def test_pylance_reads_what_random_queries_wrote(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")

    def check(case: Case, place: str) -> None:
        _written(case, place)
        theirs = lance.dataset(f"{place}-answer").to_table()
        assert canonical(to_frame(theirs)) == canonical(
            to_frame(lancecy.dataset(f"{place}-answer").to_table())
        )

    _each(check, range(4 * QUERIES, 4 * QUERIES + QUERIES // 6), str(tmp_path))
