"""The types of a kernel's arguments as text, and back: how `kernel_signatures.txt` has them.

``int64``, ``array(int64, 1d, C)``, ``readonly array(...)``, and tuples with names by their class:
``penstock.state.keys.batch_keys:KeyArrays(...)``. Forms with other types are made by kernels that call each other with
constants, and come by themselves.
"""

import importlib
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

from numba import types

SCALARS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool")

_ARRAY = re.compile(r"(readonly )?array\((\w+), (\d)d, ([CFA])\)")


class UnknownTypeError(ValueError):
    """A type that has no text, or a text that is no type."""


def signature_text(signature: tuple[Any, ...]) -> str:
    """Return the types of a kernel's arguments as text.

    Raises:
        UnknownTypeError: one of them has none.
    """
    return "; ".join(map(_text, signature))


def parse_signature(text: str) -> tuple[Any, ...]:
    """Return the types that a text names.

    Raises:
        UnknownTypeError: it names others.
    """
    return tuple(_parse(part) for part in text.split("; ")) if text else ()


def known_signatures(signatures: Iterable[tuple[Any, ...]]) -> set[str]:
    """Return the texts of those signatures that have one."""
    texts = set()
    for signature in signatures:
        with suppress(UnknownTypeError):
            texts.add(signature_text(signature))
    return texts


def _text(kind: Any) -> str:
    if isinstance(kind, types.Array):
        text = f"{'' if kind.mutable else 'readonly '}array({_text(kind.dtype)}, {kind.ndim}d, {kind.layout})"
        if _ARRAY.fullmatch(text) and kind.aligned:
            return text
    elif isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        instance_class = kind.instance_class
        return f"{instance_class.__module__}:{instance_class.__qualname__}({'| '.join(map(_text, kind))})"
    elif str(kind) in SCALARS:
        return str(kind)
    raise UnknownTypeError(f"{kind} has no text")


def _parse(text: str) -> Any:
    if text in SCALARS:
        return types.boolean if text == "bool" else getattr(types, text)
    array = _ARRAY.fullmatch(text)
    if array:
        layout: Any = array[4]
        return types.Array(_parse(array[2]), int(array[3]), layout, readonly=bool(array[1]))
    path, _, fields = text.partition("(")
    module, colon, name = path.partition(":")
    if not colon or not fields.endswith(")"):
        raise UnknownTypeError(f"{text!r} is no type")
    members = [_parse(field) for field in fields[:-1].split("| ")]
    constructor, kinds = getattr(importlib.import_module(module), name), cast(Any, types)
    if len(set(members)) == 1:
        return kinds.NamedUniTuple(members[0], len(members), constructor)
    return kinds.NamedTuple(members, constructor)
