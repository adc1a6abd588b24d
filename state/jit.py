"""The one way kernels are compiled: cached on disk, without the interpreter lock."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of scalars and arrays with numba (``cache=True, nogil=True``)."""
    compiled: Any = numba.njit(cache=True, nogil=True)(function)
    return cast(Callable[P, R], compiled)
