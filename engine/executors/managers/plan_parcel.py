"""Plans and their sinks as bytes, from the process that starts a job to its task managers.

This is the one place where anything is unpickled: only bytes that the functions here have made in the job's own head,
which come over the link that it opened to a process that it started. Never hand in others.

What is defined in the main module goes by value, whatever has a module of its own by its name: a task manager has the
``sys.path`` of the head (docs/decisions/0059-what-a-plan-takes-along.md).
"""

import functools
import io
import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any, NewType, ParamSpec, TypeVar, TypeVarTuple

import cloudpickle

from penstock.engine.executors.managers.control_plane import LONGEST_FRAME
from penstock.engine.executors.managers.obstacles import sentence_of
from penstock.engine.executors.managers.parcel_marks import marked, take_mark
from penstock.engine.executors.managers.setup import ManagerSetup
from penstock.engine.executors.managers.stand_ins import StandInSink, StandInSource
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.planner import in_caller
from penstock.model.errors import BugError, PlanError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec, SourceSpec

MOST_BYTES = LONGEST_FRAME - (1 << 20)
"""The most bytes of a plan; the rest of its frame is for what goes with it."""


def pack_setup(setup: ManagerSetup) -> bytes:
    """Return what a task manager needs of a job, for a process that this one has started.

    Raises:
        PlanError: something of it cannot go to another process.
    """
    try:
        return _dump(setup)
    except Exception as error:
        raise PlanError(f"the job cannot go to another process: {error}") from None


def unpack_setup(data: bytes) -> ManagerSetup:
    """Return what `pack_setup` has packed."""
    setup = _load(data)
    if not isinstance(setup, ManagerSetup):
        raise BugError(f"a {type(setup).__name__} came where a setup was expected")
    return setup


def pack_plan(plan: JobPlan) -> bytes:
    """Return a plan for other processes: sources and sinks that stay in this one are stand-ins there.

    Graph and edges are one parcel, as expressions are the same only if they are the same object. Sources look up their
    bounds first, so that all processes see the same.

    Raises:
        PlanError: an operator holds something that cannot go to another process, or too much.
        RetryableError: a source cannot look up its bounds now; the same call may work later.
    """
    operators = {key: _for_elsewhere(plan.graph, node) for key, node in plan.graph.graph.operators.items()}
    return _pack(plan, operators)


def pack_whole_plan(plan: JobPlan) -> bytes:
    """Return a plan for a head in another process, with all its sources and sinks; otherwise as `pack_plan`.

    Raises:
        PlanError: an operator holds something that cannot go to another process, or too much.
        RetryableError: a source cannot look up its bounds now; the same call may work later.
    """
    operators = dict(plan.graph.graph.operators)
    for node in operators.values():
        if isinstance(node.spec, SourceSpec):
            node.spec.source.fix_bounds()
    return _pack(plan, operators)


def _pack(plan: JobPlan, operators: dict[OperatorId, OperatorNode]) -> bytes:
    try:
        data = _dump(_with_operators(plan, operators))
    except Exception as error:
        raise _refusal(operators, error) from None
    if len(data) > MOST_BYTES:
        raise _too_large(operators, len(data))
    return data


def unpack_plan(data: bytes) -> JobPlan:
    """Return the plan that `pack_plan` has packed.

    Raises:
        PlanError: something that it is made from is not here.
    """
    plan = _load(data)
    if not isinstance(plan, JobPlan):
        raise BugError(f"a {type(plan).__name__} came where a plan was expected")
    return plan


def pack_sinks(graph: ExecutionGraph) -> bytes:
    """Return the sinks of a plan for writers in other processes, as they are once `Sink.recover` has returned.

    A copy writes what its original commits: it has the run's mark and the sink's claim. Sinks that stay in this process
    are left out.

    Raises:
        PlanError: a sink holds something that cannot go to another process.
    """
    nodes = {key: node for key, node in graph.graph.operators.items() if not in_caller(node)}
    sinks = {node.name: node for node in nodes.values() if isinstance(node.spec, SinkSpec)}
    try:
        return _dump(sinks)
    except Exception as error:
        raise _refusal({key: node for key, node in nodes.items() if node.name in sinks}, error) from None


def with_sinks(plan: JobPlan, data: bytes) -> JobPlan:
    """Return a plan whose sinks are those that `pack_sinks` has packed, by their names; it keeps the others.

    Raises:
        PlanError: something that a sink is made from is not here.
    """
    sinks: Mapping[str, OperatorNode] = _load(data)
    operators = dict(plan.graph.graph.operators)
    for key, node in operators.items():
        if node.name in sinks:
            spec = sinks[node.name].spec
            assert isinstance(spec, SinkSpec) and isinstance(node.spec, SinkSpec)
            operators[key] = replace(node, spec=replace(node.spec, sink=spec.sink))
    return _with_operators(plan, operators)


def _with_operators(plan: JobPlan, operators: dict[OperatorId, OperatorNode]) -> JobPlan:
    return replace(plan, graph=replace(plan.graph, graph=JobGraph(operators)))


def _for_elsewhere(graph: ExecutionGraph, node: OperatorNode) -> OperatorNode:
    spec = node.spec
    if not in_caller(node):
        if isinstance(spec, SourceSpec):
            spec.source.fix_bounds()
        return node
    if isinstance(spec, SourceSpec):
        return replace(node, spec=replace(spec, source=StandInSource(spec.source, graph.task_of(node.id).parallelism)))
    assert isinstance(spec, SinkSpec)
    return replace(node, spec=replace(spec, sink=StandInSink(spec.sink)))


def _refusal(operators: Mapping[OperatorId, OperatorNode], error: Exception) -> PlanError:
    """Return the error that names the first operator which cannot go, and the smallest object that it fails of."""
    for node in operators.values():
        if not _travels(node.spec):
            reason = sentence_of(node, _travels)
            return PlanError(f"{node.name!r} ({node.where}) cannot go to another process: {reason}")
    return PlanError(f"the plan cannot go to another process: {error}")


def _too_large(operators: Mapping[OperatorId, OperatorNode], size: int) -> PlanError:
    """Return the error that names the operator which holds the most."""
    largest = max(operators.values(), key=lambda node: len(_dump(node.spec)))
    return PlanError(
        f"the plan has {size:,} bytes, most of them in {largest.name!r} ({largest.where}), and {MOST_BYTES:,} can go "
        "to another process: let it read what it holds from files"
    )


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc] # it has no types
    """Corrects what cloudpickle would send: contents of open text files, and names that only our main module knows.

    The standard streams of a process are its own ones.
    """

    def reducer_override(self, value: Any) -> Any:
        for name in ("stdin", "stdout", "stderr"):
            if value is getattr(sys, name):
                return getattr, (sys, name)
        if isinstance(value, OperatorNode):
            return marked(value)
        if isinstance(value, io.TextIOWrapper):
            raise pickle.PicklingError(f"cannot pickle the open file {getattr(value, 'name', '')!r}")
        if isinstance(value, CodeType):
            # Errors name the line of the user's file, which cloudpickle leaves out from 3.1.3 on.
            _, parts = self.dispatch_table[CodeType](value)
            return _code_of_file, (value.co_filename, parts)
        if isinstance(value, functools.cached_property):
            # Python 3.11 keeps a lock in it.
            return functools.cached_property, (value.func,), {"attrname": value.attrname, "__doc__": value.__doc__}
        if type(value) not in self.dispatch_table and getattr(value, "__module__", None) == "__main__":
            reduction = _reduction(value)
            if reduction is not None:
                return reduction
        return super().reducer_override(value)


def _reduction(value: Any) -> tuple[Any, ...] | None:
    """Return how to make again what pickle would look up by its name in a main module; None: it does so with no name.

    Raises:
        pickle.PicklingError: that cannot be told.
    """
    if isinstance(value, functools._lru_cache_wrapper):
        return _cached, (value.__wrapped__, value.cache_parameters())
    if isinstance(value, NewType):
        return NewType, (value.__name__, value.__supertype__)
    if isinstance(value, ParamSpec | TypeVarTuple):
        return type(value), (value.__name__,)
    # Functions and classes have a name, too, and cloudpickle takes care of them, as of type variables.
    if isinstance(value, FunctionType | type | TypeVar):
        return None
    reduced = value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    if isinstance(reduced, str):
        raise pickle.PicklingError(f"cannot pickle {reduced!r}, which only the main module of this process has")
    return None


def _code_of_file(path: str, parts: tuple[Any, ...]) -> CodeType:
    return CodeType(*parts).replace(co_filename=path)


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _dump(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


def _travels(value: Any) -> bool:
    try:
        _dump(value)
    except Exception:
        return False
    return True


def _load(data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except Exception as error:
        raise PlanError(
            f"{take_mark() or 'the plan'} cannot be made again in another process: {type(error).__name__}: {error}; "
            "the modules that it uses must be importable there, from the folder of the script or installed"
        ) from error
