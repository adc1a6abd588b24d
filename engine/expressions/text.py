"""Kernels of text functions: code points from 1, RE2's regular expressions, null for null.

`expressions.kernels` looks them up. Arrow's own are used where they are fast; text that is ASCII throughout, which one
look at the bytes tells, takes the byte-wise ones.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.expressions.values import (
    Kernel,
    arrow,
    bitmap,
    bits,
    booleans,
    fixed,
    numbers,
    text_parts,
    valid,
    validity,
)
from penstock.engine.kernels import text as kernels
from penstock.model.regular_expressions import GROUP, only_group
from penstock.model.typed_expressions import TypedExpression
from penstock.state.keys.arrays import Bytes, Ints, read_only
from penstock.state.keys.batch_keys import gather_bytes


def length(typed: TypedExpression) -> Kernel:
    """The number of code points."""
    del typed
    code_points = arrow("utf8_length")

    def kernel(text: pa.Array) -> pa.Array:
        if not is_ascii(text):
            return code_points(text).cast(pa.int64())
        offsets, _ = text_parts(text)
        return fixed(pa.int64(), np.diff(offsets).astype(np.int64), validity(text))

    return kernel


def substring(typed: TypedExpression) -> Kernel:
    """Code points from a position on, which counts from 1 or from -1 at the end."""
    start, size = typed.value
    first = start - 1 if start > 0 else start
    stop = None if size is None else first + size
    if start < 0 and stop is not None and stop >= 0:
        stop = None
    options = pc.SliceOptions(first, stop) if stop is not None else pc.SliceOptions(first)
    code_points = arrow("utf8_slice_codeunits", options)

    def kernel(text: pa.Array) -> pa.Array:
        if not is_ascii(text):
            return code_points(text)
        offsets, data = text_parts(text)
        begins, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
        starts = np.minimum(begins + first, ends) if first >= 0 else np.maximum(ends + first, begins)
        if stop is not None:
            limit = begins + stop if stop >= 0 else ends + stop
            ends = np.clip(limit, starts, ends)
        return cut(data, starts, ends - starts, validity(text))

    return kernel


class Parts:
    """The starts of each row's parts in ``data``: int64[parts + 1, rows], see `kernels.text.split`."""

    def __init__(self, starts: Ints, data: Bytes) -> None:
        self.starts = starts
        self.data = data

    def filter(self, mask: pa.Array) -> "Parts":
        """Keep the rows for which the mask is true."""
        return Parts(self.starts[:, bits(mask)], self.data)

    def take(self, indices: pa.Array) -> "Parts":
        """Keep these rows."""
        return Parts(self.starts[:, numbers(indices)], self.data)

    def part(self, text: pa.Array, index: int, separator_size: int) -> pa.Array:
        """Return part ``index`` (from 1) of every row of ``text``, null where there is none."""
        begins, nexts = self.starts[index - 1], self.starts[index]
        sizes = nexts - begins - separator_size
        missing = nexts < 0
        if not missing.any():
            return cut(self.data, begins, sizes, validity(text))
        there = valid(text) & ~missing
        return cut(self.data, np.where(missing, 0, begins), np.where(missing, 0, sizes), bitmap(there))


def split_text(text: pa.Array, separator: str, parts: int) -> Parts:
    """Find the first parts of every row."""
    offsets, data = text_parts(text)
    starts = np.empty((parts + 1, len(text)), np.int64)
    kernels.split(read_only(offsets), read_only(data), _bytes(separator), starts)
    return Parts(starts, data)


def split_part(typed: TypedExpression) -> Kernel:
    """One part of text between separators; null if there are not so many."""
    separator, index = typed.value
    size = len(separator.encode())
    return lambda text: split_text(text, separator, index).part(text, index, size)


def like(typed: TypedExpression) -> Kernel:
    """SQL's pattern without an escape character."""
    pattern = typed.value[0]
    inner = pattern.strip("%")
    if "%" in inner or "_" in inner:
        return matches("(?s)^" + _as_regex(pattern) + "$")
    left, right = pattern.startswith("%"), pattern.endswith("%") and pattern != ""
    if not inner:
        return matches("(?s).*") if pattern else equals("")
    if left and right:
        return contains(inner)
    if left or right:
        return arrow("ends_with" if left else "starts_with", pc.MatchSubstringOptions(inner))
    return equals(inner)


def regexp_extract(typed: TypedExpression) -> Kernel:
    """A group of the first match; null without a match."""
    pattern, group = typed.value
    options = pc.ExtractRegexOptions(only_group(pattern, group))
    extract = arrow("extract_regex", options)
    return lambda text: pc.struct_field(extract(text), [GROUP])


def count_char(typed: TypedExpression) -> Kernel:
    """Return the number of times that one code point occurs."""
    character = typed.value[0]
    if not character.isascii():
        counted = arrow("count_substring", pc.MatchSubstringOptions(character))
        return lambda text: counted(text).cast(pa.int64())
    byte = np.uint64(ord(character))

    def kernel(text: pa.Array) -> pa.Array:
        offsets, data = text_parts(text)
        counts = np.empty(len(text), np.int64)
        kernels.count_byte(read_only(offsets), read_only(data), byte, counts)
        return fixed(pa.int64(), counts, validity(text))

    return kernel


def end_matches(typed: TypedExpression) -> Kernel:
    """Return whether text begins, or ends, with a constant."""
    return arrow(typed.op, pc.MatchSubstringOptions(typed.value[0]))


def replace(typed: TypedExpression) -> Kernel:
    """Replace every occurrence of a constant."""
    old, new = typed.value
    replaced = arrow("replace_substring", pc.ReplaceSubstringOptions(old, new))
    holds = contains(old)

    def kernel(text: pa.Array) -> pa.Array:
        return replaced(text) if pc.any(holds(text)).as_py() else text

    return kernel


def trim(typed: TypedExpression) -> Kernel:
    """Remove characters from one end or both."""
    options = pc.TrimOptions(typed.value[0])
    if not typed.value[0].isascii():
        return arrow(f"utf8_{typed.op}", options)
    return by_alphabet(typed.op, options)


def concat(typed: TypedExpression) -> Kernel:
    """Join texts; null if one is null."""
    del typed
    options = pc.JoinOptions(null_handling="emit_null")
    join = arrow("binary_join_element_wise", options)
    between = pa.scalar("")
    return lambda *texts: join(*texts, between)


def equality(typed: TypedExpression) -> Kernel:
    """Text equal, or not equal, to a constant."""
    same = equals(typed.args[1].value.as_py())
    if typed.op == "eq":
        return same
    return lambda text: pc.invert(same(text))


def equals(wanted: str) -> Kernel:
    """Return the kernel of equality with a constant."""
    return _bytewise(kernels.equals, wanted)


def is_ascii(text: pa.Array) -> bool:
    """Return whether all rows are ASCII."""
    offsets, data = text_parts(text)
    used = data[offsets[0] : offsets[-1]]
    return not len(used) or bool(used.max() < 128)


def cut(
    data: Bytes,
    starts: Ints,
    lengths: Ints,
    nulls: pa.Buffer | None,
) -> pa.Array:
    """Return the string array of these slices of ``data``."""
    gathered, offsets = gather_bytes(data, np.ascontiguousarray(starts), lengths)
    buffers = [nulls, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(gathered)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


def by_alphabet(name: str, options: Any = None) -> Kernel:
    """Return the kernel of an Arrow function that has a faster form for ASCII."""
    bytewise, code_points = arrow(f"ascii_{name}", options), arrow(f"utf8_{name}", options)
    return lambda text: bytewise(text) if is_ascii(text) else code_points(text)


def _bytes(text: str) -> Bytes:
    return read_only(np.frombuffer(text.encode(), np.uint8))


def _bytewise(test: Callable[..., None], wanted: str) -> Kernel:
    needle = _bytes(wanted)

    def kernel(text: pa.Array) -> pa.Array:
        offsets, data = text_parts(text)
        result = np.empty(len(text), np.bool_)
        test(read_only(offsets), read_only(data), needle, result)
        return booleans(result, validity(text))

    return kernel


def contains(part: str) -> Kernel:
    """Return the kernel that says whether a constant occurs in text."""
    return _bytewise(kernels.contains, part) if part else matches("")


def matches(pattern: str) -> Kernel:
    """Return the kernel that says whether a regular expression matches somewhere."""
    return arrow("match_substring_regex", pc.MatchSubstringOptions(pattern))


def _as_regex(pattern: str) -> str:
    wildcards = {"%": ".*", "_": "."}
    return "".join(wildcards.get(letter) or re.escape(letter) for letter in pattern)
