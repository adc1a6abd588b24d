"""Arguments of `KeyedStream.process`, checked; and the types that its functions may name in their annotations."""

import inspect
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.dsl.arguments import refusal, return_annotation, shown
from penstock.model.config import check_on_error
from penstock.model.errors import OptionError
from penstock.model.job_graph import Keys
from penstock.model.keyed_specs import ProcessSpec
from penstock.model.process import (
    BatchContext,
    BatchProcess,
    Context,
    FiredTimers,
    FunctionProcess,
    OpenContext,
    Process,
    Timer,
)
from penstock.model.process_states import State
from penstock.model.schema import Fields, to_arrow_schema

__all__ = [
    "BatchContext",
    "BatchProcess",
    "Context",
    "FiredTimers",
    "OpenContext",
    "Process",
    "Timer",
    "process_spec",
]

_TAKES = "process() takes a function of (row, context), or a subclass of Process or BatchProcess"


def process_spec(
    keys: Keys,
    input: pa.Schema,
    function: Any,
    schema: Fields | None,
    state: Mapping[str, Any] | None,
    order: str,
    on_error: str,
) -> ProcessSpec:
    """Return the spec of a process function.

    Raises:
        PlanError: it is no process function, or its state is not declared as such.
        OptionError: ``order`` or ``on_error`` has no such value.
    """
    if order not in ("event", "arrival"):
        raise OptionError(f"process(order=...) is 'event' or 'arrival', not {order!r}")
    instance = _process_instance(function)
    plain = instance.process
    declared = {**_declared_state(type(instance)), **_explicit_state(instance, state)}
    annotation = None if isinstance(instance, BatchProcess) else return_annotation(plain)
    fields = (
        input if schema is None and annotation is None else to_arrow_schema(annotation if schema is None else schema)
    )
    vectorised = isinstance(instance, BatchProcess)
    return ProcessSpec(keys, instance, fields, declared, vectorised, order, check_on_error(on_error, "process"))


def _process_instance(function: Any) -> Process | BatchProcess:
    if isinstance(function, type) and issubclass(function, Process | BatchProcess):
        try:
            function = function()
        except TypeError as error:
            raise refusal(
                f"process() cannot make {shown(function)} ({error}); give it what it needs: "
                f"process({function.__name__}(...))"
            ) from None
    if isinstance(function, Process | BatchProcess):
        base = BatchProcess if isinstance(function, BatchProcess) else Process
        if type(function).process is base.process and "process" not in vars(function):
            raise refusal(f"{shown(type(function))} has no process() method")
        _check_plain(function.process)
        return function
    if isinstance(function, type) or not callable(function):
        raise refusal(f"{_TAKES}, not {shown(function)}")
    if not _takes_two(function):
        raise refusal(f"{_TAKES}; {shown(function)} does not take two arguments")
    _check_plain(function)
    return FunctionProcess(function)


def _check_plain(function: Any) -> None:
    if inspect.iscoroutinefunction(function):
        raise refusal("process() takes a plain function, not an async one; call map_async() before it")


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _declared_state(kind: type) -> dict[str, State]:
    """Return the state that a class and its bases declare, in order of declaration."""
    states: dict[str, State] = {}
    for base in reversed(kind.__mro__):
        states |= {name: value for name, value in vars(base).items() if isinstance(value, State)}
    return states


def _explicit_state(instance: Any, state: Mapping[str, Any] | None) -> dict[str, State]:
    for name, item in (state or {}).items():
        if not isinstance(item, State):
            raise refusal(
                f"process(state=...) declares {name!r} with ps.value_state(int) or the like, not {shown(item)}"
            )
        if not name.isidentifier() or (hasattr(instance, name) and not isinstance(getattr(instance, name), State)):
            raise refusal(f"process(state=...) cannot call a state {name!r}; use another name")
    return dict(state or {})
