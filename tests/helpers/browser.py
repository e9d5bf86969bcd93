"""A headless Chromium of the system's packages, driven by Playwright."""

from __future__ import annotations

import functools
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.meta.tree import ROOT

__all__ = ["TIMEOUT_MS", "chromium", "running_browser"]

TIMEOUT_MS = 60_000
"""How long conditions of a page are waited for."""
# Root has no sandbox, and containers have a small /dev/shm.
_ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
_TRIES = 4


@functools.cache
def chromium() -> Path:
    """The program; it is installed if it is missing and the system lets us.

    Raises
    ------
    RuntimeError
        There is none, and it cannot be installed; the message says why.
    """
    given = os.environ.get("LANCECY_CHROMIUM")
    if given:
        return Path(given)
    done = subprocess.run(
        [str(ROOT / ".ci" / "setup"), "chromium"], capture_output=True, text=True, timeout=280, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Path(done.stdout.strip())


@contextmanager
def running_browser() -> Iterator[Any]:
    """A browser until the block ends; a start that fails is tried again."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as engine:
        for attempt in range(_TRIES):
            try:
                browser = engine.chromium.launch(
                    executable_path=str(chromium()), args=_ARGUMENTS, timeout=TIMEOUT_MS
                )
                break
            except Error:
                if attempt == _TRIES - 1:
                    raise
                time.sleep(1)
        try:
            yield browser
        finally:
            browser.close()
