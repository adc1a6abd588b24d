"""Arguments of `Stream.map_async`, checked."""

import inspect

from penstock.dsl.arguments import refusal, shown
from penstock.model.config import check_count
from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import OptionError
from penstock.model.job_graph import AsyncFunctionSpec, RowFunctionSpec


def async_spec(
    plain: RowFunctionSpec, capacity: int, ordered: bool, timeout: Duration, retries: int
) -> AsyncFunctionSpec:
    """Return the spec of an async function.

    Raises:
        PlanError: it is no async function.
        OptionError: an option is out of range.
    """
    function = plain.function
    if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(type(function).__call__):
        raise refusal(f"map_async() takes an async function, not {shown(function)}; write async def, or use map()")
    check_count("capacity", capacity)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise OptionError(f"map_async(retries=...) is a number from 0 on, not {retries!r}")
    timeout_us = to_microseconds(timeout, "timeout")
    if not timeout_us:
        raise OptionError("map_async(timeout=...) must be longer than 0")
    return AsyncFunctionSpec(
        function, plain.fields, plain.columns, capacity, ordered, timeout_us, retries, plain.on_error
    )
