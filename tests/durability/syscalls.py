"""What a local store asks of the system, one call at a time: to count, to fail, to die at, to record."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

__all__ = ["Call", "Hook", "watched"]

Call = Callable[[], Any]
Hook = Callable[[str, tuple[Any, ...], dict[str, Any], Call], Any]
"""(name, arguments, named arguments, what makes the call) -> its answer."""

_NAMES = ("open", "write", "fsync", "link", "rename", "unlink", "mkdir", "close")


@contextmanager
def watched(hook: Hook, *, closes: bool = False) -> Iterator[None]:
    """Pass every call that changes files through a hook, in this process."""
    with ExitStack() as patches:
        for name in _NAMES if closes else _NAMES[:-1]:
            patches.enter_context(patch.object(os, name, _passed(hook, name, getattr(os, name))))
        yield


def _passed(hook: Hook, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if name == "open" and not args[1] & os.O_CREAT:
            return real(*args, **kwargs)
        return hook(name, args, kwargs, lambda: real(*args, **kwargs))

    return call
