"""The cache of compiled kernels in the user's cache folder, keyed by what they were compiled from.

A folder belongs to the text of all kernels and to the version of the compiler, for one kernel calls others and their
code goes into its own. Inside, numba keeps kernels by their types and by the processor. So a copy of the folder serves
wherever the same Penstock runs on such a processor, whatever the dates of its files; elsewhere kernels are compiled
again, and kept beside.
"""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

KERNEL_FILES = ("state/**/*.py", "engine/kernels/*.py", "engine/paging/waiting.py", "engine/transport/picked_rows.py")
"""Where kernels are, from the folder of the layers. Below ``state`` only files that name the compiler have any."""

_NAMES_COMPILER = re.compile(rb"^(?:import numba|from numba|from penstock\.state\.kernels\.jit import)", re.MULTILINE)

UNUSED_DAYS = 60
"""Kernels of versions that nobody has used for so long are deleted."""

_LAYERS = Path(__file__).resolve().parents[2]


def cache_root(environment: Mapping[str, str], home: Path, platform: str) -> Path:
    """Return the folder for compiled kernels of all versions: below ``NUMBA_CACHE_DIR``, or the user's cache folder."""
    chosen = environment.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen) / "penstock"
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "penstock" / "kernels"
    if platform == "darwin":
        return home / "Library" / "Caches" / "penstock" / "kernels"
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "penstock" / "kernels"


@cache
def kernel_folder() -> Path:
    """Return the folder for the kernels of this version; it need not be there."""
    return cache_root(os.environ, _home(), sys.platform) / kernel_digest()


@cache
def kernel_digest() -> str:
    """Return what the text of all kernels and the compiler's version come to."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {sys.version_info[:2]}".encode())
    for name, text in kernel_sources():
        digest.update(f"{name} {len(text)} ".encode() + text)
    return digest.hexdigest()[:20]


def kernel_sources() -> Iterator[tuple[str, bytes]]:
    """Yield name and text of every file that has kernels, in order."""
    for pattern in KERNEL_FILES:
        for file in sorted(_LAYERS.glob(pattern)):
            text = file.read_bytes()
            own = file == Path(__file__).resolve()
            if not own and (_LAYERS / "state" not in file.parents or _NAMES_COMPILER.search(text)):
                yield file.relative_to(_LAYERS).as_posix(), text


def delete_unused(root: Path, now_s: float) -> None:
    """Delete the kernels of versions that were not used for long; what cannot be deleted stays."""
    for folder in root.iterdir() if root.is_dir() else ():
        with suppress(OSError):
            if folder.is_dir() and folder.stat().st_mtime < now_s - UNUSED_DAYS * 86_400:
                shutil.rmtree(folder)


class _Locator(_CacheLocator):
    """Says to numba where a kernel is kept."""

    def __init__(self, function: Any) -> None:
        self._module = str(function.__module__)
        self._line = int(function.__code__.co_firstlineno)

    @classmethod
    def from_function(cls, function: Any, file: str) -> "_Locator":
        return cls(function)

    def get_cache_path(self) -> str:
        return str(kernel_folder() / self._module.removeprefix("penstock."))

    def get_source_stamp(self) -> str:
        # The folder's name says of which source it is.
        return ""

    def get_disambiguator(self) -> str:
        return str(self._line)

    def ensure_cache_path(self) -> None:
        # What lies here is run: nobody else may write to it.
        for folder in (kernel_folder(), Path(self.get_cache_path())):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)


class _CacheImpl(CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_Locator]  # noqa: RUF012


class KernelCache(FunctionCache):
    """The compiled forms of one kernel on disk. What cannot be kept is compiled by every process, which is said."""

    _impl_class = _CacheImpl
    compiles: Callable[[], None] | None = None
    """Called before the first kernel of this process is compiled, for it was not kept."""
    compiled = 0
    """The number of kernels that this process has compiled."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a kept form; None if there is none or if it cannot be read."""
        try:
            kept = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except (OSError, EOFError):
            kept = None
        if kept is None:
            KernelCache.compiled += 1
            tell, KernelCache.compiles = KernelCache.compiles, None
            if tell is not None:
                tell()
        return kept

    def signatures(self) -> list[Any]:
        """Return the types of the arguments of every form that is kept."""
        overloads: dict[tuple[Any, ...], str] = self._cache_file._load_index()  # type: ignore[no-untyped-call]
        return [signature for signature, *_ in overloads]

    def loadable(self, target_context: Any) -> list[Any]:
        """Return the types of the arguments of every form that is kept for this processor."""
        codegen = target_context.codegen()
        try:
            overloads: dict[tuple[Any, ...], str] = self._cache_file._load_index()  # type: ignore[no-untyped-call]
        except (OSError, EOFError):
            return []
        return [key[0] for key in overloads if key == self._index_key(key[0], codegen)]  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a form, unless the folder cannot be written to: `is_kept` says so beforehand."""
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def is_kept() -> bool:
    """Return whether what is compiled now can be kept."""
    folder = kernel_folder()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def mark_used(now_s: float) -> None:
    """Note that this version's kernels are in use, and delete those of versions that are not any more.

    ``now_s`` is the time in seconds since 1970.
    """
    folder = kernel_folder()
    if folder.is_dir():
        with suppress(OSError):
            os.utime(folder, (now_s, now_s))
        delete_unused(folder.parent, now_s)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        # A user without a home, as in some containers.
        return Path("/nonexistent")
