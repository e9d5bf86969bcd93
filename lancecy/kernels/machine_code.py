"""Loops compiled by Numba once, kept on disk as machine code, and loaded without Numba.

Numba takes a third of a second to import and as long again to load a function from its own cache; an
object file is loaded by llvmlite, which Numba stands on, in a tenth of that. A file is named after all that decides
what is in it: the source, the releases of Numba and llvmlite, the processor and the types.

What is loaded is run, so a file is taken only if it and its folder belong to this user, to the owner of this package
or to root, and no other user can write to them. The folders, as Numba's: ``NUMBA_CACHE_DIR`` alone where it is set,
else the package's ``__pycache__``, else the user's cache folder. Each may be read-only.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["Loop", "can_keep", "compile_loop", "folders", "keep", "kept", "load"]

_MAGIC = b"lancecy machine code 1\n"
_DIGEST = 32
# An object file of one loop has some ten thousand bytes.
_MOST_BYTES = 1 << 20
# What compilers put in place of loops that fill and copy; every process has them.
_C_LIBRARY = {"memset", "memcpy", "memmove"}
_C_TYPES = {"n": ctypes.c_int64, "u": ctypes.c_uint64}
_ELEMENTS = {"Q": "uint64", "q": "int64", "I": "uint32", "B": "uint8"}


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop and what it is compiled for.

    Attributes
    ----------
    name : str
    function : callable
    helpers : tuple of callable
        What it calls.
    codes : tuple of str
        One per parameter: ``n``, ``u`` a number, else an array, which is a pointer and a number.
    """

    name: str
    function: Callable[..., int]
    helpers: tuple[Callable[..., Any], ...]
    codes: tuple[str, ...]


# -- making and loading ---------------------------------------------------------------


def compile_loop(loop: Loop) -> bytes:
    """Machine code of a loop: its symbol, a newline, and an object file.

    Raises
    ------
    ImportError
        There is no Numba here, or it is told to compile nothing.
    RuntimeError
        The code needs something beside itself.
    """
    import numba
    from llvmlite import binding
    from numba.extending import register_jitable

    if getattr(numba.config, "DISABLE_JIT", 0):
        raise ImportError("it is configured to compile nothing")
    for helper in loop.helpers:
        register_jitable(helper)
    parameters: list[Any] = []
    for code in loop.codes:
        if code in _C_TYPES:
            parameters.append(numba.int64 if code == "n" else numba.uint64)
        else:
            parameters += [numba.types.CPointer(getattr(numba, _ELEMENTS[code[0]])), numba.int64]
    options: dict[str, Any] = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiler: Any = numba.njit
    made = compiler(numba.int64(*parameters), **options)(loop.function)
    (signature,) = made.signatures
    module = binding.parse_assembly(made.inspect_llvm(signature))
    foreign = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    if foreign - _C_LIBRARY:
        raise RuntimeError(f"the machine code of {loop.name} needs {sorted(foreign - _C_LIBRARY)}")
    symbol: str = made.overloads[signature].fndesc.llvm_func_name
    return symbol.encode() + b"\n" + bytes(_target_machine().emit_object(module))


def load(loop: Loop, code: bytes) -> Callable[..., int]:
    """The function in what :func:`compile_loop` returned; called without the interpreter's lock.

    Raises
    ------
    RuntimeError
        The code is not of this loop.
    """
    from llvmlite import binding

    symbol, _, image = code.partition(b"\n")
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(image))
    engine.finalize_object()
    types: list[Any] = [ctypes.c_void_p, ctypes.c_void_p]
    for kind in loop.codes:
        types += [_C_TYPES[kind]] if kind in _C_TYPES else [ctypes.c_void_p, ctypes.c_int64]
    # How Numba's functions are called: the result and the exception go where the first two parameters point.
    address = engine.get_function_address(symbol.decode())
    if not address:
        raise RuntimeError(f"the machine code of {loop.name} does not have its symbol")
    native = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(address)

    def call(*arguments: object) -> int:
        result, raised = ctypes.c_int64(), ctypes.c_void_p()
        if native(ctypes.addressof(result), ctypes.addressof(raised), *arguments):
            raise RuntimeError(f"the loop {loop.name} failed")
        return result.value

    # The engine owns the memory that the code is in.
    call.engine = engine  # type: ignore[attr-defined]
    return call


def _target_machine() -> Any:
    from llvmlite import binding

    # Some releases need it and others refuse it.
    with contextlib.suppress(RuntimeError):
        binding.initialize()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    processor, features = _processor()
    return target.create_target_machine(
        cpu=processor, features=features, opt=3, codemodel="jitdefault", jit=True
    )


@cache
def _processor() -> tuple[str, str]:
    from llvmlite import binding

    try:
        return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    except RuntimeError:
        # The processor is not known: what all of its kind can do.
        return "", ""


# -- keeping --------------------------------------------------------------------------


def _key(loop: Loop) -> bytes:
    """Digest of all that decides what the machine code is.

    Raises
    ------
    ImportError
        There is no Numba, or no llvmlite, here.
    OSError
        The source cannot be read.
    """
    from llvmlite import binding

    said = [*_versions(), binding.get_process_triple(), *_processor(), loop.name, *loop.codes]
    digest = hashlib.sha256(_source(loop.function.__code__.co_filename))
    digest.update(_source(__file__))
    digest.update("\n".join(said).encode())
    return digest.digest()


@cache
def _versions() -> tuple[str, str]:
    return metadata.version("numba"), metadata.version("llvmlite")


@cache
def _source(path: str) -> bytes:
    return Path(path).read_bytes()


def folders() -> Iterator[Path]:
    """Where machine code may be, the best place first."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        yield Path(chosen, "lancecy")
        return
    yield Path(__file__).with_name("__pycache__")
    with contextlib.suppress(RuntimeError):
        yield _user_folder() / "lancecy"


def _user_folder() -> Path:
    if sys.platform == "win32" and "LOCALAPPDATA" in os.environ:
        return Path(os.environ["LOCALAPPDATA"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named) if Path(named).is_absolute() else Path.home() / ".cache"


def kept(loop: Loop) -> bytes | None:
    """Machine code from one of the folders, as :func:`compile_loop` returned it; None if no folder has it."""
    try:
        key = _key(loop)
    except OSError:
        return None
    for folder in folders():
        with contextlib.suppress(OSError):
            if _is_trusted(folder.stat()):
                code = _checked(_read(folder / _file_name(loop, key)), key)
                if code is not None:
                    return code
    return None


def can_keep() -> bool:
    """Whether some folder can be written to, or made."""
    return any(_takes_files(folder) for folder in folders())


def _takes_files(folder: Path) -> bool:
    # A folder below one that this user may not look into, as a home that is another's, raises an error.
    with contextlib.suppress(OSError):
        existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
        is_ours = existing != folder or _is_trusted(folder.stat())
        return is_ours and existing.is_dir() and os.access(existing, os.W_OK)
    return False


def keep(loop: Loop, code: bytes) -> None:
    """Write machine code to the first folder that takes it.

    Raises
    ------
    OSError
        None does; the reason of the last one.
    """
    key = _key(loop)
    data = b"".join([_MAGIC, key, hashlib.sha256(code).digest(), code])
    reason = OSError("there is no folder for it")
    for folder in folders():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_trusted(folder.stat()):
                raise PermissionError(f"others can write to {folder}")
            _write(folder / _file_name(loop, key), data)
        except OSError as error:
            reason = error
        else:
            return
    raise reason


def _file_name(loop: Loop, key: bytes) -> str:
    return f"{loop.name}-{key[:8].hex()}.lmc"


def _is_trusted(status: os.stat_result) -> bool:
    """Whether only those can write it whose code runs here in any case."""
    if sys.platform == "win32":
        # Folders of a user's profile are that user's.
        return True
    owners = {0, os.geteuid(), Path(__file__).stat().st_uid}
    return status.st_uid in owners and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: Path) -> bytes:
    """Contents of a file, checked to be trusted once it is open; nothing of another."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _is_trusted(status) or status.st_size > _MOST_BYTES:
            return b""
        return file.read(_MOST_BYTES)


def _checked(data: bytes, key: bytes) -> bytes | None:
    """The code in a file, if it is whole and the one asked for."""
    head = len(_MAGIC) + 2 * _DIGEST
    code = data[head:]
    expected = b"".join([_MAGIC, key, hashlib.sha256(code).digest()])
    return code if data[:head] == expected else None


def _write(path: Path, data: bytes) -> None:
    """All of the file or none of it, whoever else writes it; others may read it."""
    staged = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(staged, flags, 0o644), "wb") as file:
            file.write(data)
        staged.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            staged.unlink()
        raise
