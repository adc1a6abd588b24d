"""The compatibility of a checkpoint with a pipeline: refusals in the user's words, dropped and adapted state.

Called by `restore.restorer`, before anything runs.
"""

import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from penstock.engine.plan.state_meanings import meanings_of, verb_of
from penstock.engine.restore.meaning_changes import MeaningChange, compare, swapped_with
from penstock.engine.restore.state_assignment import StateFit
from penstock.engine.restore.state_migration import Adapt, adapt_to
from penstock.model.errors import UserError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import OperatorNode, SinkSpec
from penstock.state.checkpoints.manifest import CheckpointManifest
from penstock.state.checkpoints.operator_meaning import OperatorMeaning


@dataclass(frozen=True, slots=True)
class AllowedChanges:
    """Changes that the user allows: state is dropped of operators that are gone (``removed``), or of these if changed.

    ``accepted`` are operators whose state goes on although they changed.
    """

    removed: bool = False
    dropped: frozenset[str] = frozenset()
    accepted: frozenset[str] = frozenset()


NOTHING_ALLOWED = AllowedChanges()


def fit(
    manifest: CheckpointManifest,
    plan: ExecutionGraph,
    allowed: AllowedChanges,
    notice: Callable[[str], None] = lambda text: None,
) -> StateFit:
    """Return what of a checkpoint goes on in a plan, and how; ``notice`` is told what the user may want to know.

    Raises:
        UserError: state would be left behind, or does not mean what its operator does now, and it is not allowed.
    """
    nodes = {node.name: node for node in plan.graph.operators.values()}
    removed = _kept(manifest) - nodes.keys()
    if not allowed.removed and (lost := sorted(removed - allowed.dropped)):
        raise UserError(_left_behind(manifest, lost, nodes))
    for name in sorted(removed):
        notice(f"STATE DROPPED: the pipeline has no {name!r} any more, whose state is in epoch {manifest.epoch}.")
    if manifest.meanings is None:
        notice(
            f"STATE NOT CHECKED: epoch {manifest.epoch} was written by Penstock {manifest.engine_version}, which did "
            "not note what state means; it is taken to fit the pipeline."
        )
        dropped = allowed.dropped & nodes.keys() & manifest.parallelism.keys()
        return StateFit(frozenset(removed) | _without_sinks(dropped, nodes))
    now = meanings_of(plan)
    present = (_kept(manifest) | {sink.operator for sink in manifest.sinks}) & nodes.keys()
    differences = {name: _difference(manifest.meanings, now, nodes, name) for name in sorted(present)}
    changed = {name: difference for name, difference in differences.items() if difference.changes}
    refused = changed.keys() - allowed.dropped - allowed.accepted
    if refused:
        raise UserError(_changed(manifest, {name: changed[name] for name in sorted(refused)}, nodes, now))
    dropped = _without_sinks(frozenset(changed.keys() & allowed.dropped), nodes)
    for name in sorted(dropped):
        notice(f"STATE DROPPED: {name!r} begins without state: {'; '.join(changed[name].changes)}.")
    for name, difference in sorted(differences.items()):
        if name not in dropped and difference.notices:
            notice(f"STATE KEPT: {name!r} goes on, but {'; '.join(difference.notices)}.")
    adapted: dict[str, Adapt] = {}
    for name in differences.keys() - dropped:
        before, after = manifest.meanings.get(name), now.get(name)
        if before is not None and after is not None and nodes[name].inputs:
            edge = nodes[name].inputs[0]
            schema = plan.graph[edge.operator].outputs[edge.output]
            adapt = adapt_to(before, after, nodes[name], schema, by_name=name in allowed.accepted)
            if adapt is not None:
                adapted[name] = adapt
    return StateFit(frozenset(removed) | dropped, adapted)


def _kept(manifest: CheckpointManifest) -> set[str]:
    """Return the operators of which the checkpoint has state, and its sources."""
    kept = {entry.operator for entry in manifest.instances if entry.files or entry.notes}
    return kept | {source.operator for source in manifest.sources}


def _without_sinks(names: Collection[str], nodes: Mapping[str, OperatorNode]) -> frozenset[str]:
    """Leave out sinks: what they have prepared is theirs to commit."""
    return frozenset(name for name in names if not isinstance(nodes[name].spec, SinkSpec))


def _difference(
    before: Mapping[str, OperatorMeaning],
    now: Mapping[str, OperatorMeaning],
    nodes: Mapping[str, OperatorNode],
    name: str,
) -> MeaningChange:
    if name not in before:
        return MeaningChange()
    return compare(before[name], now.get(name) or OperatorMeaning(kind=verb_of(nodes[name])))


def _left_behind(manifest: CheckpointManifest, lost: Collection[str], nodes: Collection[str]) -> str:
    return (
        f"the checkpoint of epoch {manifest.epoch} holds state of {', '.join(map(repr, lost))}, which the pipeline "
        f"does not have: give operators their old names back with .name(...), or let the state go with "
        f"drop_state={_argument(lost)} ({_options('--drop-state', lost)}). "
        f"The pipeline has {', '.join(map(repr, sorted(nodes)))}."
    )


def _changed(
    manifest: CheckpointManifest,
    refused: Mapping[str, MeaningChange],
    nodes: Mapping[str, OperatorNode],
    now: Mapping[str, OperatorMeaning],
) -> str:
    before = manifest.meanings or {}
    clauses = []
    for name, difference in refused.items():
        other = swapped_with(name, before, now)
        hint = "" if other is None else f" (it seems to have changed names with {other!r})"
        place = f" at {nodes[name].where}" if nodes[name].where else ""
        clauses.append(f"{name!r}{place}: {', '.join(difference.changes)}{hint}")
    names = [*refused]
    return (
        f"the state in the checkpoint of epoch {manifest.epoch} was kept for another pipeline, and this one would "
        f"give wrong answers from it. {'; '.join(clauses)}. Change the pipeline back; or begin without that state, "
        f"with drop_state={_argument(names)} ({_options('--drop-state', names)}) or under another .name(...) and "
        f"with the old one dropped; or, if you know that both mean the same, go on with "
        f"accept_changed={_argument(names)} ({_options('--accept-changed', names)})."
    )


def _argument(names: Collection[str]) -> str:
    return repr(next(iter(names))) if len(names) == 1 else repr([*names])


def _options(option: str, names: Collection[str]) -> str:
    return " ".join(f"{option} {shlex.quote(name)}" for name in names)
