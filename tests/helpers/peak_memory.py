"""The memory that work on a table takes, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

__all__ = ["peak_memory"]

_SCRIPT = """
import sys, threading
import lancecy

def held():
    # Not the peak of all memory: pages of mapped files count there, though the system may take them back.
    line = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024

peak, is_done = [0], threading.Event()

def watch():
    while not is_done.wait(0.005):
        peak[0] = max(peak[0], held())

ds = lancecy.dataset(sys.argv[1])
before = held()
threading.Thread(target=watch, daemon=True).start()
{work}
is_done.set()
print(peak[0] - before)
"""


def peak_memory(uri: str, work: str, *arguments: object) -> int:
    """Bytes that statements about the open table ``ds`` take at most; ``arguments`` are ``sys.argv[2:]``."""
    script = _SCRIPT.format(work=work)
    command = [sys.executable, "-c", script, uri, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
