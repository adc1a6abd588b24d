"""Intrinsics that numba does not offer: forced inlining, and memory access by address.

Only kernels use them. Helpers that take addresses instead of arrays cost no reference counting in inner loops; an
address is good while the kernel holds the array it came from, and nobody checks its bounds.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")

_BYTE = ir.IntType(8)
_FLAG = ir.IntType(32)
_WORD = ir.IntType(64)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a helper of kernels into each of its callers."""
    compiled: Any = numba.njit(cache=True, nogil=True, forceinline=True)(function)
    return cast(Callable[P, R], compiled)


def _typed_intrinsic(typing: Callable[..., Any]) -> Any:
    return intrinsic(typing)


@_typed_intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """Return the address of the first byte of a contiguous array."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, _WORD)

    return types.int64(array), generate


@_typed_intrinsic
def load8(typing_context: Any, at: Any) -> Any:
    """Return the byte at an address as uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = builder.load(builder.inttoptr(args[0], _BYTE.as_pointer()))
        return builder.zext(byte, _WORD)

    return types.uint64(types.int64), generate


@_typed_intrinsic
def load64(typing_context: Any, at: Any) -> Any:
    """Return the 8 bytes at an address, which need not be aligned, as a little-endian uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = builder.load(builder.inttoptr(args[0], _WORD.as_pointer()))
        word.align = 1
        return word

    return types.uint64(types.int64), generate


@_typed_intrinsic
def store8(typing_context: Any, at: Any, byte: Any) -> Any:
    """Write the low byte of a uint64 to an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = builder.trunc(args[1], _BYTE)
        builder.store(byte, builder.inttoptr(args[0], _BYTE.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


@_typed_intrinsic
def store64(typing_context: Any, at: Any, word: Any) -> Any:
    """Write a uint64, little endian, to the 8 bytes at an address, which need not be aligned."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], _WORD.as_pointer())).align = 1
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


@_typed_intrinsic
def prefetch(typing_context: Any, at: Any) -> Any:
    """Ask for the cache line at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        declare: Any = cgutils.get_or_insert_function
        function = declare(
            builder.module,
            ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _FLAG, _FLAG, _FLAG]),
            "llvm.prefetch.p0",
        )
        for_reading, keep_in_all_caches, data_cache = _FLAG(0), _FLAG(3), _FLAG(1)
        pointer = builder.inttoptr(args[0], _BYTE.as_pointer())
        builder.call(function, [pointer, for_reading, keep_in_all_caches, data_cache])
        return context.get_dummy_value()

    return types.void(types.int64), generate
