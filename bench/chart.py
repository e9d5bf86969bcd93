"""The chart of the README: times of lancecy, pylance and memory-mapped Arrow IPC for each kind of work.

usage: python bench/chart.py FIGURES.json OUT.svg

``bench/compare.py --json`` writes the numbers. A bar is the median time of one engine, on a logarithmic axis; the
number beside a group is pylance's time divided by lancecy's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

WORKS = {
    "scan-all": "scan every column",
    "scan-fixed": "scan 4 number columns",
    "scan-string": "scan the text column",
    "filter-sorted": "filter, 0.1 % of rows",
    "filter-random": "filter, 1 % of rows",
    "filter-string": "filter, text equality",
    "take": "take 1,000 random rows",
    "vector-scan": "scan 600 MB of vectors",
    "vector-take": "take 1,000 vectors",
}
COLOURS = {"lancecy": "#1f6feb", "pylance": "#d29922", "ipc": "#8b949e"}
NAMES = {"lancecy": "lancecy", "pylance": "pylance", "ipc": "Arrow IPC, memory-mapped"}


def draw(figures: dict[str, Any], out: Path) -> None:
    """Write the chart.

    Parameters
    ----------
    figures : dict
        By version of data files: ``{"machine": str, "medians": {work: {engine: ms}}}``.
    out : Path
        An SVG file.
    """
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "lancecy", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    versions = [version for version in ("0.1", "2.0", "2.1", "2.2") if version in figures]
    figure, axes = plt.subplots(
        1, len(versions), figsize=(3.1 * len(versions), 4.4), sharey=True, sharex=True
    )
    for axis, version in zip(axes, versions, strict=True):
        medians = figures[version]["medians"]
        for place, work in enumerate(WORKS):
            for number, engine in enumerate(COLOURS):
                ms = medians[work][engine]
                axis.barh(place + (number - 1) * 0.27, ms, height=0.25, color=COLOURS[engine])
            faster = medians[work]["pylance"] / medians[work]["lancecy"]
            axis.text(1.15 * max(medians[work].values()), place, f"{faster:.1f}x", va="center", fontsize=7)
        axis.set_title(f"files of version {version}", fontsize=9)
        axis.set_xscale("log")
        axis.set_xlim(0.5, 6000)
        axis.tick_params(labelsize=8)
        axis.grid(axis="x", alpha=0.3)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        axis.set_xlabel("milliseconds, less is better", fontsize=8)
    axes[0].set_yticks(range(len(WORKS)), list(WORKS.values()))
    axes[0].invert_yaxis()
    handles = [Patch(color=colour) for colour in COLOURS.values()]
    figure.legend(handles, NAMES.values(), loc="upper center", ncol=3, fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    figure.savefig(out, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
