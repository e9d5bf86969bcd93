"""One target under libFuzzer: ``python -m tests.fuzz.run TARGET [libFuzzer options]``.

Started by ``all`` with the right environment; options are libFuzzer's, for example ``-runs=1000000 -max_total_time=60``.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import atheris

from tests.fuzz.build import tree

__all__ = ["main"]

PARSING = [
    "lancecy.encodings.codecs.fsst",
    "lancecy.encodings.codecs.general",
    "lancecy.encodings.v20.wire",
    "lancecy.encodings.v21.wire.nodes",
    "lancecy.encodings.v21.wire.decode",
    "lancecy.encodings.v21.wire.planar",
    "lancecy.expr",
    "lancecy.file",
    "lancecy.schema",
    "lancecy.schema_wire",
    "lancecy.table",
]


def main() -> None:
    """Fuzz until the options say stop, or something is found."""
    warnings.simplefilter("ignore")
    # Parsers are Python: the branches of these modules are counted beside those of the kernels.
    parsing = PARSING if "LANCECY_COVERED" not in os.environ else ["nothing"]
    with atheris.instrument_imports(include=parsing):
        from lancecy.kernels import _bits
        from tests.fuzz.targets import TARGETS

    if not Path(_bits.__file__).is_relative_to(tree("fuzz")):
        sys.exit(f"{_bits.__file__} is not instrumented")
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
