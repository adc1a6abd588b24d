"""A memory copy for kernels: a byte loop over short strings is some twenty times slower in numba.

Called by kernels that build Arrow string data.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from penstock.state.keys.arrays import Bytes

Place = int | np.signedinteger[Any]


def _copy_bytes(typing_context: Any, target: Any, at: Any, source: Any, start: Any, size: Any) -> Any:
    signature = types.void(target, types.int64, source, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to_type, _, from_type, _, _ = signature.args
        to_array = context.make_array(to_type)(context, builder, args[0])
        from_array = context.make_array(from_type)(context, builder, args[2])
        to = builder.gep(to_array.data, [args[1]])
        begin = builder.gep(from_array.data, [args[3]])
        copy: Any = cgutils.raw_memcpy
        copy(builder, to, begin, args[4], 1)
        return context.get_dummy_value()

    return signature, generate


copy_bytes = cast(Callable[[Bytes, Place, Bytes, Place, Place], None], intrinsic(_copy_bytes))
"""``copy_bytes(target, at, source, start, size)`` inside a kernel: copy bytes between two arrays.

Both are contiguous uint8 arrays that do not overlap; nothing checks that the ranges lie in them.
"""
