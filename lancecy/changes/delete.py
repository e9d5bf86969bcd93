"""Deletes the rows that match a predicate, as offsets within their fragments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from lancecy.changes.base import Change
from lancecy.changes.options import CommitRequest, Durability, is_durable
from lancecy.expr import Expr, describe, time_now
from lancecy.expr.build import Filter
from lancecy.keyword_options import checked_arguments
from lancecy.scanning.context import ScanContext
from lancecy.scanning.filtering import all_passing, spread_candidates
from lancecy.scanning.plan import plan
from lancecy.scanning.request import ScanRequest, at_instant
from lancecy.scanning.sources import concerned
from lancecy.scanning.task import ScanSpec
from lancecy.scanning.units import CandidateUnit
from lancecy.table.operations import Delete

__all__ = ["Deletes", "delete_of", "matching_rows"]

# The rows of a unit are tested at once, so this bounds the memory for a large fragment.
_UNIT_BYTES = 32 << 20


def delete_of(
    context: ScanContext,
    predicate: Filter,
    instant: int | None = None,
    fragments: Sequence[int] | None = None,
) -> tuple[Delete, int]:
    """The operation that deletes the live rows matching a predicate, and their number.

    Parameters
    ----------
    context : ScanContext
    predicate : str, pyarrow.compute.Expression or Expr
        Rows for which it is false or null stay.
    instant : int, optional
        The time for ``now()`` and the like, from :func:`lancecy.expr.time_now`, which is the default.
    fragments : sequence of int, optional
        Search only these.

    Raises
    ------
    ExpressionError, ColumnNotFoundError
        The predicate does not fit the schema.
    TypeError
        The predicate is None.
    FormatError, StoreError
        The columns of the predicate cannot be read.

    Examples
    --------
    >>> import lancecy
    >>> operation, count = delete_of(lancecy.dataset("example.lance").context, "id < 10")
    >>> count, operation.rows[0].tolist()
    (10, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    if predicate is None:
        raise TypeError("a delete needs a predicate; 'true' deletes every row")
    schema = context.snapshot.schema.arrow
    _, condition = at_instant(None, predicate, schema, time_now() if instant is None else instant)
    chosen = None if fragments is None else tuple(fragments)
    gone = matching_rows(context, ScanRequest(columns=(), filter=condition, fragments=chosen))
    whole = [
        number for number, rows in gone.items() if rows.size == context.live_rows(context.metadata(number))
    ]
    count = sum(rows.size for rows in gone.values())
    kept = {number: rows for number, rows in gone.items() if number not in set(whole)}
    text = describe(predicate) if isinstance(predicate, Expr) else str(predicate)
    return Delete(kept, removed=tuple(whole), predicate=text), count


def matching_rows(context: ScanContext, request: ScanRequest) -> dict[int, NDArray[np.int64]]:
    """The live rows that pass the filter of a request: row offsets by fragment, for fragments that have any.

    Parameters
    ----------
    context : ScanContext
    request : ScanRequest
        Its columns are not read.

    Returns
    -------
    mapping of fragment id to (n,) int64, ascending

    Raises
    ------
    ExpressionError, ColumnNotFoundError
        The filter does not fit the schema.
    FormatError, StoreError
        The columns of the filter cannot be read.

    Examples
    --------
    >>> import lancecy
    >>> request = ScanRequest(columns=(), filter=(lancecy.col("id") < 3).expr)
    >>> {n: rows.tolist() for n, rows in matching_rows(lancecy.dataset("example.lance").context, request).items()}
    {0: [0, 1, 2]}
    """
    snapshot = context.snapshot
    planned = plan(
        context, request, ScanSpec(snapshot.location, snapshot.version, request), _UNIT_BYTES, exact=None
    )

    sources = concerned(context.sources, snapshot, planned.projection)

    def rows_of(units: Sequence[CandidateUnit]) -> list[tuple[int, NDArray[np.int64]]]:
        passed = all_passing(context, units)
        return [(c.files.fragment.id, f.picked.to_indices()) for c, f in zip(units, passed, strict=True)]

    parts: dict[int, list[NDArray[np.int64]]] = defaultdict(list)
    for number, rows in spread_candidates(context, planned.units, planned.projection, sources, rows_of):
        if rows.size:
            parts[number].append(rows)
    return {number: np.sort(np.concatenate(pieces)) for number, pieces in parts.items()}


class Deletes(Change):
    """The dataset methods that delete rows."""

    @checked_arguments()
    def delete(
        self,
        predicate: Filter,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        durability: Durability = "fsync",
    ) -> dict[str, int]:
        """Delete the rows for which a predicate is true. Data files stay unchanged, and indices stay valid.

        Parameters
        ----------
        predicate : str, pyarrow.compute.Expression or lancecy.Expr
            "true" deletes every row.
        conflict_retries : int
            Maximum number of new searches, in the newest version, after another writer changed the rows.
        retry_timeout : timedelta
            After this no new attempt is made.
        durability : "fsync" or "none"
            Whether the delete waits until files are on disk; on local disks only.

        Returns
        -------
        dict
            ``{"num_deleted_rows": int}``; no version is made for 0.

        Raises
        ------
        RetryableConflictError
            Every attempt lost to another writer.
        CommitError
            See :func:`lancecy.commit`.
        ExpressionError, ColumnNotFoundError
            The predicate does not fit the schema.
        """
        # Taken once, so that attempts after a conflict search for the same rows.
        instant, options = time_now(), CommitRequest(durable=is_durable(durability))

        def attempt() -> int:
            self._check_writable()
            operation, count = delete_of(self.context, predicate, instant)
            if count:
                self._change(operation, options=options)
            return count

        return {"num_deleted_rows": self._retried(attempt, conflict_retries, retry_timeout, reads_again=True)}

    def truncate_table(self) -> None:
        """Delete every row, in one version. Columns, configuration, indices and older versions stay.

        A table without rows gets no new version.

        Raises
        ------
        LanceError
            As for :meth:`delete`.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"a": [1, 2, 3]}, "memory://truncated")
        >>> ds.truncate_table()
        >>> ds.count_rows(), ds.schema.names, ds.version
        (0, ['a'], 2)
        """
        self.delete("true")
