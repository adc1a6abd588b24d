"""The compilation of all kernels: cached on disk, without the interpreter lock."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

from penstock.state.kernels.kernel_cache import KernelCache

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
