"""Build of the Cython kernels: every ``_ext/_x.pyx`` becomes ``lancecy.kernels._x``.

One set of compiler directives for all of them, set here and nowhere else: bounds
checks stay on and C division stays off, because the kernels read strangers' bytes.
``LANCECY_CYTHON_DEBUG=1`` builds with the address and undefined-behaviour sanitizers (``make asan``), ``fuzz``
with the first and coverage (``make fuzz``); both by way of ``tests/fuzz/build.py``.
"""

import os
import sys
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent
# Paths are relative, so that neither the C files nor the kernels say where they were made.
os.chdir(ROOT)
HEADERS = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "_ext").glob("*.pxd"))
PROTOS = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "protos").glob("*.proto"))

DIRECTIVES = {
    "language_level": "3",
    "boundscheck": True,
    "wraparound": False,
    "cdivision": False,
    "initializedcheck": False,
    "embedsignature": True,
}

if os.environ.get("LANCECY_CYTHON_DEBUG") == "1":
    compile_args = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"]
    compile_args += ["-fno-sanitize-recover=undefined"]
    link_args = ["-fsanitize=address,undefined"]
elif os.environ.get("LANCECY_CYTHON_DEBUG") == "fuzz":
    # What these call comes with the fuzzer at run time, so nothing of the sanitizer is linked.
    compile_args = [
        "-O1",
        "-g",
        "-fno-omit-frame-pointer",
        "-fsanitize=address",
        "-fsanitize-coverage=trace-pc",
    ]
    compile_args += ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    link_args = [os.environ["LANCECY_FUZZ_SHIM"]]
elif sys.platform == "win32":
    compile_args, link_args = ["/O2"], []
else:
    compile_args = ["-O3", "-g0", "-fstack-protector-strong", "-D_FORTIFY_SOURCE=2"]
    link_args = ["-Wl,-z,relro,-z,now"] if sys.platform.startswith("linux") else []

extensions = [
    Extension(
        f"lancecy.kernels.{source.stem}",
        [str(source.relative_to(ROOT))],
        include_dirs=[numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        # Listing the sources here is what puts them into the sdist (no MANIFEST.in needed).
        depends=[str(source.relative_to(ROOT)), *HEADERS, *PROTOS],
    )
    for source in sorted((ROOT / "_ext").glob("_*.pyx"))
]

setup(
    ext_modules=cythonize(
        extensions,
        compiler_directives=DIRECTIVES,
        include_path=["_ext"],
        build_dir="build/cython",
        nthreads=0,
    ),
    options={"build_ext": {"parallel": min(8, os.cpu_count() or 1)}},
)
