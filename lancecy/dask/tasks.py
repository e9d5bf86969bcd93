"""Runs tasks of a change on the workers of Dask."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from lancecy.changes.shared_tasks import SharedTasks

__all__ = ["results"]


def results(
    label: str, compute_kwargs: Mapping[str, Any] | None, tasks: SharedTasks, wanted: Sequence[int]
) -> tuple[str, ...]:
    """Results of tasks (``shared_tasks.Engine``, after the first two arguments).

    Parameters
    ----------
    label : str
        Begins the names of Dask's tasks.
    compute_kwargs : mapping, optional
        Arguments of ``dask.compute``.
    tasks : SharedTasks
    wanted : sequence of int
        Numbers of tasks.
    """
    from dask.base import compute
    from dask.delayed import delayed

    # A name of its own, since tasks that are run again may find another table.
    name = f"lancecy-{label}-{secrets.token_hex(8)}"
    # One object that all tasks share, so that it is sent once.
    shared = delayed(tasks, name=f"{name}-shared", traverse=False)
    made = [delayed(_run)(shared, number, dask_key_name=(name, number)) for number in wanted]
    found: tuple[str, ...] = compute(*made, **(compute_kwargs or {}))
    return found


def _run(tasks: SharedTasks, number: int) -> str:
    return tasks.run(number)
