"""The compilation of all kernels: cached on disk, without the interpreter lock."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast

import numba

from penstock.state.kernels.kernel_cache import KernelCache, kernel_sources

P = ParamSpec("P")
R = TypeVar("R")

_make_cache: Callable[[Any], Any] = KernelCache

KERNELS: dict[str, Any] = {}
"""Every kernel of the modules that were imported, by module and name."""


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of scalars and arrays with numba (``nogil=True``), for each combination of types once."""
    compiled: Any = numba.njit(nogil=True)(function)
    # What ``cache=True`` does, but with a cache that knows where kernels are kept.
    compiled._cache = _make_cache(function)
    KERNELS[f"{function.__module__}:{function.__qualname__}"] = compiled
    return cast(Callable[P, R], compiled)


def import_kernels() -> Iterator[str]:
    """Import every module that has kernels, so that `KERNELS` has all; yield the name of each."""
    for file, _ in kernel_sources():
        name = "penstock." + file.removesuffix(".py").replace("/", ".")
        import_module(name)
        yield name


def load_kept_kernels() -> Iterator[str]:
    """Load every form that is kept on disk, so that no first call has to wait for it; yield a name for each.

    Loading takes some milliseconds a form, between which the caller may do something else. Nothing is compiled.
    """
    yield from import_kernels()
    for name, kernel in list(KERNELS.items()):
        for signature in kernel._cache.loadable(kernel.targetctx):
            kernel.compile(signature)
            yield name
