"""Compiles loops with Numba once, keeps their machine code on disk, and loads it without Numba.

Numba takes a third of a second to import and as long again to load a function from its own cache. llvmlite,
which Numba depends on, loads an object file in a tenth of that. The name of a file is a digest of everything that
determines its contents: the source, the releases of Numba and llvmlite, the processor and the types.

Loaded code is executed, so a file is used only if it and its folder belong to this user, to the owner of this
package or to root, and no other user can write to them. The folders are Numba's: only ``NUMBA_CACHE_DIR`` if it
is set, otherwise the package's ``__pycache__``, otherwise the user's cache folder. Each may be read-only.
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
from functools import cache
from pathlib import Path
from typing import Any

from lancecy.records import dataclass

__all__ = ["Loop", "can_keep", "compile_loop", "folders", "keep", "kept", "load"]

_MAGIC = b"lancecy machine code 1\n"
_DIGEST = 32
# The object file of a loop has some ten thousand bytes.
_MOST_BYTES = 1 << 20
# Functions that compilers substitute for loops that fill or copy memory; every process provides them.
_C_LIBRARY = {"memset", "memcpy", "memmove"}
_C_TYPES = {"n": ctypes.c_int64, "u": ctypes.c_uint64}
_ELEMENTS = {"Q": "uint64", "q": "int64", "I": "uint32", "B": "uint8"}


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop and the types it is compiled for.

    Attributes
    ----------
    name : str
    function : callable
    helpers : tuple of callable
        Functions that it calls.
    codes : tuple of str
        One per parameter: ``n`` or ``u`` for a number, otherwise an array, passed as a pointer and a number.
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
        Numba is missing, or configured to compile nothing.
    RuntimeError
        The code refers to external symbols.
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
    """The function from the result of :func:`compile_loop`; it runs without the GIL.

    Raises
    ------
    RuntimeError
        The code belongs to another loop.
    """
    from llvmlite import binding

    symbol, _, image = code.partition(b"\n")
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(image))
    engine.finalize_object()
    types: list[Any] = [ctypes.c_void_p, ctypes.c_void_p]
    for kind in loop.codes:
        types += [_C_TYPES[kind]] if kind in _C_TYPES else [ctypes.c_void_p, ctypes.c_int64]
    # Numba's calling convention: the first two parameters point to the result and the exception.
    address = engine.get_function_address(symbol.decode())
    if not address:
        raise RuntimeError(f"the machine code of {loop.name} does not have its symbol")
    native = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(address)

    def call(*arguments: object) -> int:
        result, raised = ctypes.c_int64(), ctypes.c_void_p()
        if native(ctypes.addressof(result), ctypes.addressof(raised), *arguments):
            raise RuntimeError(f"the loop {loop.name} failed")
        return result.value

    # The engine owns the memory of the code.
    call.engine = engine  # type: ignore[attr-defined]
    return call


def _target_machine() -> Any:
    from llvmlite import binding

    # Some releases need this call and others refuse it.
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
        # The processor is unknown: use its architecture's baseline.
        return "", ""


# -- keeping --------------------------------------------------------------------------


def _key(loop: Loop) -> bytes:
    """Digest of everything that determines the machine code.

    Raises
    ------
    ImportError
        Numba or llvmlite is missing.
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
    # Not needed, and expensive to import, where code is at hand already.
    from importlib import metadata

    return metadata.version("numba"), metadata.version("llvmlite")


@cache
def _source(path: str) -> bytes:
    return Path(path).read_bytes()


def folders() -> Iterator[Path]:
    """Folders for machine code, in order of preference."""
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
    """Machine code (from :func:`compile_loop`) in one of the folders; None if no folder has it."""
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
    """Whether some folder can be written to or created."""
    return any(_takes_files(folder) for folder in folders())


def _takes_files(folder: Path) -> bool:
    # Raises for a folder below one that this user may not read, such as another user's home.
    with contextlib.suppress(OSError):
        existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
        is_ours = existing != folder or _is_trusted(folder.stat())
        return is_ours and existing.is_dir() and os.access(existing, os.W_OK)
    return False


def keep(loop: Loop, code: bytes) -> None:
    """Write machine code to the first writable folder.

    Raises
    ------
    OSError
        No folder is writable; the error of the last one.
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
    """Whether only users whose code is trusted anyway can write the file."""
    if sys.platform == "win32":
        # Folders of a user's profile belong to that user.
        return True
    owners = {0, os.geteuid(), Path(__file__).stat().st_uid}
    return status.st_uid in owners and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: Path) -> bytes:
    """Contents of a file; empty if the file, checked after opening, is not trusted."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _is_trusted(status) or status.st_size > _MOST_BYTES:
            return b""
        return file.read(_MOST_BYTES)


def _checked(data: bytes, key: bytes) -> bytes | None:
    """The code in a file, if it is complete and has this key."""
    head = len(_MAGIC) + 2 * _DIGEST
    code = data[head:]
    expected = b"".join([_MAGIC, key, hashlib.sha256(code).digest()])
    return code if data[:head] == expected else None


def _write(path: Path, data: bytes) -> None:
    """Write the file atomically, safe against concurrent writers; others may read it."""
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
