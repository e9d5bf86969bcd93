"""Build of the Cython kernels: every ``_ext/_x.pyx`` becomes ``lancecy.kernels._x``.

One set of compiler directives for all of them, set here and nowhere else: bounds
checks stay on and C division stays off, because the kernels read strangers' bytes.
``LANCECY_CYTHON_DEBUG=1`` builds with the address and undefined-behaviour sanitizers (``make asan``), ``fuzz``
with the first and coverage (``make fuzz``); both by way of ``tests/fuzz/build.py``.

``LANCECY_WITHOUT_KERNELS=1`` installs the package alone: ``make setup`` builds the kernels in place after that, and
an editable install would compile them once more in a folder of its own.

``LANCECY_CYTHON_CACHE`` is a folder that keeps C files for later builds of the same sources.

Besides, what Spark looks for lies at the top level of an installation (``BuildAutoload``).
"""

import multiprocessing
import os
import sys
from pathlib import Path
from typing import ClassVar

import numpy
from Cython.Build import cythonize
from setuptools import Command, Extension, setup
from setuptools.command.build import build

ROOT = Path(__file__).resolve().parent
JOBS = min(8, os.cpu_count() or 1)
WITHOUT_COMPILING = {"egg_info", "dist_info", "sdist"}
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
    "show_performance_hints": False,
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
    compile_args = ["-g0", "-fstack-protector-strong"]
    # A level of optimisation that whoever builds asks for is the one taken.
    if "-O" not in os.environ.get("CFLAGS", ""):
        compile_args += ["-O3", "-D_FORTIFY_SOURCE=2"]
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

AUTOLOAD = Path("lancecy", "spark", "autoload", "pyspark_lancecy.py")


class BuildAutoload(Command):
    """Puts ``pyspark_lancecy`` beside the package: Spark imports top-level modules whose names begin like that.

    It looks for them in the folders of ``sys.path``. An editable install gets the module's folder there, as the hook
    that setuptools installs for the package lists nothing.
    """

    user_options: ClassVar[list[tuple[str, str | None, str | None]]] = []
    editable_mode = False
    build_lib: str | None

    def initialize_options(self) -> None:
        self.build_lib = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    def run(self) -> None:
        if self.editable_mode:
            wheel = Path(self.get_finalized_command("install").install_lib)
            (wheel / f"__editable__.{AUTOLOAD.stem}.pth").write_text(f"{ROOT / AUTOLOAD.parent}\n")
        else:
            self.mkpath(self.build_lib)
            self.copy_file(str(AUTOLOAD), self.build_lib)

    def get_source_files(self) -> list[str]:
        return [str(AUTOLOAD)]

    def get_outputs(self) -> list[str]:
        return [] if self.editable_mode else [str(Path(self.build_lib or "", AUTOLOAD.name))]

    def get_output_mapping(self) -> dict[str, str]:
        return dict.fromkeys(self.get_outputs(), str(AUTOLOAD))


build.sub_commands = [*build.sub_commands, ("build_autoload", None)]


def kernels() -> list[Extension]:
    """The extensions as the command needs them: one that does not compile needs no C files."""
    if os.environ.get("LANCECY_WITHOUT_KERNELS") == "1":
        return []
    if WITHOUT_COMPILING.intersection(sys.argv):
        return extensions
    translated: list[Extension] = cythonize(
        extensions,
        compiler_directives=DIRECTIVES,
        include_path=["_ext"],
        build_dir="build/cython",
        cache=os.environ.get("LANCECY_CYTHON_CACHE") or False,
        quiet="--quiet" in sys.argv,
        # Where processes are not forked each of them would run this file again.
        nthreads=JOBS if multiprocessing.get_start_method() == "fork" else 0,
    )
    return translated


setup(
    cmdclass={"build_autoload": BuildAutoload},
    ext_modules=kernels(),
    options={"build_ext": {"parallel": JOBS}},
)
