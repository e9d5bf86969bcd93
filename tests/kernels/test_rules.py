"""Rules for the Cython sources, checked on their text."""

from __future__ import annotations

import re
from pathlib import Path

import lancecy.kernels
from tests.helpers.folded import folded

SOURCES = sorted((Path(lancecy.kernels.__file__).parents[2] / "_ext").glob("*.p[yx][xd]"))
MODULES = [source for source in SOURCES if source.suffix == ".pyx"]
HEADERS = {source.stem for source in SOURCES if source.suffix == ".pxd"}
MAX_MODULE_LINES = 380
MAX_CODE_LINES = 45

each_source = folded("source", SOURCES, ids=lambda source: source.name)
each_module = folded("source", MODULES, ids=lambda source: source.name)


def without_docstrings(text: str) -> str:
    """The source with docstrings and verbatim C blanked out, line numbers kept."""
    return re.sub(r'""".*?"""', lambda match: "\n" * match.group().count("\n"), text, flags=re.DOTALL)


def code_lines(source: Path) -> list[str]:
    """Lines of code, comments cut off."""
    return [line.partition("#")[0].rstrip() for line in without_docstrings(source.read_text()).splitlines()]


def functions(source: Path) -> dict[str, str]:
    """Text of each top-level function by its first line, comments included, docstrings not."""
    pieces = re.split(r"^(?=(?:cdef|def|cpdef) )", without_docstrings(source.read_text()), flags=re.MULTILINE)
    return {piece.splitlines()[0]: piece for piece in pieces[1:] if "(" in piece.splitlines()[0]}


def offenders(source: Path, pattern: str) -> list[str]:
    return [line for line in code_lines(source) if re.search(pattern, line)]


def test_there_are_sources_to_check() -> None:
    assert {"cursor.pxd", "_spans.pyx", "_bits.pyx", "_varwidth.pyx", "_dictionary.pyx", "_stats.pyx"} <= {
        source.name for source in SOURCES
    }


@each_source
def test_checks_are_turned_off_only_with_a_reason(source: Path) -> None:
    text = source.read_text().splitlines()
    for number, line in enumerate(text):
        if re.search(r"boundscheck\s*[=(]\s*False|cdivision\s*[=(]\s*True|wraparound", line):
            assert "# bounds:" in line or "# bounds:" in text[number - 1], (
                f"{source.name}:{number + 1}: {line}"
            )


@each_source
def test_functions_that_follow_raw_pointers_say_why_they_stay_inside(source: Path) -> None:
    for first_line, text in functions(source).items():
        signature = text.partition(":\n")[0]
        if re.search(r"\w \*\w", signature) and re.search(r"\w\[\w|\.memory \+|load\d\d\(", text):
            assert "bounds:" in text, first_line


@each_source
def test_guards_are_not_asserts(source: Path) -> None:
    assert offenders(source, r"\bassert\b") == []


@each_source
def test_sizes_are_not_plain_ints(source: Path) -> None:
    plain = r"(?<!\w)(?:unsigned |signed )?(?:int|long|short|char)(?: \*?\w|\[|\)|>)"
    assert offenders(source, plain) == []


@each_source
def test_only_helpers_without_input_ignore_exceptions(source: Path) -> None:
    found = offenders(source, r"\bnoexcept\b")
    assert source.name == "cursor.pxd" or found == []
    assert all(re.match(r"cdef inline \w+ (has|ones64|pack64)\(", line) for line in found)


@each_source
def test_every_inner_function_has_an_error_value(source: Path) -> None:
    for first_line, text in functions(source).items():
        signature = text.partition(":\n")[0]
        if first_line.startswith("cdef") and not re.search(r"except\??|noexcept", signature):
            # Helpers that return a struct have no value to spare; Cython then always looks for an exception.
            assert re.match(r"cdef [A-Z]\w+ _\w+\(", first_line), first_line


# Functions that never return their error value: flags, hashes, positions and numbers of 16 bits.
NEVER_RETURNED = {
    *("_end_rows", "_gather", "_hash", "_place_in", "_stripes", "_valid"),
    *("largest_level", "rebase_offsets", "signed_offset"),
}


@each_source
def test_error_values_that_are_results_too_are_rare_numbers(source: Path) -> None:
    for first_line, text in functions(source).items():
        signature = " ".join(text.partition(":\n")[0].split())
        found = re.match(r"cdef (?:inline )?(\w+) (\w+)\(.*except\? (\w+|-1) nogil", signature)
        if found and found[1] != "double" and found[2] not in NEVER_RETURNED:
            assert found[3].startswith("0xE5C1A9D3"), first_line


@each_module
def test_arrays_of_public_functions_say_whether_they_may_be_none(source: Path) -> None:
    for first_line, text in functions(source).items():
        if not first_line.startswith("def "):
            continue
        for argument in re.findall(r"\w+\[::1\] [^,)\n]+", text.partition(":\n")[0]):
            says = re.search(r" (not|or) None$|=None$", argument)
            assert says is not None, f"{first_line} {argument}"


@each_module
def test_modules_and_functions_stay_small(source: Path) -> None:
    assert len(source.read_text().splitlines()) <= MAX_MODULE_LINES
    for first_line, text in functions(source).items():
        lines = [line for line in text.splitlines() if line.partition("#")[0].strip()]
        assert len(lines) <= MAX_CODE_LINES, first_line


@each_module
def test_every_module_has_a_stub_and_a_twin(source: Path) -> None:
    package = Path(lancecy.kernels.__file__).parent
    assert (package / f"{source.stem}.pyi").is_file()
    twins = [path.read_text().partition("\n")[0] for path in (package / "reference").glob("*.py")]
    assert sum(f"``{source.stem}``" in summary for summary in twins) == 1


@each_module
def test_kernels_do_not_import_each_other_or_templates(source: Path) -> None:
    cimported = {
        line.split()[1]
        for line in code_lines(source)
        if " cimport " in f"{line} " and line.startswith("from")
    }
    assert all(name in HEADERS or name.startswith("libc.") for name in cimported)
    assert offenders(source, r"^\s*include\b") == []
