"""The smallest object that keeps an operator from going to another process, and a sentence on it for its author.

Searched only once pickling has failed; called by `plan_parcel`, which says what can be pickled.
"""

import functools
import inspect
import io
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

from penstock.model.job_graph import OperatorNode

Travels = Callable[[Any], bool]
"""Returns whether a value can be pickled."""

_KINDS: Mapping[str, tuple[type, ...]] = {
    "a generator": (GeneratorType, AsyncGeneratorType),
    "a coroutine": (CoroutineType,),
    "an open file": (io.IOBase,),
    "a socket": (socket.socket,),
    "a lock": (type(threading.Lock()), type(threading.RLock())),
    "a condition": (threading.Condition,),
    "an event": (threading.Event,),
    "a semaphore": (threading.Semaphore,),
    "a thread": (threading.Thread,),
    "a queue of threads": (queue.Queue, queue.SimpleQueue),
    "a process": (subprocess.Popen,),
}
"""Objects that are blamed themselves, whatever they consist of."""

_WHERE: Mapping[str, str] = {
    "function": "inside the function",
    "source": "where the source opens a partition",
    "sink": "where the sink opens a writer",
    "table": "where the table is loaded",
    "dead_letters": "where dead letters are opened",
}
"""What a part of a specification makes for itself in every process, by the name of the part."""

_OPENED = (io.IOBase, socket.socket)


@dataclass(frozen=True, slots=True)
class _Part:
    """A value inside another: ``step`` leads from there to it, empty if it is the same thing to a reader."""

    step: str
    value: Any


def sentence_of(node: OperatorNode, travels: Travels) -> str:
    """Return what of an operator cannot be pickled, and what to do about it."""
    parts = [_Part(item.name, getattr(node.spec, item.name)) for item in fields(node.spec)]  # type: ignore[arg-type]
    owner = next((part for part in parts if not travels(part.value)), None)
    if owner is None:
        return f"its {node.kind} cannot be pickled; give it plain values"
    path, value = _smallest(owner.value, travels)
    noun = owner.step.replace("_", " ")
    make = "open" if isinstance(value, _OPENED) else "make"
    remedy = f"{make} it {_WHERE.get(owner.step, 'where it is used')}"
    if not path:
        return f"its {noun} is {_kind(value)}; {remedy}"
    return f"its {noun} holds {_kind(value)} {path!r}; {remedy}"


def _smallest(value: Any, travels: Travels) -> tuple[str, Any]:
    """Return the path to the innermost value that cannot be pickled though all its parts can, and that value."""
    path = ""
    seen = {id(value)}
    while not _is_blamed(value):
        inner = next((part for part in _parts(value) if id(part.value) not in seen and not travels(part.value)), None)
        if inner is None:
            break
        value = inner.value
        seen.add(id(value))
        separator = "." if path and inner.step and not inner.step.startswith("[") else ""
        path += separator + inner.step
    return path, value


def _is_blamed(value: Any) -> bool:
    return any(isinstance(value, kinds) for kinds in _KINDS.values())


def _kind(value: Any) -> str:
    for phrase, kinds in _KINDS.items():
        if isinstance(value, kinds):
            return phrase
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"an object of type {name}"


def _parts(value: Any) -> Iterator[_Part]:
    """Yield what a value is pickled with, as far as that can be told."""
    match value:
        case FunctionType():
            yield from _parts_of_function(value)
        case MethodType():
            yield _Part("", value.__self__)
            yield _Part("", value.__func__)
        case functools.partial():
            yield _Part("", value.func)
            yield from (_Part(f"[{place}]", item) for place, item in enumerate(value.args))
            yield from (_Part(name, item) for name, item in value.keywords.items())
        case dict():
            yield from (_Part(f"[{key!r}]", item) for key, item in value.items())
            yield from (_Part("", key) for key in value)
        case list() | tuple() | set() | frozenset():
            yield from (_Part(f"[{place}]", item) for place, item in enumerate(value))
        case staticmethod() | classmethod():
            yield _Part("", value.__func__)
        case property():
            yield from (_Part("", item) for item in (value.fget, value.fset, value.fdel) if item is not None)
        case type():
            yield from _parts_of_class(value)
        case ModuleType():
            return
        case _:
            yield from _parts_of_instance(value)


def _parts_of_function(function: FunctionType) -> Iterator[_Part]:
    """Yield what a function refers to outside: its closure, globals, defaults and attributes."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield _Part(name, cell.cell_contents)
        except ValueError:
            continue  # The cell is empty.
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield _Part(name, function.__globals__[name])
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    with_default = arguments[len(arguments) - len(defaults) :]
    yield from (_Part(name, item) for name, item in zip(with_default, defaults, strict=True))
    yield from (_Part(name, item) for name, item in (function.__kwdefaults__ or {}).items())
    yield from (_Part(name, getattr(function, name)) for name in sorted({*dir(function)} - {*dir(FunctionType)}))


def _parts_of_class(kind: type) -> Iterator[_Part]:
    """Yield the attributes of a class, and those that it inherits, but for what Python makes itself."""
    for name in sorted({*dir(kind)} - {*dir(object), "_abc_impl"}):
        item = inspect.getattr_static(kind, name)
        if not isinstance(item, GetSetDescriptorType | MemberDescriptorType):
            yield _Part(name, item)


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals that code uses, also in functions inside."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _parts_of_instance(value: Any) -> Iterator[_Part]:
    """Yield the class of an instance and what it is made again from."""
    yield _Part("", type(value))
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        # It says so itself that it cannot be pickled; what it holds may tell why.
        reduced = (None, (), getattr(value, "__dict__", None))
    arguments, state = (*reduced[1:3], None)[:2] if isinstance(reduced, tuple) else ((), None)
    yield from (_Part("", item) for item in arguments)
    ours = type(value).__module__.startswith("penstock.")
    # Of an object with slots the state is a pair of dicts, one of which may be None.
    for one in state if isinstance(state, tuple) else (state,):
        if isinstance(one, dict):
            # Names inside our own classes would tell nobody anything.
            yield from (_Part("" if ours else str(name), item) for name, item in one.items())
        else:
            yield _Part("", one)
